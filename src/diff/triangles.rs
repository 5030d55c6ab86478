//! A kernel's triangles -> a sequence with concatenation, comparison and a list of differences.
//!
//! Invariant: two sequences are equal if their counts and hashes are equal. The hash covers all
//! bits, with every NaN alike; the first few triangles are also stored for display.

use super::report::{ComparedValue, register_rows};
use crate::state::{EmitState, Emitter, Registers};

/// Triangles that are stored for display.
const STORED: usize = 4;

/// Triangles in the order they were sent.
#[derive(Default)]
pub(super) struct Triangles {
    pub(super) count: u32,
    /// Emitted vertices.
    pub(super) vertices: u32,
    stored: Vec<(Box<[Registers; 3]>, bool)>,
    /// A polynomial in [`BASE`] with one coefficient per triangle, so that hashes concatenate.
    hash: u64,
}

const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

impl Emitter for Triangles {
    fn vertex(&mut self, _: &Registers, _: EmitState) {
        self.vertices += 1;
    }

    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        if self.stored.len() < STORED {
            self.stored.push((Box::new(vertices.map(|v| *v)), winding));
        }
        let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        let components = vertices.iter().flat_map(|v| v.as_flattened()).map(bits);
        let coefficient = components.chain([u32::from(winding)]).fold(0, |h: u64, word| {
            let h = (h ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01B3);
            // Multiplication alone never moves upper bits down.
            h ^ h >> 32
        });
        self.hash = self.hash.wrapping_mul(BASE).wrapping_add(coefficient);
        self.count += 1;
    }
}

impl Triangles {
    /// Appends `later`.
    pub(super) fn append(&mut self, later: &Triangles) {
        let room = STORED - self.stored.len();
        // The stored triangles must be a prefix: append only if all of these are stored.
        if self.count as usize == self.stored.len() {
            self.stored.extend(later.stored.iter().take(room).cloned());
        }
        self.hash = self.hash.wrapping_mul(BASE.wrapping_pow(later.count)).wrapping_add(later.hash);
        self.count += later.count;
        self.vertices += later.vertices;
    }

    pub(super) fn same(&self, other: &Triangles) -> bool {
        self.count == other.count && self.hash == other.hash
    }

    pub(super) fn rows(&self, other: &Triangles) -> Vec<ComparedValue> {
        let mut rows = Vec::new();
        if self.same(other) {
            return rows;
        }
        if self.count != other.count {
            rows.push(ComparedValue::new("triangles", self.count, other.count));
        }
        for (n, ((a, a_winding), (b, b_winding))) in self.stored.iter().zip(&other.stored).enumerate() {
            if a_winding != b_winding {
                rows.push(ComparedValue::new(format!("triangle {n}: inverted"), a_winding, b_winding));
            }
            for (v, (a, b)) in a.iter().zip(b.iter()).enumerate() {
                rows.extend(register_rows(|r| format!("triangle {n}, vertex {v}: o{r}"), a, b));
            }
        }
        if rows.is_empty() {
            rows.push(ComparedValue::new(format!("triangles from {} on", self.stored.len()), "some", "others"));
        }
        rows
    }
}
