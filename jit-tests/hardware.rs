//! Rows of the discrepancy table that no assembly text can show: table sizes, and duties of the
//! host. One named test each, with the header that [`crate::isa_tables`] reads. Tests of engine
//! behaviour run on every engine.

use crate::engines::{Engine, engines};
use libtest_mimic::Trial;
use picajit::container::shbin::Shbin;
use picajit::internals::kernel::Config;
use picajit::isa::{MAX_CODE_WORDS, Stage};
use picajit::program::{Entry, Program, ProgramError};
use picajit::semantics::{OutputMap, SEMANTICS};
use picajit::state::{Batch, Exit, NoEmitter, Registers, Uniforms, Unit};
use picajit::text;
use std::sync::Arc;

/// A test and its header.
pub struct HostTest {
    /// Named like a file of `hardware/`: `row-12-...`.
    pub name: &'static str,
    /// Header lines, as at the top of a file.
    pub header: &'static str,
    run: fn() -> Result<(), String>,
}

/// All of them, by row.
pub const ENTRIES: &[HostTest] = &[
    HostTest {
        name: "row-12-descriptors",
        header: "
            ; row: 12
            ; behaviour: an instruction can name 128 descriptors; a longer upload is accepted and cut
            ; evidence: DOC, TOOL: a field of seven bits
            ; differs: 3dbrew, picasso and Panda have 128; Azahar stores 4096, Mikage 1024",
        run: descriptors,
    },
    HostTest {
        name: "row-58-full-program-memory",
        header: "
            ; row: 58
            ; behaviour: the last word of a full program memory is an instruction like others
            ; evidence: UNK
            ; differs: word 4095 acts as END in Azahar",
        run: full_memory,
    },
    HostTest {
        name: "row-65-names-for-b15",
        header: "
            ; row: 65
            ; behaviour: the assembler gives b15 to no name of a geometry file with a mode
            ; evidence: TOOL: picasso
            ; differs: no known emulator",
        run: names_for_b15,
    },
    HostTest {
        name: "row-66-program-size",
        header: "
            ; row: 66
            ; behaviour: 4096 words at most for every program; the assembler holds vertex files to picasso's 512 (its test lets one more pass)
            ; evidence: HW readback (GBATEK), citra#2695: vertex 512, geometry 4096
            ; differs: 512 in the text of 3dbrew, 512 for both in Tanuki, 1024 in Mikage",
        run: program_size,
    },
    HostTest {
        name: "row-67-semantic-mapped-twice",
        header: "
            ; row: 67
            ; behaviour: the later entry of the output map wins, in a slot and between slots; files are read and written with both rows, in their order
            ; evidence: UNK; last wins by EMU
            ; differs: the later row wins in Azahar and Panda, the first in Tanuki",
        run: semantic_twice,
    },
    HostTest {
        name: "row-68-semantic-not-mapped",
        header: "
            ; row: 68
            ; behaviour: a semantic that no slot is mapped to is 1 for the rasteriser; output registers themselves are handed out as they are
            ; evidence: HW citra#6966: 1
            ; differs: older emulators read 0",
        run: semantic_not_mapped,
    },
];

/// The trials of this file.
pub fn trials() -> Vec<Trial> {
    let trial = |entry: &HostTest| {
        let run = entry.run;
        Trial::test(format!("hardware/{}", entry.name), move || Ok(run()?))
    };
    ENTRIES.iter().map(trial).collect()
}

/// `mov o0, v0` with the descriptor in the low seven bits.
const MOV: u32 = 0x4C00_0000;
const NOP: u32 = 0x8400_0000;
/// All components, selector xyzw; all components, selector wzyx.
const PLAIN: u32 = 0x36F;
const REVERSED: u32 = 0xE4 << 5 | 0xF;

/// The unit and the exit after a run from zeroed registers and `v0 = (1, 2, 3, 4)`.
fn run(engine: &Engine, program: &Program, entry: Entry) -> Result<(Unit, Exit), String> {
    let kernel = engine.backend.compile(&Arc::new(program.clone()), entry, &Config::default());
    let kernel = kernel.map_err(|e| format!("{}: {e}", engine.name))?;
    let mut unit = Unit::new();
    unit.v[0] = [1.0, 2.0, 3.0, 4.0];
    let exit = kernel.run(&Uniforms::new(), &mut unit, &mut NoEmitter);
    Ok((unit, exit))
}

/// Output registers with distinct components: `on` is n, n + 1/4, n + 1/2, n + 3/4.
fn counted() -> Registers {
    std::array::from_fn(|n| std::array::from_fn(|lane| n as f32 + lane as f32 / 4.0))
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}: expected {want:?}, got {got:?}")) }
}

fn descriptors() -> Result<(), String> {
    // Descriptor 127 differs from the ones that a six-bit field or wrap-around would select.
    let mut table = vec![PLAIN; 4096];
    table[127] = REVERSED;
    let code = [MOV | 127, MOV | 1 << 21 | 126, MOV | 2 << 21 | 63, 0x8800_0000];
    let program = Program::from_words(&code, &table).map_err(|e| e.to_string())?;
    expect("descriptors kept", program.opdescs().len(), 128)?;
    expect("truncated descriptors do not affect the hash", program.hash128(), {
        Program::from_words(&code, &table[..128]).map_err(|e| e.to_string())?.hash128()
    })?;
    for engine in engines() {
        let (unit, exit) = run(&engine, &program, Entry::vertex(0))?;
        expect(engine.name, (unit.o[0][0], exit), ([4.0, 3.0, 2.0, 1.0], Exit::End))?;
        expect(engine.name, [unit.o[0][1], unit.o[0][2]], [[1.0, 2.0, 3.0, 4.0]; 2])?;
    }
    Ok(())
}

fn full_memory() -> Result<(), String> {
    let mut code = vec![NOP; MAX_CODE_WORDS];
    code[MAX_CODE_WORDS - 1] = MOV;
    let program = Program::from_words(&code, &[PLAIN]).map_err(|e| e.to_string())?;
    for engine in engines() {
        for entry in [Entry::geometry(0), Entry::geometry(4095), Entry::vertex(4000)] {
            let (unit, exit) = run(&engine, &program, entry)?;
            expect(engine.name, (unit.o[0][0], exit), ([1.0, 2.0, 3.0, 4.0], Exit::PastEnd))?;
        }
    }
    Ok(())
}

fn names_for_b15() -> Result<(), String> {
    let file = |head: &str, count: usize| {
        let names: String = (0..count).map(|n| format!(".bool n{n}\n")).collect();
        text::assemble(&format!("{head}\n{names}.proc main\nend\n.end\n"))
    };
    let names = file(".gsh point c0", 15).map_err(|e| format!("fifteen names: {e}"))?;
    let registers = names.shbin.dvles[0].uniforms.iter().map(|u| u.last).max();
    expect("the highest boolean, 78 being b0", registers, Some(0x78 + 14))?;
    if file(".gsh point c0", 16).is_ok() {
        return Err("a sixteenth name fits a geometry file".into());
    }
    file("", 16).map(|_| ()).map_err(|e| format!("sixteen names of a vertex file: {e}"))
}

fn program_size() -> Result<(), String> {
    let words = |count: usize| Program::from_words(&vec![NOP; count], &[]).map(|p| p.code().len());
    expect("4096 words", words(4096), Ok(4096))?;
    expect("4097 words", words(4097), Err(ProgramError::TooLong { words: 4097 }))?;
    let file = |head: &str, count: usize| {
        let source = format!("{head}\n.proc main\n{}end\n.end\n", "nop\n".repeat(count - 1));
        text::assemble(&source).map(|a| a.shbin.code.len()).map_err(|e| e.kind.to_string())
    };
    expect("a vertex file of 512 words", file("", 512), Ok(512))?;
    expect("a vertex file of 513 words", file("", 513), Ok(513))?;
    let too_long = |limit: usize| Err(format!("program too long: expected at most {limit} words"));
    expect("a vertex file of 514 words", file("", 514), too_long(512))?;
    expect("a geometry file of 4096 words", file(".gsh point c0", 4096), Ok(4096))?;
    expect("a geometry file of 4097 words", file(".gsh point c0", 4097), too_long(4096))?;
    // Addresses above 512 and 1024 are not truncated.
    let mut code = vec![NOP; 3000];
    (code[0], code[476]) = (0xB400_0001 | 2999 << 10, 0x8800_0000); // jmpu !b0, 2999; end
    code[2999] = MOV;
    let program = Program::from_words(&code, &[PLAIN]).map_err(|e| e.to_string())?;
    for engine in engines() {
        let (unit, exit) = run(&engine, &program, Entry::geometry(0))?;
        expect(engine.name, (unit.o[0][0], exit), ([1.0, 2.0, 3.0, 4.0], Exit::PastEnd))?;
    }
    Ok(())
}

fn semantic_twice() -> Result<(), String> {
    let source = ".raw\n.wire 2, 3, 0xF\n.wire 0, 0, 0xF\n.wire 2, 1, 0xF\n.proc main\nend\n.end\n";
    let shbin = text::assemble(source).map_err(|e| e.to_string())?.shbin;
    let again = Shbin::parse(&shbin.write().map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let rows: Vec<(u16, u16)> = again.dvles[0].outputs.iter().map(|o| (o.semantic, o.register)).collect();
    expect("semantic and register, in the order of the file", rows, vec![(2, 3), (0, 0), (2, 1)])?;
    // Colour is number 8: red from o0.y rather than o0.x, then from o1.z.
    let given = |total| OutputMap::new(0b11, total, [0x1F1F_0808, 0x1F08_1F1F, 0, 0, 0, 0, 0]).apply(&counted())[8];
    expect("red", [given(1), given(2)], [0.25, 1.5])
}

fn semantic_not_mapped() -> Result<(), String> {
    // `mov o0.x, v0` writes one component; the file has no output table.
    let code = [MOV, 0x8800_0000];
    let program = Arc::new(Program::from_words(&code, &[0x368]).map_err(|e| e.to_string())?);
    // Two slots give the position and one texture coordinate; every other attribute is 1, also for
    // a slot of "none".
    let given = OutputMap::new(0b101, 2, [0x0302_0100, 0x1F1F_1F0C, 0, 0, 0, 0, 0]).apply(&counted());
    let mut want = [1.0; SEMANTICS];
    want[..4].copy_from_slice(&[0.0, 0.25, 0.5, 0.75]);
    want[12] = 2.0;
    expect("the rasteriser's input", given, want)?;
    for engine in engines() {
        for stage in [Stage::Vertex, Stage::Geometry] {
            let kernel = engine.backend.compile(&program, Entry { pc: 0, stage }, &Config::default());
            let kernel = kernel.map_err(|e| format!("{}: {e}", engine.name))?;
            let mut unit = Unit::new();
            unit.o[0] = [[7.0; 4]; 16];
            let inputs = [[[1.0, 2.0, 3.0, 4.0]; 16]; 5];
            let mut outputs = [[[9.0; 4]; 16]; 5];
            let mut batch = Batch {
                inputs: (&inputs).into(),
                outputs: (&mut outputs).into(),
                input_mask: 1,
                output_mask: 0b101,
                preserve_unit: false,
            };
            kernel.run_batch(&Uniforms::new(), &mut unit, &mut batch, &mut NoEmitter);
            for o in &outputs {
                expect(engine.name, [o[0], o[1], o[2]], [[1.0, 7.0, 7.0, 7.0], [9.0; 4], [7.0; 4]])?;
            }
        }
    }
    Ok(())
}
