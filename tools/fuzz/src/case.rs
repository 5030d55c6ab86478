//! A test case: a program and everything that it runs on.
//!
//! A plain value that any code may change; it does not record how it was made. It does not name
//! engines.

use picajit::internals::diff::Work;
use picajit::internals::interp::{Interp, InterpKernel, Step};
use picajit::internals::kernel::{Config, Kernel, copy_registers};
use picajit::isa::numeric::same;
use picajit::program::{Entry, Program};
use picajit::state::{Exit, NoEmitter, Registers, Uniforms, Unit};
use std::sync::Arc;

/// The program, inputs and configuration of one comparison.
#[derive(Clone)]
pub struct Case {
    /// Origin as text: a seed, a file.
    pub name: String,
    /// The program.
    pub program: Arc<Program>,
    /// Its entry: address and stage.
    pub entry: Entry,
    /// Number format and fuel.
    pub config: Config,
    /// Its uniforms.
    pub uniforms: Uniforms,
    /// The unit before the first vertex.
    pub unit: Unit,
    /// The vertices.
    pub inputs: Vec<Registers>,
    /// Which `v` registers the vertices load; bit n is `vn`.
    pub input_mask: u16,
    /// Which `o` registers are copied out; bit n is `on`.
    pub output_mask: u16,
}

impl Case {
    /// The configuration of kernels.
    pub fn work(&self) -> Work<'_> {
        let Case { uniforms, unit, inputs, input_mask, output_mask, .. } = self;
        Work { uniforms, unit, inputs, input_mask: *input_mask, output_mask: *output_mask }
    }

    /// The interpreter's kernel.
    pub fn interp(&self) -> InterpKernel {
        Interp.kernel(&self.program, self.entry, &self.config)
    }

    /// The unit as the interpreter has it when vertex `n` begins, inputs loaded.
    pub fn unit_at(&self, n: usize) -> Unit {
        let kernel = self.interp();
        let mut unit = self.unit.clone();
        for (k, input) in self.inputs[..=n].iter().enumerate() {
            copy_registers(self.input_mask, input, &mut unit.v);
            if k < n {
                kernel.run(&self.uniforms, &mut unit, &mut NoEmitter);
            }
        }
        unit
    }

    /// Vertex `n` alone, with the registers that the vertices before it carry over on the
    /// interpreter.
    pub fn alone(&self, n: usize) -> Case {
        let unit = self.unit_at(n);
        Case { inputs: vec![unit.v], input_mask: u16::MAX, unit, ..self.clone() }
    }

    /// Calls `hook` for every instruction that the interpreter executes for the first vertex.
    pub fn trace(&self, hook: &mut dyn FnMut(Step<'_>)) -> Exit {
        self.trace_vertex(0, hook)
    }

    fn trace_vertex(&self, n: usize, hook: &mut dyn FnMut(Step<'_>)) -> Exit {
        let mut unit = self.unit_at(n);
        self.interp().run_traced(&self.uniforms, &mut unit, &mut NoEmitter, hook)
    }

    /// Whether vertices of a batch execute other instructions than the first one.
    pub fn has_divergent_vertices(&self) -> bool {
        let path = |n| {
            let mut path = Vec::new();
            self.trace_vertex(n, &mut |step| path.push(step.pc));
            path
        };
        let first = path(0);
        (1..self.inputs.len()).any(|n| path(n) != first)
    }

    /// Whether the first vertex writes outputs that do not depend on the unit's earlier contents,
    /// as group execution requires.
    pub fn is_independent(&self) -> bool {
        let first = self.unit_at(0);
        let other = Unit { v: first.v, bank: first.bank, ..Unit::new() };
        let kernel = self.interp();
        let [a, b] = [first, other].map(|before| {
            let mut after = before.clone();
            kernel.run(&self.uniforms, &mut after, &mut NoEmitter);
            (*before.outputs(), *after.outputs())
        });
        let bits = |file: &Registers, n: usize| file.as_flattened()[n];
        let untouched = |n: usize| same(bits(&a.0, n), bits(&a.1, n)) && same(bits(&b.0, n), bits(&b.1, n));
        let mut written = (0..a.0.as_flattened().len()).filter(|&n| !untouched(n)).peekable();
        written.peek().is_some() && written.all(|n| same(bits(&a.1, n), bits(&b.1, n)))
    }
}
