//! `picajit bench` with and without a profiler: the files that it writes.

use super::{Folder, VERTEX, arguments};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Runs `bench` on one shader. Returns its output, and the path of a map.
fn bench(folder: &Folder, args: &'static str) -> (Output, PathBuf) {
    folder.file("a.pica", VERTEX);
    let command = folder.command(arguments("bench a.pica --seconds-per-shader 0").and(args));
    let mut command = alone(command);
    // `perf record` sets it, and cranelift-jit then writes a map of its own.
    command.env_remove("PERF_BUILDID_DIR").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let map = PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
    (child.wait_with_output().unwrap(), map)
}

/// The same command in a process that first removes the map of an earlier process of its number.
/// The parent can't remove it: when the number is known, the child may already be writing.
fn alone(command: Command) -> Command {
    if !cfg!(unix) {
        return command;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "rm -f /tmp/perf-$$.map; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().expect("the folder"));
    shell
}

/// Names of files other than the shader.
fn files(folder: &Folder) -> Vec<String> {
    let names = std::fs::read_dir(&folder.0).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != "a.pica").collect();
    names.sort();
    names
}

#[test]
fn nothing_is_written_by_default() {
    let folder = Folder::new("unprofiled");
    let (ended, map) = bench(&folder, "");
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!((files(&folder), map.exists()), (Vec::new(), false));
}

#[cfg(all(feature = "jit", target_os = "linux"))]
#[test]
fn a_map_names_every_kind_of_code_once() {
    let folder = Folder::new("map");
    let (ended, map) = bench(&folder, "--perf-map");
    let text = std::fs::read_to_string(&map).unwrap();
    std::fs::remove_file(&map).unwrap();
    assert_eq!((ended.status.code(), files(&folder)), (Some(0), Vec::new()));
    let kinds: Vec<_> = text
        .lines()
        .map(|line| {
            let fields: Vec<_> = line.split(' ').collect();
            let [start, size, name] = fields[..] else { panic!("{line}") };
            assert!([start, size].iter().all(|n| u64::from_str_radix(n, 16).is_ok_and(|n| n > 0)), "{line}");
            let parts: Vec<_> = name.split(':').collect();
            let ["picajit", "vertex@0x0", kind, hash] = parts[..] else { panic!("{line}") };
            assert!(hash.len() == 8 && u32::from_str_radix(hash, 16).is_ok(), "{line}");
            kind
        })
        .collect();
    for (kind, times) in [("unoptimised", 1), ("vec4", 2), ("vec4-f24-nearest", 1), ("vec4-f24-zero", 1)] {
        // The batch engine also has the code for one vertex.
        assert_eq!(kinds.iter().filter(|k| **k == kind).count(), times, "{text}");
    }
}

#[cfg(all(feature = "jit", target_os = "linux"))]
#[test]
fn a_dump_and_its_listing_are_in_the_given_folder() {
    let folder = Folder::new("dump");
    let (ended, map) = bench(&folder, "--jitdump some/where");
    assert_eq!((ended.status.code(), files(&folder), map.exists()), (Some(0), vec!["some".to_string()], false));
    let below = Folder(folder.0.join("some/where"));
    let names = files(&below);
    assert!(matches!(&names[..], [a, b] if a.ends_with(".pica") && b.ends_with(".dump")), "{names:?}");
}

#[test]
fn a_failed_dump_is_a_warning() {
    let folder = Folder::new("nodump");
    let (ended, _) = bench(&folder, "--jitdump a.pica");
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{err}");
    assert_eq!(err.matches("warning: profilers don't see shaders: ").count(), 1, "{err}");
    let both = folder.bad("bench --perf-map --jitdump x");
    assert!(both.contains("cannot be used with"), "{both}");
}

/// There is no vDSO under valgrind, from which a clock could be read without the system.
#[cfg(all(feature = "jit", target_os = "linux"))]
#[test]
fn a_dump_is_written_under_valgrind() {
    let found = Command::new("valgrind").arg("--version").output().is_ok_and(|ended| ended.status.success());
    if !found || crate::command::emulator().is_some() {
        crate::prerequisites::skipped("a dump under valgrind: no valgrind");
        return;
    }
    let folder = Folder::new("valgrind");
    folder.file("a.pica", VERTEX);
    let command = folder.command("bench a.pica --seconds-per-shader 0 --jitdump dump");
    let mut valgrind = Command::new("valgrind");
    // For its own files, wherever the variable points.
    valgrind.env("TMPDIR", &folder.0);
    valgrind.args(["-q", "--error-exitcode=9"]).arg(command.get_program()).args(command.get_args());
    let ended = valgrind.current_dir(&folder.0).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let names = std::fs::read_dir(folder.0.join("dump")).unwrap().map(|file| file.unwrap().path());
    let dumps: Vec<_> = names.filter(|path| path.extension().is_some_and(|e| e == "dump")).collect();
    let [dump] = &dumps[..] else { panic!("{dumps:?}") };
    assert!(std::fs::metadata(dump).unwrap().len() > 1000);
}
