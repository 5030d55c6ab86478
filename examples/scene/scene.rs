//! The scene -> a [`Recording`]: a sky, a floor, a knot with its shadow, and beads, each with
//! another method.
//!
//! | object | method |
//! |---|---|
//! | sky | immediate mode, a strip |
//! | floor | indices, a list; a part of it is behind the camera |
//! | shadow, knot | indices, a strip; the same arrays and program twice, with another boolean |
//! | beads | arrays; each point becomes a disc in the geometry program |

use super::maths::{Matrix, Vec3, circle, look, narrow, product, projection, rotation, unit};
use super::mesh::{self, STEPS};
use super::recorder::{Recorder, Shader};
use super::registers::*;
use picajit::gpu::RegisterFile as Reg;
use picajit::gpu::Topology;
use picajit::internals::recording::Recording;
use picajit::state::Vec4;
use picajit::text::AsmError;

/// Where memory begins: an address that linear memory of a console has.
const MEMORY: u32 = 0x2000_0000;

const EYE: Vec3 = [0.4, 2.75, 6.6];
const LOOK_AT: Vec3 = [0.0, 1.62, 0.0];
/// Cotangents of half the angles of view: the picture is 1.6 times as wide as high.
const ZOOM: [f64; 2] = [1.5, 2.4];
/// The middle of the knot.
const MIDDLE: Vec3 = [0.0, 2.0, 0.0];
const SUN: Vec3 = [-0.55, 0.8, 0.5];
const HAZE: [f32; 3] = [0.78, 0.80, 0.86];

/// Types of attributes, with how many components there are less 1.
const S8X3: u32 = 2 << 2;
const S8X4: u32 = 3 << 2;
const U8X3: u32 = 2 << 2 | 1;
const S16X3: u32 = 2 << 2 | 2;
const S16X4: u32 = 3 << 2 | 2;

/// Depth is tested and written where it is greater, all of the colour is written.
const DEPTH_TESTED: u32 = 0x1F61;
/// Only the colour is written.
const NO_DEPTH: u32 = 0x0F00;
const CULL_BACK: u32 = 2;

fn rows(matrix: &Matrix) -> [Vec4; 4] {
    matrix.map(narrow)
}

/// Records the scene. An error is one of the shaders beside this file.
pub fn record() -> Result<Recording, AsmError> {
    let mut r = Recorder::new(MEMORY);
    let view_projection = product(&projection(ZOOM, 0.25, 60.0), &look(EYE, LOOK_AT));
    r.note("All attributes are at offsets from the start of memory.");
    r.write(Reg::ATTRIBBUFFERS_LOC, MEMORY >> 3);
    r.write(Reg::START_DRAW_FUNC0, 1);
    sky(&mut r)?;
    floor(&mut r, &view_projection)?;
    knot(&mut r, &view_projection)?;
    beads(&mut r, &view_projection)?;
    Ok(r.finish())
}

/// One array of vertices of `stride` bytes, with an attribute of each format.
fn array(r: &mut Recorder, at: u32, stride: u32, formats: &[u32]) {
    let count = formats.len() as u32;
    let low = (0..).zip(formats).fold(0, |word, (n, format)| word | format << (4 * n));
    r.run(Reg::ATTRIBBUFFERS_FORMAT_LOW, &[low, (count - 1) << 28]);
    r.run(Reg::ATTRIBBUFFER0_OFFSET, &[at, 0x7654_3210, count << 28 | stride << 16 | 0xBA98]);
}

fn topology(r: &mut Recorder, topology: Topology) {
    r.write(Reg::PRIMITIVE_CONFIG, (topology as u32) << 8);
    r.write(Reg::RESTART_PRIMITIVE, 1);
}

/// A draw of arrays or, if there are any, of indices.
fn draw(r: &mut Recorder, indices: Option<u32>, count: u32) {
    r.write(Reg::NUMVERTICES, count);
    r.write(Reg::VERTEX_OFFSET, 0);
    r.write(Reg::START_DRAW_FUNC0, 0);
    match indices {
        Some(at) => {
            r.write(Reg::INDEXBUFFER_CONFIG, 1 << 31 | at);
            r.write(Reg::DRAWELEMENTS, 1);
        }
        None => r.write(Reg::DRAWARRAYS, 1),
    }
    r.write(Reg::START_DRAW_FUNC0, 1);
}

fn sky(r: &mut Recorder) -> Result<(), AsmError> {
    let shader = Shader::assemble("sky.v.pica", include_str!("sky.v.pica"))?;
    r.note("The sky: two triangles of immediate mode, behind everything.");
    r.bind(&shader, None, 2);
    r.write(FACECULLING_CONFIG, 0);
    r.write(DEPTH_COLOR_MASK, NO_DEPTH);
    topology(r, Topology::Strip);
    r.write(Reg::FIXEDATTRIB_INDEX, 15);
    let [red, green, blue] = HAZE;
    let low = [red, green, blue, 1.0];
    let high = [0.16, 0.26, 0.50, 1.0];
    // The horizon is a little above the middle.
    for (x, y, colour) in
        [(-1.0, -1.0, low), (1.0, -1.0, low), (-1.0, 0.15, low), (1.0, 0.15, low), (-1.0, 1.0, high), (1.0, 1.0, high)]
    {
        r.vertex(&[[x, y, 0.0, 1.0], colour]);
    }
    Ok(())
}

fn floor(r: &mut Recorder, view_projection: &Matrix) -> Result<(), AsmError> {
    let shader = Shader::assemble("floor.v.pica", include_str!("floor.v.pica"))?;
    let (vertices, indices) = mesh::floor();
    let at = r.store("floor: x, z, shade as s8", &vertices);
    let indices_at = r.store_indices("floor: u16 indices", &indices);
    r.note("The floor: tiles, a list by indices.");
    r.bind(&shader, None, 1);
    r.floats(&shader, "view_projection", &rows(view_projection));
    r.floats(&shader, "tile", &[[1.2, 0.0, 1.2, 0.0]]);
    r.floats(&shader, "tints", &[[0.27, 0.29, 0.34, 0.0], [0.33, 0.31, 0.27, 0.0]]);
    let [red, green, blue] = HAZE;
    r.floats(&shader, "haze", &[[red, green, blue, 1.0 / 120.0]]);
    r.write(FACECULLING_CONFIG, CULL_BACK);
    r.write(DEPTH_COLOR_MASK, DEPTH_TESTED);
    topology(r, Topology::List);
    array(r, at, 3, &[S8X3]);
    draw(r, Some(indices_at), indices.len() as u32);
    Ok(())
}

fn knot(r: &mut Recorder, view_projection: &Matrix) -> Result<(), AsmError> {
    let shader = Shader::assemble("knot.v.pica", include_str!("knot.v.pica"))?;
    let (vertices, indices) = mesh::knot();
    let at = r.store("knot: x, y, z as s16, normal and colour as s8", &vertices);
    let indices_at = r.store_indices("knot: u16 indices", &indices);
    r.note("The knot: a strip by indices. First its shadow, on the floor.");
    r.bind(&shader, None, 2);
    let turned = rotation([0.19, 0.06, 0.03]);
    let place: [Vec4; 3] = std::array::from_fn(|row| {
        let [x, y, z, _] = turned[row];
        narrow([x / STEPS, y / STEPS, z / STEPS, MIDDLE[row]])
    });
    let [x, y, z] = unit(SUN);
    let [eye_x, eye_y, eye_z] = EYE;
    r.floats(&shader, "view_projection", &rows(view_projection));
    r.floats(&shader, "place", &place);
    r.floats(&shader, "sun", &[narrow([x, y, z, 0.35])]);
    r.floats(&shader, "eye", &[narrow([eye_x, eye_y, eye_z, 0.0])]);
    let (one, other) = ([0.88, 0.30, 0.10], [0.95, 0.66, 0.14]);
    let difference = [0, 1, 2].map(|n| (other[n] - one[n]) / 127.0);
    let tint = |[red, green, blue]: Vec3| narrow([red, green, blue, 0.0]);
    r.floats(&shader, "tints", &[tint(one), tint(difference)]);
    r.floats(&shader, "gloss", &[[0.75, 0.72, 0.65, 26.0]]);
    r.floats(&shader, "rim", &[[0.16, 0.20, 0.32, 0.0]]);
    r.floats(&shader, "umbra", &[[0.15, 0.16, 0.20, 0.004]]);
    // The shadow is flat and may show either side, so nothing is culled.
    r.write(FACECULLING_CONFIG, 0);
    topology(r, Topology::Strip);
    array(r, at, 10, &[S16X3, S8X4]);
    r.boolean(&shader, "shadow", true);
    draw(r, Some(indices_at), indices.len() as u32);
    r.note("The knot itself: only the boolean uniform is another one.");
    r.boolean(&shader, "shadow", false);
    r.write(FACECULLING_CONFIG, CULL_BACK);
    r.write(Reg::RESTART_PRIMITIVE, 1);
    draw(r, Some(indices_at), indices.len() as u32);
    Ok(())
}

fn beads(r: &mut Recorder, view_projection: &Matrix) -> Result<(), AsmError> {
    let vertex = Shader::assemble("beads.v.pica", include_str!("beads.v.pica"))?;
    let geometry = Shader::assemble("beads.g.pica", include_str!("beads.g.pica"))?;
    let points = mesh::beads();
    let at = r.store("beads: x, y, z, radius as s16, colour as u8, a byte of nothing", &points);
    r.note("Beads: points that the geometry unit makes discs of.");
    r.bind(&vertex, Some(&geometry), 2);
    let moved = [0, 1, 2, 3].map(|row| {
        // The matrix contains the translation to the centre, so that the numbers stay small.
        let [x, y, z, w] = view_projection[row];
        narrow([x, y, z, w + x * MIDDLE[0] + y * MIDDLE[1] + z * MIDDLE[2]])
    });
    r.floats(&vertex, "view_projection", &moved);
    r.floats(&vertex, "scale", &[[(1.0 / STEPS) as f32; 4]]);
    let (spokes, highlight) = disc();
    r.floats(&geometry, "spokes", &spokes);
    r.floats(&geometry, "highlight", &[highlight]);
    topology(r, Topology::Geometry);
    array(r, at, 12, &[S16X4, U8X3]);
    draw(r, None, points.len() as u32 / 12);
    r.note("As it was.");
    r.run(Reg::GEOSTAGE_CONFIG, &[0]);
    r.write(Reg::VSH_COM_MODE, 0);
    Ok(())
}

/// The rim of a disc of radius 1 in clip coordinates, with its shades, and its highlight.
fn disc() -> ([Vec4; 13], Vec4) {
    let sun = unit([SUN[0], SUN[1], 0.0]);
    let spokes = std::array::from_fn(|n| {
        let (sin, cos) = circle((n % 12) as f64 / 12.0);
        narrow([ZOOM[0] * cos, ZOOM[1] * sin, 0.55 + 0.27 * (cos * sun[0] + sin * sun[1]), 0.0])
    });
    (spokes, narrow([ZOOM[0] * sun[0] * 0.4, ZOOM[1] * sun[1] * 0.4, 0.65, 0.0]))
}
