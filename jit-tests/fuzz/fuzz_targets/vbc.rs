//! Any bytes -> the readers of all VBC dialects, their checks, repair and conversion.
//!
//! No reader panics, and memory is bounded by the file. A model writes its bytes back, and what
//! converts, converts back.

#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use picajit_containers::vbc::{Dialect, Vbc};

fuzz_target!(|bytes: &[u8]| {
    memory::bounded(bytes.len(), || {
        let detected = Vbc::parse(bytes);
        for dialect in Dialect::ALL {
            let forced = Vbc::parse_as(bytes, dialect);
            if let Ok(vbc) = &detected {
                assert!(vbc.dialect != dialect || forced.as_ref() == Ok(vbc));
            }
            match forced {
                Ok(vbc) => model(bytes, &vbc),
                Err(error) => drop(error.to_string()),
            }
        }
    });
});

fn model(bytes: &[u8], vbc: &Vbc) {
    assert_eq!(vbc.write(), bytes);
    vbc.verify();
    for target in [Dialect::A2, Dialect::C] {
        if let Ok(to) = vbc.converted(target) {
            assert_eq!(to.converted(vbc.dialect).as_ref(), Ok(vbc));
        }
    }
    if let Ok(repaired) = vbc.clone().repaired() {
        assert_eq!(Vbc::parse_as(&repaired.write(), vbc.dialect), Ok(repaired));
    }
}
