//! Any text -> the assembler; accepted programs go through the disassembler and back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picajit::text;

fuzz_target!(|bytes: &[u8]| {
    // Invalid UTF-8 still reaches the assembler, so that few mutations of a text are wasted.
    let source = String::from_utf8_lossy(bytes);
    let assembly = match text::assemble(&source) {
        Ok(assembly) => assembly,
        Err(error) => return drop(error.to_string()),
    };
    assembly.warnings.iter().for_each(|warning| drop(format!("{warning:#}")));
    drop(assembly.c_header());
    let shown = text::disassemble(&assembly.shbin);
    match text::assemble(&shown) {
        Ok(again) => {
            assert_eq!(again.shbin.code, assembly.shbin.code, "{shown}");
            assert_eq!(again.shbin.opdescs, assembly.shbin.opdescs, "{shown}");
        }
        Err(error) => panic!("{error}\n{shown}"),
    }
});
