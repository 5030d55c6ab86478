//! `picajit bench --frames`: recordings -> the times of their frames.

use crate::display::path_name;
use crate::frames::{self, Row, Times};
use crate::load::{self, LoadError};
use crate::report::{self, Progress};
use crate::{Status, VerbResult};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Largest text of a recording.
const MAX_TEXT: u64 = 64 << 20;

pub fn run(files: &[PathBuf], quick: bool, as_json: bool, out: &mut dyn Write) -> VerbResult {
    if cfg!(debug_assertions) {
        report::warning("times of a debug build mean little\nhelp: use cargo run --release");
    }
    if cfg!(not(feature = "jit")) {
        report::warning("without native code, no other code displaces the caches");
    }
    let (hot, cold) = if quick { (11, 3) } else { (101, 11) };
    let (mut rows, mut status) = (Vec::new(), Status::Fine);
    let progress = Progress::new(files.len() as u64, "frames");
    for path in files {
        match measure(path, hot, cold) {
            Ok(row) if as_json => writeln!(out, "{}", object(&row))?,
            Ok(row) => rows.push(row),
            Err(error) => {
                match error.downcast_ref::<LoadError>() {
                    Some(error) => error.report(),
                    None => report::error(error),
                }
                status = Status::Unusable;
            }
        }
        progress.add(1);
    }
    progress.finish();
    if !rows.is_empty() {
        write!(out, "{}", frames::table(&rows))?;
    }
    Ok(status)
}

fn measure(path: &Path, hot: usize, cold: usize) -> Result<Row, Box<dyn std::error::Error>> {
    let name = path_name(path);
    let bytes = load::read(path, MAX_TEXT)?;
    let text = load::text(&name, &bytes)?;
    let title = path.file_stem().map_or(name.clone(), |stem| path_name(Path::new(stem)));
    frames::measure(&title, &text, hot, cold).map_err(|error| format!("{name}: {error}").into())
}

fn object(row: &Row) -> Value {
    let Row { name, draws, vertices, writes, hot, cold } = row;
    let us = |ns: f64| (ns / 10.0).round() / 100.0;
    let times = |t: &Times| json!({ "writes_us": us(t.writes), "draws_us": us(t.draws) });
    let both = |[library, lean]: &[Times; 2]| {
        let ratio = (library.sum() / lean.sum().max(1.0) * 1000.0).round() / 1000.0;
        json!({ "picajit": times(library), "lean": times(lean), "ratio": ratio })
    };
    json!({
        "frame": name, "draws": draws, "vertices_per_draw": vertices, "writes": writes,
        "hot": both(hot), "cold": both(cold),
    })
}
