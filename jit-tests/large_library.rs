//! A Metal library of 300 MB opens in 32 MiB: only its metadata are read.
//!
//! A binary of its own, because the peak of memory is the whole process's. What the process has at
//! its start does not count: under an emulator that is more than all the rest. It prints the time.

mod prerequisites;

use picajit_containers::metallib::Metallib;
use std::fs::File;
use std::io::{BufReader, Write};
use std::time::Instant;

const FUNCTIONS: u64 = 20_000;
const MODULE: u64 = 15_008;
/// Most KiB that the test adds to the peak of the process.
const MOST_KIB: u64 = 32 << 10;

fn tag(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&name[..], &(body.len() as u16).to_le_bytes(), body].concat()
}

fn group(tags: &[u8]) -> Vec<u8> {
    [&(tags.len() as u32 + 8).to_le_bytes(), tags, b"ENDT"].concat()
}

/// Everything before the modules, and the size of the file.
fn head() -> (Vec<u8>, u64) {
    let numbers = |n: &[u64]| n.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let mut list = (FUNCTIONS as u32).to_le_bytes().to_vec();
    for n in 0..FUNCTIONS {
        let tags = [
            tag(b"NAME", format!("a_function_with_a_name_of_usual_length_{n}\0").as_bytes()),
            tag(b"TYPE", &[2]),
            tag(b"HASH", &[0; 32]),
            tag(b"OFFT", &numbers(&[8 * n, 8 * n, MODULE * n])),
            tag(b"VERS", &[2, 0, 6, 0, 3, 0, 1, 0]),
            tag(b"MDSZ", &numbers(&[MODULE])),
        ];
        list.extend(group(&tags.concat()));
    }
    let metadata = group(&[]).repeat(FUNCTIONS as usize);
    let (list_len, len) = (list.len() as u64, metadata.len() as u64);
    let public = 88 + list_len + 4;
    let modules = public + 2 * len;
    let size = modules + MODULE * FUNCTIONS;
    let fields = numbers(&[size, 88, list_len - 4, public, len, public + len, len, modules, MODULE * FUNCTIONS]);
    let head =
        [&b"MTLB\x01\x80\x02\0\x07\0\0\x81\x0E\0\0\0"[..], &fields, &list, b"ENDT", &metadata, &metadata].concat();
    (head, size)
}

/// The peak of the process's memory in KiB, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[test]
fn a_large_library_opens_in_little_memory() {
    let before = peak();
    let path = prerequisites::temporary_folder().join(format!("picajit-large-{}.metallib", std::process::id()));
    let size = {
        let (head, size) = head();
        let mut file = File::create(&path).unwrap();
        file.write_all(&head).unwrap();
        // The modules are a hole.
        file.set_len(size).unwrap();
        size
    };
    let start = Instant::now();
    let mut source = BufReader::new(File::open(&path).unwrap());
    let library = Metallib::open(&mut source).unwrap();
    let time = start.elapsed();
    let last = library.functions().last().unwrap();
    assert_eq!(library.functions().len() as u64, FUNCTIONS);
    assert_eq!(library.module(&mut source, last).unwrap().len() as u64, MODULE);
    std::fs::remove_file(&path).unwrap();
    assert!(size > 300_000_000, "{size}");
    let peak = peak();
    println!("{size} bytes, {FUNCTIONS} functions: opened in {time:.1?}, peak in KiB {before:?}, then {peak:?}");
    if let Some((before, peak)) = before.zip(peak) {
        assert!(peak - before <= MOST_KIB, "{before} KiB, then {peak} KiB");
    }
}
