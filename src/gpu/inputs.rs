//! A draw -> the input registers of its vertices, which do not run: for tools.
//!
//! This file must not depend on programs.

use super::fetch::indices::Indices;
use super::fetch::{Fetch, FetchPlan, Memory};
use super::registers::{NUMVERTICES, VERTEX_OFFSET};
use super::{Draw, Gpu};
use crate::isa::REGS;
use crate::state::Registers;
use std::collections::HashSet;

impl Gpu {
    /// The input registers of the first `limit` vertices of a draw: each vertex once, in the order
    /// in which the draw first names it.
    pub fn vertex_inputs(&self, draw: Draw, memory: &dyn Memory, limit: usize) -> Vec<Registers> {
        let registers = &self.state.registers;
        let count = registers.get(NUMVERTICES);
        let vertices: Vec<u64> = match draw {
            Draw::Arrays => {
                let first = u64::from(registers.get(VERTEX_OFFSET));
                (first..first + u64::from(count)).take(limit).collect()
            }
            Draw::Elements => {
                let indices = Indices::new(registers, memory, count);
                let mut known = HashSet::new();
                let all = (0..indices.len()).map(|n| u64::from(indices.get(n)));
                all.filter(|n| known.insert(*n)).take(limit).collect()
            }
        };
        let (Some(&least), Some(&greatest)) = (vertices.iter().min(), vertices.iter().max()) else { return Vec::new() };
        let plan = FetchPlan::new(registers);
        let fetch: Fetch<'_, '_> = Fetch::new(&plan, registers, memory, [least, greatest]);
        let inputs = |n: u64| {
            let mut to = [[0.0; 4]; REGS];
            plan.constants_of_vertex(&self.state.fixed.defaults, &mut to);
            fetch.vertex(n - least, &mut to);
            to
        };
        vertices.into_iter().map(inputs).collect()
    }
}
