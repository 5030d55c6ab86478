//! A recorded list of register writes -> a picture: a minimal host of `picajit::gpu`.
//!
//! ```sh
//! cargo run --release --example scene -- out.png
//! ```
//!
//! | file | turns | into |
//! |---|---|---|
//! | `console` | a recording | a picture, by way of `picajit::gpu` |
//! | `registers` | | ids of registers outside the shader side |
//! | `clip`, `raster` | triangles | samples |
//! | `scene`, `recorder`, `mesh`, `maths` | the shaders beside this file (`*.pica`), shapes | a recording: `scene.txt` |
//!
//! `docs/examples.md` says more.

mod clip;
mod console;
mod maths;
mod mesh;
mod raster;
mod recorder;
mod registers;
mod scene;

#[cfg(test)]
mod tests;

use picajit::engine::{BackendChoice, Options};
use picajit::internals::recording::Recording;
use raster::Picture;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: scene [--interpreter] [--recording FILE] OUT.png
       scene --record [FILE]

Draws a recorded command list to a picture; --record makes the list afresh.";

/// The example's recording.
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/scene/scene.txt");
const SIZE: [usize; 2] = [800, 500];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["--record"] => record(Path::new(RECORDING)),
        ["--record", file] => record(Path::new(file)),
        _ => match parse(&arguments) {
            Some((backend, recording, out)) => draw(backend, &recording, &out),
            None => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[&str]) -> Option<(BackendChoice, PathBuf, PathBuf)> {
    let (mut backend, mut recording, mut out) = (BackendChoice::NativePreferred, PathBuf::from(RECORDING), None);
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--interpreter" => backend = BackendChoice::NoNative,
            "--recording" => recording = PathBuf::from(rest.next()?),
            _ if argument.starts_with('-') || out.is_some() => return None,
            _ => out = Some(PathBuf::from(argument)),
        }
    }
    Some((backend, recording, out?))
}

fn record(file: &Path) -> Result<(), Box<dyn Error>> {
    let recording = scene::record()?;
    std::fs::write(file, recording.to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
    let (list, memory) = (recording.list.words.len(), recording.memory.words.len());
    println!("{}: {list} words of commands, {memory} of memory", file.display());
    Ok(())
}

fn draw(backend: BackendChoice, file: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let recording: Recording = text.parse().map_err(|e| format!("{}: {e}", file.display()))?;
    let start = Instant::now();
    let (picture, outcome) = console::play(&recording, Options { backend, ..Options::default() }, SIZE);
    let time = start.elapsed();
    std::fs::write(out, png(&picture)?).map_err(|e| format!("{}: {e}", out.display()))?;
    let console::Rendering { vertices, reused, geometry_runs, triangles, ended_early, cut_short } = outcome;
    println!("{}: {triangles} triangles in {time:.1?}", out.display());
    println!("by index or array: {vertices} vertices run, {reused} reused, {geometry_runs} runs of the geometry unit");
    if ended_early {
        println!("a shader did not end with END");
    }
    if cut_short {
        println!("too much to draw: something was left out");
    }
    Ok(())
}

fn png(picture: &Picture) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let [width, height] = picture.size().map(|n| n as u32);
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&picture.pixels())?;
    writer.finish()?;
    Ok(bytes)
}
