//! A module's uniform block, inputs and outputs.

use super::number as n;
use super::{Writer, begin};
use crate::gpu_code::code::{Scalar, Type};
use crate::gpu_code::interface::{
    AttributeKind, Binding, Clip, Component, Depth, Inputs, Integers, Member, Outputs, Position,
};

/// Vectors of a vertex in a storage buffer.
const REGISTERS: u32 = 16;

impl Writer<'_> {
    pub(super) fn vertex_number(&mut self) {
        let uint = self.ty(Type::UINT);
        self.vertex = if self.interface.is_compute() {
            let vector = self.global(n::TYPE_VECTOR, &[uint, 3]);
            self.interface_variable(n::CLASS_INPUT, vector, [n::BUILT_IN, n::BUILT_IN_GLOBAL_INVOCATION_ID])
        } else {
            let int = self.global(n::TYPE_INT, &[32, 1]);
            self.interface_variable(n::CLASS_INPUT, int, [n::BUILT_IN, n::BUILT_IN_VERTEX_INDEX])
        };
    }

    pub(super) fn storage_buffer(&mut self, buffer: Binding) -> u32 {
        let vector = self.ty(Type { scalar: Scalar::Uint, vector: true });
        let is_new = !self.known.contains_key(&[n::TYPE_RUNTIME_ARRAY, vector, 0, 0, 0, 0]);
        let array = self.global(n::TYPE_RUNTIME_ARRAY, &[vector]);
        let block = self.global(n::TYPE_STRUCT, &[array]);
        if is_new {
            self.decorate(array, &[n::ARRAY_STRIDE, 16]);
            self.decorate(block, &[n::BLOCK]);
            begin(&mut self.sections.decorations, n::MEMBER_DECORATE, &[block, 0, n::OFFSET, 0]);
        }
        self.resource(n::CLASS_STORAGE_BUFFER, block, buffer)
    }

    /// A variable with a set and a binding.
    fn resource(&mut self, class: u32, block: u32, Binding { set, binding }: Binding) -> u32 {
        let variable = self.variable(class, block, None);
        self.decorate(variable, &[n::DESCRIPTOR_SET, set]);
        self.decorate(variable, &[n::BINDING, binding]);
        variable
    }

    pub(super) fn uniform_block(&mut self) -> u32 {
        if let Some(block) = self.uniforms {
            return block;
        }
        let description = &self.interface.uniforms;
        let (uint, vec4) = (self.ty(Type::UINT), self.ty(Type::VEC4));
        let uvec4 = self.ty(Type { scalar: Scalar::Uint, vector: true });
        let array = |this: &mut Self, of: u32, length: u32| {
            let length = this.uint(length);
            let array = this.global(n::TYPE_ARRAY, &[of, length]);
            this.decorate(array, &[n::ARRAY_STRIDE, 16]);
            array
        };
        let members = description.members.map(|member| match (member, description.integers) {
            (Member::Booleans, _) => uint,
            (Member::Integers, Integers::Vectors) => array(self, uvec4, 4),
            (Member::Integers, Integers::Bytes) => uvec4,
            (Member::Floats, _) => array(self, vec4, 96),
        });
        let block = self.global(n::TYPE_STRUCT, &members);
        self.decorate(block, &[n::BLOCK]);
        for member in description.members {
            let (index, offset) = description.place(member);
            begin(&mut self.sections.decorations, n::MEMBER_DECORATE, &[block, index, n::OFFSET, offset]);
        }
        let (set, binding) = (description.set, description.binding);
        let variable = self.resource(n::CLASS_UNIFORM, block, Binding { set, binding });
        self.uniforms = Some(variable);
        variable
    }

    pub(super) fn input(&mut self, register: u8, id: u32) {
        let interface = self.interface;
        match &interface.inputs {
            Inputs::Storage(_) => {
                let loaded = self.buffer_place(self.input_buffer, u32::from(register));
                let bits = Type { scalar: Scalar::Uint, vector: true };
                let bits = self.result(n::LOAD, bits, &[loaded]);
                self.define(n::BITCAST, Type::VEC4, id, &[bits]);
            }
            Inputs::Attributes(attributes) => {
                let attribute = attributes[usize::from(register)];
                let ty = match attribute.kind {
                    AttributeKind::Float => self.ty(Type::VEC4),
                    AttributeKind::Unsigned => self.ty(Type { scalar: Scalar::Uint, vector: true }),
                    AttributeKind::Signed => {
                        let int = self.global(n::TYPE_INT, &[32, 1]);
                        self.global(n::TYPE_VECTOR, &[int, 4])
                    }
                };
                let variable = self.interface_variable(n::CLASS_INPUT, ty, [n::LOCATION, attribute.location]);
                self.inputs[usize::from(register)] = variable;
                // The last instruction defines the value.
                let whole = if attribute.fixed_w { self.id() } else { id };
                let loaded = if attribute.kind == AttributeKind::Float { whole } else { self.id() };
                self.inst(n::LOAD, &[ty, loaded, variable]);
                match attribute.kind {
                    AttributeKind::Float => {}
                    AttributeKind::Signed => self.define(n::CONVERT_S_TO_F, Type::VEC4, whole, &[loaded]),
                    AttributeKind::Unsigned => self.define(n::CONVERT_U_TO_F, Type::VEC4, whole, &[loaded]),
                }
                if attribute.fixed_w {
                    let float = self.ty(Type::FLOAT);
                    let one = self.global(n::CONSTANT, &[float, 1.0f32.to_bits()]);
                    self.define(n::COMPOSITE_INSERT, Type::VEC4, id, &[one, whole, 3]);
                }
            }
        }
    }

    /// The place of a register of this vertex in a storage buffer.
    fn buffer_place(&mut self, buffer: u32, register: u32) -> u32 {
        let vertex = if self.interface.is_compute() {
            let uint = self.ty(Type::UINT);
            let vector = self.global(n::TYPE_VECTOR, &[uint, 3]);
            let all = self.id();
            self.inst(n::LOAD, &[vector, all, self.vertex]);
            self.result(n::COMPOSITE_EXTRACT, Type::UINT, &[all, 0])
        } else {
            let int = self.global(n::TYPE_INT, &[32, 1]);
            let signed = self.id();
            self.inst(n::LOAD, &[int, signed, self.vertex]);
            self.result(n::BITCAST, Type::UINT, &[signed])
        };
        let (count, register, zero) = (self.uint(REGISTERS), self.uint(register), self.uint(0));
        let first = self.result(n::I_MUL, Type::UINT, &[vertex, count]);
        let index = self.result(n::I_ADD, Type::UINT, &[first, register]);
        let pointer = self.pointer(n::CLASS_STORAGE_BUFFER, Type { scalar: Scalar::Uint, vector: true });
        let place = self.id();
        self.inst(n::ACCESS_CHAIN, &[pointer, place, buffer, zero, index]);
        place
    }

    /// Hands the outputs on.
    pub(super) fn epilogue(&mut self) {
        let interface = self.interface;
        let vec4 = self.ty(Type::VEC4);
        match &interface.outputs {
            Outputs::Registers { first } => {
                for register in self.written() {
                    let location = [n::LOCATION, first + register as u32];
                    let variable = self.interface_variable(n::CLASS_OUTPUT, vec4, location);
                    let value = self.result(n::LOAD, Type::VEC4, &[self.private[register]]);
                    self.inst(n::STORE, &[variable, value]);
                }
            }
            Outputs::Storage(buffer) => {
                if self.outputs == 0 {
                    return;
                }
                let buffer = self.storage_buffer(*buffer);
                for register in self.written() {
                    let value = self.result(n::LOAD, Type::VEC4, &[self.private[register]]);
                    let bits = Type { scalar: Scalar::Uint, vector: true };
                    let bits = self.result(n::BITCAST, bits, &[value]);
                    let place = self.buffer_place(buffer, register as u32);
                    self.inst(n::STORE, &[place, bits]);
                }
            }
            Outputs::Mapped { varyings, position } => {
                for varying in varyings {
                    let float = self.ty(Type::FLOAT);
                    let components: Vec<u32> = varying.components.iter().map(|&c| self.output(c)).collect();
                    let (ty, value) = match components[..] {
                        [component] => (float, component),
                        _ => {
                            let ty = self.global(n::TYPE_VECTOR, &[float, components.len() as u32]);
                            let value = self.id();
                            self.inst(n::COMPOSITE_CONSTRUCT, &[&[ty, value], &components[..]].concat());
                            (ty, value)
                        }
                    };
                    let location = [n::LOCATION, varying.location];
                    let variable = self.interface_variable(n::CLASS_OUTPUT, ty, location);
                    self.inst(n::STORE, &[variable, value]);
                }
                if let Some(position) = position {
                    self.position(position);
                }
            }
        }
    }

    fn position(&mut self, position: &Position) {
        let given = position.components.map(|component| self.output(component));
        let mut components = given;
        if position.flip_y {
            components[1] = self.result(n::F_NEGATE, Type::FLOAT, &[components[1]]);
        }
        if position.depth == Depth::Negated {
            components[2] = self.result(n::F_NEGATE, Type::FLOAT, &[components[2]]);
        }
        let mut distances = Vec::new();
        if position.clip != Clip::None {
            distances.push(self.result(n::F_NEGATE, Type::FLOAT, &[given[2]]));
        }
        if let Clip::Plane(buffer) = position.clip {
            let block = self.clip_block(buffer);
            let flipped = self.result(n::F_NEGATE, Type::FLOAT, &[components[1]]);
            let flips = self.is_set(block, 1);
            components[1] = self.result(n::SELECT, Type::FLOAT, &[flips, flipped, components[1]]);
            distances.push(self.plane_distance(block, given));
        }
        let value = self.result(n::COMPOSITE_CONSTRUCT, Type::VEC4, &components);
        let vec4 = self.ty(Type::VEC4);
        let built_in = [n::BUILT_IN, n::BUILT_IN_POSITION];
        let variable = self.interface_variable(n::CLASS_OUTPUT, vec4, built_in);
        self.inst(n::STORE, &[variable, value]);
        if !distances.is_empty() {
            let (float, length) = (self.ty(Type::FLOAT), self.uint(distances.len() as u32));
            let array = self.global(n::TYPE_ARRAY, &[float, length]);
            let built_in = [n::BUILT_IN, n::BUILT_IN_CLIP_DISTANCE];
            let variable = self.interface_variable(n::CLASS_OUTPUT, array, built_in);
            let value = self.id();
            self.inst(n::COMPOSITE_CONSTRUCT, &[&[array, value], &distances[..]].concat());
            self.inst(n::STORE, &[variable, value]);
        }
    }

    /// The host's block `{ uint plane_enabled; uint flip_y; vec4 plane; }`.
    fn clip_block(&mut self, buffer: Binding) -> u32 {
        let (uint, vec4) = (self.ty(Type::UINT), self.ty(Type::VEC4));
        let block = self.global(n::TYPE_STRUCT, &[uint, uint, vec4]);
        self.decorate(block, &[n::BLOCK]);
        for (member, offset) in [(0, 0), (1, 4), (2, 16)] {
            begin(&mut self.sections.decorations, n::MEMBER_DECORATE, &[block, member, n::OFFSET, offset]);
        }
        self.resource(n::CLASS_UNIFORM, block, buffer)
    }

    fn clip_member(&mut self, block: u32, member: u32, ty: Type) -> u32 {
        let (index, pointer) = (self.uint(member), self.pointer(n::CLASS_UNIFORM, ty));
        let place = self.id();
        self.inst(n::ACCESS_CHAIN, &[pointer, place, block, index]);
        self.result(n::LOAD, ty, &[place])
    }

    /// Whether a member of the clip block is not 0.
    fn is_set(&mut self, block: u32, member: u32) -> u32 {
        let (value, zero) = (self.clip_member(block, member, Type::UINT), self.uint(0));
        self.result(n::I_NOT_EQUAL, Type::BOOL, &[value, zero])
    }

    fn rounded(&mut self, op: u32, a: u32, b: u32) -> u32 {
        let id = self.result(op, Type::FLOAT, &[a, b]);
        self.decorate(id, &[n::NO_CONTRACTION]);
        id
    }

    /// The position's distance from the plane, or 0 if there is none.
    fn plane_distance(&mut self, block: u32, position: [u32; 4]) -> u32 {
        let plane = self.clip_member(block, 2, Type::VEC4);
        let products = [0, 1, 2, 3].map(|c| {
            let factor = self.result(n::COMPOSITE_EXTRACT, Type::FLOAT, &[plane, c]);
            self.rounded(n::F_MUL, factor, position[c as usize])
        });
        let sum = products[1..].iter().fold(products[0], |sum, &product| self.rounded(n::F_ADD, sum, product));
        let float = self.ty(Type::FLOAT);
        let zero = self.global(n::CONSTANT, &[float, 0]);
        let is_enabled = self.is_set(block, 0);
        self.result(n::SELECT, Type::FLOAT, &[is_enabled, sum, zero])
    }

    /// A component of an output.
    fn output(&mut self, component: Component) -> u32 {
        let float = self.ty(Type::FLOAT);
        match component {
            Component::Register(register, c) if self.outputs >> register & 1 != 0 => {
                let vector = self.result(n::LOAD, Type::VEC4, &[self.private[usize::from(register)]]);
                self.result(n::COMPOSITE_EXTRACT, Type::FLOAT, &[vector, c.into()])
            }
            // Magnitudes have the order of their bits, and every NaN is above 1.
            Component::Colour(register, c) if self.outputs >> register & 1 != 0 => {
                let given = self.output(Component::Register(register, c));
                let bits = self.result(n::BITCAST, Type::UINT, &[given]);
                let (mask, one) = (self.uint(i32::MAX as u32), self.uint(1.0f32.to_bits()));
                let magnitude = self.result(n::BITWISE_AND, Type::UINT, &[bits, mask]);
                let exceeds = self.result(n::U_LESS_THAN, Type::BOOL, &[one, magnitude]);
                let clamped = self.result(n::SELECT, Type::UINT, &[exceeds, one, magnitude]);
                self.result(n::BITCAST, Type::FLOAT, &[clamped])
            }
            Component::Register(..) | Component::Colour(..) | Component::Zero => self.global(n::CONSTANT, &[float, 0]),
            Component::One => self.global(n::CONSTANT, &[float, 1.0f32.to_bits()]),
        }
    }
}
