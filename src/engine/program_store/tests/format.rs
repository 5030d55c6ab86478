//! Files, valid and invalid.

use super::*;

/// Pseudo-random words.
fn words(seed: u32, count: usize) -> Vec<u32> {
    let mut x = seed | 1;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x
    };
    (0..count).map(next).collect()
}

fn stored(code: usize, opdescs: usize) -> StoredProgram {
    let program = Program::from_words(&words(1, code), &words(2, opdescs)).expect("short");
    StoredProgram { program, entry: Entry::geometry(0xFFFF), on_unit: true }
}

/// A file with this header and body, and the correct checksum.
fn file(head: [u32; 5], body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(head.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(body);
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

#[test]
fn decoding_inverts_encoding() {
    let plain = StoredProgram { program: program(2, &[]), entry: Entry::vertex(1), on_unit: false };
    for program in [plain, stored(0, 0), stored(1, 0), stored(0, 128), stored(7, 3)] {
        assert_eq!(StoredProgram::parse(&program.bytes()), Some(program));
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of words, hashed byte by byte")]
fn decoding_inverts_encoding_of_the_largest_program() {
    let largest = stored(MAX_CODE_WORDS, OPDESCS);
    assert_eq!(largest.bytes().len(), MAX_BYTES);
    assert_eq!(StoredProgram::parse(&largest.bytes()), Some(largest));
}

/// A change of the format must change [`MAGIC`], or old files decode to other programs.
#[test]
fn the_format_is_as_documented() {
    let stored = StoredProgram { program: program(0, &[]), entry: Entry::geometry(0x102), on_unit: true };
    let bytes = stored.bytes();
    assert_eq!(bytes[..8], *b"picaprg1");
    let head = [1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(bytes[8..28], head);
    assert_eq!(bytes[28..40], [0, 0, 0, 0, 0, 0, 0, 0x88, 0x6F, 3, 0, 0]);
    assert_eq!((bytes.len(), file_name(&bytes).as_str()), (56, "434cda54f17be9e39f48206c7cb0f87c.pica"));
}

#[test]
fn every_truncation_and_every_changed_byte_is_rejected() {
    let whole = stored(5, 2).bytes();
    for len in 0..whole.len() {
        assert_eq!(StoredProgram::parse(&whole[..len]), None, "{len} bytes");
    }
    for more in 1..9 {
        assert_eq!(StoredProgram::parse(&[&whole[..], &vec![0; more]].concat()), None, "{more} bytes more");
    }
    for at in 0..whole.len() {
        for change in (1..=255).step_by(miri_or(85, 1)) {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            assert_eq!(StoredProgram::parse(&bytes), None, "byte {at} changed by {change}");
        }
    }
}

#[test]
fn a_correct_checksum_does_not_make_a_program() {
    let body = [0; 8];
    assert!(StoredProgram::parse(&file([0, 0, 0, 1, 1], &body)).is_some());
    let heads = [
        [2, 0, 0, 1, 1],
        [0, 2, 0, 1, 1],
        [0, 0, 0x10000, 1, 1],
        [0, 0, 0, 2, 1],
        [0, 0, 0, 1, 2],
        [0, 0, 0, u32::MAX, 1],
        [0, 0, 0, 1, u32::MAX],
        [0, 0, 0, u32::MAX, u32::MAX],
        [0, 0, 0, 0, 0],
        [u32::MAX; 5],
    ];
    for head in heads {
        assert_eq!(StoredProgram::parse(&file(head, &body)), None, "{head:?}");
    }
    assert_eq!(StoredProgram::parse(&file([0, 0, 0, 1, 1], &body[..7])), None, "half a word");
    let mut other = file([0, 0, 0, 1, 1], &body);
    other[7] = b'2';
    let len = other.len() - CHECKSUM_BYTES;
    let sum = checksum(&other[..len]).to_le_bytes();
    other[len..].copy_from_slice(&sum);
    assert_eq!(StoredProgram::parse(&other), None, "another version");
    if !cfg!(miri) {
        assert_eq!(StoredProgram::parse(&file([0, 0, 0, 4097, 0], &[0; 4 * 4097])), None);
        assert_eq!(StoredProgram::parse(&file([0, 0, 0, 0, 129], &[0; 4 * 129])), None);
    }
}

#[test]
fn random_bytes_decode_to_nothing_or_encode_to_themselves() {
    for seed in 1..miri_or(100, 4000) {
        let mut bytes: Vec<u8> = words(seed, (seed % 40) as usize).iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(StoredProgram::parse(&bytes), None);
        // With a plausible header and a correct checksum.
        bytes.truncate(seed as usize % 97);
        let head = [seed % 3, seed / 3 % 3, seed % 70_000, bytes.len() as u32 / 4 / (1 + seed % 2), seed % 5];
        let bytes = file(head, &bytes);
        if let Some(stored) = StoredProgram::parse(&bytes) {
            assert_eq!(stored.bytes(), bytes);
        }
    }
}

#[test]
fn only_names_given_by_the_store_are_recognised() {
    let digits = "0123456789abcdef0123456789abcdef";
    assert!(is_name(OsStr::new(&format!("{digits}.pica"))));
    for other in ["", ".pica", digits, "0.pica", &digits.to_uppercase(), "å.pica"] {
        assert!(!is_name(OsStr::new(other)), "{other}");
    }
    for other in [format!("{digits}.PICA"), format!("{digits}0.pica"), format!("{digits}.1-0.new")] {
        assert!(!is_name(OsStr::new(&other)), "{other}");
    }
    assert!(!is_name(OsStr::new(&format!("{}.pica", digits.to_uppercase()))));
}
