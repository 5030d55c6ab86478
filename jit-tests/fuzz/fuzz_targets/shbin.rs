//! Any bytes -> the readers of PICA200 shaders, and all uses of their results.
//!
//! Files are hostile: reading must not panic, be slow, or take much more memory than the file has
//! bytes. A result can be written, reads back equal, and disassembles.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picajit::container::Kind;
use picajit::container::dvoj::Dvoj;
use picajit::container::shbin::Shbin;
use picajit::state::Uniforms;
use picajit::text;

fuzz_target!(|bytes: &[u8]| {
    let kind = Kind::sniff(bytes);
    // Each reader sees every input: no reader may rely on another one's check of the magic.
    match Shbin::parse(bytes) {
        Ok(shbin) => {
            assert_eq!(kind, Some(Kind::Shbin));
            linked(&shbin);
        }
        Err(error) => drop(error.to_string()),
    }
    match Dvoj::parse(bytes) {
        Ok(dvoj) => {
            assert_eq!(kind, Some(Kind::Dvoj));
            object(&dvoj);
        }
        Err(error) => drop(error.to_string()),
    }
});

fn linked(shbin: &Shbin) {
    let written = shbin.write().expect("what the reader returns can be written");
    let again = Shbin::parse(&written).expect("what was written can be read");
    assert_eq!(&again, shbin);
    assert_eq!(again.write().as_ref(), Ok(&written), "the bytes depend on the value alone");

    let program = shbin.program().expect("the reader accepts no more code than a program holds");
    let entries = shbin.entries();
    assert_eq!(entries.len(), shbin.dvles.len());
    for (dvle, entry) in shbin.dvles.iter().zip(entries) {
        dvle.apply_constants(&mut Uniforms::new());
        program.inst(entry.pc);
    }

    let source = text::disassemble(shbin);
    match text::assemble(&source) {
        Ok(assembly) => {
            assert_eq!(assembly.shbin.code, shbin.code, "{source}");
            assert_eq!(assembly.shbin.opdescs, shbin.opdescs, "{source}");
        }
        Err(error) => panic!("{error}\n{source}"),
    }
}

fn object(dvoj: &Dvoj) {
    let program = dvoj.program().expect("the reader accepts no more code than a program holds");
    dvoj.apply_constants(&mut Uniforms::new());
    program.inst(dvoj.entry().pc);
    for line in &dvoj.lines {
        dvoj.symbol(line.file);
    }
    let written = dvoj.write().expect("what the reader returns can be written");
    let again = Dvoj::parse(&written).expect("what was written can be read");
    assert_eq!((&again.code, &again.opdescs, &again.lines), (&dvoj.code, &dvoj.opdescs, &dvoj.lines));
    assert_eq!(again.write(), Ok(written), "the bytes are stable");
}
