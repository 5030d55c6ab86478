//! What a kernel emits -> a sequence that can be put together with others, compared, and shown where it differs.
//!
//! Invariant: two sequences count as equal only if they are equal in number and in all bits, any NaN being every NaN;
//! the first few triangles are kept whole, of the others there is a hash. It must not know who emits.

use super::report::{ComparedValue, register_rows};
use crate::state::{Emitter, Registers};

/// Triangles that are kept whole; of the others there is a hash.
const KEPT: usize = 4;

/// Triangles in the order they were sent.
#[derive(Default)]
pub(super) struct Triangles {
    pub(super) count: u32,
    kept: Vec<(Box<[Registers; 3]>, bool)>,
    /// A polynomial in [`BASE`] with one coefficient a triangle, so that sequences can be put together.
    hash: u64,
}

const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

impl Emitter for Triangles {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        if self.kept.len() < KEPT {
            self.kept.push((Box::new(vertices.map(|v| *v)), winding));
        }
        let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        let components = vertices.iter().flat_map(|v| v.as_flattened()).map(bits);
        let coefficient = components.chain([u32::from(winding)]).fold(0, |h: u64, word| {
            let h = (h ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01B3);
            // Multiplying alone never brings upper bits down.
            h ^ h >> 32
        });
        self.hash = self.hash.wrapping_mul(BASE).wrapping_add(coefficient);
        self.count += 1;
    }
}

impl Triangles {
    /// Puts `later` behind these.
    pub(super) fn append(&mut self, later: &Triangles) {
        let room = KEPT - self.kept.len();
        // Those that were not kept on the way must not be skipped over.
        if self.count as usize == self.kept.len() {
            self.kept.extend(later.kept.iter().take(room).cloned());
        }
        self.hash = self.hash.wrapping_mul(BASE.wrapping_pow(later.count)).wrapping_add(later.hash);
        self.count += later.count;
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
        for (n, ((a, a_winding), (b, b_winding))) in self.kept.iter().zip(&other.kept).enumerate() {
            if a_winding != b_winding {
                rows.push(ComparedValue::new(format!("triangle {n}: inverted"), a_winding, b_winding));
            }
            for (v, (a, b)) in a.iter().zip(b.iter()).enumerate() {
                rows.extend(register_rows(|r| format!("triangle {n}, vertex {v}: o{r}"), a, b));
            }
        }
        if rows.is_empty() {
            rows.push(ComparedValue::new(format!("triangles from {} on", self.kept.len()), "some", "others"));
        }
        rows
    }
}
