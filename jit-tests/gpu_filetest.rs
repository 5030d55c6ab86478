//! Every text file of a vertex program as code for a GPU, evaluated on the CPU: the outputs that it writes are the
//! reference's, in every number format. Cases that set registers before the run are left out, since a GPU's vertices
//! begin with new ones; files without another case are ignored.

use crate::directive;
use crate::filetest::load;
use crate::items::{File, Item, Location};
use crate::outcome;
use libtest_mimic::{Completion, Failed, Trial};
use picajit::gpu_code::{Device, GpuCode, Interface, NoGpuCode};
use picajit::interp::Interp;
use picajit::isa::numeric::{Precision, same};
use picajit::kernel::{Config, Kernel};
use picajit::state::{Exit, NoEmitter, Unit};
use std::path::Path;

/// The trial of a file.
pub fn trial(name: &str, path: &Path) -> Trial {
    let path = path.to_path_buf();
    Trial::ignorable_test(format!("{name} [gpu code]"), move || check(&std::fs::read_to_string(&path)?))
}

fn check(source: &str) -> Result<Completion, Failed> {
    let directives = directive::parse(source)?;
    let loaded = load(source, directives.entry)?;
    let mut compared = 0;
    for precision in Precision::ALL {
        let config = Config { precision, fuel: 1 << 13, ..Config::of(loaded.entry.stage) };
        let code = GpuCode::new(&loaded.program, loaded.entry, &config, &Interface::compute(), &Device::PLAIN);
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
            let outputs = code.evaluate(&uniforms, &unit.v).ok_or("the code does not end")?;
            if kernel.run(&uniforms, &mut unit, &mut NoEmitter) == Exit::Fuel {
                continue;
            }
            compared += 1;
            for (n, (want, got)) in unit.outputs().iter().zip(&outputs).enumerate() {
                if code.outputs() >> n & 1 != 0 && !want.iter().zip(got).all(|(want, got)| same(*want, *got)) {
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
