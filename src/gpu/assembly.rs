//! Vertices in order and a topology -> triangles.
//!
//! Vertices of a draw are assembled by number ([`Assembler`]). Vertices that a geometry program
//! emits are assembled as they arrive ([`Assembly::push`]).
//!
//! An incomplete primitive continues in the next draw, until
//! [`RESTART_PRIMITIVE`](super::RegisterFile::RESTART_PRIMITIVE) is written or the topology changes.
//! This file must not know where vertices come from.

use super::Sink;
use super::vertex_format::VertexFormat;
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
#[repr(C)] // what most draws read comes first
pub struct Assembly {
    /// Number of vertices in `vertices`.
    pub count: u8,
    /// Index of the vertex that the next vertex of a strip replaces (only bit 0 counts).
    pub oldest: u8,
    /// The vertices that the next one may form a triangle with.
    pub vertices: [Semantics; 2],
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

    /// Number of vertices of the incomplete primitive, 0-2.
    pub(super) fn pending(&self) -> usize {
        usize::from(self.count).min(2)
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
            send([b, a, vertex], sink);
        } else {
            send([a, b, vertex], sink);
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

/// Sends one triangle in the sink's format.
fn send(vertices: [&Semantics; 3], sink: &mut dyn Sink) {
    const ONE: &[[u32; 3]] = &[[0, 1, 2]];
    let format = sink.format();
    if format == VertexFormat::default() {
        return sink.triangles(vertices.map(|v| *v).as_flattened(), ONE);
    }
    let mut numbers = vec![0.0; 3 * format.stride()];
    let rows = numbers.chunks_exact_mut(format.stride());
    rows.zip(vertices).for_each(|(row, vertex)| format.store(vertex, row));
    sink.triangles(&numbers, ONE);
}

/// Primitive assembly by the numbers of vertices: numbers in order -> triples of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Assembler {
    topology: Topology,
    /// As [`Assembly::vertices`].
    pending: [u32; 2],
    count: usize,
    oldest: u8,
}

impl Assembler {
    /// Continues an incomplete primitive, whose vertices are numbers 0 and 1.
    pub(super) fn new(topology: Topology, assembly: &Assembly) -> Assembler {
        Assembler { topology, pending: [0, 1], count: assembly.pending(), oldest: assembly.oldest & 1 }
    }

    /// Adds vertices in order. Returns the triangles that they complete: the numbers themselves, or
    /// the contents of `triangles`.
    pub(super) fn add<'a>(&mut self, mut ids: &'a [u32], triangles: &'a mut Vec<[u32; 3]>) -> &'a [[u32; 3]] {
        if let (Topology::List | Topology::Geometry, 0) = (self.topology, self.count) {
            let (whole, rest) = ids.as_chunks();
            self.restart_with(rest);
            return whole;
        }
        triangles.clear();
        while self.count < 2 {
            let Some((&id, rest)) = ids.split_first() else { return triangles };
            (self.pending[self.count], self.count, ids) = (id, self.count + 1, rest);
        }
        let [mut a, mut b] = self.pending;
        match self.topology {
            Topology::List | Topology::Geometry => {
                let Some((&id, rest)) = ids.split_first() else { return triangles };
                let (whole, rest) = rest.as_chunks();
                triangles.push([a, b, id]);
                triangles.extend_from_slice(whole);
                self.restart_with(rest);
                return triangles;
            }
            Topology::Strip => {
                // Pairs begin where the first vertex is the older one.
                let mut odd = ids;
                if self.oldest != 0
                    && let Some((&id, rest)) = ids.split_first()
                {
                    triangles.push([a, b, id]);
                    (b, odd) = (id, rest);
                    self.oldest = 0;
                }
                let (pairs, last) = odd.as_chunks();
                let start = triangles.len();
                triangles.resize(start + 2 * pairs.len(), [0; 3]);
                for (two, &[first, second]) in triangles[start..].as_chunks_mut().0.iter_mut().zip(pairs) {
                    *two = [[a, b, first], [first, b, second]];
                    (a, b) = (first, second);
                }
                if let [id] = *last {
                    triangles.push([a, b, id]);
                    a = id;
                    self.oldest = 1;
                }
            }
            Topology::Fan => {
                triangles.extend(ids.iter().map(|&id| [a, std::mem::replace(&mut b, id), id]));
            }
        }
        self.pending = [a, b];
        triangles
    }

    /// Adds a vertex. Returns the triangle that it completes. Unlike [`Assembler::add`], a loop around this
    /// touches little code.
    #[inline(always)]
    pub(super) fn push(&mut self, id: u32) -> Option<[u32; 3]> {
        if self.count < 2 {
            self.pending[self.count] = id;
            self.count += 1;
            return None;
        }
        let [a, b] = self.pending;
        // Compares: a `match` of four becomes a jump through a table, which is in no cache when a small draw
        // begins.
        if self.topology == Topology::List || self.topology == Topology::Geometry {
            (self.count, self.oldest) = (0, 0);
        } else {
            let is_strip = self.topology == Topology::Strip;
            self.pending[if is_strip { usize::from(self.oldest & 1) } else { 1 }] = id;
            self.oldest ^= u8::from(is_strip);
        }
        Some([a, b, id])
    }

    /// The vertices after the last triangle of a list.
    fn restart_with(&mut self, vertices: &[u32]) {
        self.pending[..vertices.len()].copy_from_slice(vertices);
        (self.count, self.oldest) = (vertices.len(), 0);
    }

    /// Whether a primitive is incomplete.
    #[inline(always)]
    pub(super) fn is_pending(&self) -> bool {
        self.count > 0
    }

    /// The numbers of the incomplete primitive's vertices.
    #[inline(always)]
    pub(super) fn pending(&self) -> [Option<u32>; 2] {
        std::array::from_fn(|n| (n < self.count).then_some(self.pending[n]))
    }

    /// Saves the incomplete primitive. `vertex` stores the vertices by number.
    pub(super) fn save(&self, assembly: &mut Assembly, mut vertex: impl FnMut(u32, &mut Semantics)) {
        let carried = assembly.pending();
        // Vertices exchange places.
        let old = (carried > 0).then_some(assembly.vertices);
        for (to, &id) in assembly.vertices.iter_mut().zip(&self.pending[..self.count]) {
            match old.as_ref().and_then(|old| old[..carried].get(id as usize)) {
                Some(old) => *to = *old,
                None => vertex(id, to),
            }
        }
        self.save_counts(assembly);
    }

    /// [`Assembler::save`] without the vertices.
    #[inline(always)]
    pub(super) fn save_counts(&self, assembly: &mut Assembly) {
        (assembly.count, assembly.oldest) = (self.count as u8, self.oldest);
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
        by_number(topology, winding, count, &out);
        out.iter().map(|t| t.map(|v| v[0] as u32)).collect()
    }

    /// Assembly by number forms the same triangles, wherever the vertices are split.
    fn by_number(topology: Topology, winding: bool, count: usize, want: &[[Semantics; 3]]) {
        if winding && topology == Topology::Geometry {
            return; // only a geometry program sets it
        }
        for split in 0..=count {
            let (mut assembly, mut got, mut start) = (Assembly::default(), Vec::new(), 0);
            for (n, end) in [split, count].into_iter().enumerate() {
                let carried = assembly.pending();
                let mut assembler = Assembler::new(topology, &assembly);
                let known: Vec<Semantics> = assembly.vertices[..carried].to_vec();
                let ids: Vec<u32> = (0..end - start).map(|id| (id + carried) as u32).collect();
                let at = |id: u32| match known.get(id as usize) {
                    Some(known) => *known,
                    None => vertex(start + id as usize - carried),
                };
                let half = ids.len() / (1 + n);
                for ids in [&ids[..half], &ids[half..]] {
                    let triangles = &mut Vec::new();
                    got.extend(assembler.add(ids, triangles).iter().map(|t| t.map(at)));
                }
                assembler.save(&mut assembly, |id, to| *to = at(id));
                start = end;
            }
            assert_eq!(got, want, "{topology:?} split at {split}");
        }
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
