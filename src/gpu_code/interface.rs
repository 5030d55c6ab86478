//! How a host's GPU code meets its surroundings: uniform block, inputs, outputs; what the device keeps exact.
//!
//! Modules can't be linked, so a module is whole and its surroundings are described.

use crate::ir::register_set::RegisterSet;
use crate::isa::numeric::Precision;
use crate::state::Uniforms;
use std::ops::Range;

/// What surrounds the code of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interface {
    /// The uniforms' place and order.
    pub uniforms: UniformBlock,
    /// Where `v0-v15` come from.
    pub inputs: Inputs,
    /// Where `o0-o15` go.
    pub outputs: Outputs,
}

/// A uniform buffer in std140 layout with all uniforms. In float24 its floats hold what [`Uniforms::narrow`] gives.
///
/// [`Uniforms::narrow`]: crate::state::Uniforms::narrow
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UniformBlock {
    /// Descriptor set. OpenGL has none.
    pub set: u32,
    /// Binding.
    pub binding: u32,
    /// The order of its members.
    pub members: [Member; 3],
    /// How integer uniforms are stored.
    pub integers: Integers,
}

/// A member of the uniform block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// `uint`, bit n is `bn`.
    Booleans,
    /// `i0-i3`, as [`Integers`] says.
    Integers,
    /// `vec4[96]`
    Floats,
}

/// How integer uniforms are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Integers {
    /// `uvec4[4]`: a number in each component.
    Vectors,
    /// `uvec4`: component n is `in`, with x in its low byte.
    Bytes,
}

/// Where inputs come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Inputs {
    /// Vertex attributes: of `vn` element n.
    Attributes([Attribute; 16]),
    /// A compute program: a storage buffer with sixteen vectors for each vertex.
    Storage(Binding),
}

/// A vertex attribute. The components that its format lacks are (0, 0, 0, 1), as Vulkan and OpenGL have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attribute {
    /// Its location.
    pub location: u32,
    /// The type that the pipeline gives it.
    pub kind: AttributeKind,
    /// Takes 1 for w. For arrays of three components in a format of four, whose w is what follows in memory.
    pub fixed_w: bool,
}

/// The type of an attribute; integers become the floats that equal them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttributeKind {
    /// `vec4`
    Float,
    /// `ivec4`
    Signed,
    /// `uvec4`
    Unsigned,
}

/// Where a buffer is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Descriptor set.
    pub set: u32,
    /// Binding.
    pub binding: u32,
}

/// Where outputs go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outputs {
    /// Each written register `on` at location `first + n`, for a stage of the host's own.
    Registers {
        /// The location of `o0`.
        first: u32,
    },
    /// What the host's own stages read.
    Mapped {
        /// Outputs with locations.
        varyings: Vec<Varying>,
        /// The built-in position.
        position: Option<Position>,
    },
    /// A storage buffer with sixteen vectors for each vertex, of which the written ones are set.
    Storage(Binding),
}

/// An output with a location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Varying {
    /// Its location.
    pub location: u32,
    /// Its components, one to four.
    pub components: Vec<Component>,
}

/// A component of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// Component 0-3 of a register `o`; zero if the program does not write that register.
    Register(u8, u8),
    /// The magnitude of such a component, at most 1, and 1 of a NaN: what the rasteriser takes of a colour.
    Colour(u8, u8),
    /// Zero.
    Zero,
    /// One.
    One,
}

/// The built-in position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// x, y, z and w as the program gives them.
    pub components: [Component; 4],
    /// The console's depth, from 0 to -w, to the host's.
    pub depth: Depth,
    /// Negates y, for hosts whose first line is the top one.
    pub flip_y: bool,
    /// The built-in clip distances.
    pub clip: Clip,
}

/// Built-in clip distances. What they drop is not drawn; no promise covers their last bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clip {
    /// None.
    None,
    /// Distance 0: -z, the console's far side, for hosts whose own volume reaches further.
    Depth,
    /// Distance 0 as in [`Clip::Depth`], and distance 1: the product of the position and a plane, from a block of the
    /// host's: std140 `{ uint plane_enabled; uint flip_y; vec4 plane; }`, 32 bytes. Where `flip_y` is not 0 y is
    /// negated (once more). Both distances are those of the position as the program gives it.
    Plane(Binding),
}

/// The host's range of depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Depth {
    /// z is left as it is.
    Unchanged,
    /// 0 to w: -z.
    Negated,
}

impl Outputs {
    /// The output components that it names. Registers as such it takes only where the program writes them.
    pub(super) fn named(&self) -> RegisterSet {
        let Outputs::Mapped { varyings, position } = self else { return RegisterSet::NONE };
        let positions = position.iter().flat_map(|position| &position.components);
        let components = varyings.iter().flat_map(|varying| &varying.components).chain(positions);
        components.fold(RegisterSet::NONE, |all, component| match *component {
            Component::Register(n, c) | Component::Colour(n, c) => all | RegisterSet::of_output(n, 1 << c),
            Component::Zero | Component::One => all,
        })
    }
}

impl Interface {
    /// A compute program in groups of 64, for which the buffers need room: inputs in storage buffer 1, outputs in 2, uniforms in buffer 0 of set 0.
    pub fn compute() -> Interface {
        let buffer = |binding| Binding { set: 0, binding };
        Interface {
            uniforms: UniformBlock::default(),
            inputs: Inputs::Storage(buffer(1)),
            outputs: Outputs::Storage(buffer(2)),
        }
    }

    /// A vertex stage: attributes are `vec4`s at their registers' numbers, outputs are registers from location 0 on.
    pub fn vertex() -> Interface {
        let outputs = Outputs::Registers { first: 0 };
        Interface { uniforms: UniformBlock::default(), inputs: Inputs::default(), outputs }
    }

    /// What no module can say about it, if anything.
    pub(super) fn fault(&self) -> Option<String> {
        let is_register = |component: &Component| match *component {
            Component::Register(n, c) | Component::Colour(n, c) => n < 16 && c < 4,
            Component::Zero | Component::One => true,
        };
        let mut order = self.uniforms.members;
        order.sort();
        if order != [Member::Booleans, Member::Integers, Member::Floats] {
            return Some("the uniform block lacks a member".into());
        }
        let mut bindings = vec![((self.uniforms.set, self.uniforms.binding), "the uniforms")];
        if let Inputs::Storage(buffer) = &self.inputs {
            bindings.push(((buffer.set, buffer.binding), "the inputs"));
        }
        if let Outputs::Storage(buffer) = &self.outputs {
            bindings.push(((buffer.set, buffer.binding), "the outputs"));
        }
        if let Clip::Plane(block) = self.clip() {
            bindings.push(((block.set, block.binding), "the block of clip distances"));
        }
        if let Some(((set, binding), a, b)) = same(bindings) {
            return Some(format!("{a} and {b} have binding {binding} of set {set}"));
        }
        let Outputs::Mapped { varyings, position } = &self.outputs else { return None };
        if self.is_compute() {
            return Some("a compute program has no varyings and no position".into());
        }
        if varyings.iter().any(|varying| !(1..=4).contains(&varying.components.len())) {
            return Some("a varying has no or more than four components".into());
        }
        let positions = position.iter().flat_map(|position| &position.components);
        if !varyings.iter().flat_map(|varying| &varying.components).chain(positions).all(is_register) {
            return Some("an output component exceeds o15.w".into());
        }
        let (location, a, b) = same(varyings.iter().map(|varying| varying.location).zip(0..))?;
        Some(format!("varyings {a} and {b} have location {location}"))
    }

    /// [`Interface::fault`] of a program that reads these input registers.
    pub(super) fn fault_of_inputs(&self, read: u16) -> Option<String> {
        let Inputs::Attributes(attributes) = &self.inputs else { return None };
        let read = attributes.iter().zip(0..).filter(|(_, n)| read >> n & 1 != 0);
        let (location, a, b) = same(read.map(|(attribute, n)| (attribute.location, n)))?;
        Some(format!("the attributes of v{a} and v{b} have location {location}"))
    }

    /// The clip distances.
    pub(super) fn clip(&self) -> Clip {
        match &self.outputs {
            Outputs::Mapped { position: Some(position), .. } => position.clip,
            _ => Clip::None,
        }
    }

    /// Whether it describes a compute program.
    pub fn is_compute(&self) -> bool {
        matches!(self.inputs, Inputs::Storage(_))
    }
}

/// A place that two have.
fn same<P: Copy + Eq, N: Copy>(places: impl IntoIterator<Item = (P, N)>) -> Option<(P, N, N)> {
    let places: Vec<(P, N)> = places.into_iter().collect();
    let second = |(n, &(place, name)): (usize, &(P, N))| {
        let first = places[..n].iter().find(|(other, _)| *other == place)?;
        Some((place, first.1, name))
    };
    places.iter().enumerate().find_map(second)
}

impl Default for UniformBlock {
    /// `uint b; uvec4 i[4]; vec4 f[96];` at binding 0 of set 0: 1,616 bytes.
    fn default() -> UniformBlock {
        let members = [Member::Booleans, Member::Integers, Member::Floats];
        UniformBlock { set: 0, binding: 0, members, integers: Integers::Vectors }
    }
}

impl Default for Inputs {
    /// `vec4`s at the registers' numbers.
    fn default() -> Inputs {
        let attribute =
            |location: usize| Attribute { location: location as u32, kind: AttributeKind::Float, fixed_w: false };
        Inputs::Attributes(std::array::from_fn(attribute))
    }
}

impl UniformBlock {
    /// The index of a member, and its offset in bytes.
    pub fn place(&self, member: Member) -> (u32, u32) {
        let size = |member: Member| match (member, self.integers) {
            (Member::Booleans, _) => 4,
            (Member::Integers, Integers::Vectors) => 64,
            (Member::Integers, Integers::Bytes) => 16,
            (Member::Floats, _) => 96 * 16,
        };
        let mut offset = 0u32;
        for (index, &other) in self.members.iter().enumerate() {
            if other != Member::Booleans {
                offset = offset.next_multiple_of(16);
            }
            if other == member {
                return (index as u32, offset);
            }
            offset += size(other);
        }
        unreachable!("a block has each member")
    }

    /// Stores the block for these uniforms, which are narrowed if the format is float24. Returns the range of bytes
    /// that this changes.
    pub(super) fn store(&self, uniforms: &Uniforms, precision: Precision, block: &mut [u8]) -> Range<usize> {
        let mut changed = Changed { least: usize::MAX, end: 0 };
        let at = |member: Member| self.place(member).1 as usize;
        changed.store(block, at(Member::Booleans), u32::from(uniforms.b).to_ne_bytes());
        for (n, &integers) in uniforms.i.iter().enumerate() {
            let to = at(Member::Integers);
            match self.integers {
                Integers::Vectors => changed.store_words(block, to + 16 * n, integers.map(u32::from)),
                Integers::Bytes => changed.store(block, to + 4 * n, u32::from_le_bytes(integers).to_ne_bytes()),
            }
        }
        let first = at(Member::Floats);
        for (n, vector) in uniforms.c.iter().enumerate() {
            let bits = vector.map(f32::to_bits);
            // What equals the contents is narrow.
            if changed.differs(block, first + 16 * n, bits) {
                changed.store_words(block, first + 16 * n, vector.map(|x| precision.operand(x).to_bits()));
            }
        }
        changed.least.min(changed.end)..changed.end
    }

    /// Its size in bytes.
    pub fn size(&self) -> u32 {
        let end = |member| match (member, self.integers) {
            (Member::Booleans, _) => self.place(member).1 + 4,
            (Member::Integers, Integers::Vectors) => self.place(member).1 + 64,
            (Member::Integers, Integers::Bytes) => self.place(member).1 + 16,
            (Member::Floats, _) => self.place(member).1 + 96 * 16,
        };
        self.members.iter().map(|&member| end(member)).max().expect("a block has members").next_multiple_of(16)
    }
}

/// What a device keeps, from `VkPhysicalDeviceFloatControlsProperties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// Signed zeros, infinities and NaN: `shaderSignedZeroInfNanPreserveFloat32`.
    pub special_values: Control,
    /// Rounding to nearest: `shaderRoundingModeRTEFloat32`.
    pub rounding: Control,
    /// Subnormals: `shaderDenormPreserveFloat32`.
    pub subnormals: Control,
}

/// A property of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// The device reports it, so the module demands it.
    Declared,
    /// The device does not report it, but the host knows it, from a test of this device and driver.
    Known,
    /// The host does not know it.
    Unknown,
}

impl Device {
    /// A device that reports everything but subnormals.
    pub const PLAIN: Device =
        Device { special_values: Control::Declared, rounding: Control::Declared, subnormals: Control::Unknown };
}

/// The bytes of a block that change.
struct Changed {
    least: usize,
    end: usize,
}

impl Changed {
    fn store<const N: usize>(&mut self, block: &mut [u8], at: usize, bytes: [u8; N]) {
        let to = block[at..].first_chunk_mut().expect("the block has each member");
        if *to != bytes {
            *to = bytes;
            (self.least, self.end) = (self.least.min(at), self.end.max(at + N));
        }
    }

    /// Stores each word, so that the range is exact.
    #[cold]
    fn store_each(&mut self, block: &mut [u8], at: usize, words: [u32; 4]) {
        for (n, word) in words.into_iter().enumerate() {
            self.store(block, at + 4 * n, word.to_ne_bytes());
        }
    }

    #[inline]
    fn store_words(&mut self, block: &mut [u8], at: usize, words: [u32; 4]) {
        if self.differs(block, at, words) {
            self.store_each(block, at, words);
        }
    }

    #[inline]
    fn differs(&self, block: &[u8], at: usize, words: [u32; 4]) -> bool {
        let old: &[u8; 16] = block[at..].first_chunk().expect("the block has each member");
        // Not a comparison of slices, which is a call.
        let old = old.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
        old.zip(words).fold(0, |difference, (old, new)| difference | (old ^ new)) != 0
    }
}
