//! Whole draws, from guest memory to a consumer of triangles:
//! `cargo bench --bench draws [-- NAME] [--plot FILE]`, such as `-- strip` for the layouts of that
//! name.
//!
//! `Gpu::draw` beside a host that fetches each vertex, and beside two hand-written ceilings.
//! Nanoseconds a vertex, an index or a draw, the least of many samples; the ways take turns.

#[path = "../src/bin/picajit/draws.rs"]
mod draws;
#[allow(dead_code)] // this bench uses a part
#[path = "../src/bin/picajit/plot.rs"]
mod plot;

use draws::Row;
use plot::{Group, Plot};

fn main() {
    let (mut bench, mut name, mut file) = (false, String::new(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--bench" => bench = true,
            "--plot" => file = arguments.next(),
            option if option.starts_with('-') => {}
            _ => name = argument,
        }
    }
    // `cargo test --benches` only checks that this starts.
    let rows = draws::measure(if bench { 400 } else { 1 }, &name);
    print!("{}", draws::table(&rows));
    if let Some(file) = file {
        match std::fs::write(&file, picture(&rows)) {
            Ok(()) => println!("drawn: {file}"),
            Err(error) => println!("{file}: {error}"),
        }
    }
}

/// Times over those of the hand-written draws around the same kernel, by layout.
fn picture(rows: &[Row]) -> String {
    let parts: Vec<(&str, &str)> = rows.iter().filter_map(|row| row.name.split_once(", ")).collect();
    let mut programs: Vec<&str> = Vec::new();
    for &(_, program) in &parts {
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    let of = |layout: &str, program: &str| rows.iter().find(|row| row.name == format!("{layout}, {program}"));
    let mut groups: Vec<Group> = Vec::new();
    for &(layout, _) in &parts {
        if groups.last().is_some_and(|group| group.title == layout) {
            continue;
        }
        let bars = programs.iter().flat_map(|program| {
            let ns = of(layout, program).map(|row| row.ns);
            [0, 1].map(|way| ns.and_then(|ns| Some(ns[way]? / ns[2]?)))
        });
        groups.push(Group { title: layout.into(), bars: bars.collect(), ceiling: None });
    }
    let ways = ["Gpu::draw", "a host's fetch"];
    let series: Vec<String> = programs.iter().flat_map(|program| ways.map(|way| format!("{way}, {program}"))).collect();
    let title = "Whole draws: time over that of hand-written fetch, map and assembly around the kernel";
    Plot { title, one: "by hand", series: &series, groups: &groups, ceilings: None }.svg()
}
