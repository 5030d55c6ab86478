//! A library made from the description, with the parts that no file of the corpus has.

use sha2::{Digest, Sha256};

/// A tag with a length of 16 bits.
pub fn tag(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&name[..], &(body.len() as u16).to_le_bytes(), body].concat()
}

/// A tag with a length of 32 bits.
fn long_tag(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&name[..], &(body.len() as u32).to_le_bytes(), body].concat()
}

fn group(tags: &[u8], counts_itself: bool) -> Vec<u8> {
    [&(tags.len() as u32 + if counts_itself { 8 } else { 4 }).to_le_bytes(), tags, b"ENDT"].concat()
}

fn numbers(n: &[usize]) -> Vec<u8> {
    n.iter().flat_map(|n| (*n as u64).to_le_bytes()).collect()
}

/// Version 1.2.9 with HSRD, HDYN, RLST and UUID. Its three functions share two modules; all have
/// tessellation and layers, debug paths, sources and reflection.
pub fn library() -> Vec<u8> {
    let wrapper: Vec<u8> = [0x0B17_C0DE, 0, 20, 8, u32::MAX].iter().flat_map(|w: &u32| w.to_le_bytes()).collect();
    let module = |byte: u8| [&wrapper[..], b"BC\xC0\xDE", &[byte; 4], &[0; 4]].concat();
    let modules = [module(1), module(2)];
    let public = [
        group(&[tag(b"VATT", b"\x01\0pos\0\0\x80"), tag(b"VATY", &[1, 0, 6])].concat(), false),
        group(&[], false),
        group(&tag(b"CNST", b"\x01\0k\0\x1D\x07\0\x01"), false),
    ];
    let private = group(&[tag(b"DEBI", b"\x05\0\0\0/Users/a/x.metal\0"), tag(b"DEPF", b"x.air\0")].concat(), false);
    let sources =
        [&[1, 0, 0, 0][..], b"-o lib\0", b"/Users/a\0", &group(&long_tag(b"SARC", b"0\0BZh9"), false)].concat();
    let source_tag = sources.len() - group(&long_tag(b"SARC", b"0\0BZh9"), false).len() + 4;
    let dynamic = [tag(b"NAME", b"lib.metallib\0"), tag(b"DYNL", b"other.metallib\0"), b"ENDT".to_vec()].concat();

    // Reflection depends on its own place; functions depend on all sizes but on no values.
    let build = |reflection_at: usize, sections: [[usize; 2]; 3]| {
        let buffer = |at: usize| {
            let body = reflection_at + at + 12;
            let padding = vec![0; body.next_multiple_of(16) - body];
            group(&long_tag(b"RBUF", &[&padding[..], b"\x10\0\0\0AIRR buffer"].concat()), true)
        };
        let first = buffer(4);
        let second = buffer(4 + first.len());
        let compressed = group(&long_tag(b"RBUZ", b"packed"), true);
        let places = [4, 4 + first.len(), 4 + first.len() + second.len()];
        let reflection = [&[3, 0, 0, 0][..], &first, &second, &compressed].concat();
        let mut list = vec![3, 0, 0, 0];
        for (n, &place) in places.iter().enumerate() {
            let which = n.min(1);
            let before: usize = public[..n].iter().map(Vec::len).sum();
            let hash: [u8; 32] = Sha256::digest(&modules[which]).into();
            let tags = [
                tag(b"NAME", format!("ns::f{n}\0").as_bytes()),
                tag(b"TYPE", &[[0, 7, 8][n]]),
                tag(b"HASH", &hash),
                tag(b"OFFT", &numbers(&[before, n * private.len(), which * modules[0].len()])),
                tag(b"VERS", &[2, 0, 8, 0, 4, 0, 0, 1]),
                tag(b"TESS", &[2 | 16 << 2]),
                tag(b"LAYR", &[33]),
                tag(b"MDSZ", &numbers(&[modules[0].len()])),
                tag(b"SOFF", &numbers(&[source_tag])),
                tag(b"RFLT", &numbers(&[place])),
            ];
            list.extend(group(&tags.concat(), true));
        }
        let pointer = |name, n: usize| tag(name, &numbers(&sections[n]));
        let extension =
            [pointer(b"HSRD", 0), pointer(b"HDYN", 1), pointer(b"RLST", 2), tag(b"UUID", &[7; 16]), b"ENDT".to_vec()];
        (list, extension.concat(), reflection)
    };
    let (list, extension, _) = build(0, [[0; 2]; 3]);
    let parts = [
        list.len(),
        extension.len(),
        public.concat().len(),
        3 * private.len(),
        modules.concat().len(),
        sources.len(),
        dynamic.len(),
    ];
    let at: Vec<usize> = (0..=7).map(|n| 88 + parts[..n].iter().sum::<usize>()).collect();
    let (_, _, reflection) = build(at[7], [[0; 2]; 3]);
    let sections = [[at[5], parts[5]], [at[6], parts[6]], [at[7], reflection.len()]];
    let (list, extension, reflection) = build(at[7], sections);
    let size = at[7] + reflection.len();
    let fields = numbers(&[size, at[0], parts[0] - 4, at[2], parts[2], at[3], parts[3], at[4], parts[4]]);
    let header = [&b"MTLB\x01\x80\x02\0\x09\0\0\x81\x1A\0\x01\x02"[..], &fields].concat();
    [header, list, extension, public.concat(), private.repeat(3), modules.concat(), sources, dynamic, reflection]
        .concat()
}
