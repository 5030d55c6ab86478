//! Tests of the harness: engines with one small fault, and files with a wrong line, must fail.

use crate::engines::{Engine, reference};
use crate::filetest::run_source;
use libtest_mimic::{Completion, Failed, Trial};
use picajit::internals::kernel::{Backend, Config, Kernel, OnUnits, UnitKernel, Unsupported};
use picajit::program::{Entry, Program};
use picajit::state::{Batch, BatchExit, Emitter, Exit, Uniforms, Unit};
use std::sync::Arc;

/// The reference with one fault.
#[derive(Clone, Copy)]
enum Fault {
    None,
    /// `run` writes a component outside the program's mask.
    IgnoresMask,
    /// `run_batch` gives the last vertex of a group of four the outputs of the one before.
    LeaksLanes,
    /// `run_batch` does not store the last vertex's registers in the unit.
    ForgetsState,
    /// `run_batch` writes outputs outside the output mask.
    IgnoresOutputMask,
    /// A wrong exit.
    WrongExit,
}

struct Faulty(Fault, Arc<dyn Backend>);
struct FaultyKernel(Fault, Arc<dyn Kernel>);

impl Backend for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }
    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        Ok(Arc::new(OnUnits(FaultyKernel(self.0, self.1.compile(program, entry, config)?))))
    }
}

impl UnitKernel for FaultyKernel {
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        let exit = self.1.run(uniforms, unit, emitter);
        match self.0 {
            Fault::IgnoresMask => unit.o[usize::from(unit.bank & 1)][1][3] = 0.0,
            Fault::WrongExit => return Exit::PastEnd,
            _ => {}
        }
        exit
    }
    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> BatchExit {
        let before = unit.clone();
        let exit = self.1.run_batch(uniforms, unit, batch, emitter);
        match self.0 {
            Fault::LeaksLanes if batch.outputs.len() >= 4 => {
                let third = batch.outputs[2].to_vec();
                batch.outputs[3].copy_from_slice(&third);
            }
            Fault::ForgetsState => unit.r = before.r,
            Fault::IgnoresOutputMask => batch.outputs[0][9][0] = 1.0,
            _ => {}
        }
        exit
    }
}

const PROGRAM: &str = "
.proc main
    add r0, c0, v0
    mov o0, r0
    mov o1.xyz, v0
    end
.end
";
const RIGHT: &str = "; run: c0 = (1, 1, 1, 1), v0 = (1, 2, 3, 4) => o0 = (2, 3, 4, 5), o1 = (1, 2, 3, 0)";

/// The trials of this file.
pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("harness/faulty-engines-fail", faulty_engines),
        Trial::test("harness/wrong-files-fail", wrong_files),
    ]
}

fn run(fault: Fault, lines: &str) -> Result<Completion, Failed> {
    let engine = Engine { name: "interp", backend: Arc::new(Faulty(fault, reference().backend)) };
    run_source("self", &format!("{lines}\n{PROGRAM}"), &engine)
}

fn faulty_engines() -> Result<(), Failed> {
    run(Fault::None, RIGHT)?;
    let faults = [
        ("mask", Fault::IgnoresMask),
        ("batch", Fault::LeaksLanes),
        ("state", Fault::ForgetsState),
        ("output mask", Fault::IgnoresOutputMask),
        ("exit", Fault::WrongExit),
    ];
    for (name, fault) in faults {
        if run(fault, RIGHT).is_ok() {
            return Err(format!("the fault `{name}` is not caught").into());
        }
        // An opt-out makes a known failure pass.
        match run(fault, &format!("{RIGHT}\n; skip interp: under test")) {
            Ok(Completion::Ignored { .. }) => {}
            _ => return Err(format!("the opt-out of the fault `{name}` does not work").into()),
        }
    }
    Ok(())
}

fn wrong_files() -> Result<(), Failed> {
    let wrong = [
        ("a wrong value", "; run: v0 = (1, 2, 3, 4) => o0.x = 2".to_string()),
        ("a zero of the wrong sign", "; run: c0.x = -0, v0.x = -0 => o0.x = 0".to_string()),
        ("a wrong exit", "; run: v0.x = 1 => o0.x = 1, exit = past-end".to_string()),
        ("an opt-out that passes", format!("{RIGHT}\n; skip interp: fixed long ago")),
        ("an opt-out without reason", format!("{RIGHT}\n; skip interp:")),
        ("an opt-out of nothing", format!("{RIGHT}\n; skip intrep: a reason")),
        ("no case", "; prose".to_string()),
        ("a misspelled run", format!("{RIGHT}\n; rnu: v0.x = 1 => o0.x = 1")),
        ("no expectation", "; run: v0.x = 1 =>".to_string()),
        ("an unknown register", "; run: v16.x = 1 => o0.x = 1".to_string()),
        ("a duplicate component", "; run: v0.xx = (1, 1) => o0.x = 1".to_string()),
        ("too few values", "; run: v0 = (1, 2, 3) => o0.x = 1".to_string()),
        ("a tolerance without reason", "; run: v0.x = 1 => o0.x = 1 ~ 2 ulp(f24)".to_string()),
        ("a result beyond its tolerance", "; run: v0.x = 1.0001 => o0.x = 1 ~ 2 ulp(f24): none".to_string()),
        ("a result that is set", "; run: tris = 1 => o0.x = 0".to_string()),
    ];
    for (name, lines) in wrong {
        if run(Fault::None, &lines).is_ok() {
            return Err(format!("accepted: {name}").into());
        }
    }
    // 2 ulp of float24 at 1 are 2^-15.
    run(Fault::None, "; run: v0.x = 0x1.0002p0 => o0.x = 1 ~ 2 ulp(f24): under test")?;
    Ok(())
}
