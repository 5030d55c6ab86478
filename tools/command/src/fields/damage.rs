//! Damaged files and damaged JSON, of every format: no panic, and memory in proportion to the input.
//!
//! 2,000 mutations of each small file; 100,000 with `PICAJIT_FULL=1`.

#[path = "../../../../jit-tests/worst_compilation/counting.rs"]
mod counting;
#[path = "../../../containers/src/metallib/handmade.rs"]
pub(super) mod handmade;

use super::tests::{FILES, fields};
use super::{FieldsError, build};
use crate::prerequisites;
use picajit::container::Kind;
use picajit_containers::metallib::Metallib;
use picajit_containers::vbc::{Dialect, Vbc};
use serde_json::Value;
use std::path::PathBuf;

/// Largest file that is mutated.
const SMALL: usize = 8 << 10;

/// Panics if `work` holds more at once than 64 times `len` and 1 MiB.
fn bounded<T>(name: &str, len: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = counting::peak(work);
    assert!(peak <= 64 * len + (1 << 20), "{name}: {peak} bytes for {len}");
    result
}

/// Numbers below a bound.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// `good` with one to four changes: a byte, a number of 16 or 32 bits, a cut, a gap.
    fn damaged(&mut self, good: &[u8], alphabet: &[u8]) -> Vec<u8> {
        const NUMBERS: [u32; 6] = [0, 1, 0x7F, 0xFFFF, 0x0001_0000, u32::MAX];
        let mut bytes = good.to_vec();
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return bytes;
            }
            let at = self.below(bytes.len());
            match self.below(16) {
                0 => bytes.truncate(at),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, alphabet[self.below(alphabet.len())]),
                3 | 4 if alphabet.len() == 256 => {
                    let (number, size) = (NUMBERS[self.below(NUMBERS.len())].to_le_bytes(), 2 + 2 * self.below(2));
                    bytes.iter_mut().skip(at).zip(&number[..size]).for_each(|(byte, new)| *byte = *new);
                }
                _ => bytes[at] = alphabet[self.below(alphabet.len())],
            }
        }
        bytes
    }
}

/// Small files of a format: those of the tests, third-party files, and cases.
fn files(kind: Kind, ending: &str) -> Vec<(String, Vec<u8>)> {
    let own = FILES.iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec()));
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read(&path).unwrap());
    let found = prerequisites::third_party_files(ending, ending).into_iter().chain(prerequisites::cases(&[ending]));
    let library = ("by hand".to_string(), handmade::library());
    let all = own.chain([library]).chain(found.map(read));
    all.filter(|(_, bytes)| bytes.len() <= SMALL && Kind::sniff(bytes) == Some(kind)).collect()
}

fn mutations() -> usize {
    let is_full = std::env::var_os("PICAJIT_FULL").is_some_and(|value| !value.is_empty() && value != "0");
    if is_full { 100_000 } else { 2_000 }
}

/// The bytes of damaged files, and those of damaged JSON.
static BYTES: [u8; 256] = {
    let mut all = [0; 256];
    let mut n = 0;
    while n < 256 {
        all[n] = n as u8;
        n += 1;
    }
    all
};
const JSON: &[u8] = b"0123456789-+.eE{}[]:,\"\\ ntfabx";

/// Damaged files are read, shown and built back; then the JSON is damaged and built.
fn check(kind: Kind, ending: &str) {
    for (name, good) in files(kind, ending) {
        let mut random = Random(good.len() as u64);
        let text = fields(&good).unwrap().unwrap().to_string().into_bytes();
        let (mut read, mut built) = (0, 0);
        for n in 0..mutations() {
            if n % 2 == 0 {
                let bytes = random.damaged(&good, &BYTES);
                bounded(&name, bytes.len(), || match fields(&bytes) {
                    Some(Ok(json)) => {
                        read += 1;
                        assert_eq!(build(&json).unwrap(), (kind, bytes.clone()), "{name}");
                    }
                    Some(Err(error)) => drop(error.to_string()),
                    None => {}
                });
            } else {
                let text = random.damaged(&text, JSON);
                let json: Result<Value, _> = bounded(&name, text.len(), || serde_json::from_slice(&text));
                let Ok(json) = json else { continue };
                // A text may ask for a larger file.
                let size = text.len() + json["size"].as_u64().map_or(0, |n| n.min(4 << 20) as usize);
                match bounded(&name, size, || build(&json)) {
                    Ok((_, bytes)) => built += usize::from(fields(&bytes).is_some()),
                    Err(error) => drop(error.to_string()),
                }
            }
        }
        assert!(read > 0 && built > 0, "{name}: {read} files are read, {built} texts are built");
    }
}

#[test]
fn damaged_shbin_files() {
    check(Kind::Shbin, "shbin");
}

#[test]
fn damaged_dvoj_files() {
    check(Kind::Dvoj, "dvoj");
}

#[test]
fn damaged_mbs_files() {
    check(Kind::Mbs, "mbs");
}

#[test]
fn damaged_vbc_files() {
    check(Kind::Vbc, "vbc");
}

/// `build` writes no libraries, so their JSON is only made.
#[test]
fn damaged_libraries() {
    for (name, good) in files(Kind::Metallib, "metallib") {
        let mut random = Random(good.len() as u64);
        let mut read = 0;
        for _ in 0..mutations() {
            let bytes = random.damaged(&good, &BYTES);
            bounded(&name, bytes.len(), || {
                let Ok(library) = Metallib::parse(&bytes) else { return };
                read += 1;
                super::metallib(&library, &bytes[..88], bytes.len() as u64);
            });
        }
        assert!(read > 0, "{name}: none is read");
    }
}

/// Files of rows alone, whose JSON has the most memory for each byte.
#[test]
fn dense_files_stay_in_bounds() {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let numbers = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let mut shown = [0; 2];
    for rows in [500, 20_000, 200_000] {
        let table = vec![0x41; 8 * rows as usize];
        for at in [0x20, 0x28, 0x30, 0x40, 0x48, 0x50] {
            let mut header = [&b"DVOJ"[..], &[0; 0x54]].concat();
            let count = if at == 0x20 { rows.min(4096) } else { if at == 0x50 { 8 * rows } else { rows } };
            header[at..at + 8].copy_from_slice(&words(&[0x58, count]));
            dense(&[header, table.clone()].concat(), &mut shown);
        }
        // Lists of inputs, and of chunks without contents.
        let input = [0, 4, 4, 1, 1, 0, 0, 0].repeat(rows as usize);
        let vbc = [&b"VBC\x01\x01"[..], &[0; 20], &words(&[rows]), &input, &[0; 14]].concat();
        dense(&vbc, &mut shown);
        let chunks = b"VIDX\0\0\0\0".repeat(rows as usize);
        dense(&[&b"MBS1"[..], &words(&[8 * rows]), &chunks].concat(), &mut shown);
        // Tags without bodies.
        let tags = b"XXXX\0\0".repeat(rows as usize);
        let list = [words(&[1, 8 + tags.len() as u32]), tags, b"ENDT".to_vec()].concat();
        let end = 88 + list.len() as u64;
        let fields = numbers(&[end, 88, list.len() as u64 - 4, end, 0, end, 0, end, 0]);
        dense(&[&b"MTLB\x01\x80\x02\0\x02\0\0\0\0\0\0\0"[..], &fields, &list].concat(), &mut shown);
    }
    assert!(shown[0] >= 10 && shown[1] >= 5, "{shown:?} are shown, and left out");
}

/// Shows a file of rows alone, and counts whether it has too many. VBC files of that size need a named dialect.
fn dense(bytes: &[u8], shown: &mut [usize; 2]) {
    let name = format!("{} bytes of {}", bytes.len(), bytes[..4].escape_ascii());
    let is_shown = bounded(&name, bytes.len(), || {
        if let Ok(library) = Metallib::parse(bytes) {
            let (json, _) = super::metallib(&library, &bytes[..88], bytes.len() as u64);
            return !json["functions"].as_array().unwrap().is_empty();
        }
        let vbc = Vbc::parse_as(bytes, Dialect::C).ok();
        let json = match &vbc {
            Some(vbc) => super::of(Kind::Vbc, bytes, Some(vbc)).map(|fields| fields.json.into()),
            None => fields(bytes).unwrap_or_else(|| panic!("{name} is not read")),
        };
        match json {
            Ok(json) => build(&json).unwrap().1 == bytes,
            Err(error) => error != FieldsError::TooManyRows && panic!("{name}: {error}"),
        }
    });
    shown[usize::from(!is_shown)] += 1;
}
