//! Every selector, sign and mask of an operand descriptor, in each source of an operation. The
//! words are made here, bit by bit, so that no encoder can repeat a decoder's mistake.

use crate::{BATCH, Subject, engines, share, spread};
use libtest_mimic::{Failed, Trial};
use picajit::isa::numeric::{Precision, same};
use picajit::program::Program;
use picajit::state::{Uniforms, Vec4};
use std::sync::Arc;

/// Descriptors of a program: one for each output register.
const OUTPUTS: usize = 16;

/// Signs, selectors and masks of one source.
const DESCRIPTORS: u32 = 1 << 13;

/// Vertices of a program: two groups of eight and a rest.
const VERTICES: usize = 17;

/// An operation whose source `source` varies; the others are plain.
struct Operation {
    name: &'static str,
    /// Format 1 has the opcode in bits 31:26, format 5 (MAD) in 31:29.
    opcode: u32,
    source: usize,
    result: fn(Precision, [Vec4; 3]) -> Vec4,
}

const OPERATIONS: [Operation; 9] = [
    Operation { name: "mov", opcode: 0x13, source: 0, result: |_, [a, ..]| a },
    Operation { name: "rcp", opcode: 0x0E, source: 0, result: |p, [a, ..]| [p.rcp(a[0]); 4] },
    Operation { name: "add::source-1", opcode: 0x00, source: 0, result: add },
    Operation { name: "add::source-2", opcode: 0x00, source: 1, result: add },
    Operation { name: "dp4::source-1", opcode: 0x02, source: 0, result: dp4 },
    Operation { name: "dp4::source-2", opcode: 0x02, source: 1, result: dp4 },
    Operation { name: "mad::source-1", opcode: MAD, source: 0, result: mad },
    Operation { name: "mad::source-2", opcode: MAD, source: 1, result: mad },
    Operation { name: "mad::source-3", opcode: MAD, source: 2, result: mad },
];

const MAD: u32 = 0x38;
const MOV: u32 = 0x13;
const END: u32 = 0x22 << 26;

fn add(p: Precision, [a, b, _]: [Vec4; 3]) -> Vec4 {
    std::array::from_fn(|n| p.add(a[n], b[n]))
}

fn dp4(p: Precision, [a, b, _]: [Vec4; 3]) -> Vec4 {
    [p.dp4(a, b); 4]
}

fn mad(p: Precision, [a, b, c]: [Vec4; 3]) -> Vec4 {
    std::array::from_fn(|n| p.mad(a[n], b[n], c[n]))
}

/// Selector bytes have x in bits 7:6; this one is xyzw.
const PLAIN: u32 = 0x1B;

/// Descriptor number `n` of those that vary in a source.
fn descriptor(source: usize, n: u32) -> u32 {
    let (mask, sign, selector) = (n & 15, n >> 4 & 1, n >> 5);
    let fields = [0, 1, 2].map(|at| if at == source { sign | selector << 1 } else { PLAIN << 1 });
    mask | fields[0] << 4 | fields[1] << 13 | fields[2] << 22
}

/// A word of format 1, or of format 5 for MAD. Sources are `r0` and so on.
fn word(opcode: u32, output: u32, descriptor: u32) -> u32 {
    const R: u32 = 0x10;
    match opcode {
        // SRC1 in 21:17, SRC2 in 16:10, SRC3 in 9:5.
        MAD => 7 << 29 | output << 24 | R << 17 | (R + 1) << 10 | (R + 2) << 5 | descriptor,
        // SRC1 in 18:12, SRC2 in 11:7.
        _ => opcode << 26 | output << 21 | R << 12 | (R + 1) << 7 | descriptor,
    }
}

/// r0 to r2 of v0: its components in other orders. Then every output is written, so that a mask
/// leaves something behind, and at last by the operation.
fn program(operation: &Operation, first: u32) -> Result<Arc<Program>, Failed> {
    let mut descriptors: Vec<u32> = (0..OUTPUTS as u32).map(|n| descriptor(operation.source, first + n)).collect();
    let mut code = Vec::new();
    for (temporary, order) in ORDERS.iter().enumerate() {
        let selector = order.iter().fold(0, |selector, &from| selector << 2 | from as u32);
        descriptors.push(15 | selector << 5);
        // A destination from 0x10 on is a temporary register.
        code.push(MOV << 26 | (0x10 + temporary as u32) << 21 | (OUTPUTS + temporary) as u32);
    }
    descriptors.push(15 | PLAIN << 5);
    let plain = (OUTPUTS + ORDERS.len()) as u32;
    code.extend((0..OUTPUTS as u32).map(|n| word(MOV, n, plain)));
    code.extend((0..OUTPUTS as u32).map(|n| word(operation.opcode, n, n)));
    code.push(END);
    Ok(Arc::new(Program::from_words(&code, &descriptors)?))
}

const ORDERS: [[usize; 4]; 3] = [[0, 1, 2, 3], [2, 3, 1, 0], [3, 0, 0, 1]];

fn want(operation: &Operation, precision: Precision, descriptor: u32, v0: Vec4) -> Vec4 {
    let registers = ORDERS.map(|order| order.map(|from| v0[from]));
    let sources = [0, 1, 2].map(|source| {
        let field = descriptor >> (4 + 9 * source) & 0x1FF;
        let component = |n: u32| registers[source][(field >> 1 >> (6 - 2 * n) & 3) as usize];
        [0, 1, 2, 3].map(|n| if field & 1 != 0 { -component(n) } else { component(n) })
    });
    let result = (operation.result)(precision, sources);
    std::array::from_fn(|n| if descriptor >> (3 - n) & 1 != 0 { result[n] } else { registers[0][n] })
}

fn check(operation: &Operation, precision: Precision) -> Result<(), Failed> {
    let programs = u64::from(DESCRIPTORS) / OUTPUTS as u64;
    let uniforms = Uniforms::new();
    // Ordinary numbers, of which no two are equal.
    let inputs: [[Vec4; 1]; VERTICES] =
        std::array::from_fn(|n| [[1.5, -2.25, 3.125, 0.0625].map(|x| x * (n as f32 + 1.0))]);
    for n in share(256).of(programs) {
        // Neighbours differ in the mask.
        let base = spread(n, programs) as u32 * OUTPUTS as u32;
        let program = program(operation, base)?;
        for engine in engines::on_units() {
            let mut outputs = [[[0.0; 4]; OUTPUTS]; VERTICES];
            let name = engine.name;
            let mut subject = Subject::new(engine, &program, precision)?;
            subject.run(&uniforms, 0, &inputs, &mut outputs)?;
            for (input, outputs) in inputs.iter().zip(&outputs) {
                for (n, got) in outputs.iter().enumerate() {
                    let descriptor = descriptor(operation.source, base + n as u32);
                    let want = want(operation, precision, descriptor, input[0]);
                    if !got.iter().zip(&want).all(|(a, b)| same(*a, *b)) {
                        return Err(format!("{name}: descriptor {descriptor:x}: {got:?}, not {want:?}").into());
                    }
                }
            }
            subject.check_groups()?;
        }
    }
    Ok(())
}

pub fn trials() -> Vec<Trial> {
    const { assert!(VERTICES as u64 <= BATCH) };
    let all = Precision::ALL.into_iter().flat_map(|precision| OPERATIONS.iter().map(move |o| (o, precision)));
    all.map(|(o, precision)| Trial::test(format!("swizzles::{}::{precision}", o.name), move || check(o, precision)))
        .collect()
}
