//! Numbers and structures of the header's section on code for the host's GPU, and their translation to
//! [`gpu_code`](crate::gpu_code).
//!
//! Invariant: the same fields in the same order as in the header; structures that begin with their
//! size have no padding.

use crate::capi::Fault;
use crate::capi::arguments::{at_most, input_slice, structures};
use crate::gpu_code::{
    Attribute, AttributeKind, Binding, Clip, Component, Control, Depth, Device, Dialect, Inputs, Integers, Interface,
    Member, Outputs, Position, UniformBlock, Varying,
};
use std::ffi::c_void;
use std::ptr::null;

pub const PJ_STAGE_VERTEX: u32 = 0;
pub const PJ_STAGE_COMPUTE: u32 = 1;
pub const PJ_OUTPUT_REGISTERS: u32 = 0;
pub const PJ_OUTPUT_MAPPED: u32 = 1;
pub const PJ_OUTPUT_BUFFER: u32 = 2;
pub const PJ_BOOLS_INTS_FLOATS: u32 = 0;
pub const PJ_BOOLS_FLOATS_INTS: u32 = 1;
pub const PJ_INTS_BOOLS_FLOATS: u32 = 2;
pub const PJ_INTS_FLOATS_BOOLS: u32 = 3;
pub const PJ_FLOATS_BOOLS_INTS: u32 = 4;
pub const PJ_FLOATS_INTS_BOOLS: u32 = 5;
pub const PJ_DEVICE_UNKNOWN: u32 = 0;
pub const PJ_DEVICE_DECLARED: u32 = 1;
pub const PJ_DEVICE_KNOWN: u32 = 2;
pub const PJ_GLSL_VULKAN: u32 = 0;
pub const PJ_GLSL_OPENGL: u32 = 1;
pub const PJ_GLSL_OPENGL_ES: u32 = 2;
pub const PJ_ATTRIBUTE_SIGNED: u32 = 1;
pub const PJ_ATTRIBUTE_UNSIGNED: u32 = 2;
pub const PJ_ATTRIBUTE_FIXED_W: u32 = 4;
pub const PJ_COMPONENT_ZERO: u8 = 64;
pub const PJ_COMPONENT_ONE: u8 = 65;
pub const PJ_COMPONENT_COLOUR: u8 = 128;
/// The colour of o15.w.
const COLOUR_END: u8 = PJ_COMPONENT_COLOUR + 63;
pub const PJ_POSITION: u32 = 1;
pub const PJ_POSITION_NEGATE_Z: u32 = 2;
pub const PJ_POSITION_FLIP_Y: u32 = 4;
pub const PJ_POSITION_CLIP_DEPTH: u32 = 8;
pub const PJ_POSITION_CLIP_PLANE: u32 = 16;
const POSITION_BITS: u32 = 31;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PjBinding {
    pub set: u32,
    pub binding: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjAttribute {
    pub location: u32,
    pub kind: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjVarying {
    pub location: u32,
    pub count: u32,
    pub components: [u8; 4],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjInterface {
    pub struct_size: usize,
    pub attributes: *const PjAttribute,
    pub varyings: *const PjVarying,
    pub varying_count: usize,
    pub stage: u32,
    pub outputs: u32,
    pub first_location: u32,
    pub position: u32,
    pub position_components: [u8; 4],
    pub uniform_order: u32,
    pub packed_integers: u32,
    pub uniforms: PjBinding,
    pub input_buffer: PjBinding,
    pub output_buffer: PjBinding,
    pub clip_block: PjBinding,
    pub reserved: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PjDevice {
    pub struct_size: usize,
    pub special_values: u32,
    pub rounding: u32,
    pub subnormals: u32,
    pub reserved: u32,
}

#[repr(C)]
pub struct PjGpuCodeInfo {
    pub struct_size: usize,
    pub spirv: *const u32,
    pub spirv_words: usize,
    pub inputs: u32,
    pub outputs: u32,
    pub equal_subnormals: u32,
    pub assumed_state: u32,
    pub assumed_temps: u64,
    pub assumed_outputs: u64,
    pub block_bytes: usize,
}

#[repr(C)]
pub struct PjGpuSelfTest {
    pub struct_size: usize,
    pub block: *const c_void,
    pub block_bytes: usize,
    pub count: usize,
    pub inputs: *const f32,
    pub outputs: *const f32,
}

structures! {
    PjInterface "pj_interface"
    PjDevice "pj_device"
    PjGpuCodeInfo "pj_gpu_code_info"
    PjGpuSelfTest "pj_gpu_self_test"
}

impl From<PjBinding> for Binding {
    fn from(PjBinding { set, binding }: PjBinding) -> Binding {
        Binding { set, binding }
    }
}

impl PjInterface {
    pub(super) const ZERO: PjInterface = PjInterface {
        struct_size: 0,
        attributes: null(),
        varyings: null(),
        varying_count: 0,
        stage: 0,
        outputs: 0,
        first_location: 0,
        position: 0,
        position_components: [0; 4],
        uniform_order: 0,
        packed_integers: 0,
        uniforms: PjBinding { set: 0, binding: 0 },
        input_buffer: PjBinding { set: 0, binding: 0 },
        output_buffer: PjBinding { set: 0, binding: 0 },
        clip_block: PjBinding { set: 0, binding: 0 },
        reserved: 0,
    };

    /// # Safety
    /// The arrays are null or have their lengths.
    pub(super) unsafe fn interface(&self) -> Result<Interface, Fault> {
        use Member::{Booleans, Floats, Integers as Ints};
        let members = match self.uniform_order {
            PJ_BOOLS_INTS_FLOATS => [Booleans, Ints, Floats],
            PJ_BOOLS_FLOATS_INTS => [Booleans, Floats, Ints],
            PJ_INTS_BOOLS_FLOATS => [Ints, Booleans, Floats],
            PJ_INTS_FLOATS_BOOLS => [Ints, Floats, Booleans],
            PJ_FLOATS_BOOLS_INTS => [Floats, Booleans, Ints],
            PJ_FLOATS_INTS_BOOLS => [Floats, Ints, Booleans],
            other => return Err(Fault::Range("pj_interface.uniform_order", other.into(), "0 to 5")),
        };
        at_most(self.packed_integers, 1, "pj_interface.packed_integers", "0 or 1")?;
        at_most(self.reserved, 0, "pj_interface.reserved", "0")?;
        let integers = if self.packed_integers == 1 { Integers::Bytes } else { Integers::Vectors };
        let PjBinding { set, binding } = self.uniforms;
        let uniforms = UniformBlock { set, binding, members, integers };
        let inputs = match self.stage {
            PJ_STAGE_VERTEX if self.attributes.is_null() => Inputs::default(),
            PJ_STAGE_VERTEX => {
                // SAFETY: the caller guarantees sixteen.
                let attributes = unsafe { input_slice(self.attributes, 16, "pj_interface.attributes") }?;
                let attributes = elements("pj_interface.attributes", attributes, PjAttribute::attribute)?;
                Inputs::Attributes(attributes.try_into().expect("sixteen elements"))
            }
            PJ_STAGE_COMPUTE => Inputs::Storage(self.input_buffer.into()),
            other => return Err(Fault::Range("pj_interface.stage", other.into(), "0 or 1")),
        };
        if self.outputs != PJ_OUTPUT_MAPPED {
            at_most(self.position, 0, "pj_interface.position", "0 without PJ_OUTPUT_MAPPED")?;
            at_most(self.varying_count as u64, 0, "pj_interface.varying_count", "0 without PJ_OUTPUT_MAPPED")?;
        }
        let outputs = match self.outputs {
            PJ_OUTPUT_REGISTERS => Outputs::Registers { first: self.first_location },
            PJ_OUTPUT_MAPPED => {
                at_most(self.varying_count as u64, 64, "pj_interface.varying_count", "at most 64")?;
                // SAFETY: the caller guarantees it.
                let varyings = unsafe { input_slice(self.varyings, self.varying_count, "pj_interface.varyings") }?;
                let varyings = elements("pj_interface.varyings", varyings, PjVarying::varying)?;
                Outputs::Mapped { varyings, position: self.position()? }
            }
            PJ_OUTPUT_BUFFER => Outputs::Storage(self.output_buffer.into()),
            other => return Err(Fault::Range("pj_interface.outputs", other.into(), "0 to 2")),
        };
        Ok(Interface { uniforms, inputs, outputs })
    }

    fn position(&self) -> Result<Option<Position>, Fault> {
        at_most(self.position, POSITION_BITS.into(), "pj_interface.position", "sums of PJ_POSITION bits, at most 31")?;
        let has = |bit| self.position & bit != 0;
        if !has(PJ_POSITION) {
            at_most(self.position, 0, "pj_interface.position", "0, or PJ_POSITION and other bits")?;
            return Ok(None);
        }
        let mut components = [Component::Zero; 4];
        for (to, &from) in components.iter_mut().zip(&self.position_components) {
            *to = component(from, "one of pj_interface.position_components")?;
        }
        let depth = if has(PJ_POSITION_NEGATE_Z) { Depth::Negated } else { Depth::Unchanged };
        let clip = match (has(PJ_POSITION_CLIP_DEPTH), has(PJ_POSITION_CLIP_PLANE)) {
            (_, true) => Clip::Plane(self.clip_block.into()),
            (true, false) => Clip::Depth,
            (false, false) => Clip::None,
        };
        Ok(Some(Position { components, depth, flip_y: has(PJ_POSITION_FLIP_Y), clip }))
    }
}

impl PjAttribute {
    pub(in crate::capi) fn new(attribute: &Attribute) -> PjAttribute {
        let kind = match attribute.kind {
            AttributeKind::Float => 0,
            AttributeKind::Signed => PJ_ATTRIBUTE_SIGNED,
            AttributeKind::Unsigned => PJ_ATTRIBUTE_UNSIGNED,
        };
        let fixed_w = if attribute.fixed_w { PJ_ATTRIBUTE_FIXED_W } else { 0 };
        PjAttribute { location: attribute.location, kind: kind | fixed_w }
    }

    fn attribute(&self) -> Result<Attribute, Fault> {
        let kind = match self.kind & !PJ_ATTRIBUTE_FIXED_W {
            0 => AttributeKind::Float,
            PJ_ATTRIBUTE_SIGNED => AttributeKind::Signed,
            PJ_ATTRIBUTE_UNSIGNED => AttributeKind::Unsigned,
            _ => {
                let kinds = "0, PJ_ATTRIBUTE_SIGNED (1) or PJ_ATTRIBUTE_UNSIGNED (2), and PJ_ATTRIBUTE_FIXED_W (4)";
                return Err(Fault::Range("pj_attribute.kind", self.kind.into(), kinds));
            }
        };
        Ok(Attribute { location: self.location, kind, fixed_w: self.kind & PJ_ATTRIBUTE_FIXED_W != 0 })
    }
}

impl PjVarying {
    pub(in crate::capi) fn new(location: u32, components: &[Component]) -> PjVarying {
        let mut numbers = [0; 4];
        numbers.iter_mut().zip(components).for_each(|(to, &from)| *to = number_of(from));
        PjVarying { location, count: components.len() as u32, components: numbers }
    }

    fn varying(&self) -> Result<Varying, Fault> {
        let components = self.components.get(..self.count as usize).filter(|components| !components.is_empty());
        let components = components.ok_or(Fault::Range("pj_varying.count", self.count.into(), "1 to 4"))?;
        let components =
            components.iter().map(|&c| component(c, "one of pj_varying.components")).collect::<Result<_, _>>()?;
        Ok(Varying { location: self.location, components })
    }
}

/// Converts each element of an array.
fn elements<T, U>(array: &'static str, from: &[T], convert: impl Fn(&T) -> Result<U, Fault>) -> Result<Vec<U>, Fault> {
    let convert = |(n, element)| convert(element).map_err(|fault| fault.of_element(array, n));
    from.iter().enumerate().map(convert).collect()
}

/// The number of a component.
pub(in crate::capi) fn number_of(component: Component) -> u8 {
    match component {
        Component::Register(n, c) => 4 * n + c,
        Component::Colour(n, c) => PJ_COMPONENT_COLOUR + 4 * n + c,
        Component::Zero => PJ_COMPONENT_ZERO,
        Component::One => PJ_COMPONENT_ONE,
    }
}

fn component(number: u8, name: &'static str) -> Result<Component, Fault> {
    match number {
        0..PJ_COMPONENT_ZERO => Ok(Component::Register(number / 4, number % 4)),
        PJ_COMPONENT_ZERO => Ok(Component::Zero),
        PJ_COMPONENT_ONE => Ok(Component::One),
        PJ_COMPONENT_COLOUR..=COLOUR_END => {
            let number = number - PJ_COMPONENT_COLOUR;
            Ok(Component::Colour(number / 4, number % 4))
        }
        _ => Err(Fault::Range(name, number.into(), "a component of an output (0 to 63), 64, 65, or 128 to 191")),
    }
}

impl PjDevice {
    pub(super) fn device(&self) -> Result<Device, Fault> {
        let control = |number: u32, name| match number {
            PJ_DEVICE_UNKNOWN => Ok(Control::Unknown),
            PJ_DEVICE_DECLARED => Ok(Control::Declared),
            PJ_DEVICE_KNOWN => Ok(Control::Known),
            _ => Err(Fault::Range(name, number.into(), "PJ_DEVICE_UNKNOWN (0) to PJ_DEVICE_KNOWN (2)")),
        };
        at_most(self.reserved, 0, "pj_device.reserved", "0")?;
        Ok(Device {
            special_values: control(self.special_values, "pj_device.special_values")?,
            rounding: control(self.rounding, "pj_device.rounding")?,
            subnormals: control(self.subnormals, "pj_device.subnormals")?,
        })
    }
}

/// The language of a text.
pub(super) fn dialect(number: u32) -> Result<Dialect, Fault> {
    match number {
        PJ_GLSL_VULKAN => Ok(Dialect::Vulkan),
        PJ_GLSL_OPENGL => Ok(Dialect::OpenGl),
        PJ_GLSL_OPENGL_ES => Ok(Dialect::OpenGlEs),
        _ => Err(Fault::Range("dialect", number.into(), "PJ_GLSL_VULKAN (0) to PJ_GLSL_OPENGL_ES (2)")),
    }
}
