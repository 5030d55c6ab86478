//! Every text file of a vertex program as code for a GPU, evaluated on the CPU and on the machine's drivers: the outputs
//! that it writes are the reference's, in every number format. Cases that set registers before the run are left out, since a GPU's vertices
//! begin with new ones; files without another case are ignored.

use crate::directive;
use crate::filetest::load;
use crate::items::{File, Item, Location};
use crate::outcome;
use crate::verdict::{Verdict, Vertex};
use libtest_mimic::{Completion, Failed, Trial};
use picajit::gpu_code::{Control, Device, GpuCode, Interface, NoGpuCode};
use picajit::internals::interp::Interp;
use picajit::internals::kernel::{Config, Kernel};
use picajit::isa::numeric::Precision;
use picajit::state::{Exit, NoEmitter, Registers, Uniforms, Unit};
use std::path::Path;

/// The trial of a file.
pub fn trial(name: &str, path: &Path) -> Trial {
    let path = path.to_path_buf();
    Trial::ignorable_test(format!("{name} [gpu code]"), move || {
        let device = Device { subnormals: Control::Known, ..Device::PLAIN };
        check(&std::fs::read_to_string(&path)?, &device, |code, uniforms, v| code.evaluate(uniforms, v))
    })
}

/// The same on every device of the machine's Vulkan drivers: one trial, since devices are no matter of threads.
#[cfg(feature = "gpu-tests")]
pub fn trial_on_drivers(files: Vec<(String, std::path::PathBuf)>) -> Trial {
    Trial::ignorable_test("gpu code/on the machine's drivers", move || {
        let mut devices = crate::vulkan::devices(1, false);
        let mut failures = Vec::new();
        let mut compared = 0;
        for gpu in &mut devices {
            gpu.properties.rounding = Control::Known;
            let gpu = &*gpu;
            for (name, path) in &files {
                let run = |code: &GpuCode, uniforms: &Uniforms, v: &Registers| {
                    gpu.pipeline(code.spirv(), None).run(&code.uniform_block(uniforms), &[*v]).pop()
                };
                match check(&std::fs::read_to_string(path)?, &gpu.properties, run) {
                    Ok(Completion::Completed) => compared += 1,
                    Ok(_) => {}
                    Err(error) => failures.push(format!("{name} on {}: {}", gpu.name, error.message().unwrap_or(""))),
                }
            }
        }
        match (devices.is_empty(), failures.is_empty()) {
            (true, _) => Ok(Completion::ignored_with("no Vulkan device")),
            (_, true) if compared > 100 => Ok(Completion::Completed),
            (_, true) => Err(format!("{compared} files compared").into()),
            _ => Err(failures.join("\n").into()),
        }
    })
}

/// Compares what `run` gives with the reference.
fn check(
    source: &str,
    device: &Device,
    run: impl Fn(&GpuCode, &Uniforms, &Registers) -> Option<Registers>,
) -> Result<Completion, Failed> {
    let directives = directive::parse(source)?;
    let loaded = load(source, directives.entry)?;
    let mut compared = 0;
    for precision in Precision::ALL {
        let config = Config { precision, fuel: 1 << 13, ..Config::of(loaded.entry.stage) };
        let code = GpuCode::new(&loaded.program, loaded.entry, &config, &Interface::compute(), device);
        let code = match code {
            Ok(code) => code,
            Err(
                reason @ (NoGpuCode::Geometry
                | NoGpuCode::Carried(_)
                | NoGpuCode::ControlFlow(_)
                | NoGpuCode::Unstructured(_)),
            ) => {
                return Ok(Completion::ignored_with(reason.to_string()));
            }
            Err(reason) => return Err(reason.to_string().into()),
        };
        let kernel = Interp.kernel(&loaded.program, loaded.entry, &config);
        for case in directives.cases.iter().filter(|case| case.set.iter().all(is_input)) {
            let (mut uniforms, mut unit) = (loaded.uniforms.clone(), Unit::new());
            case.set.iter().try_for_each(|item| outcome::set(item, &mut uniforms, &mut unit))?;
            uniforms.narrow(precision);
            let v = unit.v;
            let outputs = run(&code, &uniforms, &v).ok_or("the code does not end")?;
            if kernel.run(&uniforms, &mut unit, &mut NoEmitter) == Exit::Fuel {
                continue;
            }
            compared += 1;
            let vertex = Vertex::new(&code, &uniforms, &v);
            for (n, (want, got)) in unit.outputs().iter().zip(&outputs).enumerate() {
                let is_wrong = |c: usize| vertex.verdict(n, c, want[c], got[c]) == Verdict::Wrong;
                if code.outputs() >> n & 1 != 0 && (0..4).any(is_wrong) {
                    return Err(format!("line {} in {precision}: o{n} is {got:?}, not {want:?}", case.line).into());
                }
            }
        }
    }
    Ok(if compared > 0 { Completion::Completed } else { Completion::ignored_with("every case sets registers") })
}

/// Whether an item sets what a vertex begins with on a GPU.
fn is_input(item: &Item) -> bool {
    matches!(
        item.place,
        Location::Vector { file: File::V | File::C, .. } | Location::Int(_) | Location::Bool(_) | Location::Fuel
    )
}
