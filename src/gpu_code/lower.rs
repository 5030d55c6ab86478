//! [`Func`] -> [`Code`]: blocks in their structure, values, conditions and exits.
//!
//! A value that another block than its own uses is kept in a variable; drivers turn these into values again. Registers
//! hold zero at the start of a run, as in a new unit.

use super::code::{Binary, Code, Id, Op, Scalar, Stmt, Type, Unary, Var};
use super::structure::{Jump, Structure, Visitor, Walk, ends_here};
use crate::ir::{self, BranchTest, Edge, Func, Inst, Mem, Node, ScalarUse, Terminator, Use, Value};
use crate::isa::float24::SMALLEST;
use crate::isa::numeric::Precision;
use crate::isa::{CondOp, PointwiseResult, Relation, Swizzle, VectorOp};

/// The lowering of one function.
pub(super) struct Lowering<'a> {
    pub(super) code: Code,
    pub(super) precision: Precision,
    func: &'a Func,
    /// The value of each node that is defined in this block, or everywhere.
    values: Vec<Option<Id>>,
    /// The nodes that are defined in this block only.
    local: Vec<Value>,
    /// The variables of nodes that cross blocks.
    vars: Vec<Option<Var>>,
    /// Nodes that arithmetic in float24 need not flush.
    normal: Vec<bool>,
    /// The number of the block that the path leads to.
    target: Option<Var>,
    /// A zero that the driver does not know, once it is used.
    zero: Option<Id>,
    /// The number of statements that all others follow.
    start: usize,
}

/// Blocks that stand in a loop of guards at most. SwiftShader takes minutes and gigabytes for one of 55. Of random
/// programs one in 200 has such a loop, of real ones none.
const MOST_FLAT: usize = 24;

/// The number of no block.
const NO_BLOCK: u32 = u32::MAX;

/// Lowers a function of a vertex program that does not emit. Fails if its blocks, whose number is given, neither nest nor
/// are few.
pub(super) fn lower(func: &Func, precision: Precision) -> Result<Code, usize> {
    let structure = Structure::new(func);
    if structure.flat && func.blocks.len() > MOST_FLAT {
        return Err(func.blocks.len());
    }
    let mut lowering = Lowering {
        code: Code::default(),
        precision,
        func,
        values: vec![None; func.nodes.len()],
        local: Vec::new(),
        vars: vec![None; func.nodes.len()],
        normal: vec![false; func.nodes.len()],
        target: None,
        zero: None,
        start: 0,
    };
    lowering.find_variables();
    lowering.find_normal();
    for n in (0..16).filter(|n| func.inputs_read() >> n & 1 != 0) {
        lowering.input(n);
    }
    lowering.start = lowering.code.body.len();
    if structure.has_targets() {
        let target = lowering.code.var(Type::UINT);
        lowering.target = Some(target);
        lowering.name_target(if structure.flat { 0 } else { NO_BLOCK });
    }
    if structure.flat {
        lowering.flat();
    } else {
        structure.walk(&mut lowering);
    }
    Ok(lowering.code)
}

/// Whether float24 flushes the result of an operation.
fn is_flushed(op: VectorOp) -> bool {
    match op {
        VectorOp::Pointwise(op) => op.result() != PointwiseResult::Source,
        VectorOp::Dot(_) => true,
        VectorOp::Dst | VectorOp::Litp => false,
    }
}

impl Visitor for Lowering<'_> {
    fn block(&mut self, walk: &mut Walk<'_>, block: usize) {
        self.insts(block);
        let func = self.func;
        match &func.blocks[block].term {
            Terminator::Exit(_) => {
                if !walk.is_last() {
                    self.code.stmt(Stmt::Return);
                }
            }
            Terminator::Goto(edge) => {
                let args = self.arguments(edge);
                self.edge(walk, block, edge, args);
            }
            Terminator::Branch { test, yes, no } => {
                let (yes_args, no_args) = (self.arguments(yes), self.arguments(no));
                let test = self.test(test);
                self.code.stmt(Stmt::If(test));
                self.edge(walk, block, yes, yes_args);
                self.code.stmt(Stmt::Else);
                self.edge(walk, block, no, no_args);
                self.end_if();
            }
        }
    }

    fn begin_guard(&mut self, block: usize) {
        self.guard(block as u32);
    }

    fn end_guard(&mut self) {
        self.code.stmt(Stmt::EndIf);
    }

    fn begin_loop(&mut self) {
        self.code.stmt(Stmt::Loop);
    }

    fn end_loop(&mut self) {
        self.code.stmt(Stmt::EndLoop);
    }

    fn onward(&mut self, to: usize, jump: Jump) {
        self.guard(to as u32);
        self.jump(jump);
        self.code.stmt(Stmt::EndIf);
    }
}

impl Lowering<'_> {
    fn edge(&mut self, walk: &mut Walk<'_>, block: usize, edge: &Edge, args: Vec<Id>) {
        if self.enters_exit(edge, args) {
            return;
        }
        let (jump, names) = walk.edge(block, edge.to);
        if names {
            self.name_target(edge.to as u32);
        }
        match jump {
            Jump::Arm => walk.arm(edge.to, self),
            jump => self.jump(jump),
        }
    }

    /// Sets the parameters of an edge's target. The target follows if it ends the run otherwise than by END.
    fn enters_exit(&mut self, edge: &Edge, args: Vec<Id>) -> bool {
        for (&param, arg) in self.func.blocks[edge.to].params.iter().zip(args) {
            let var = self.vars[param.0 as usize].expect("parameters have variables");
            self.code.stmt(Stmt::Set(var, arg));
        }
        let ends = ends_here(self.func, edge.to);
        if ends {
            self.insts(edge.to);
            self.code.stmt(Stmt::Return);
        }
        ends
    }

    /// The arguments of an edge, all read before any parameter is set.
    fn arguments(&mut self, edge: &Edge) -> Vec<Id> {
        edge.args.iter().map(|&arg| self.value(arg)).collect()
    }

    fn jump(&mut self, jump: Jump) {
        match jump {
            Jump::Break => self.code.stmt(Stmt::Break),
            Jump::Continue => self.code.stmt(Stmt::Continue),
            Jump::Fall | Jump::Arm => {}
        }
    }

    /// All blocks in a loop, each guarded.
    fn flat(&mut self) {
        self.code.stmt(Stmt::Loop);
        let func = self.func;
        for (number, block) in func.blocks.iter().enumerate().filter(|(number, _)| !ends_here(func, *number)) {
            self.guard(number as u32);
            self.insts(number);
            match &block.term {
                Terminator::Exit(_) => self.code.stmt(Stmt::Return),
                Terminator::Goto(edge) => {
                    let args = self.arguments(edge);
                    self.flat_edge(edge, args);
                }
                Terminator::Branch { test, yes, no } => {
                    let (yes_args, no_args) = (self.arguments(yes), self.arguments(no));
                    let test = self.test(test);
                    self.code.stmt(Stmt::If(test));
                    self.flat_edge(yes, yes_args);
                    self.code.stmt(Stmt::Else);
                    self.flat_edge(no, no_args);
                    self.end_if();
                }
            }
            self.code.stmt(Stmt::EndIf);
        }
        self.code.stmt(Stmt::EndLoop);
    }

    fn flat_edge(&mut self, edge: &Edge, args: Vec<Id>) {
        if !self.enters_exit(edge, args) {
            self.name_target(edge.to as u32);
        }
    }

    /// Ends an `if`, without its second side if that is empty.
    fn end_if(&mut self) {
        if self.code.body.last() == Some(&Stmt::Else) {
            self.code.body.pop();
        }
        self.code.stmt(Stmt::EndIf);
    }

    fn guard(&mut self, block: u32) {
        let target = self.target.expect("guarded blocks have a variable");
        let number = self.code.def(Op::Get(target));
        let here = self.code.with(Binary::Equal, number, block);
        self.code.stmt(Stmt::If(here));
    }

    fn name_target(&mut self, block: u32) {
        let number = self.code.uint(block);
        let target = self.target.expect("paths that pass a block have a variable");
        self.code.stmt(Stmt::Set(target, number));
    }

    fn insts(&mut self, block: usize) {
        for value in std::mem::take(&mut self.local) {
            self.values[value.0 as usize] = None;
        }
        let func = self.func;
        for (_, inst) in &func.blocks[block].insts {
            match *inst {
                Inst::Def(value) => {
                    let id = self.node(value);
                    self.remember(value, id);
                    if let Some(var) = self.vars[value.0 as usize] {
                        self.code.stmt(Stmt::Set(var, id));
                    }
                }
                Inst::Store(Mem::Out { n, .. }, value) => {
                    let id = self.value(value);
                    self.code.stmt(Stmt::Output(n, id));
                }
                Inst::Store(..) => {}
                Inst::Emit | Inst::Setemit(_) => unreachable!("vertex programs don't emit"),
            }
        }
    }

    fn remember(&mut self, value: Value, id: Id) {
        self.values[value.0 as usize] = Some(id);
        self.local.push(value);
    }

    /// Gives variables to parameters, and to values that another block uses.
    fn find_variables(&mut self) {
        let func = self.func;
        let mut home = vec![None; func.nodes.len()];
        for (number, block) in func.blocks.iter().enumerate() {
            for &param in &block.params {
                self.add_variable(param);
            }
            for (_, inst) in &block.insts {
                if let Inst::Def(value) = *inst {
                    home[value.0 as usize] = Some(number);
                }
            }
        }
        for (number, block) in func.blocks.iter().enumerate() {
            let mut uses = Vec::new();
            for (_, inst) in &block.insts {
                match *inst {
                    Inst::Def(value) => func.node(value).for_each_use(|used| uses.push(used)),
                    Inst::Store(_, value) => uses.push(value),
                    Inst::Emit | Inst::Setemit(_) => {}
                }
            }
            if let Terminator::Branch { test, .. } = &block.term {
                let mut test = *test;
                test.map_uses(|used| {
                    uses.push(used);
                    used
                });
            }
            block.term.edges().for_each(|edge| uses.extend(&edge.args));
            for used in uses {
                if home[used.0 as usize].is_some_and(|home| home != number) {
                    self.add_variable(used);
                }
            }
        }
    }

    fn add_variable(&mut self, value: Value) {
        if self.vars[value.0 as usize].is_none() {
            let ty = match self.func.node(value).ty() {
                ir::Type::Vec4 => Type::VEC4,
                ir::Type::Int => Type::UINT,
                ir::Type::Flag => Type::BOOL,
            };
            self.vars[value.0 as usize] = Some(self.code.var(ty));
        }
    }

    /// Finds vectors whose components are zero or normal float24 numbers: results of arithmetic, and what only moves
    /// them. Definitions come before uses, parameters aside.
    fn find_normal(&mut self) {
        for n in 0..self.func.nodes.len() {
            let is = |used: Value| self.normal[used.0 as usize];
            self.normal[n] = match self.func.nodes[n] {
                Node::Const(bits) => bits.iter().all(|&bits| bits == 0 || bits << 1 >= SMALLEST.to_bits() << 1),
                Node::Alu { op, src } => is_flushed(op) || src[..op.sources()].iter().all(|s| is(s.value)),
                Node::Scalar { .. } => true,
                Node::Merge { old, new, .. } => is(old) && is(new),
                Node::Load(_) => true,
                _ => false,
            };
        }
    }

    /// Whether arithmetic in float24 need not flush a node.
    pub(super) fn is_normal(&self, value: Value) -> bool {
        self.normal[value.0 as usize]
    }

    /// The value of a node, here.
    fn value(&mut self, value: Value) -> Id {
        if let Some(id) = self.values[value.0 as usize] {
            return id;
        }
        let id = match self.vars[value.0 as usize] {
            Some(var) => self.code.def(Op::Get(var)),
            None => self.node(value),
        };
        self.remember(value, id);
        id
    }

    /// Reads an input once, at the start.
    fn input(&mut self, n: u8) {
        let raw = self.code.def(Op::Input(n));
        let id = self.operand(raw);
        for (value, node) in self.func.nodes.iter().enumerate() {
            if *node == Node::Input(n) {
                self.values[value] = Some(id);
            }
        }
    }

    /// A vector source.
    pub(super) fn source(&mut self, source: &Use) -> Id {
        let id = self.value(source.value);
        let swizzle = source.swizzle.components().map(|c| c as u8);
        if let Some(bits) = self.code.constant(id) {
            let sign = if source.negate { 1 << 31 } else { 0 };
            return self.code.constant_of(Type::VEC4, swizzle.map(|c| bits[usize::from(c)] ^ sign));
        }
        let id = if source.swizzle == Swizzle::IDENTITY { id } else { self.code.def(Op::Shuffle(id, id, swizzle)) };
        if source.negate { self.code.unary(Unary::Negate, id) } else { id }
    }

    /// A scalar source.
    pub(super) fn scalar_source(&mut self, source: &ScalarUse) -> Id {
        let vector = self.value(source.value);
        let id = self.code.component(vector, source.component);
        if source.negate { self.code.unary(Unary::Negate, id) } else { id }
    }

    fn node(&mut self, value: Value) -> Id {
        match *self.func.node(value) {
            Node::Param(_) => unreachable!("parameters are variables"),
            Node::Const(bits) => self.constant(bits),
            Node::Int(number) => self.code.uint(number.cast_unsigned()),
            Node::Flag(flag) => self.code.constant_of(Type::BOOL, [flag.into(); 4]),
            Node::Input(_) => unreachable!("inputs are read at the start"),
            Node::Uniform(n) => {
                let number = self.code.uint(n.into());
                self.code.def(Op::FloatUniform(number))
            }
            Node::IntUniform { id, component } => self.code.def(Op::IntUniform { id, component }),
            Node::Load(mem) => match mem.ty() {
                ir::Type::Vec4 => self.constant([0; 4]),
                ir::Type::Int => self.code.uint(0),
                ir::Type::Flag => self.code.constant_of(Type::BOOL, [0; 4]),
            },
            Node::Offset(address) => {
                let address = self.value(address);
                // -128 to 127, moved to 0 to 255.
                let moved = self.code.with(Binary::Add, address, 128);
                let is_small = self.code.with(Binary::Less, moved, 256);
                let zero = self.code.uint(0);
                self.code.select(is_small, address, zero)
            }
            Node::Relative { base, offset } => self.relative(base, offset),
            Node::Alu { op, src } => self.vector(op, &src),
            Node::Scalar { op, src } => {
                let argument = self.scalar_source(&src);
                let is_flushed = self.is_normal(src.value) && !src.negate;
                let argument = self.flushed(argument, is_flushed);
                let result = self.scalar(op, argument);
                self.code.splat(result)
            }
            Node::Merge { mask, old, new } => {
                let (old, new) = (self.value(old), self.value(new));
                let from = |n: usize| if mask.has(n) { 4 + n as u8 } else { n as u8 };
                self.code.def(Op::Shuffle(old, new, [0, 1, 2, 3].map(from)))
            }
            Node::ToAddress(src) => {
                let x = self.scalar_source(&src);
                self.address(x)
            }
            Node::Compare { op, a, b } => {
                let (a, b) = (self.scalar_source(&a), self.scalar_source(&b));
                match op {
                    Relation::Eq => self.code.binary(Binary::FloatEqual, a, b),
                    Relation::Ne => {
                        let equal = self.code.binary(Binary::FloatEqual, a, b);
                        self.code.unary(Unary::Not, equal)
                    }
                    Relation::Lt => self.code.binary(Binary::FloatLess, a, b),
                    Relation::Le => self.code.binary(Binary::FloatLessEqual, a, b),
                    Relation::Gt => self.code.binary(Binary::FloatLess, b, a),
                    Relation::Ge => self.code.binary(Binary::FloatLessEqual, b, a),
                }
            }
            Node::Add(a, b) => {
                let (a, b) = (self.value(a), self.value(b));
                self.code.binary(Binary::Add, a, b)
            }
            Node::Flip(_) => unreachable!("vertex programs have one bank"),
        }
    }

    /// A constant vector. Its zeros are such that no driver folds sums and products with them: one takes `x + 0` for `x`
    /// and `x * 0` for 0, which is wrong for -0, NaN and negative numbers.
    fn constant(&mut self, bits: [u32; 4]) -> Id {
        if !bits.contains(&0) {
            return self.code.constant_of(Type::VEC4, bits);
        }
        let parts = bits.map(|bits| if bits == 0 { self.zero() } else { self.code.float(f32::from_bits(bits)) });
        self.code.def(Op::Vector(parts))
    }

    /// A zero that the driver does not know.
    pub(super) fn zero(&mut self) -> Id {
        if let Some(zero) = self.zero {
            return zero;
        }
        // There are sixteen booleans.
        let booleans = self.code.def_at(self.start, Op::BoolUniforms);
        let places = self.code.uint(16);
        let bits = self.code.def_at(self.start + 1, Op::Binary(Binary::ShiftRight, booleans, places));
        let zero = self.code.def_at(self.start + 2, Op::Unary(Unary::FromBits, bits));
        self.zero = Some(zero);
        zero
    }

    fn relative(&mut self, base: u8, offset: Value) -> Id {
        let offset = self.value(offset);
        let sum = self.code.with(Binary::Add, offset, base.into());
        let number = self.code.with(Binary::And, sum, 0x7F);
        let exists = self.code.with(Binary::Less, number, 96);
        // A driver may check bounds or not, so the number stays inside.
        let zero = self.code.uint(0);
        let number = self.code.select(exists, number, zero);
        let uniform = self.code.def(Op::FloatUniform(number));
        let ones = self.code.constant_of(Type::VEC4, [1.0f32.to_bits(); 4]);
        let exists = self.code.splat(exists);
        self.code.select(exists, uniform, ones)
    }

    /// Only -128 to 127 affects addressing, so -129 and 128 stand for everything beyond.
    fn address(&mut self, x: Id) -> Id {
        let [below, above] = [-129.0, 128.0].map(|limit| self.code.float(limit));
        let is_less = self.code.binary(Binary::FloatLess, x, above);
        let low = self.code.select(is_less, x, above);
        let is_greater = self.code.binary(Binary::FloatLess, below, low);
        let low = self.code.select(is_greater, low, below);
        let number = self.code.unary(Unary::Truncate, low);
        let nan = self.is_nan(x);
        let zero = self.code.uint(0);
        self.code.select(nan, zero, number)
    }

    fn test(&mut self, test: &BranchTest) -> Id {
        match *test {
            BranchTest::Flags { cond, x, y } => {
                let x = |this: &mut Self| this.flag(x, cond.ref_x);
                let y = |this: &mut Self| this.flag(y, cond.ref_y);
                match cond.op {
                    CondOp::X => x(self),
                    CondOp::Y => y(self),
                    CondOp::Or | CondOp::And => {
                        let (x, y) = (x(self), y(self));
                        let op = if cond.op == CondOp::Or { Binary::Either } else { Binary::Both };
                        self.code.binary(op, x, y)
                    }
                }
            }
            BranchTest::Bool { id, value } => {
                let all = self.code.def(Op::BoolUniforms);
                let bit = self.code.with(Binary::And, all, 1 << id);
                self.code.with(Binary::Equal, bit, u32::from(value) << id)
            }
            BranchTest::NonZero(value) => {
                let number = self.value(value);
                let is_zero = self.code.with(Binary::Equal, number, 0);
                self.code.unary(Unary::Not, is_zero)
            }
            BranchTest::AtLeast(value, least) => {
                let number = self.value(value);
                let least = self.code.uint(least.cast_unsigned());
                let less = self.code.binary(Binary::LessSigned, number, least);
                self.code.unary(Unary::Not, less)
            }
        }
    }

    fn flag(&mut self, value: Value, wanted: bool) -> Id {
        let flag = self.value(value);
        if wanted { flag } else { self.code.unary(Unary::Not, flag) }
    }

    /// Whether a float is NaN, from its bits: some drivers fold `x != x`.
    pub(super) fn is_nan(&mut self, x: Id) -> Id {
        let magnitude = self.magnitude(x);
        let infinity = self.code.like(x, Scalar::Uint, f32::INFINITY.to_bits());
        self.code.binary(Binary::Less, infinity, magnitude)
    }

    /// A float's bits without its sign.
    pub(super) fn magnitude(&mut self, x: Id) -> Id {
        let bits = self.code.unary(Unary::ToBits, x);
        self.code.with(Binary::And, bits, 0x7FFF_FFFF)
    }
}
