//! Files of compiled shaders -> plain values; recognition of a file's kind by its first four bytes.
//!
//! An emulator does not need these files: games upload words, which become a
//! [`Program`](crate::program::Program). The crate `picajit-containers` reads other GPUs'
//! containers, which hold no PICA200 program. Every reader treats its bytes as hostile: it checks each
//! offset before use, and its memory stays within a small multiple of the file's size.

pub mod dvoj;
pub mod float24;
pub mod reader;
pub mod shbin;

use std::fmt;

/// The kinds of compiled-shader files that the first bytes distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Linked PICA200 shader, `DVLB`: read by [`shbin`].
    Shbin,
    /// Unlinked PICA200 object, `DVOJ`: read by [`dvoj`].
    Dvoj,
    /// Mali Utgard shader, `MBS1`: read by `picajit-containers`.
    Mbs,
    /// Apple Metal library, `MTLB`: read by `picajit-containers`.
    Metallib,
    /// LibVega shader, `VBC` and a version byte: read by `picajit-containers`.
    Vbc,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::Shbin, Kind::Dvoj, Kind::Mbs, Kind::Metallib, Kind::Vbc];

    /// The kind whose magic `bytes` begin with; `None` if unknown. The rest of the file is not
    /// checked.
    ///
    /// A fat Metal library (an index and several slices) is not recognised, nor is `MBS2`, the
    /// format of a later Mali family.
    pub fn sniff(bytes: &[u8]) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| bytes.starts_with(k.magic()))
    }

    /// The first bytes of such a file. The fourth byte of `VBC` is a version; all its dialects
    /// write 1.
    pub const fn magic(self) -> &'static [u8] {
        match self {
            Kind::Shbin => b"DVLB",
            Kind::Dvoj => b"DVOJ",
            Kind::Mbs => b"MBS1",
            Kind::Metallib => b"MTLB",
            Kind::Vbc => b"VBC\x01",
        }
    }

    /// Whether it is a PICA200 shader.
    pub const fn is_pica(self) -> bool {
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
    use crate::testing::third_party;

    #[test]
    fn every_kind_is_recognised_by_its_whole_magic() {
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
            for (name, bytes) in third_party::files(folder) {
                assert_eq!(Kind::sniff(&bytes), Some(kind), "{name}");
            }
        }
    }
}
