//! A file, or the JSON of its fields -> the fields of every format, and the file that they build.
//!
//! Nothing panics, and memory is bounded by the input. A file that its reader accepts is built back.

#![no_main]

mod memory;

// The command's module: it is no part of the library.
#[allow(dead_code, unused_imports)]
#[path = "../../../tools/command/src/fields/mod.rs"]
mod fields;

use libfuzzer_sys::fuzz_target;
use picajit::container::Kind;
use picajit::container::dvoj::Dvoj;
use picajit_containers::mbs::Mbs;
use picajit_containers::metallib::Metallib;
use picajit::container::shbin::Shbin;
use picajit_containers::vbc::Vbc;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    if let Some(kind) = Kind::sniff(bytes) {
        memory::bounded(bytes.len(), || file(kind, bytes));
        return;
    }
    let json: Result<Value, _> = serde_json::from_slice(bytes);
    if let Ok(json) = json {
        // A text may ask for a larger file.
        let size = json["size"].as_u64().map_or(0, |n| n.min(4 << 20) as usize);
        memory::bounded(bytes.len() + size, || match fields::build(&json) {
            Ok((kind, bytes)) => file(kind, &bytes),
            Err(error) => drop(error.to_string()),
        });
    }
});

/// Shows a file that its reader accepts, and builds it back.
fn file(kind: Kind, bytes: &[u8]) {
    let mut vbc = None;
    let is_read = match kind {
        Kind::Shbin => Shbin::parse(bytes).is_ok(),
        Kind::Dvoj => Dvoj::parse(bytes).is_ok(),
        Kind::Mbs => Mbs::parse(bytes).is_ok(),
        Kind::Vbc => {
            vbc = Vbc::parse(bytes).ok();
            vbc.is_some()
        }
        Kind::Metallib => {
            if let Ok(library) = Metallib::parse(bytes) {
                fields::metallib(&library, &bytes[..88], bytes.len() as u64);
            }
            false
        }
    };
    if !is_read {
        return;
    }
    match fields::of(kind, bytes, vbc.as_ref()) {
        Ok(fields) => assert_eq!(fields::build(&fields.json.into()), Ok((kind, bytes.to_vec()))),
        Err(error) => assert_eq!(error, fields::FieldsError::TooManyRows),
    }
}
