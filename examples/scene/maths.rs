//! Sines, vectors and matrices of the scene.
//!
//! Invariant: the same numbers on every machine. The platform's sine may differ in its last bit and
//! change the recording; so this file uses only sums, products, quotients and square roots, which
//! IEEE 754 defines exactly.

use picajit::state::Vec4;
use std::array::from_fn;
use std::f64::consts::TAU;

pub type Vec3 = [f64; 3];

/// Rows; a vector is a column to the right of it.
pub type Matrix = [[f64; 4]; 4];

/// Sine and cosine of a number of turns.
pub fn circle(turns: f64) -> (f64, f64) {
    let x = TAU * (turns - turns.round());
    // Taylor's series on half a turn to either side; its error is below 1e-12.
    let series = |first: f64, from: u32| {
        let (mut term, mut sum) = (first, first);
        for n in (from..from + 26).step_by(2) {
            term *= -x * x / f64::from(n * (n + 1));
            sum += term;
        }
        sum
    };
    (series(x, 2), series(1.0, 1))
}

pub fn add(a: Vec3, b: Vec3) -> Vec3 {
    from_fn(|n| a[n] + b[n])
}

pub fn scale(a: Vec3, by: f64) -> Vec3 {
    a.map(|x| x * by)
}

pub fn dot(a: Vec3, b: Vec3) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub fn unit(a: Vec3) -> Vec3 {
    scale(a, 1.0 / dot(a, a).sqrt())
}

pub fn product(a: &Matrix, b: &Matrix) -> Matrix {
    from_fn(|row| {
        let [x, y, z, w] = a[row];
        from_fn(|column| x * b[0][column] + y * b[1][column] + z * b[2][column] + w * b[3][column])
    })
}

/// Turns about x, then about y, then about z.
pub fn rotation(turns: Vec3) -> Matrix {
    let [x, y, z] = turns.map(circle);
    let about_x = [[1.0, 0.0, 0.0, 0.0], [0.0, x.1, -x.0, 0.0], [0.0, x.0, x.1, 0.0], [0.0, 0.0, 0.0, 1.0]];
    let about_y = [[y.1, 0.0, y.0, 0.0], [0.0, 1.0, 0.0, 0.0], [-y.0, 0.0, y.1, 0.0], [0.0, 0.0, 0.0, 1.0]];
    let about_z = [[z.1, -z.0, 0.0, 0.0], [z.0, z.1, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
    product(&about_z, &product(&about_y, &about_x))
}

/// From world to view coordinates: x right, y up, z backwards.
pub fn look(eye: Vec3, at: Vec3) -> Matrix {
    let back = unit(add(eye, scale(at, -1.0)));
    let right = unit(cross([0.0, 1.0, 0.0], back));
    let up = cross(back, right);
    let row = |axis: Vec3| [axis[0], axis[1], axis[2], -dot(axis, eye)];
    [row(right), row(up), row(back), [0.0, 0.0, 0.0, 1.0]]
}

/// From view to clip coordinates of the PICA200, in which z goes from -w (near) to 0 (far). `zoom`
/// is the cotangent of half the angle of view, in both directions.
pub fn projection(zoom: [f64; 2], near: f64, far: f64) -> Matrix {
    let a = near / (near - far);
    [[zoom[0], 0.0, 0.0, 0.0], [0.0, zoom[1], 0.0, 0.0], [0.0, 0.0, a, a * far], [0.0, 0.0, -1.0, 0.0]]
}

pub fn narrow(a: [f64; 4]) -> Vec4 {
    a.map(|x| x as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines_are_sines() {
        for n in -100..=100 {
            let turns = f64::from(n) / 37.0;
            let (sin, cos) = circle(turns);
            assert!((sin - (TAU * turns).sin()).abs() < 1e-11, "{turns}");
            assert!((cos - (TAU * turns).cos()).abs() < 1e-11, "{turns}");
        }
    }

    #[test]
    fn near_is_minus_w_and_far_is_0() {
        let p = projection([1.0, 1.0], 0.5, 20.0);
        let z_w = |z: f64| [2, 3].map(|row| p[row][2] * z + p[row][3]);
        assert!((z_w(-0.5)[0] + 0.5).abs() < 1e-12);
        assert!(z_w(-20.0)[0].abs() < 1e-12);
    }
}
