//! A triangle in clip coordinates -> its visible part, a convex polygon.
//!
//! Invariant: the result has finite numbers, w above 0, and lies inside the volume, up to rounding.
//! Two triangles that share an edge are cut at the same points of it, bit by bit, so no crack
//! opens.

/// Position x y z w, then colour r g b a.
pub type Vertex = [f64; 8];

/// Planes of the PICA200's volume: x and y from -w to w, z from -w (near) to 0 (far). The plane w =
/// 0 comes first.
const PLANES: [fn(&Vertex) -> f64; 7] =
    [|v| v[3] - 1e-9, |v| v[2] + v[3], |v| -v[2], |v| v[3] + v[0], |v| v[3] - v[0], |v| v[3] + v[1], |v| v[3] - v[1]];

/// Vertices of the visible part, in order; none if it is empty.
pub fn clip(triangle: [Vertex; 3]) -> Vec<Vertex> {
    let mut polygon = triangle.to_vec();
    if triangle.iter().flatten().any(|x| !x.is_finite()) {
        polygon.clear();
    }
    for plane in PLANES {
        if polygon.iter().all(|v| plane(v) >= 0.0) {
            continue;
        }
        let mut seen = Vec::with_capacity(polygon.len() + 1);
        for (n, vertex) in polygon.iter().enumerate() {
            let next = &polygon[(n + 1) % polygon.len()];
            let (here, there) = (plane(vertex), plane(next));
            if here >= 0.0 {
                seen.push(*vertex);
            }
            // From inside to outside, in either direction of the edge.
            match (here >= 0.0, there >= 0.0) {
                (true, false) => seen.push(between(vertex, next, here / (here - there))),
                (false, true) => seen.push(between(next, vertex, there / (there - here))),
                _ => {}
            }
        }
        polygon = seen;
    }
    polygon
}

fn between(a: &Vertex, b: &Vertex, t: f64) -> Vertex {
    std::array::from_fn(|n| a[n] + (b[n] - a[n]) * t)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f64, y: f64, z: f64, w: f64) -> Vertex {
        [x, y, z, w, x, 0.0, 0.0, 1.0]
    }

    #[test]
    fn what_is_inside_stays_and_what_is_outside_goes() {
        let inside = [at(0.0, 0.0, -0.5, 1.0), at(1.0, 0.0, -0.5, 1.0), at(0.0, 1.0, -1.0, 1.0)];
        assert_eq!(clip(inside), inside);
        assert_eq!(clip(inside.map(|v| at(v[0], v[1], 0.5, 1.0))), [] as [Vertex; 0], "behind the far plane");
        assert_eq!(clip(inside.map(|v| at(v[0], v[1], v[2], -1.0))), [] as [Vertex; 0], "behind the eye");
        assert_eq!(clip(inside.map(|v| at(v[0], v[1], f64::NAN, 1.0))), [] as [Vertex; 0]);
    }

    #[test]
    fn the_near_plane_cuts_where_it_is() {
        // Along the edges z + w goes from 1 to -1, so they are cut in the middle, colours too.
        let got = clip([at(-0.2, 0.0, -1.0, 2.0), at(0.2, 0.0, -1.0, 2.0), at(0.4, 0.4, -1.5, 0.5)]);
        assert_eq!(got.len(), 4);
        let [x, y, z, w, red, ..] = got[2];
        assert!([x - 0.3, y - 0.2, z + 1.25, w - 1.25, red - 0.3].iter().all(|d| d.abs() < 1e-12), "{got:?}");
        assert!(got.iter().all(|v| v[2] + v[3] >= -1e-12));
    }

    #[test]
    fn a_shared_edge_is_cut_at_the_same_point() {
        let (a, b) = (at(0.1, 0.3, -0.7, 1.3), at(0.37, -0.4, -3.1, 0.9));
        let ways = [clip([a, b, at(0.0, 0.0, -0.1, 1.0)]), clip([b, a, at(1.0, 0.0, -0.1, 1.0)])];
        let cuts = ways.map(|polygon| polygon.into_iter().filter(|v| (v[2] + v[3]).abs() < 1e-12).collect::<Vec<_>>());
        assert!(cuts[0].iter().any(|v| cuts[1].contains(v)), "{cuts:?}");
    }
}
