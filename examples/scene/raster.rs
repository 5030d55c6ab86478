//! Triangles in clip coordinates -> a picture.
//!
//! A pixel is the mean of four samples. Corners are rounded to a grid of 1/256 of a sample;
//! coverage is exact integer arithmetic. Of two triangles that share an edge exactly one covers a
//! sample on it (the top-left rule), so there are neither cracks nor doubles. Depth is linear on
//! the screen, colour in the scene. Invariant: work is bounded by [`Picture::work_left`].

use super::clip::{Vertex, clip};

/// Samples of a pixel along each direction.
const FINE: usize = 2;
/// Grid lines of a sample.
const GRID: f64 = 256.0;

/// How triangles are drawn, from registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub culling: Culling,
    /// The comparison that a sample must pass, if there is one.
    pub depth_test: Option<Comparison>,
    pub writes_depth: bool,
    pub writes_colour: bool,
}

/// The culled side of triangles. The front is counter-clockwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Culling {
    #[default]
    None,
    Front,
    Back,
}

/// Comparison of a sample's depth with the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Never,
    Always,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn passes(self, new: f32, old: f32) -> bool {
        match self {
            Comparison::Never => false,
            Comparison::Always => true,
            Comparison::Equal => new == old,
            Comparison::NotEqual => new != old,
            Comparison::Less => new < old,
            Comparison::LessOrEqual => new <= old,
            Comparison::Greater => new > old,
            Comparison::GreaterOrEqual => new >= old,
        }
    }
}

/// Colour and depth of each sample.
pub struct Picture {
    width: usize,
    height: usize,
    colours: Vec<[u8; 3]>,
    depths: Vec<f32>,
    /// Samples that may still be tested. At 0 drawing stops.
    pub work_left: u64,
}

/// A corner on the screen.
#[derive(Clone, Copy)]
struct Corner {
    /// In grid lines, y downwards.
    x: i64,
    y: i64,
    /// From 0 (far) to 1 (near).
    depth: f64,
    inverse_w: f64,
    /// Over w.
    colour: [f64; 3],
}

impl Picture {
    /// A black picture of this size at the largest depth. The limit is 2048 pixels in each
    /// direction.
    pub fn new(width: usize, height: usize) -> Picture {
        let [width, height] = [width, height].map(|n| n.clamp(1, 2048) * FINE);
        let samples = width * height;
        // A scene tests each sample some ten times.
        let work_left = 100 * samples as u64;
        Picture { width, height, colours: vec![[0; 3]; samples], depths: vec![0.0; samples], work_left }
    }

    /// Draws the visible part of a triangle.
    pub fn triangle(&mut self, triangle: [Vertex; 3], style: Style) {
        if self.work_left == 0 {
            return;
        }
        let polygon = clip(triangle);
        let corners: Vec<Corner> = polygon.iter().map(|v| self.corner(v)).collect();
        for n in 2..corners.len() {
            self.fill([corners[0], corners[n - 1], corners[n]], style);
        }
    }

    fn corner(&self, &[x, y, z, w, red, green, blue, _]: &Vertex) -> Corner {
        let inverse_w = 1.0 / w;
        // Rounding of numbers of very different sizes may still leave a corner outside.
        let on_grid =
            |along: f64, size: usize| ((along.clamp(-1.0, 1.0) * 0.5 + 0.5) * size as f64 * GRID).round() as i64;
        Corner {
            x: on_grid(x * inverse_w, self.width),
            y: on_grid(-y * inverse_w, self.height),
            depth: -z * inverse_w,
            inverse_w,
            colour: [red, green, blue].map(|c| c * inverse_w),
        }
    }

    fn fill(&mut self, [a, mut b, mut c]: [Corner; 3], style: Style) {
        // y is downwards, so a counter-clockwise triangle of the scene has a negative area.
        let area = edge(a, b, c.x, c.y);
        let culled = match style.culling {
            Culling::None => false,
            Culling::Front => area < 0,
            Culling::Back => area > 0,
        };
        if area == 0 || culled {
            return;
        }
        if area < 0 {
            (b, c) = (c, b);
        }
        let area = area.abs() as f64;
        let (grid, half) = (GRID as i64, GRID as i64 / 2);
        let range = |numbers: [i64; 3], size: usize| {
            let (low, high) = numbers.iter().fold((i64::MAX, i64::MIN), |(l, h), &n| (l.min(n), h.max(n)));
            let first = (low - half).div_euclid(grid).clamp(0, size as i64);
            first..((high + half).div_euclid(grid) + 1).clamp(first, size as i64)
        };
        let (xs, ys) = (range([a.x, b.x, c.x], self.width), range([a.y, b.y, c.y], self.height));
        let work = (xs.end - xs.start) as u64 * (ys.end - ys.start) as u64;
        if work > self.work_left {
            self.work_left = 0;
            return;
        }
        self.work_left -= work;

        let edges = [(b, c), (c, a), (a, b)];
        // A sample on an edge belongs to the triangle whose top or left edge it is.
        let least = edges.map(|(p, q)| i64::from(!(q.y < p.y || q.y == p.y && q.x > p.x)));
        let step = edges.map(|(p, q)| -(q.y - p.y) * grid);
        for y in ys {
            let mut sides = edges.map(|(p, q)| edge(p, q, xs.start * grid + half, y * grid + half));
            for x in xs.clone() {
                if sides[0] >= least[0] && sides[1] >= least[1] && sides[2] >= least[2] {
                    let parts = sides.map(|side| side as f64 / area);
                    self.sample(y as usize * self.width + x as usize, parts, [&a, &b, &c], style);
                }
                (0..3).for_each(|n| sides[n] += step[n]);
            }
        }
    }

    fn sample(&mut self, at: usize, parts: [f64; 3], [a, b, c]: [&Corner; 3], style: Style) {
        let mix = |a: f64, b: f64, c: f64| parts[0] * a + parts[1] * b + parts[2] * c;
        if let Some(comparison) = style.depth_test {
            let depth = mix(a.depth, b.depth, c.depth) as f32;
            if !comparison.passes(depth, self.depths[at]) {
                return;
            }
            if style.writes_depth {
                self.depths[at] = depth;
            }
        }
        if style.writes_colour {
            let w = 1.0 / mix(a.inverse_w, b.inverse_w, c.inverse_w);
            self.colours[at] =
                std::array::from_fn(|n| (mix(a.colour[n], b.colour[n], c.colour[n]) * w * 255.0).round() as u8);
        }
    }

    /// Width and height in pixels.
    pub fn size(&self) -> [usize; 2] {
        [self.width / FINE, self.height / FINE]
    }

    /// Red, green and blue of each pixel, row by row from the top.
    pub fn pixels(&self) -> Vec<u8> {
        let [width, height] = self.size();
        let samples = (FINE * FINE) as u32;
        let mut bytes = Vec::with_capacity(3 * width * height);
        for (y, x, channel) in (0..height).flat_map(|y| (0..width).flat_map(move |x| [0, 1, 2].map(|n| (y, x, n)))) {
            let rows = (0..FINE).map(|row| (y * FINE + row) * self.width + x * FINE);
            let sum: u32 = rows.flat_map(|at| &self.colours[at..at + FINE]).map(|c| u32::from(c[channel])).sum();
            bytes.push(((sum + samples / 2) / samples) as u8);
        }
        bytes
    }
}

/// Twice the area of the triangle that the edge makes with a point; above 0 if they are clockwise
/// as seen.
fn edge(p: Corner, q: Corner, x: i64, y: i64) -> i64 {
    (q.x - p.x) * (y - p.y) - (q.y - p.y) * (x - p.x)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { culling: Culling::None, depth_test: None, writes_depth: false, writes_colour: true };
    const DEEP: Style = Style { depth_test: Some(Comparison::Greater), writes_depth: true, ..PLAIN };

    fn at(x: f64, y: f64, w: f64, grey: f64) -> Vertex {
        [x * w, y * w, -0.5, w, grey, grey, grey, 1.0]
    }

    fn red(picture: &Picture, x: usize, y: usize) -> u8 {
        picture.pixels()[3 * (y * picture.size()[0] + x)]
    }

    /// How often each sample is drawn, by triangles in sequence.
    fn cover(triangles: &[[Vertex; 3]]) -> Vec<u32> {
        let mut counts = vec![0; 64 * 64];
        for &triangle in triangles {
            let mut picture = Picture::new(32, 32);
            picture.triangle(triangle, PLAIN);
            counts.iter_mut().zip(&picture.colours).for_each(|(n, c)| *n += u32::from(c[0] > 0));
        }
        counts
    }

    #[test]
    fn every_sample_belongs_to_one_triangle_of_a_mesh() {
        let mut noise = 1_u32;
        let mut number = || {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(noise >> 8) / f64::from(1 << 24) * 1.6 - 0.8
        };
        for round in 0..40 {
            // Around a point somewhere, on a sample or not; corners of the picture, and some beyond
            // it.
            let centre = if round % 4 == 0 { [1.0 / 64.0, 1.0 / 64.0] } else { [number(), number()] };
            let reach = if round % 3 == 0 { 3.0 } else { 1.0 };
            // Corners, and points level with the centre, so that edges also go straight through
            // samples.
            let ([x, y], r) = (centre, reach);
            let rim = [[-r, -r], [x, -r], [r, -r], [r, y], [r, r], [x, r], [-r, r], [-r, y]];
            let rim = rim.map(|[x, y]| at(x, y, 1.0, 1.0));
            let fan: Vec<_> = (0..8).map(|n| [at(x, y, 1.5, 1.0), rim[n], rim[(n + 1) % 8]]).collect();
            assert!(cover(&fan).iter().all(|&n| n == 1), "around {centre:?}");
        }
    }

    #[test]
    fn up_is_up_and_right_is_right() {
        let mut picture = Picture::new(32, 32);
        picture.triangle([at(0.5, 0.5, 1.0, 1.0), at(1.0, 0.5, 1.0, 1.0), at(0.5, 1.0, 1.0, 1.0)], PLAIN);
        assert_eq!([(25, 6), (6, 6), (6, 25), (25, 25)].map(|(x, y)| red(&picture, x, y)), [255, 0, 0, 0]);
    }

    #[test]
    fn one_side_is_culled() {
        let counter_clockwise = [at(-1.0, -1.0, 1.0, 1.0), at(1.0, -1.0, 1.0, 1.0), at(0.0, 1.0, 1.0, 1.0)];
        let [a, b, c] = counter_clockwise;
        let seen = |triangle, culling| {
            let mut picture = Picture::new(8, 8);
            picture.triangle(triangle, Style { culling, ..PLAIN });
            red(&picture, 4, 4) != 0
        };
        assert_eq!(
            [Culling::None, Culling::Front, Culling::Back].map(|c| seen(counter_clockwise, c)),
            [true, false, true]
        );
        assert_eq!([Culling::None, Culling::Front, Culling::Back].map(|x| seen([c, b, a], x)), [true, true, false]);
    }

    #[test]
    fn the_nearer_one_is_seen_in_either_order() {
        let plane = |z: f64, grey: f64| {
            [[-1.0, -1.0], [3.0, -1.0], [-1.0, 3.0]].map(|[x, y]| [x, y, z, 1.0, grey, grey, grey, 1.0])
        };
        for order in [[(-0.9, 1.0), (-0.1, 0.2)], [(-0.1, 0.2), (-0.9, 1.0)]] {
            let mut picture = Picture::new(8, 8);
            order.iter().for_each(|&(z, grey)| picture.triangle(plane(z, grey), DEEP));
            assert_eq!(red(&picture, 4, 4), 255, "{order:?}");
        }
    }

    #[test]
    fn colour_is_linear_in_the_scene() {
        // Black near (w 1) to white far (w 3): in the middle of the screen a quarter of the way.
        let mut picture = Picture::new(101, 9);
        let [a, b] =
            [(-1.0, 1.0, 0.0), (1.0, 3.0, 1.0)].map(|(x, w, grey)| [at(x, -1.0, w, grey), at(x, 1.0, w, grey)]);
        picture.triangle([a[0], b[0], b[1]], PLAIN);
        picture.triangle([a[0], b[1], a[1]], PLAIN);
        assert_eq!(red(&picture, 50, 4), 64);
    }

    #[test]
    fn numbers_of_any_size_do_no_harm() {
        let mut noise = 1_u64;
        let mut number = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Of few sizes, so that sums cancel out.
            let size = [0.0, 1e-40, 0.7, 1e17, 3e38, 3e38, 1.0, f64::NAN][(noise >> 33) as usize % 701 / 100];
            size * f64::from((noise >> 45) as i8)
        };
        for _ in 0..100_000 {
            let triangle = [0; 3].map(|_| std::array::from_fn(|_| number()));
            Picture::new(2, 2).triangle(triangle, DEEP);
        }
    }

    #[test]
    fn work_ends() {
        let mut picture = Picture::new(16, 16);
        let all = [at(-1.0, -1.0, 1.0, 1.0), at(3.0, -1.0, 1.0, 1.0), at(-1.0, 3.0, 1.0, 1.0)];
        (0..1000).for_each(|_| picture.triangle(all, PLAIN));
        assert_eq!(picture.work_left, 0);
    }
}
