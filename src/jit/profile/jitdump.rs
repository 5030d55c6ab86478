//! Code, names and lines -> bytes of perf's jitdump format, version 1.
//!
//! The format is that of tools/perf/Documentation/jitdump-specification.txt in Linux; fields have
//! that document's names. Numbers are in this machine's byte order, which the magic number shows.

/// `JiTD`.
pub(crate) const MAGIC: u32 = 0x4A69_5444;
/// The only version.
pub(crate) const VERSION: u32 = 1;
/// Size of the header in bytes.
pub(crate) const HEADER: u32 = 40;
/// Size of the start of every record in bytes.
pub(crate) const PREFIX: usize = 16;
/// Record type of code.
pub(crate) const JIT_CODE_LOAD: u32 = 0;
/// Record type of the lines of the next code record.
pub(crate) const JIT_CODE_DEBUG_INFO: u32 = 2;

/// This machine's number in ELF files, where picajit generates native code.
pub(crate) const ELF_MACHINE: u32 = match cfg!(target_arch = "aarch64") {
    true => 183,
    false => 62,
};

/// A function, for its code record.
pub(crate) struct Load<'a> {
    /// Process and thread.
    pub(crate) ids: [u32; 2],
    /// Its address.
    pub(crate) address: u64,
    /// Its index in the dump.
    pub(crate) index: u64,
    /// Its name, without zero bytes.
    pub(crate) name: &'a str,
    /// Its code.
    pub(crate) code: &'a [u8],
}

/// The first byte of code of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEntry {
    /// From the start of the function.
    pub(crate) offset: u32,
    /// From 1.
    pub(crate) line: u32,
}

/// The header. No flags: times are not the CPU's own counter.
pub(crate) fn header(pid: u32, timestamp: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER as usize);
    for word in [MAGIC, VERSION, HEADER, ELF_MACHINE, 0, pid] {
        out.extend(word.to_ne_bytes());
    }
    out.extend(timestamp.to_ne_bytes());
    out.extend(0u64.to_ne_bytes());
    out
}

/// JIT_CODE_DEBUG_INFO: lines of one file. Every entry repeats the file's name: the document allows
/// to omit repetitions, but perf's own reader (6.1) does not support that.
pub(crate) fn debug_info(timestamp: u64, address: u64, file: &str, rows: &[LineEntry]) -> Vec<u8> {
    record(JIT_CODE_DEBUG_INFO, timestamp, |out| {
        out.extend(address.to_ne_bytes());
        out.extend((rows.len() as u64).to_ne_bytes());
        for row in rows {
            out.extend((address + u64::from(row.offset)).to_ne_bytes());
            out.extend(row.line.to_ne_bytes());
            out.extend(0u32.to_ne_bytes());
            text(out, file);
        }
    })
}

/// JIT_CODE_LOAD. Virtual address and address in the code's own file are equal.
pub(crate) fn load(timestamp: u64, load: &Load<'_>) -> Vec<u8> {
    record(JIT_CODE_LOAD, timestamp, |out| {
        load.ids.iter().for_each(|id| out.extend(id.to_ne_bytes()));
        for long in [load.address, load.address, load.code.len() as u64, load.index] {
            out.extend(long.to_ne_bytes());
        }
        text(out, load.name);
        out.extend(load.code);
    })
}

fn text(out: &mut Vec<u8>, text: &str) {
    debug_assert!(!text.contains('\0'));
    out.extend(text.as_bytes());
    out.push(0);
}

fn record(id: u32, timestamp: u64, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; PREFIX];
    body(&mut out);
    // Words and blocks are bounded, so code has a few megabytes at most.
    let size = u32::try_from(out.len()).expect("a record of less than 4 GiB");
    out[..4].copy_from_slice(&id.to_ne_bytes());
    out[4..8].copy_from_slice(&size.to_ne_bytes());
    out[8..].iter_mut().zip(timestamp.to_ne_bytes()).for_each(|(to, byte)| *to = byte);
    out
}
