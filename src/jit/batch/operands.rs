//! Operands of SoA code: transposed inputs, hoisted values, earlier definitions.
//!
//! It must not know what is computed with them.

use crate::ir::analysis::{Components, XYZW};
use crate::ir::{Inst, Mem, Node, ScalarUse, Type, Use, Value};
use crate::jit::abi::VEC4;
use crate::jit::batch::{BatchLowering, BatchValue, Hoisted, inputs};
use crate::jit::emit::memory::constant_memory;
use crate::jit::emit::{ClifBuilder, Tails};
use cranelift_codegen::ir::{self as clif, InstBuilder, types};
use std::collections::HashMap;

impl BatchLowering<'_, '_> {
    /// Transposes the inputs that several blocks read, in a block that dominates them all.
    pub(crate) fn load_shared_inputs(&mut self) {
        let func = self.func;
        let mut readers: HashMap<u8, Vec<usize>> = HashMap::new();
        for (id, block) in func.blocks.iter().enumerate() {
            let mut read = |v: Value| {
                if let Node::Input(n) = *func.node(v) {
                    let blocks = readers.entry(n).or_default();
                    if blocks.last() != Some(&id) {
                        blocks.push(id);
                    }
                }
            };
            for (_, inst) in &block.insts {
                match inst {
                    Inst::Def(v) if self.plan.live[v.0 as usize] != 0 => func.node(*v).for_each_use(&mut read),
                    Inst::Store(_, v) => read(*v),
                    _ => {}
                }
            }
            block.term.edges().flat_map(|e| &e.args).for_each(|&v| read(v));
        }
        let mut shared: Vec<u8> = readers.into_iter().filter(|(_, blocks)| blocks.len() > 1).map(|(n, _)| n).collect();
        shared.sort_unstable();
        for n in shared {
            let components = self.input(n);
            self.shared_inputs.insert(n, components);
        }
    }

    /// In float24, loads those of these values that are inputs, so that the next guard covers their checks.
    pub(crate) fn load_inputs(&mut self, values: impl Iterator<Item = Value>) {
        if !self.plan.is_float24() {
            return;
        }
        for value in values {
            if let Node::Input(n) = *self.func.node(value)
                && self.plan.live[value.0 as usize] != 0
            {
                self.input(n);
            }
        }
    }

    /// The live components of an input.
    pub(crate) fn input(&mut self, n: u8) -> [Option<clif::Value>; 4] {
        if let Some(&components) = self.loaded.get(&n) {
            return components;
        }
        let leaf = self.func.nodes.iter().zip(&self.plan.live).filter(|(node, _)| **node == Node::Input(n));
        let live = leaf.fold(0, |live, (_, l)| live | l);
        let mut out = [None; 4];
        if live != 0 && self.rows.contains_key(&n) {
            let rows = self.aos_input(n);
            let columns = self.clif().transposed(rows, live);
            out = [0, 1, 2, 3].map(|c| (live >> c & 1 != 0).then_some(columns[c]).flatten());
            self.loaded.insert(n, out);
            return out;
        }
        if live.count_ones() == 1 {
            let c = live.trailing_zeros() as usize;
            let [x, rest @ ..] = self
                .inputs
                .vertices
                .map(|at| self.b.ins().load(types::F32, inputs(), at, i32::from(n) * VEC4 + 4 * c as i32));
            let mut all = self.b.ins().scalar_to_vector(types::F32X4, x);
            for (j, x) in rest.into_iter().enumerate() {
                all = self.b.ins().insertlane(all, x, j as u8 + 1);
            }
            out[c] = Some(all);
        } else if live != 0 {
            let vectors = self.raw_input(n);
            let columns = self.clif().transposed(vectors, live);
            out = [0, 1, 2, 3].map(|c| (live >> c & 1 != 0).then_some(columns[c]).flatten());
        }
        out = out.map(|column| column.map(|column| self.narrowed_input(column, XYZW)));
        self.loaded.insert(n, out);
        out
    }

    /// An input register of each vertex, AoS.
    pub(crate) fn aos_input(&mut self, n: u8) -> [clif::Value; 4] {
        if !self.plan.is_float24() {
            return self.raw_input(n);
        }
        if let Some(rows) = self.rows.get(&n) {
            return *rows;
        }
        let leaf = self.func.nodes.iter().zip(&self.plan.live_in_any_form);
        let live = leaf.filter(|(node, _)| **node == Node::Input(n)).fold(0, |live, (_, l)| live | l);
        let rows = self.raw_input(n).map(|row| self.narrowed_input(row, live));
        self.rows.insert(n, rows);
        rows
    }

    fn raw_input(&mut self, n: u8) -> [clif::Value; 4] {
        self.inputs.vertices.map(|at| self.b.ins().load(types::F32X4, inputs(), at, i32::from(n) * VEC4))
    }

    /// An input in the number format. In float24 these lanes must be in the band.
    fn narrowed_input(&mut self, raw: clif::Value, lanes: Components) -> clif::Value {
        if !self.plan.is_float24() {
            return raw;
        }
        let mut m = self.clif();
        let rounded = m.input(raw);
        m.record_operand(rounded, lanes, Tails::Rounded);
        rounded
    }

    /// Component `c` of a vector, SoA.
    pub(crate) fn component(&mut self, value: Value, c: u8) -> clif::Value {
        match *self.func.node(value) {
            Node::Const(bits) => self.clif().vector(types::F32X4, [bits[usize::from(c)]; 4]),
            Node::Input(n) => self.input(n)[usize::from(c)].expect("a component that is read is live"),
            Node::Uniform(n) => self.load_hoisted(Hoisted::Uniform(n, c)),
            Node::Load(Mem::Temp(n)) => self.load_hoisted(Hoisted::Temp(n, c)),
            Node::Load(Mem::Out { n, .. }) => self.load_hoisted(Hoisted::Out(n, c)),
            _ => match self.values[value.0 as usize] {
                Some(BatchValue::UniformAt(at, n)) => self.broadcast_uniform(at, n, c),
                Some(BatchValue::Vector(v)) => {
                    self.folding.renamed(v[usize::from(c)].expect("a component that is read is live"))
                }
                _ => unreachable!("verified: a vector that is defined before its use"),
            },
        }
    }

    /// Loads a hoisted value at its use: a load is cheaper than a register that stays live.
    pub(crate) fn load_hoisted(&mut self, value: Hoisted) -> clif::Value {
        let offset = self.hoisted[&value];
        self.folding.loads += 1;
        self.b.ins().load(types::F32X4, constant_memory(), self.stack, offset)
    }

    /// An integer or a flag; leaves are evaluated here.
    pub(crate) fn scalar(&mut self, value: Value) -> BatchValue {
        match *self.func.node(value) {
            Node::Int(n) => BatchValue::Uniform(self.b.ins().iconst(types::I32, i64::from(n as u32))),
            Node::Flag(f) => BatchValue::Uniform(self.b.ins().iconst(types::I8, i64::from(f))),
            Node::IntUniform { id, component } => {
                let offset = self.layout.i(id, component);
                BatchValue::Uniform(self.b.ins().uload8(types::I32, constant_memory(), self.uniforms, offset))
            }
            _ => self.values[value.0 as usize].expect("verified: defined before its use"),
        }
    }

    /// An integer or a flag as one lane per vertex; a flag as a mask.
    pub(crate) fn per_lane(&mut self, value: Value) -> clif::Value {
        let lowered = self.scalar(value);
        self.broadcast(lowered, self.func.node(value).ty())
    }

    /// The same of a value in CLIF.
    pub(crate) fn broadcast(&mut self, lowered: BatchValue, ty: Type) -> clif::Value {
        match lowered {
            BatchValue::Divergent(v) => v,
            BatchValue::Uniform(v) if ty == Type::Flag => {
                let wide = self.b.ins().uextend(types::I32, v);
                let all = self.b.ins().ineg(wide);
                self.b.ins().splat(types::I32X4, all)
            }
            BatchValue::Uniform(v) => self.b.ins().splat(types::I32X4, v),
            BatchValue::Vector(_) | BatchValue::UniformAt(..) | BatchValue::Address(_) | BatchValue::Addresses(_) => {
                unreachable!("verified: an integer that is no uniform index, or a flag")
            }
        }
    }

    /// Component `c` of a source after its swizzle and sign.
    pub(crate) fn source(&mut self, u: &Use, c: usize) -> clif::Value {
        let component = u.swizzle.component(c) as u8;
        match *self.func.node(u.value) {
            Node::Uniform(n) if u.negate && self.hoisted.contains_key(&Hoisted::Negative(n, component)) => {
                self.load_hoisted(Hoisted::Negative(n, component))
            }
            _ => {
                let v = self.component(u.value, component);
                if u.negate { self.b.ins().fneg(v) } else { v }
            }
        }
    }

    /// A scalar source, one lane per vertex.
    pub(crate) fn scalar_source(&mut self, l: &ScalarUse) -> clif::Value {
        let v = self.component(l.value, l.component);
        if l.negate { self.b.ins().fneg(v) } else { v }
    }
}

impl ClifBuilder<'_, '_> {
    /// Transposes four vectors; only the components `wanted`.
    pub(crate) fn transposed(
        &mut self,
        [a, b, c, d]: [clif::Value; 4],
        wanted: Components,
    ) -> [Option<clif::Value>; 4] {
        let mut columns = [None; 4];
        for (half, unpack) in [[0, 4, 1, 5], [2, 6, 3, 7]].into_iter().enumerate() {
            let (first, second) = (2 * half, 2 * half + 1);
            if wanted >> first & 3 == 0 {
                continue;
            }
            let (ab, cd) = (self.shuffle(a, b, unpack), self.shuffle(c, d, unpack));
            if wanted >> first & 1 != 0 {
                columns[first] = Some(self.shuffle(ab, cd, [0, 1, 4, 5]));
            }
            if wanted >> second & 1 != 0 {
                columns[second] = Some(self.shuffle(ab, cd, [2, 3, 6, 7]));
            }
        }
        columns
    }
}
