//! The `stress` verb from the command line.

use super::{Ended, Folder, arguments};
use crate::command::emulator;

/// Whether all results were the same, within the limit of memory. An emulator's own memory is part
/// of the process and exceeds the limit, so there that error alone is also right.
pub(super) fn is_well(ended: &Ended) -> bool {
    let has_excess =
        ended.code == 1 && ended.err.ends_with("error: the process needed more memory than the limits allow\n");
    ended.out.contains(": no difference\n") && (ended.code == 0 || emulator().is_some() && has_excess)
}

#[test]
fn a_short_run_has_all_figures_and_no_difference() {
    let folder = Folder::new("stress");
    let ended = folder.run("stress --programs 600 --sample 4 --cache 1");
    assert!(is_well(&ended), "{}{}", ended.out, ended.err);
    let lines: Vec<&str> = ended.out.lines().collect();
    let starts = [
        "600 programs from seed 1, f32, cache 1 MiB, 2 background threads: ",
        "lookups: ",
        "native when released: ",
        "compile time of single code in us: ",
        "compared with interp: 150, ",
        "peak memory: ",
    ];
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{}", ended.out);
    assert!(lines[4].ends_with(": no difference"), "{}", lines[4]);
    let number = |line: &str, after: &str| {
        let rest = line.split_once(after).expect("it is there").1;
        rest.split(|c: char| !c.is_ascii_digit()).next().expect("one part").parse::<u32>().expect("a number")
    };
    assert!(number(lines[1], "evictions ") > 100, "{}", lines[1]);
    if cfg!(feature = "jit") {
        assert!(number(lines[2], "released: ") > 100, "{}", lines[2]);
    }
}

/// The host holds hundreds of large programs when one thread compiles them all. They needed 190 MiB while kernels
/// kept what simplification had removed.
#[test]
fn many_large_programs_on_native_code_fit_the_limit() {
    let folder = Folder::new("stress-large");
    let ended = folder.run("stress --programs 1000 --cache 1 --threads 1");
    assert!(is_well(&ended), "{}{}", ended.out, ended.err);
}

#[test]
fn other_formats_and_seeds_run() {
    let folder = Folder::new("stress-formats");
    for args in ["--precision f24-nearest --threads 0", "--precision f24-zero --seed 9 --seconds 3600"] {
        let ended = folder.run(arguments("stress --programs 80").and(args));
        assert!(is_well(&ended) && ended.out.starts_with("80 programs from seed "), "{}{}", ended.out, ended.err);
    }
    assert_eq!(folder.run("stress --precision f16").code, 2);
    assert_eq!(folder.run("stress --programs 0").code, 2);
}
