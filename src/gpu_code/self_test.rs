//! A program, inputs and the oracle's outputs, by which a host tests a device and its driver.

use super::{Control, Device, GpuCode, Interface, NoGpuCode};
use crate::interp::Interp;
use crate::isa::numeric::{Precision, same};
use crate::kernel::{Config, Kernel};
use crate::program::{Entry, Program};
use crate::state::{NoEmitter, Registers, Uniforms, Unit};

/// Numbers of which no operation of the program makes a subnormal number.
const NUMBERS: [f32; 20] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    0.75,
    -1.5,
    std::f32::consts::PI,
    1.0 / 3.0,
    -0.333_333_28,
    2.0,
    -123_456.79,
    1_048_577.0,
    1.0e-10,
    -1.0e10,
    3.0e37,
    0.999_999_94,
    255.0,
];

/// Subnormal numbers, and those of which operations make some.
const SMALL: [f32; 8] = [
    f32::from_bits(1),
    -f32::from_bits(0x0040_0001),
    f32::MIN_POSITIVE,
    -1.5 * f32::MIN_POSITIVE,
    f32::MAX,
    -126.5,
    1.0e-20,
    -3.0e-20,
];

/// Vertices with numbers of either kind.
const VERTICES: [usize; 2] = [96, 32];

/// The words of the program, whose source is in this file's test.
#[rustfmt::skip]
const CODE: [u32; 51] = [
    0x4E00_0000, 0x4E20_1000, 0x4E80_2000, 0x2001_0880, 0x0021_0880, 0xE220_4680, 0x0861_0881, 0x0461_0882,
    0x0C61_0A03, 0x2241_0800, 0x0241_2A04, 0x0861_2885, 0x3881_0001, 0x3881_0006, 0x3881_0007, 0x3881_0008,
    0x3CA1_0001, 0x3CA1_0006, 0x3CA1_0007, 0x3CA1_0008, 0x14C1_0001, 0x14C1_0006, 0x14C1_0007, 0x14C1_0008,
    0x18E1_0001, 0x18E1_0006, 0x18E1_0007, 0x18E1_0008, 0x3101_0889, 0x3501_088A, 0x2521_0889, 0x2921_088A,
    0x2D41_0000, 0x4801_1009, 0x4D6A_8009, 0x4D72_800A, 0x1D81_0000, 0x11A1_0880, 0x4E62_1000, 0xA400_B400,
    0xF326_4220, 0xBAA1_0889, 0xA380_B001, 0x0261_3A00, 0x2262_3980, 0x8400_0000, 0x4DC1_3000, 0x9C00_C401,
    0x4DE1_4000, 0x4DE1_0000, 0x8800_0000,
];
const OPDESCS: [u32; 11] = [
    0x0D86_C36F,
    0x0006_C368,
    0x0006_C364,
    0x0006_C362,
    0x0006_C37F,
    0x0006_C361,
    0x0000_0AA4,
    0x0000_1542,
    0x0000_1FE1,
    0x0005_436C,
    0x0006_C363,
];

/// A test of a device: the code, its inputs and the outputs that a device must give.
///
/// The host makes a pipeline of the code, gives it the block and the inputs, and asks [`SelfTest::differences`] about
/// the outputs. A device without differences may be trusted with a `Device` whose properties are [`Control::Known`].
#[derive(Clone, Debug)]
pub struct SelfTest {
    /// The code, for the interface and the device as the host describes them.
    pub code: GpuCode,
    /// The contents of the uniform block.
    pub block: Vec<u8>,
    /// `v0-v15` of each vertex. `v0-v2` are read.
    pub inputs: Vec<Registers>,
    /// `o0-o15` of each vertex. [`GpuCode::outputs`] says which are written.
    pub outputs: Vec<Registers>,
}

impl SelfTest {
    /// The test for a number format. Subnormal numbers are among its inputs if the device is said to keep them, and in
    /// float24, where it need not.
    pub fn new(precision: Precision, interface: &Interface, device: &Device) -> Result<SelfTest, NoGpuCode> {
        let program = Program::from_words(&CODE, &OPDESCS).expect("a short program");
        let (entry, config) = (Entry::vertex(0), Config { precision, ..Config::default() });
        let code = GpuCode::new(&program, entry, &config, interface, device)?;
        let has_subnormals = precision != Precision::F32 || device.subnormals != Control::Unknown;
        let inputs = inputs(has_subnormals);
        let mut uniforms = uniforms();
        let block = code.uniform_block(&uniforms);
        uniforms.narrow(precision);
        let kernel = Interp.kernel(&program, entry, &config);
        let outputs = inputs
            .iter()
            .map(|&v| {
                let mut unit = Unit { v, ..Unit::new() };
                kernel.run(&uniforms, &mut unit, &mut NoEmitter);
                *unit.outputs()
            })
            .collect();
        Ok(SelfTest { code, block, inputs, outputs })
    }

    /// The number of components that differ from [`SelfTest::outputs`], of registers that the program writes. Any NaN
    /// equals any NaN. Missing vertices differ.
    pub fn differences(&self, outputs: &[Registers]) -> usize {
        let written = self.code.outputs();
        let missing = self.outputs.len().saturating_sub(outputs.len()) * 4 * written.count_ones() as usize;
        let differ = |want: &Registers, got: &Registers| {
            let registers = want.iter().zip(got).enumerate().filter(|(n, _)| written >> n & 1 != 0);
            registers
                .flat_map(|(_, (want, got))| want.iter().zip(got))
                .filter(|(want, got)| !same(**want, **got))
                .count()
        };
        self.outputs.iter().zip(outputs).map(|(want, got)| differ(want, got)).sum::<usize>() + missing
    }
}

fn uniforms() -> Uniforms {
    let mut uniforms = Uniforms::new();
    for (n, c) in uniforms.c.iter_mut().enumerate() {
        *c = std::array::from_fn(|k| n as f32 * 0.25 - k as f32);
    }
    uniforms.i[0] = [2, 1, 1, 0];
    uniforms.b = 1;
    uniforms
}

/// Each number meets each other in some component.
fn inputs(has_subnormals: bool) -> Vec<Registers> {
    let all: Vec<f32> = NUMBERS.into_iter().chain(SMALL).collect();
    let vertex = |numbers: &[f32], k: usize| -> Registers {
        let number = |at: usize| numbers[at % numbers.len()];
        let mut v = Registers::default();
        v[0] = std::array::from_fn(|c| number(4 * k + c));
        v[1] = std::array::from_fn(|c| number(k / 5 + 3 * c + 7 * k));
        v[2] = std::array::from_fn(|c| number(k / 3 + 11 * c + 1));
        v
    };
    let ordinary = (0..VERTICES[0]).map(|k| vertex(&NUMBERS, k));
    let small = (0..VERTICES[1]).filter(|_| has_subnormals).map(|k| vertex(&all, 3 * k + 5));
    ordinary.chain(small).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    const SOURCE: &str = ".proc main
        mov r0, v0
        mov r1, v1
        mov r4, v2
        mul o0, r0, r1
        add o1, r0, r1
        mad o2, r0, r1, r4
        dp4 o3.x, r0, r1
        dp3 o3.y, r0, r1
        dph o3.z, r0, r4
        mul r2, r0, r0
        add r2, -r2, r4
        dp4 o3.w, r2, r1
        rcp o4.x, r0.x
        rcp o4.y, r0.y
        rcp o4.z, r0.z
        rcp o4.w, r0.w
        rsq o5.x, r0.x
        rsq o5.y, r0.y
        rsq o5.z, r0.z
        rsq o5.w, r0.w
        ex2 o6.x, r0.x
        ex2 o6.y, r0.y
        ex2 o6.z, r0.z
        ex2 o6.w, r0.w
        lg2 o7.x, r0.x
        lg2 o7.y, r0.y
        lg2 o7.z, r0.z
        lg2 o7.w, r0.w
        max o8.xy, r0, r1
        min o8.zw, r0, r1
        sge o9.xy, r0, r1
        slt o9.zw, r0, r1
        flr o10, r0
        mova a0.xy, r1
        mov o11.xy, c8[a0.x]
        mov o11.zw, c8[a0.y]
        litp o12, r0
        dst o13, r0, r1
        mov r3, c1
        for i0
            mad r3, r3, r0, r1
            cmp r0.xy, lt, ge, r1.xy
            ifc cmp.x
                add r3, r3, r4
            .else
                mul r3, c3, r3
            .end
        .end
        mov o14, r3
        ifu b0
            mov o15, r4
        .else
            mov o15, r0
        .end
        end
        .end
    ";

    #[test]
    fn the_words_are_those_of_the_source() {
        let program = text::assemble(SOURCE).unwrap_or_else(|e| panic!("{e}")).shbin.program().unwrap();
        assert_eq!((program.code(), program.opdescs()), (&CODE[..], &OPDESCS[..]));
    }
}
