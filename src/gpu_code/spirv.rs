//! [`Code`] -> SPIR-V 1.3, for Vulkan 1.1 and later.
//!
//! The program is a function of its own, since a run may end anywhere; `main` calls it and hands the outputs on.
//! Every sum and product is decorated `NoContraction`.

use super::code::{Binary, Code, Id, Op, Scalar, Stmt, Type, Unary, Var};
use super::interface::{Clip, Control, Device, Inputs, Integers, Interface, Member, Outputs};
use foldhash::quality::RandomState;
use std::collections::HashMap;

mod number;
mod surroundings;

use number as n;

const MAGIC: u32 = 0x0723_0203;
const VERSION: u32 = 0x0001_0300;
/// Vertices of a compute program's group.
const GROUP: u32 = 64;

/// The words of a module.
pub(super) fn write(code: &Code, outputs: u16, interface: &Interface, device: &Device) -> Vec<u32> {
    let mut writer = Writer::new(code, outputs, interface, device);
    writer.module();
    writer.words()
}

/// The sections of a module, in their order.
#[derive(Default)]
struct Sections {
    head: Vec<u32>,
    decorations: Vec<u32>,
    globals: Vec<u32>,
    functions: Vec<u32>,
}

struct Writer<'a> {
    code: &'a Code,
    interface: &'a Interface,
    device: &'a Device,
    outputs: u16,
    sections: Sections,
    next: u32,
    /// The identifiers of the code's values and variables are these and the following.
    values: u32,
    vars: u32,
    /// Types, pointers and integer constants, by their words without the identifier.
    known: HashMap<[u32; 6], u32, RandomState>,
    /// The seven types of values.
    types: [u32; 6],
    glsl: u32,
    /// Global variables.
    uniforms: Option<u32>,
    inputs: [u32; 16],
    input_buffer: u32,
    vertex: u32,
    private: [u32; 16],
    /// The interface variables of the entry point.
    listed: Vec<u32>,
    /// The merge block of each open `if`, and whether its second side began; of each open loop merge and continue.
    open: Vec<Open>,
    terminated: bool,
}

#[derive(Clone, Copy)]
enum Open {
    If { other: u32, merge: u32 },
    Loop { header: u32, proceed: u32, merge: u32 },
}

impl<'a> Writer<'a> {
    fn new(code: &'a Code, outputs: u16, interface: &'a Interface, device: &'a Device) -> Writer<'a> {
        let values = 1;
        let vars = values + code.ops.len() as u32;
        Writer {
            code,
            interface,
            device,
            outputs,
            sections: Sections::default(),
            next: vars + code.vars.len() as u32,
            values,
            vars,
            known: HashMap::default(),
            types: [0; 6],
            glsl: 0,
            uniforms: None,
            inputs: [0; 16],
            input_buffer: 0,
            vertex: 0,
            private: [0; 16],
            listed: Vec::new(),
            open: Vec::new(),
            terminated: false,
        }
    }

    fn words(self) -> Vec<u32> {
        let Sections { head, decorations, globals, functions } = self.sections;
        let header = vec![MAGIC, VERSION, 0, self.next, 0];
        [header, head, decorations, globals, functions].concat()
    }

    fn id(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn module(&mut self) {
        self.glsl = self.id();
        self.constants();
        let void = self.global(n::TYPE_VOID, &[]);
        let function = self.global(n::TYPE_FUNCTION, &[void]);
        let (main, program) = (self.id(), self.id());
        if self.interface.is_compute() || matches!(self.interface.outputs, Outputs::Storage(_)) {
            self.vertex_number();
        }
        if let Inputs::Storage(buffer) = self.interface.inputs
            && self.code.ops.iter().any(|op| matches!(op, Op::Input(_)))
        {
            self.input_buffer = self.storage_buffer(buffer);
        }
        let vec4 = self.ty(Type::VEC4);
        for register in self.written() {
            let null = self.global(n::CONSTANT_NULL, &[vec4]);
            self.private[register] = self.variable(n::CLASS_PRIVATE, vec4, Some(null));
        }

        begin(&mut self.sections.functions, n::FUNCTION, &[void, program, 0, function]);
        self.label_here();
        for (var, &ty) in self.code.vars.iter().enumerate() {
            let pointer = self.pointer(n::CLASS_FUNCTION, ty);
            self.inst(n::VARIABLE, &[pointer, self.vars + var as u32, n::CLASS_FUNCTION]);
        }
        for &stmt in &self.code.body {
            self.stmt(stmt);
        }
        if !self.terminated {
            self.inst(n::RETURN, &[]);
        }
        self.inst(n::FUNCTION_END, &[]);

        begin(&mut self.sections.functions, n::FUNCTION, &[void, main, 0, function]);
        self.label_here();
        let result = self.id();
        self.inst(n::FUNCTION_CALL, &[void, result, program]);
        self.epilogue();
        self.inst(n::RETURN, &[]);
        self.inst(n::FUNCTION_END, &[]);
        self.head(main);
    }

    /// Capabilities, entry point and modes.
    fn head(&mut self, main: u32) {
        let Device { special_values, rounding, subnormals } = *self.device;
        let controls = [
            (special_values, n::CAPABILITY_SIGNED_ZERO_INF_NAN_PRESERVE, n::MODE_SIGNED_ZERO_INF_NAN_PRESERVE),
            (rounding, n::CAPABILITY_ROUNDING_MODE_RTE, n::MODE_ROUNDING_MODE_RTE),
            (subnormals, n::CAPABILITY_DENORM_PRESERVE, n::MODE_DENORM_PRESERVE),
        ];
        let declared = || controls.iter().filter(|(control, ..)| *control == Control::Declared);
        let head = &mut self.sections.head;
        begin(head, n::CAPABILITY, &[n::CAPABILITY_SHADER]);
        for &(_, capability, _) in declared() {
            begin(head, n::CAPABILITY, &[capability]);
        }
        if self.interface.clip() != Clip::None {
            begin(head, n::CAPABILITY, &[n::CAPABILITY_CLIP_DISTANCE]);
        }
        if declared().next().is_some() {
            begin(head, n::EXTENSION, &string("SPV_KHR_float_controls"));
        }
        begin(head, n::EXT_INST_IMPORT, &[vec![self.glsl], string("GLSL.std.450")].concat());
        begin(head, n::MEMORY_MODEL, &[0, 1]);
        let model = if self.interface.is_compute() { n::MODEL_GL_COMPUTE } else { n::MODEL_VERTEX };
        begin(head, n::ENTRY_POINT, &[vec![model, main], string("main"), self.listed.clone()].concat());
        if self.interface.is_compute() {
            begin(head, n::EXECUTION_MODE, &[main, n::MODE_LOCAL_SIZE, GROUP, 1, 1]);
        }
        for &(.., mode) in declared() {
            begin(head, n::EXECUTION_MODE, &[main, mode, 32]);
        }
    }

    /// The registers that the program writes.
    fn written(&self) -> impl Iterator<Item = usize> + use<> {
        let outputs = self.outputs;
        (0..16).filter(move |n| outputs >> n & 1 != 0)
    }

    /// The constants that the code uses.
    fn constants(&mut self) {
        let code = self.code;
        let mut used = vec![false; code.ops.len()];
        let mut mark = |id: Id| used[id.0 as usize] = true;
        for &stmt in &code.body {
            match stmt {
                Stmt::Def(id) => match code.op(id) {
                    Op::Unary(_, a) | Op::Component(a, _) | Op::FloatUniform(a) => mark(a),
                    Op::Binary(_, a, b) | Op::Shuffle(a, b, _) => [a, b].into_iter().for_each(&mut mark),
                    Op::Select(a, b, c) => [a, b, c].into_iter().for_each(&mut mark),
                    Op::Vector(parts) => parts.into_iter().for_each(&mut mark),
                    Op::Const(..) | Op::Get(_) | Op::Input(_) | Op::IntUniform { .. } | Op::BoolUniforms => {}
                },
                Stmt::Set(_, id) | Stmt::Output(_, id) | Stmt::If(id) => mark(id),
                _ => {}
            }
        }
        for (at, op) in code.ops.iter().enumerate().filter(|&(at, _)| used[at]) {
            if let Op::Const(ty, bits) = *op {
                let id = self.values + at as u32;
                self.constant(ty, bits, id);
            }
        }
    }

    fn constant(&mut self, ty: Type, bits: [u32; 4], id: u32) {
        let scalar_type = Type { vector: false, ..ty };
        let result = self.ty(ty);
        if !ty.vector {
            match ty.scalar {
                Scalar::Bool => {
                    let op = if bits[0] != 0 { n::CONSTANT_TRUE } else { n::CONSTANT_FALSE };
                    begin(&mut self.sections.globals, op, &[result, id]);
                }
                _ => begin(&mut self.sections.globals, n::CONSTANT, &[result, id, bits[0]]),
            }
            return;
        }
        let scalar = self.ty(scalar_type);
        let parts = bits.map(|bits| match ty.scalar {
            Scalar::Bool if bits != 0 => self.global(n::CONSTANT_TRUE, &[scalar]),
            Scalar::Bool => self.global(n::CONSTANT_FALSE, &[scalar]),
            _ => self.global(n::CONSTANT, &[scalar, bits]),
        });
        begin(&mut self.sections.globals, n::CONSTANT_COMPOSITE, &[result, id, parts[0], parts[1], parts[2], parts[3]]);
    }

    /// A type, or a constant of the type that the first operand names; each once.
    #[inline(never)]
    fn global(&mut self, op: u32, operands: &[u32]) -> u32 {
        let mut key = [0; 6];
        key[0] = op;
        key[1..=operands.len()].copy_from_slice(operands);
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let id = self.id();
        let is_constant = matches!(op, n::CONSTANT | n::CONSTANT_TRUE | n::CONSTANT_FALSE | n::CONSTANT_NULL);
        let words =
            if is_constant { [&operands[..1], &[id], &operands[1..]].concat() } else { [&[id], operands].concat() };
        begin(&mut self.sections.globals, op, &words);
        self.known.insert(key, id);
        id
    }

    #[inline(never)]
    fn ty(&mut self, ty: Type) -> u32 {
        let slot = ty.scalar as usize + if ty.vector { 3 } else { 0 };
        if self.types[slot] == 0 {
            self.types[slot] = if ty.vector {
                let scalar = self.ty(Type { vector: false, ..ty });
                self.global(n::TYPE_VECTOR, &[scalar, 4])
            } else {
                match ty.scalar {
                    Scalar::Float => self.global(n::TYPE_FLOAT, &[32]),
                    Scalar::Uint => self.global(n::TYPE_INT, &[32, 0]),
                    Scalar::Bool => self.global(n::TYPE_BOOL, &[]),
                }
            };
        }
        self.types[slot]
    }

    fn pointer(&mut self, class: u32, ty: Type) -> u32 {
        let ty = self.ty(ty);
        self.global(n::TYPE_POINTER, &[class, ty])
    }

    #[inline(never)]
    fn uint(&mut self, number: u32) -> u32 {
        let ty = self.ty(Type::UINT);
        self.global(n::CONSTANT, &[ty, number])
    }

    /// A global variable.
    fn variable(&mut self, class: u32, ty: u32, start: Option<u32>) -> u32 {
        let pointer = self.global(n::TYPE_POINTER, &[class, ty]);
        let id = self.id();
        let words: Vec<u32> = [pointer, id, class].into_iter().chain(start).collect();
        begin(&mut self.sections.globals, n::VARIABLE, &words);
        if matches!(class, n::CLASS_INPUT | n::CLASS_OUTPUT) {
            self.listed.push(id);
        }
        id
    }

    #[inline(never)]
    fn decorate(&mut self, id: u32, decoration: &[u32]) {
        begin(&mut self.sections.decorations, n::DECORATE, &[&[id], decoration].concat());
    }

    /// A variable of the entry point, with a location or as a built-in.
    fn interface_variable(&mut self, class: u32, ty: u32, decoration: [u32; 2]) -> u32 {
        let id = self.variable(class, ty, None);
        self.decorate(id, &decoration);
        id
    }

    /// Loads a part of the uniform block.
    fn uniform(&mut self, ty: Type, id: u32, member: Member, path: &[u32]) {
        let block = self.uniform_block();
        let index = self.interface.uniforms.place(member).0;
        let index = self.uint(index);
        let pointer = self.pointer(n::CLASS_UNIFORM, ty);
        let place = self.id();
        self.inst(n::ACCESS_CHAIN, &[&[pointer, place, block, index], path].concat());
        self.define(n::LOAD, ty, id, &[place]);
    }

    fn value(&self, id: Id) -> u32 {
        self.values + id.0
    }

    fn var(&self, var: Var) -> u32 {
        self.vars + var.0
    }

    fn inst(&mut self, op: u32, operands: &[u32]) {
        begin(&mut self.sections.functions, op, operands);
    }

    /// An instruction with a result.
    #[inline(never)]
    fn result(&mut self, op: u32, ty: Type, operands: &[u32]) -> u32 {
        let id = self.id();
        self.define(op, ty, id, operands);
        id
    }

    #[inline(never)]
    fn define(&mut self, op: u32, ty: Type, id: u32, operands: &[u32]) {
        let ty = self.ty(ty);
        let functions = &mut self.sections.functions;
        functions.push((operands.len() as u32 + 3) << 16 | op);
        functions.extend([ty, id]);
        functions.extend(operands);
    }

    fn label_here(&mut self) {
        let id = self.id();
        self.label(id);
    }

    fn label(&mut self, id: u32) {
        self.inst(n::LABEL, &[id]);
        self.terminated = false;
    }

    /// Ends the block with a jump, if nothing has ended it.
    fn branch(&mut self, to: u32) {
        if !self.terminated {
            self.inst(n::BRANCH, &[to]);
            self.terminated = true;
        }
    }

    fn stmt(&mut self, stmt: Stmt) {
        if self.terminated && !matches!(stmt, Stmt::Else | Stmt::EndIf | Stmt::EndLoop) {
            // No path leads here.
            self.label_here();
        }
        match stmt {
            Stmt::Def(id) => self.op(id),
            Stmt::Set(var, id) => self.inst(n::STORE, &[self.var(var), self.value(id)]),
            Stmt::Output(register, id) => {
                self.inst(n::STORE, &[self.private[usize::from(register)], self.value(id)]);
            }
            Stmt::If(flag) => {
                let (then, other, merge) = (self.id(), self.id(), self.id());
                self.inst(n::SELECTION_MERGE, &[merge, 0]);
                self.inst(n::BRANCH_CONDITIONAL, &[self.value(flag), then, other]);
                self.open.push(Open::If { other, merge });
                self.label(then);
            }
            Stmt::Else => {
                let Some(Open::If { other, merge }) = self.open.pop() else { unreachable!("an else has its if") };
                self.branch(merge);
                self.label(other);
                self.open.push(Open::If { other: 0, merge });
            }
            Stmt::EndIf => {
                let Some(Open::If { other, merge }) = self.open.pop() else { unreachable!("an end has its if") };
                self.branch(merge);
                if other != 0 {
                    self.label(other);
                    self.branch(merge);
                }
                self.label(merge);
            }
            Stmt::Loop => {
                let (header, body, proceed, merge) = (self.id(), self.id(), self.id(), self.id());
                self.branch(header);
                self.label(header);
                self.inst(n::LOOP_MERGE, &[merge, proceed, 0]);
                self.branch(body);
                self.label(body);
                self.open.push(Open::Loop { header, proceed, merge });
            }
            Stmt::EndLoop => {
                let Some(Open::Loop { header, proceed, merge }) = self.open.pop() else {
                    unreachable!("an end has its loop")
                };
                self.branch(proceed);
                self.label(proceed);
                self.branch(header);
                self.label(merge);
            }
            Stmt::Break => {
                let (merge, _) = self.innermost();
                self.branch(merge);
            }
            Stmt::Continue => {
                let (_, proceed) = self.innermost();
                self.branch(proceed);
            }
            Stmt::Return => {
                self.inst(n::RETURN, &[]);
                self.terminated = true;
            }
        }
    }

    fn innermost(&self) -> (u32, u32) {
        let of_loop = |open: &Open| match *open {
            Open::Loop { merge, proceed, .. } => Some((merge, proceed)),
            Open::If { .. } => None,
        };
        self.open.iter().rev().find_map(of_loop).expect("jumps are in loops")
    }

    fn op(&mut self, at: Id) {
        let (id, ty) = (self.value(at), self.code.ty(at));
        match self.code.op(at) {
            Op::Const(..) => {}
            Op::Unary(op, a) => {
                let a = self.value(a);
                let number = match op {
                    Unary::Floor => return self.ext(n::EXT_FLOOR, ty, id, &[a]),
                    Unary::HighestBit => return self.ext(n::EXT_FIND_U_MSB, ty, id, &[a]),
                    Unary::Negate => n::F_NEGATE,
                    Unary::ToBits | Unary::FromBits => n::BITCAST,
                    Unary::Truncate => n::CONVERT_F_TO_S,
                    Unary::FromSigned => n::CONVERT_S_TO_F,
                    Unary::FromUnsigned => n::CONVERT_U_TO_F,
                    Unary::Not => n::LOGICAL_NOT,
                };
                self.define(number, ty, id, &[a]);
            }
            Op::Binary(op, a, b) => self.binary(op, ty, id, [self.value(a), self.value(b)]),
            Op::Select(flag, yes, no) => {
                self.define(n::SELECT, ty, id, &[self.value(flag), self.value(yes), self.value(no)]);
            }
            Op::Vector(parts) => {
                let parts = parts.map(|part| self.value(part));
                self.define(n::COMPOSITE_CONSTRUCT, ty, id, &parts);
            }
            Op::Component(vector, c) => self.define(n::COMPOSITE_EXTRACT, ty, id, &[self.value(vector), c.into()]),
            Op::Shuffle(a, b, from) => {
                let [x, y, z, w] = from.map(u32::from);
                self.define(n::VECTOR_SHUFFLE, ty, id, &[self.value(a), self.value(b), x, y, z, w]);
            }
            Op::Get(var) => self.define(n::LOAD, ty, id, &[self.var(var)]),
            Op::Input(register) => self.input(register, id),
            Op::FloatUniform(number) => {
                self.uniform(Type::VEC4, id, Member::Floats, &[self.value(number)]);
            }
            Op::IntUniform { id: register, component } => {
                let register = self.uint(register.into());
                match self.interface.uniforms.integers {
                    Integers::Vectors => {
                        let component = self.uint(component.into());
                        self.uniform(Type::UINT, id, Member::Integers, &[register, component]);
                    }
                    Integers::Bytes => {
                        let word = self.id();
                        self.uniform(Type::UINT, word, Member::Integers, &[register]);
                        let (shift, mask) = (self.uint(8 * u32::from(component)), self.uint(0xFF));
                        let moved = self.result(n::SHIFT_RIGHT_LOGICAL, Type::UINT, &[word, shift]);
                        self.define(n::BITWISE_AND, Type::UINT, id, &[moved, mask]);
                    }
                }
            }
            Op::BoolUniforms => self.uniform(Type::UINT, id, Member::Booleans, &[]),
        }
    }

    fn ext(&mut self, number: u32, ty: Type, id: u32, operands: &[u32]) {
        let glsl = self.glsl;
        self.define(n::EXT_INST, ty, id, &[&[glsl, number], operands].concat());
    }

    fn binary(&mut self, op: Binary, ty: Type, id: u32, operands: [u32; 2]) {
        let number = match op {
            Binary::Min => return self.ext(n::EXT_U_MIN, ty, id, &operands),
            Binary::MulHigh => {
                let uint = self.ty(Type::UINT);
                let pair = self.global(n::TYPE_STRUCT, &[uint, uint]);
                let both = self.id();
                self.inst(n::U_MUL_EXTENDED, &[pair, both, operands[0], operands[1]]);
                return self.define(n::COMPOSITE_EXTRACT, ty, id, &[both, 1]);
            }
            Binary::FloatAdd => n::F_ADD,
            Binary::FloatSub => n::F_SUB,
            Binary::FloatMul => n::F_MUL,
            Binary::FloatEqual => n::F_ORD_EQUAL,
            Binary::FloatLess => n::F_ORD_LESS_THAN,
            Binary::FloatLessEqual => n::F_ORD_LESS_THAN_EQUAL,
            Binary::Add => n::I_ADD,
            Binary::Sub => n::I_SUB,
            Binary::Mul => n::I_MUL,
            Binary::And => n::BITWISE_AND,
            Binary::Or => n::BITWISE_OR,
            Binary::Xor => n::BITWISE_XOR,
            Binary::ShiftLeft => n::SHIFT_LEFT_LOGICAL,
            Binary::ShiftRight => n::SHIFT_RIGHT_LOGICAL,
            Binary::ShiftRightSigned => n::SHIFT_RIGHT_ARITHMETIC,
            Binary::Equal => n::I_EQUAL,
            Binary::Less => n::U_LESS_THAN,
            Binary::LessSigned => n::S_LESS_THAN,
            Binary::Both => n::LOGICAL_AND,
            Binary::Either => n::LOGICAL_OR,
        };
        if matches!(op, Binary::FloatAdd | Binary::FloatSub | Binary::FloatMul) {
            begin(&mut self.sections.decorations, n::DECORATE, &[id, n::NO_CONTRACTION]);
        }
        self.define(number, ty, id, &operands);
    }
}

/// Appends an instruction.
#[inline(never)]
fn begin(words: &mut Vec<u32>, op: u32, operands: &[u32]) {
    words.push((operands.len() as u32 + 1) << 16 | op);
    words.extend(operands);
}

/// A string as words: UTF-8 bytes, then at least one zero.
fn string(text: &str) -> Vec<u32> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(4), 0);
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("words have four bytes"));
    bytes.chunks_exact(4).map(word).collect()
}
