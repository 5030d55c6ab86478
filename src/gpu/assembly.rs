//! Vertices in order and a topology -> triangles.
//!
//! An incomplete primitive continues in the next draw, until
//! [`RESTART_PRIMITIVE`](super::registers::RESTART_PRIMITIVE) is written or the topology changes.
//! This file must not know where vertices come from.

use super::Sink;
use crate::semantics::{SEMANTICS, Semantics};

/// How vertices form triangles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// Every three vertices form one.
    #[default]
    List,
    /// Each vertex forms one with the two before it. The order preserves the front face.
    Strip,
    /// Each vertex forms one with its predecessor and the first.
    Fan,
    /// As [`Topology::List`]. Only here does a geometry program's winding flag count (observed on
    /// hardware: citra#2865).
    Geometry,
}

impl Topology {
    /// From `PRIMITIVE_CONFIG`, bits 9:8.
    pub fn from_register(word: u32) -> Topology {
        match word >> 8 & 3 {
            0 => Topology::List,
            1 => Topology::Strip,
            2 => Topology::Fan,
            _ => Topology::Geometry,
        }
    }
}

/// The vertices of an incomplete primitive.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The vertices that the next one may form a triangle with.
    pub vertices: [Semantics; 2],
    /// Number of these vertices.
    pub count: u8,
    /// Index of the vertex that the next vertex of a strip replaces (only bit 0 counts).
    pub oldest: u8,
}

impl Default for Assembly {
    fn default() -> Assembly {
        Assembly { vertices: [[0.0; SEMANTICS]; 2], count: 0, oldest: 0 }
    }
}

impl Assembly {
    /// Discards the incomplete primitive.
    pub(super) fn restart(&mut self) {
        (self.count, self.oldest) = (0, 0);
    }

    /// Adds a vertex and returns whether it completed a triangle. `winding` exchanges the first two
    /// vertices of that triangle, in [`Topology::Geometry`] only.
    pub(super) fn push(&mut self, topology: Topology, vertex: &Semantics, winding: bool, sink: &mut dyn Sink) -> bool {
        if self.count < 2 {
            self.vertices[usize::from(self.count)] = *vertex;
            self.count += 1;
            return false;
        }
        let [a, b] = &self.vertices;
        if winding && topology == Topology::Geometry {
            sink.triangle([b, a, vertex]);
        } else {
            sink.triangle([a, b, vertex]);
        }
        match topology {
            Topology::List | Topology::Geometry => self.restart(),
            Topology::Strip => {
                self.vertices[usize::from(self.oldest & 1)] = *vertex;
                self.oldest = self.oldest & 1 ^ 1;
            }
            Topology::Fan => self.vertices[1] = *vertex,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::miri_or;

    fn vertex(n: usize) -> Semantics {
        [n as f32; SEMANTICS]
    }

    fn assemble(topology: Topology, winding: bool, count: usize) -> Vec<[u32; 3]> {
        let (mut assembly, mut out) = (Assembly::default(), Vec::new());
        let completed = (0..count).filter(|&n| assembly.push(topology, &vertex(n), winding, &mut out)).count();
        assert_eq!(completed, out.len());
        out.iter().map(|t| t.map(|v| v[0] as u32)).collect()
    }

    #[test]
    fn each_topology_forms_its_triangles() {
        let list = [[0, 1, 2], [3, 4, 5]];
        assert_eq!(assemble(Topology::List, false, 8), list);
        assert_eq!(assemble(Topology::Geometry, false, 8), list);
        assert_eq!(assemble(Topology::Strip, false, 6), [[0, 1, 2], [2, 1, 3], [2, 3, 4], [4, 3, 5]]);
        assert_eq!(assemble(Topology::Fan, false, 5), [[0, 1, 2], [0, 2, 3], [0, 3, 4]]);
    }

    #[test]
    fn winding_counts_in_the_geometry_topology_only() {
        assert_eq!(assemble(Topology::Geometry, true, 6), [[1, 0, 2], [4, 3, 5]]);
        for topology in [Topology::List, Topology::Strip, Topology::Fan] {
            assert_eq!(assemble(topology, true, 5), assemble(topology, false, 5));
        }
    }

    #[test]
    fn any_saved_count_is_safe() {
        for count in (0..=u8::MAX).step_by(miri_or(85, 1)) {
            let mut assembly = Assembly { count, oldest: count, ..Assembly::default() };
            for topology in (0..4).map(|n| Topology::from_register(n << 8)) {
                (0..5).for_each(|n| {
                    assembly.push(topology, &vertex(n), false, &mut Vec::new());
                });
            }
        }
    }
}
