//! Files of compiled shaders -> plain values; and which kind of file some bytes are, by their first four.
//!
//! Emulators never see these files: games upload words, and [`crate::program`] is their door. Nothing here runs or
//! decodes an instruction. Every reader treats its bytes as hostile: each offset is checked before use, and memory stays
//! within a small multiple of the file.

pub mod dvoj;
pub mod float24;
pub mod reader;
pub mod shbin;

use std::fmt;

/// The kinds of compiled-shader files that can be told apart by their first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Linked PICA200 shader, `DVLB`: read by [`shbin`].
    Shbin,
    /// Unlinked PICA200 object, `DVOJ`: read by [`dvoj`].
    Dvoj,
    /// Mali Utgard shader, `MBS1`.
    Mbs,
    /// Apple Metal library, `MTLB`.
    Metallib,
    /// LibVega shader, `VBC` and a version byte.
    Vbc,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::Shbin, Kind::Dvoj, Kind::Mbs, Kind::Metallib, Kind::Vbc];

    /// What `bytes` begin like; `None` for anything unknown. Says nothing about the rest of the file.
    ///
    /// A fat Metal library (several slices behind an index) is not a library itself and is not recognised; nor is `MBS2`,
    /// the format of a later Mali family.
    pub fn sniff(bytes: &[u8]) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| bytes.starts_with(k.magic()))
    }

    /// The bytes that such a file begins with. `VBC` has a version in the fourth byte; all its dialects write 1.
    pub const fn magic(self) -> &'static [u8] {
        match self {
            Kind::Shbin => b"DVLB",
            Kind::Dvoj => b"DVOJ",
            Kind::Mbs => b"MBS1",
            Kind::Metallib => b"MTLB",
            Kind::Vbc => b"VBC\x01",
        }
    }

    /// Whether there is a reader for this kind.
    pub const fn is_readable(self) -> bool {
        matches!(self, Kind::Shbin | Kind::Dvoj)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Shbin => "PICA200 shader (SHBIN)",
            Kind::Dvoj => "unlinked PICA200 object (DVOJ)",
            Kind::Mbs => "Mali-200/400 shader (MBS1)",
            Kind::Metallib => "Metal library (MTLB)",
            Kind::Vbc => "LibVega shader (VBC)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::corpus;

    #[test]
    fn every_kind_is_told_by_its_magic_and_by_nothing_shorter() {
        for kind in Kind::ALL {
            let mut file = kind.magic().to_vec();
            assert_eq!(Kind::sniff(&file[..3]), None, "{kind}");
            assert_eq!(Kind::sniff(&file), Some(kind));
            file.extend([0xFF; 9]);
            assert_eq!(Kind::sniff(&file), Some(kind));
            file[0] ^= 0x20;
            assert_eq!(Kind::sniff(&file), None, "{kind}");
        }
        for other in [&b""[..], b"DVLP", b"DVLE", b"MBS2", b"VBC\x02", b"\x1f\x8b\x08\x08", b"\xca\xfe\xba\xbe"] {
            assert_eq!(Kind::sniff(other), None, "{other:?}");
        }
    }

    #[test]
    fn every_corpus_file_is_recognised() {
        for (folder, kind) in
            [("shbin", Kind::Shbin), ("mbs", Kind::Mbs), ("metallib", Kind::Metallib), ("vbc", Kind::Vbc)]
        {
            for (name, bytes) in corpus::files(folder).unwrap_or_default() {
                assert_eq!(Kind::sniff(&bytes), Some(kind), "{name}");
            }
        }
    }
}
