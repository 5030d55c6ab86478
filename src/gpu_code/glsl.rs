//! [`Code`] -> GLSL text, for OpenGL 4.3, Vulkan and OpenGL ES 3.1.
//!
//! The same statements as the SPIR-V module has. Every sum and product is `precise`. Vectors of flags and selections are
//! written by component, since some drivers compute `mix`.

use super::code::{Binary, Code, Id, Op, Scalar, Stmt, Type, Unary};
use super::interface::{
    AttributeKind, Clip, Component, Depth, Inputs, Integers, Interface, Member, Outputs, Position, UniformBlock,
};
use std::fmt::Write as _;

/// The language that a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// GLSL 4.30 for OpenGL 4.3. Descriptor sets have no meaning there.
    OpenGl,
    /// GLSL 4.50 for Vulkan, to be compiled to SPIR-V.
    Vulkan,
    /// GLSL ES 3.10 with `GL_EXT_gpu_shader5`, which has `precise`.
    OpenGlEs,
}

const AXES: [char; 4] = ['x', 'y', 'z', 'w'];

/// The text of a whole shader.
pub(super) fn write(code: &Code, outputs: u16, interface: &Interface, dialect: Dialect) -> String {
    let mut writer = Writer { code, interface, dialect, outputs, text: String::new(), depth: 1 };
    writer.declarations();
    writer.text.push_str("\nvoid program() {\n");
    for (n, &ty) in code.vars.iter().enumerate() {
        let ty = type_name(ty);
        writer.line(&format!("{ty} x{n};"));
    }
    for &stmt in &code.body {
        writer.stmt(stmt);
    }
    writer.text.push_str("}\n\nvoid main() {\n    program();\n");
    writer.epilogue();
    writer.text.push_str("}\n");
    writer.text
}

struct Writer<'a> {
    code: &'a Code,
    interface: &'a Interface,
    dialect: Dialect,
    outputs: u16,
    text: String,
    depth: usize,
}

impl Writer<'_> {
    #[inline(never)]
    fn line(&mut self, line: &str) {
        let indent = 4 * self.depth.min(12);
        // Writing to a string can't fail.
        let _ = writeln!(self.text, "{:indent$}{line}", "");
    }

    fn declarations(&mut self) {
        self.text.push_str(match self.dialect {
            Dialect::OpenGl => "#version 430 core\n",
            Dialect::Vulkan => "#version 450\n",
            Dialect::OpenGlEs => "#version 310 es\n#extension GL_EXT_gpu_shader5 : require\n",
        });
        if self.dialect == Dialect::OpenGlEs {
            if self.interface.clip() != Clip::None {
                self.text.push_str("#extension GL_EXT_clip_cull_distance : require\n");
            }
            self.text.push_str("precision highp float;\nprecision highp int;\n");
        }
        let uses = |wanted: fn(&Op) -> bool| self.code.ops.iter().any(wanted);
        let has_uniforms = uses(|op| matches!(op, Op::FloatUniform(_) | Op::IntUniform { .. } | Op::BoolUniforms));
        let read = self.code.ops.iter().fold(0u16, |mask, op| if let Op::Input(n) = op { mask | 1 << n } else { mask });
        let interface = self.interface;
        if interface.is_compute() {
            self.text.push_str("layout(local_size_x = 64) in;\n");
        }
        if has_uniforms {
            self.uniform_block(&interface.uniforms);
        }
        match &interface.inputs {
            Inputs::Storage(buffer) if read != 0 => {
                let place = self.place(buffer.set, buffer.binding);
                let _ = writeln!(self.text, "layout(std430, {place}) readonly buffer Inputs {{ uvec4 inputs[]; }};");
            }
            Inputs::Storage(_) => {}
            Inputs::Attributes(attributes) => {
                for (n, attribute) in attributes.iter().enumerate().filter(|(n, _)| read >> n & 1 != 0) {
                    let ty = match attribute.kind {
                        AttributeKind::Float => "vec4",
                        AttributeKind::Signed => "ivec4",
                        AttributeKind::Unsigned => "uvec4",
                    };
                    let _ = writeln!(self.text, "layout(location = {}) in {ty} v_in{n};", attribute.location);
                }
            }
        }
        match &interface.outputs {
            Outputs::Registers { first } => {
                for n in self.written() {
                    let _ = writeln!(self.text, "layout(location = {}) out vec4 o_out{n};", first + n);
                }
            }
            Outputs::Storage(buffer) => {
                let place = self.place(buffer.set, buffer.binding);
                let _ = writeln!(self.text, "layout(std430, {place}) writeonly buffer Outputs {{ uvec4 outputs[]; }};");
            }
            Outputs::Mapped { varyings, .. } => {
                for varying in varyings {
                    let ty = vector_name(varying.components.len());
                    let location = varying.location;
                    let _ = writeln!(self.text, "layout(location = {location}) out {ty} varying{location};");
                }
                if let Clip::Plane(buffer) = interface.clip() {
                    let place = self.place(buffer.set, buffer.binding);
                    let _ = writeln!(self.text, "layout(std140, {place}) uniform Clipping {{");
                    self.text.push_str("    uint plane_enabled;\n    uint flip_y;\n    vec4 plane;\n};\n");
                }
            }
        }
        for n in self.written() {
            let _ = writeln!(self.text, "vec4 o{n} = vec4(0.0);");
        }
    }

    fn place(&self, set: u32, binding: u32) -> String {
        match self.dialect {
            Dialect::Vulkan => format!("set = {set}, binding = {binding}"),
            Dialect::OpenGl | Dialect::OpenGlEs => format!("binding = {binding}"),
        }
    }

    fn uniform_block(&mut self, block: &UniformBlock) {
        let place = self.place(block.set, block.binding);
        let _ = writeln!(self.text, "layout(std140, {place}) uniform Uniforms {{");
        for member in block.members {
            self.line(match (member, block.integers) {
                (Member::Booleans, _) => "uint b;",
                (Member::Integers, Integers::Vectors) => "uvec4 i[4];",
                (Member::Integers, Integers::Bytes) => "uvec4 i;",
                (Member::Floats, _) => "vec4 c[96];",
            });
        }
        self.text.push_str("};\n");
    }

    fn written(&self) -> impl Iterator<Item = u32> + use<> {
        let outputs = self.outputs;
        (0..16).filter(move |n| outputs >> n & 1 != 0)
    }

    /// A value where it is used: constants as such.
    #[inline(never)]
    fn value(&self, id: Id) -> String {
        let Op::Const(ty, bits) = self.code.op(id) else { return format!("t{}", id.0) };
        if !ty.vector {
            return literal(ty.scalar, bits[0]);
        }
        let parts = bits.map(|bits| literal(ty.scalar, bits));
        let name = type_name(ty);
        if parts.iter().all(|part| *part == parts[0]) {
            format!("{name}({})", parts[0])
        } else {
            format!("{name}({})", parts.join(", "))
        }
    }

    /// A component, as `.x`, of a vector; or a scalar.
    #[inline(never)]
    fn part(&self, id: Id, component: &str) -> String {
        match (self.code.op(id), AXES.iter().position(|&axis| component.ends_with(axis))) {
            (Op::Const(ty, bits), Some(c)) if ty.vector => literal(ty.scalar, bits[c]),
            _ => format!("{}{component}", self.value(id)),
        }
    }

    fn stmt(&mut self, stmt: Stmt) {
        match stmt {
            Stmt::Def(id) => self.def(id),
            Stmt::Set(var, id) => {
                let value = self.value(id);
                self.line(&format!("x{} = {value};", var.0));
            }
            Stmt::Output(n, id) => {
                let value = self.value(id);
                self.line(&format!("o{n} = {value};"));
            }
            Stmt::If(flag) => {
                let flag = self.value(flag);
                self.line(&format!("if ({flag}) {{"));
                self.depth += 1;
            }
            Stmt::Else => {
                self.depth -= 1;
                self.line("} else {");
                self.depth += 1;
            }
            Stmt::EndIf | Stmt::EndLoop => {
                self.depth -= 1;
                self.line("}");
            }
            Stmt::Loop => {
                self.line("for (;;) {");
                self.depth += 1;
            }
            Stmt::Break => self.line("break;"),
            Stmt::Continue => self.line("continue;"),
            Stmt::Return => self.line("return;"),
        }
    }

    fn def(&mut self, id: Id) {
        let op = self.code.op(id);
        let name = format!("t{}", id.0);
        if let Op::Binary(Binary::MulHigh, a, b) = op {
            let (a, b) = (self.value(a), self.value(b));
            self.line(&format!("uint {name}, {name}_low;"));
            self.line(&format!("umulExtended({a}, {b}, {name}, {name}_low);"));
            return;
        }
        let is_rounded = matches!(op, Op::Binary(Binary::FloatAdd | Binary::FloatSub | Binary::FloatMul, ..));
        let precise = if is_rounded { "precise " } else { "" };
        let ty = type_name(self.code.ty(id));
        let expression = self.expression(op, self.code.ty(id));
        self.line(&format!("{precise}{ty} {name} = {expression};"));
    }

    fn expression(&self, op: Op, ty: Type) -> String {
        let uint = type_name(Type { scalar: Scalar::Uint, ..ty });
        let float = type_name(Type { scalar: Scalar::Float, ..ty });
        let int = if ty.vector { "ivec4" } else { "int" };
        match op {
            Op::Const(..) => unreachable!("constants are not defined"),
            Op::Unary(op, a) => {
                let is_vector = self.code.ty(a).vector;
                let a = self.value(a);
                match op {
                    Unary::Negate => format!("-{a}"),
                    Unary::Floor => format!("floor({a})"),
                    Unary::ToBits => format!("floatBitsToUint({a})"),
                    Unary::FromBits => format!("uintBitsToFloat({a})"),
                    Unary::Truncate => format!("{uint}({int}({a}))"),
                    Unary::FromSigned => format!("{float}({int}({a}))"),
                    Unary::FromUnsigned => format!("{float}({a})"),
                    Unary::HighestBit => format!("{uint}(findMSB({a}))"),
                    Unary::Not if is_vector => format!("not({a})"),
                    Unary::Not => format!("!{a}"),
                }
            }
            Op::Binary(op, a, b) => {
                let is_vector = self.code.ty(a).vector;
                self.binary(op, is_vector, &self.value(a), &self.value(b))
            }
            Op::Select(flag, yes, no) => {
                let flag = self.value(flag);
                by_component(ty, |c| format!("{flag}{c} ? {} : {}", self.part(yes, c), self.part(no, c)))
            }
            Op::Vector(parts) => {
                let parts = parts.map(|part| self.value(part));
                let name = type_name(ty);
                if parts.iter().all(|part| *part == parts[0]) {
                    format!("{name}({})", parts[0])
                } else {
                    format!("{name}({})", parts.join(", "))
                }
            }
            Op::Component(vector, c) => format!("{}.{}", self.value(vector), AXES[usize::from(c)]),
            Op::Shuffle(a, b, from) if a == b => {
                let axes: String = from.iter().map(|&c| AXES[usize::from(c & 3)]).collect();
                format!("{}.{axes}", self.value(a))
            }
            Op::Shuffle(a, b, from) => {
                let (a, b) = (self.value(a), self.value(b));
                let part = |c: u8| format!("{}.{}", if c < 4 { &a } else { &b }, AXES[usize::from(c & 3)]);
                format!("{}({})", type_name(ty), from.map(part).join(", "))
            }
            Op::Get(var) => format!("x{}", var.0),
            Op::Input(n) => match &self.interface.inputs {
                Inputs::Storage(_) => format!("uintBitsToFloat(inputs[16u * {} + {n}u])", self.vertex()),
                Inputs::Attributes(attributes) => {
                    let attribute = attributes[usize::from(n)];
                    match attribute.kind {
                        _ if attribute.fixed_w => format!("vec4(v_in{n}.xyz, 1.0)"),
                        AttributeKind::Float => format!("v_in{n}"),
                        AttributeKind::Signed | AttributeKind::Unsigned => format!("vec4(v_in{n})"),
                    }
                }
            },
            Op::FloatUniform(number) => format!("c[{}]", self.value(number)),
            Op::IntUniform { id, component } => match self.interface.uniforms.integers {
                Integers::Vectors => format!("i[{id}].{}", AXES[usize::from(component)]),
                Integers::Bytes => format!("i.{} >> {}u & 0xFFu", AXES[usize::from(id)], 8 * component),
            },
            Op::BoolUniforms => "b".to_owned(),
        }
    }

    fn vertex(&self) -> &'static str {
        match (self.interface.is_compute(), self.dialect) {
            (true, _) => "gl_GlobalInvocationID.x",
            (false, Dialect::Vulkan) => "uint(gl_VertexIndex)",
            (false, _) => "uint(gl_VertexID)",
        }
    }

    fn binary(&self, op: Binary, is_vector: bool, a: &str, b: &str) -> String {
        let of = |function: &str, operator: &str| {
            if is_vector { format!("{function}({a}, {b})") } else { format!("{a} {operator} {b}") }
        };
        let flags = Type { scalar: Scalar::Bool, vector: is_vector };
        match op {
            Binary::FloatAdd | Binary::Add => format!("{a} + {b}"),
            Binary::FloatSub | Binary::Sub => format!("{a} - {b}"),
            Binary::FloatMul | Binary::Mul => format!("{a} * {b}"),
            Binary::FloatEqual | Binary::Equal => of("equal", "=="),
            Binary::FloatLess | Binary::Less => of("lessThan", "<"),
            Binary::FloatLessEqual => of("lessThanEqual", "<="),
            Binary::MulHigh => unreachable!("a statement of its own"),
            Binary::And => format!("{a} & {b}"),
            Binary::Or => format!("{a} | {b}"),
            Binary::Xor => format!("{a} ^ {b}"),
            Binary::ShiftLeft => format!("{a} << {b}"),
            Binary::ShiftRight => format!("{a} >> {b}"),
            Binary::ShiftRightSigned if is_vector => format!("uvec4(ivec4({a}) >> {b})"),
            Binary::ShiftRightSigned => format!("uint(int({a}) >> {b})"),
            Binary::LessSigned if is_vector => format!("lessThan(ivec4({a}), ivec4({b}))"),
            Binary::LessSigned => format!("int({a}) < int({b})"),
            Binary::Min => format!("min({a}, {b})"),
            Binary::Both => by_component(flags, |c| format!("{a}{c} && {b}{c}")),
            Binary::Either => by_component(flags, |c| format!("{a}{c} || {b}{c}")),
        }
    }

    fn epilogue(&mut self) {
        match &self.interface.outputs {
            Outputs::Registers { .. } => {
                for n in self.written() {
                    self.line(&format!("o_out{n} = o{n};"));
                }
            }
            Outputs::Storage(_) => {
                let vertex = self.vertex();
                for n in self.written() {
                    self.line(&format!("outputs[16u * {vertex} + {n}u] = floatBitsToUint(o{n});"));
                }
            }
            Outputs::Mapped { varyings, position } => {
                for varying in varyings {
                    let parts: Vec<String> = varying.components.iter().map(|&c| self.output(c)).collect();
                    let ty = vector_name(parts.len());
                    self.line(&format!("varying{} = {ty}({});", varying.location, parts.join(", ")));
                }
                if let Some(Position { components, depth, flip_y, clip }) = position {
                    let given = components.map(|component| self.output(component));
                    let [x, y, z, w] = &given;
                    let y = if *flip_y { format!("-{y}") } else { y.clone() };
                    let y = if let Clip::Plane(_) = clip { format!("flip_y != 0u ? -({y}) : {y}") } else { y };
                    let depth = if *depth == Depth::Negated { format!("-{z}") } else { z.clone() };
                    self.line(&format!("gl_Position = vec4({x}, {y}, {depth}, {w});"));
                    if *clip != Clip::None {
                        self.line(&format!("gl_ClipDistance[0] = -{z};"));
                    }
                    if let Clip::Plane(_) = clip {
                        let products = [0, 1, 2, 3].map(|c| format!("plane.{} * {}", AXES[c], given[c]));
                        let sum = products.join(" + ");
                        self.line(&format!("precise float distance_from_plane = {sum};"));
                        self.line("gl_ClipDistance[1] = plane_enabled != 0u ? distance_from_plane : 0.0;");
                    }
                }
            }
        }
    }

    fn output(&self, component: Component) -> String {
        match component {
            Component::Register(n, c) if self.outputs >> n & 1 != 0 => format!("o{n}.{}", AXES[usize::from(c & 3)]),
            Component::Colour(n, c) if self.outputs >> n & 1 != 0 => {
                let given = self.output(Component::Register(n, c));
                format!("uintBitsToFloat(min(floatBitsToUint({given}) & 0x7FFFFFFFu, 0x3F800000u))")
            }
            Component::Register(..) | Component::Colour(..) | Component::Zero => "0.0".to_owned(),
            Component::One => "1.0".to_owned(),
        }
    }
}

fn type_name(ty: Type) -> &'static str {
    match (ty.scalar, ty.vector) {
        (Scalar::Float, false) => "float",
        (Scalar::Uint, false) => "uint",
        (Scalar::Bool, false) => "bool",
        (Scalar::Float, true) => "vec4",
        (Scalar::Uint, true) => "uvec4",
        (Scalar::Bool, true) => "bvec4",
    }
}

fn vector_name(components: usize) -> &'static str {
    ["float", "vec2", "vec3", "vec4"][components.clamp(1, 4) - 1]
}

/// An expression on scalars, for each component of a vector.
fn by_component(ty: Type, part: impl Fn(&str) -> String) -> String {
    if !ty.vector {
        return part("");
    }
    format!("{}({})", type_name(ty), [".x", ".y", ".z", ".w"].map(part).join(", "))
}

/// A constant. Floats with few digits are readable; others are exact as bits.
fn literal(scalar: Scalar, bits: u32) -> String {
    match scalar {
        Scalar::Bool => (bits != 0).to_string(),
        Scalar::Uint if bits < 256 => format!("{bits}u"),
        Scalar::Uint => format!("0x{bits:X}u"),
        Scalar::Float => {
            let x = f32::from_bits(bits);
            let is_short = x.abs() <= 16384.0 && (x * 256.0).fract() == 0.0 && bits != 1 << 31;
            if is_short { format!("{x:?}") } else { format!("uintBitsToFloat(0x{bits:X}u)") }
        }
    }
}
