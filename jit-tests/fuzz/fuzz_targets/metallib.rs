//! Any bytes -> the reader of Metal libraries, its checks, bitcode, and writers.
//!
//! The reader never panics, and its memory is bounded by the file. A model writes its bytes back; a
//! stripped library can be read. Compressed sources have a limit of their own, so they come last.

#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use picajit_containers::metallib::bitcode::Bitcode;
use picajit_containers::metallib::{Metallib, Strip};
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    let sources = memory::bounded(bytes.len(), || {
        let mut source = Cursor::new(bytes);
        let library = match Metallib::parse(bytes) {
            Ok(library) => library,
            Err(error) => {
                drop(error.to_string());
                return None;
            }
        };
        let mut out = Vec::new();
        library.write(&mut source, &mut out).expect("the file is still there");
        assert_eq!(out, bytes);
        library.verify(&mut source).expect("the file is still there");
        for function in library.functions().take(16) {
            if let Ok(module) = library.module(&mut source, function) {
                drop(Bitcode::parse(&module));
            }
            for is_public in [true, false] {
                let metadata = library.metadata(function, is_public);
                metadata.map(|g| (g.constants(), g.vertex_attributes(), g.debug_line().is_some()));
            }
        }
        for strip in [Strip::default(), Strip::ALL] {
            let mut out = Vec::new();
            if library.strip(&mut source, strip, &mut out).is_ok() {
                Metallib::parse(&out).expect("a stripped library can be read");
            }
        }
        library.sources(&mut source).and_then(Result::ok)
    });
    if let Some(sources) = sources {
        drop(sources.unpack());
    }
});
