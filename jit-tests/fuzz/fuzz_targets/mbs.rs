//! Any bytes -> the reader of MBS files, its checks and its writer.
//!
//! The reader never panics, and its memory is bounded by the file. A model writes its bytes back.

#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use picajit_containers::mbs::{Mbs, link_check};

fuzz_target!(|bytes: &[u8]| {
    memory::bounded(bytes.len(), || match Mbs::parse(bytes) {
        Ok(mbs) => {
            assert_eq!(mbs.write().expect("it was read from less than 4 GiB"), bytes);
            mbs.verify();
            link_check(&mbs, &mbs);
            assert!(mbs.programs().all(|p| p.instructions() <= p.code().map(<[u8]>::len)));
            let canonical = mbs.canonical();
            let written = canonical.write().expect("padding adds little");
            assert_eq!(Mbs::parse(&written).as_ref(), Ok(&canonical));
        }
        Err(error) => drop(error.to_string()),
    });
});
