//! CLIF -> machine code in executable memory.

use super::call::{Code, Needs};
use super::code_memory::CodeMemory;
use crate::jit::stages::Timings;
use crate::kernel::Unsupported;
use cranelift_codegen::Context;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError};
use std::time::Instant;

/// Compiles the function in `context` and installs it in `memory`. Callers owe the code what
/// `needs` says.
pub(crate) fn install(
    isa: &OwnedTargetIsa,
    context: &mut Context,
    memory: CodeMemory,
    needs: Needs,
    timings: &mut Timings,
) -> Result<Code, Unsupported> {
    let start = Instant::now();
    let refused = |e: ModuleError| memory.refusal().unwrap_or_else(|| Unsupported::Codegen { message: e.to_string() });
    let mut builder = JITBuilder::with_isa(isa.clone(), cranelift_module::default_libcall_names());
    builder.memory_provider(Box::new(memory.clone()));
    let mut module = JITModule::new(builder);
    let id = module.declare_anonymous_function(&context.func.signature).map_err(refused)?;
    debug_assert!(module.declarations().get_function_decl(id).linkage == Linkage::Local);
    module.define_function(id, context).map_err(refused)?;
    let compiled = context.compiled_code().expect("just defined");
    let len = compiled.code_buffer().len();
    if !compiled.buffer.relocs().is_empty() {
        // A host's memory may get a copy of it, from where the target would be out of reach.
        return Err(Unsupported::Codegen { message: "the code refers to something outside of it".into() });
    }
    timings.codegen = start.elapsed();
    let start = Instant::now();
    module.finalize_definitions().map_err(refused)?;
    let entry = module.get_finalized_function(id);
    drop(module);
    let code = memory
        .into_code(entry, len)
        .ok_or_else(|| Unsupported::Codegen { message: "the function is not in its memory".into() })?;
    timings.install = start.elapsed();
    Ok(Code::new(code, needs))
}
