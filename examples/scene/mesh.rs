//! Shapes -> attribute arrays and indices, as bytes of guest memory.
//!
//! Invariant: triangles are counter-clockwise as seen from outside.

use super::maths::{Vec3, add, circle, cross, scale, unit};

/// Steps of a unit of length in the arrays of the knot and of the beads.
pub const STEPS: f64 = 4096.0;

/// Vertices around the knot's tube.
const SIDES: u16 = 16;
/// Rings of them along it.
const RINGS: u16 = 112;
/// Tiles along each side of the floor.
pub const TILES: i8 = 20;

/// A trefoil knot around the y axis, some 3.2 across, as one strip: three s16 of a point, four s8
/// of its normal and its colour (0 to 127) a vertex, and u16 indices.
///
/// The vertices lie on a helix around the tube, not on rings, so that one strip covers it.
pub fn knot() -> (Vec<u8>, Vec<u16>) {
    let (count, mut bytes) = (RINGS * SIDES, Vec::new());
    for n in 0..count {
        let along = f64::from(n) / f64::from(count);
        let (centre, out) = trefoil(along);
        let step = 1.0 / 4096.0;
        let tangent = unit(add(trefoil(along + step).0, scale(trefoil(along - step).0, -1.0)));
        // The torus turns three times around the curve; turned back, the sides run straight along
        // the tube.
        let (sin, cos) = circle(f64::from(n) / f64::from(SIDES) - 3.0 * along);
        let normal = unit(add(scale(out, cos), scale(cross(tangent, out), sin)));
        let point = add(centre, scale(normal, 0.24));
        point.iter().for_each(|x| bytes.extend(((x * STEPS).round() as i16).to_le_bytes()));
        let colour = 63.5 - 63.5 * circle(3.0 * along).1;
        normal.iter().for_each(|x| bytes.push((x * 127.0).round() as i8 as u8));
        bytes.push(colour.round() as u8);
    }
    let indices = (0..=count).flat_map(|n| [(n + SIDES) % count, n % count]).collect();
    (bytes, indices)
}

/// A point of the curve, and the outward direction of the torus that it is wound around.
fn trefoil(along: f64) -> (Vec3, Vec3) {
    let ((sin, cos), (sin3, cos3)) = (circle(2.0 * along), circle(3.0 * along));
    let out = [cos3 * cos, sin3, cos3 * sin];
    (add([cos, 0.0, sin], scale(out, 0.45)), out)
}

/// Tiles around the origin: three s8 of x, z and shade (0 or 1) a vertex, and u16 indices of
/// triangles.
pub fn floor() -> (Vec<u8>, Vec<u16>) {
    let (mut bytes, mut indices) = (Vec::new(), Vec::new());
    let half = TILES / 2;
    for (z, x) in (-half..half).flat_map(|z| (-half..half).map(move |x| (z, x))) {
        let first = (bytes.len() / 3) as u16;
        for (x, z) in [(x, z), (x, z + 1), (x + 1, z + 1), (x + 1, z)] {
            bytes.extend([x, z].map(|n| n as u8));
            // Neighbours share corners, not shades.
            bytes.push(0);
        }
        let shade = ((x + z) & 1) as u8;
        bytes.iter_mut().skip(usize::from(first) * 3).skip(2).step_by(3).for_each(|s| *s = shade);
        indices.extend([0, 1, 2, 0, 2, 3].map(|n| first + n));
    }
    (bytes, indices)
}

/// Beads on two rings around a centre: four s16 of a point and a radius, three u8 of a colour, and
/// a padding byte.
pub fn beads() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (ring, count) in [(0, 30), (1, 22)] {
        for n in 0..count {
            let turn = f64::from(n) / f64::from(count);
            // The torus turns three times around the curve; turned back, the sides run straight
            // along the tube.
            let (sin, cos) = circle(turn);
            let (wave, _) = circle(3.0 * turn);
            let (point, radius) = match ring {
                0 => ([2.35 * cos, 0.25 * wave + 0.55 * sin, 2.35 * sin], 0.105 + 0.035 * wave),
                _ => ([1.1 * sin, 1.8 * cos, 1.8 * sin], 0.075),
            };
            let numbers = [point[0], point[1], point[2], radius];
            numbers.iter().for_each(|x| bytes.extend(((x * STEPS).round() as i16).to_le_bytes()));
            let hue = |shift: f64| (150.0 + 105.0 * circle(turn + shift).1).round() as u8;
            bytes.extend([hue(0.0), hue(1.0 / 3.0), hue(2.0 / 3.0), 0]);
        }
    }
    bytes
}
