//! Whole draws, from guest memory to a consumer of triangles:
//! `cargo bench --bench draws [-- NAME] [--plot FILE]`, such as `-- strip` for the layouts of that
//! name.
//!
//! `Gpu::draw` beside a host that fetches each vertex, and beside two hand-written ceilings.
//! Nanoseconds a vertex, an index or a draw, the least of many samples; the ways take turns.

#[path = "../tools/command/src/draws.rs"]
mod draws;
#[path = "common/picture.rs"]
mod picture;
#[allow(dead_code)] // this bench uses a part
#[path = "../tools/command/src/plot.rs"]
mod plot;

use draws::Row;
use plot::{Group, Plot};

fn main() {
    // `cargo test --benches` only checks that this starts.
    let samples = if std::env::args().any(|a| a == "--bench") { 400 } else { 1 };
    let file = picture::file();
    let name = std::env::args().skip(1).find(|a| !a.starts_with('-') && file.as_ref() != Some(a)).unwrap_or_default();
    let rows = draws::measure(samples, &name);
    print!("{}", draws::table(&rows));
    if let Some(file) = file {
        draw(&rows, &file);
    }
}

/// Draws the times over those of the hand-written draws around the same kernel, by layout.
fn draw(rows: &[Row], file: &str) {
    let parts = |row: &Row| {
        let (layout, program) = row.name.split_once(", ").expect("layout and program");
        (layout.to_string(), program.to_string())
    };
    // Each layout is drawn with the same programs.
    let layouts: Vec<&[Row]> = rows.chunk_by(|a, b| parts(a).0 == parts(b).0).collect();
    let group = |rows: &&[Row]| {
        let over = |row: &Row, way: usize| Some(row.ns[way]? / row.ns[2]?);
        let bars = rows.iter().flat_map(|row| [over(row, 0), over(row, 1)]).collect();
        Group { title: parts(&rows[0]).0, bars, ceiling: None }
    };
    let groups: Vec<Group> = layouts.iter().map(group).collect();
    let programs = layouts.first().into_iter().copied().flatten().map(|row| parts(row).1);
    let series: Vec<String> =
        programs.flat_map(|program| ["Gpu::draw", "a host's fetch"].map(|way| format!("{way}, {program}"))).collect();
    let title = "Whole draws: time over that of hand-written fetch, map and assembly around the kernel";
    picture::draw(&Plot { title, one: "by hand", series: &series, groups: &groups, ceilings: None }, file);
}
