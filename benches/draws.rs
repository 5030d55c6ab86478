//! Whole draws, from guest memory to a consumer of triangles: `cargo bench --bench draws`, or
//! `cargo bench --bench draws -- strip` for the layouts of that name.
//!
//! `Gpu::draw` beside a host that fetches each vertex, and beside two hand-written ceilings.
//! Nanoseconds a vertex, an index or a draw, the least of many samples; the ways take turns.

#[path = "../src/bin/picajit/draws.rs"]
mod draws;

fn main() {
    // `cargo test --benches` only checks that this starts.
    let samples = if std::env::args().any(|a| a == "--bench") { 400 } else { 1 };
    let name = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    print!("{}", draws::table(&draws::measure(samples, &name)));
}
