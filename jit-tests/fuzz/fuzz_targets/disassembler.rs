//! Any code words, descriptors and entry points -> text -> the same words, descriptors and entry
//! points.
//!
//! | bytes | |
//! |---|---|
//! | 0 | entry points, modulo 4; bit 7: each descriptor has a second word |
//! | 1 | descriptors, modulo 129 |
//! | 2-7 | for each entry point: low byte of its first word; bits 0-6 length, bit 7 geometry |
//! | then | descriptors, then code to the end |

#![no_main]

use libfuzzer_sys::fuzz_target;
use picajit::container::shbin::{Dvle, Opdesc, Shbin};
use picajit::isa::{MAX_CODE_WORDS, Stage};
use picajit::text;

fuzz_target!(|bytes: &[u8]| {
    let Some((header, rest)) = bytes.split_first_chunk::<8>() else { return };
    let words: Vec<u32> = rest.as_chunks().0.iter().map(|&w| u32::from_le_bytes(w)).collect();
    let per_opdesc = 1 + usize::from(header[0] >> 7);
    let (opdescs, code) = words.split_at(words.len().min(usize::from(header[1] % 129) * per_opdesc));
    let opdescs = opdescs.chunks(per_opdesc).map(|w| Opdesc { word: w[0], extra: w.get(1).copied().unwrap_or(0) });
    let dvles = header[2..].chunks(2).take(usize::from(header[0] % 4)).map(|entry| Dvle {
        version: 0x1002,
        stage: if entry[1] >> 7 != 0 { Stage::Geometry } else { Stage::Vertex },
        entry: entry[0].into(),
        end: u32::from(entry[0]) + u32::from(entry[1] & 0x7F),
        ..Dvle::default()
    });
    let code = &code[..code.len().min(MAX_CODE_WORDS)];
    let shbin = Shbin { code: code.to_vec(), opdescs: opdescs.collect(), dvles: dvles.collect(), ..Shbin::default() };
    let source = text::disassemble(&shbin);
    let again = match text::assemble(&source) {
        Ok(assembly) => assembly.shbin,
        Err(error) => panic!("{error}\n{source}"),
    };
    assert_eq!(again.code, shbin.code, "{source}");
    assert_eq!(again.opdescs, shbin.opdescs, "{source}");
    // A text has an entry point even where the file has none.
    let entry = |dvle: &Dvle| (dvle.entry, dvle.end, dvle.stage);
    if !shbin.dvles.is_empty() {
        assert!(again.dvles.iter().map(entry).eq(shbin.dvles.iter().map(entry)), "{source}");
    }
});
