//! [`Vbc`] -> [`Finding`]s: the rules of the tables, and contradictions between tables and SPIR-V.
//!
//! Optimised modules lack unused variables, so an absence is no finding.

use super::spirv::Module;
use super::{
    Base, DEFAULT_TABLES, Dialect, Interface, MOST_WORDS, STAGES, SubpassInput, TABLES, Uniform, Vbc, stage_names,
};
use crate::finding::{Finding, Findings, quoted};
use std::collections::HashMap;

/// Execution models of the stages as SPIR-V names them.
const MODELS: [&str; 5] = ["Vertex", "TessellationControl", "TessellationEvaluation", "Geometry", "Fragment"];
/// The generator of the library that the known compiler uses.
const SHADERC: u32 = 0x000D_000B;

/// Offsets of the file's parts.
struct Layout {
    sizes: u64,
    inputs: u64,
    outputs: u64,
    bindings: u64,
    uniform: u64,
    subpass: u64,
    modules: [u64; 5],
}

impl Vbc {
    fn layout(&self) -> Layout {
        let (sizes, head) = if self.dialect == Dialect::A0 { (4, 1) } else { (5, 4) };
        let inputs = sizes + 20 + head;
        let outputs = inputs + 8 * self.inputs.len() as u64 + head;
        let bindings = outputs + 8 * self.outputs.len() as u64 + head;
        let modules = self.module_offsets();
        let record = |s: &SubpassInput| if let SubpassInput::Dumped(bytes) = s { bytes.len() as u64 } else { 4 };
        let subpass = modules[0] - self.subpass_inputs.iter().map(record).sum::<u64>();
        let uniform = bindings + 8 * self.bindings.len() as u64;
        Layout { sizes, inputs, outputs, bindings, uniform, subpass, modules }
    }

    /// Checks every rule of the tables, and the tables against the modules.
    pub fn verify(&self) -> Vec<Finding> {
        let mut findings = Findings::default();
        let f = &mut findings;
        let at = self.layout();
        if self.shader_type != 1 {
            f.error(4, format!("shader type {}, only 1 (graphics) is known", self.shader_type));
        }
        for n in [0, 4] {
            if self.modules[n].is_empty() {
                f.error(at.sizes + 2 * n as u64, format!("there is no stage `{}`", STAGES[n]));
            }
        }
        for (n, (&size, default)) in self.tables.iter().zip(DEFAULT_TABLES).enumerate() {
            let offset = at.sizes + 10 + 2 * n as u64;
            if size == 0 {
                f.error(offset, format!("the table of {} has no entry", TABLES[n]));
            } else if size != default {
                f.warning(
                    offset,
                    format!("the table of {} has {size} entries; loaders accept {default} alone", TABLES[n]),
                );
            }
        }
        self.verify_interface(&self.inputs, true, at.inputs, f);
        self.verify_interface(&self.outputs, false, at.outputs, f);
        self.verify_bindings(at.bindings, f);
        if let Some(uniform) = &self.uniform {
            self.verify_uniform(uniform, at.uniform, f);
        }
        self.verify_subpass(at.subpass, f);
        for n in 0..5 {
            if !self.modules[n].is_empty() {
                self.verify_module(n, at.sizes, at.modules[n], f);
            }
        }
        findings.into_vec()
    }

    fn verify_interface(&self, rows: &[Interface], is_input: bool, start: u64, f: &mut Findings) {
        let (what, most) = if is_input { ("input", 16) } else { ("output", 8) };
        if rows.len() > most {
            f.error(start, format!("{} {what}s, at most {most} are possible", rows.len()));
        }
        let mut used = [false; 256];
        for (row, at) in rows.iter().zip((start..).step_by(8)) {
            let Interface { location, ty, reserved } = *row;
            let here = format!("the {what} at location {location}");
            let base = Base::of(self.dialect, ty.base);
            if !base.is_some_and(Base::is_numeric) {
                f.error(at + 1, format!("{here} has base type {}", ty.base));
            }
            if !(1..=4).contains(&ty.rows) || !(1..=4).contains(&ty.columns) || ty.array == 0 {
                f.error(at + 2, format!("{here} has {} rows, {} columns, {} elements", ty.rows, ty.columns, ty.array));
            }
            if !is_input && (ty.columns != 1 || ty.array != 1 || ty.rows == 3 && self.dialect == Dialect::C) {
                f.error(at + 2, format!("{here} is {}, which no output can be", ty.name(self.dialect)));
            }
            if reserved != [0; 3] {
                f.warning(at + 5, format!("{here} has reserved bytes {reserved:02x?}"));
            }
            let end = usize::from(location) + usize::from(ty.columns.max(1)) * usize::from(ty.array.max(1));
            if end > most {
                f.error(at, format!("{here} ends at location {end}, beyond {most}"));
            }
            for (slot, used) in used.iter_mut().enumerate().take(end.min(most)).skip(location.into()) {
                if std::mem::replace(used, true) {
                    f.error(at, format!("location {slot} has two {what}s"));
                }
            }
        }
    }

    fn verify_bindings(&self, start: u64, f: &mut Findings) {
        let mut used = [false; 256];
        for (row, at) in self.bindings.iter().zip((start..).step_by(8)) {
            let here = format!("the binding at slot {}", row.slot);
            if row.slot > 31 {
                f.error(at, format!("{here} is beyond slot 31"));
            }
            if std::mem::replace(&mut used[usize::from(row.slot)], true) {
                f.error(at, format!("two bindings at slot {}", row.slot));
            }
            if row.stages & !self.stages() != 0 {
                let absent = stage_names(row.stages & !self.stages() & 31);
                f.error(at + 2, format!("{here} names stages that are absent: {absent} (mask {:#x})", row.stages));
            }
            match Base::of(self.dialect, row.base) {
                Some(Base::SubpassInput) if self.dialect != Dialect::C => {}
                Some(base) if base.table().is_some() => {
                    let [rank, _, _, count] = row.detail;
                    let is_cube = super::rank_name(self.dialect, rank) == Some("Cube");
                    if base == Base::Image && is_cube {
                        f.error(at + 4, format!("{here} is an image with the rank Cube"));
                    }
                    let has_zeros = self.dialect != Dialect::C && matches!(base, Base::Sampler | Base::RoTexels);
                    if !base.is_buffer() && !has_zeros && !matches!(count, 1 | 2 | 4) {
                        f.error(at + 7, format!("{here} has texels of {count} components"));
                    }
                    if base.is_buffer() && row.detail[2..] != [0, 0] {
                        f.warning(at + 6, format!("{here} has reserved bytes"));
                    }
                }
                _ => f.error(at + 1, format!("{here} has base type {}", row.base)),
            }
        }
    }

    fn verify_uniform(&self, uniform: &Uniform, at: u64, f: &mut Findings) {
        if uniform.size > 1024 {
            f.error(at, format!("the uniform block has {} bytes, at most 1024 are possible", uniform.size));
        }
        if uniform.stages & !self.stages() != 0 {
            f.error(at, format!("the uniform block names stages that are absent (mask {:#x})", uniform.stages));
        }
        let mut end = 0u32;
        for member in &uniform.members {
            let name = quoted(&member.name);
            if member.name.len() > 32 {
                f.warning(
                    at,
                    format!("the member {name} has a name of {} bytes, the compiler allows 32", member.name.len()),
                );
            }
            let Some(ty) = member.ty else { continue };
            if member.offset != end {
                f.error(at, format!("the member {name} is at offset {}, its predecessor ends at {end}", member.offset));
            }
            if !(1..=4).contains(&ty.rows) || !(1..=4).contains(&ty.columns) || ty.array == 0 {
                f.error(
                    at,
                    format!("the member {name} has {} rows, {} columns, {} elements", ty.rows, ty.columns, ty.array),
                );
            }
            if ty.array > 64 && self.dialect == Dialect::C {
                f.error(at, format!("the member {name} has {} elements, at most 64 are possible", ty.array));
            }
            if !Base::of(self.dialect, ty.base).is_some_and(Base::is_numeric) {
                f.warning(at, format!("the member {name} has base type {}, which loaders reject", ty.base));
            }
            end = member.offset.saturating_add(ty.size());
        }
        if uniform.members.iter().any(|m| m.ty.is_some()) && end != uniform.size {
            f.error(at, format!("the uniform block has {} bytes, its members end at {end}", uniform.size));
        }
    }

    fn verify_subpass(&self, mut at: u64, f: &mut Findings) {
        if self.subpass_inputs.len() > 4 {
            f.error(at, format!("{} subpass inputs, at most 4 are possible", self.subpass_inputs.len()));
        }
        for (n, input) in self.subpass_inputs.iter().enumerate() {
            match input {
                SubpassInput::Plain { texel, count, reserved } => {
                    if super::texel_name(self.dialect, *texel).is_none()
                        || !matches!(count, 1 | 2 | 4)
                        || *reserved != 0
                    {
                        f.error(at, format!("subpass input {n} has texel type {texel} with {count} components"));
                    }
                    at += 4;
                }
                SubpassInput::Dumped(bytes) => {
                    let name = input.name().map_or(String::new(), |name| format!(", {},", quoted(name)));
                    let size = bytes.len();
                    f.error(at, format!("subpass input {n}{name} is an object of {size} bytes of the compiler's memory; loaders reject it"));
                    at += size as u64;
                }
            }
        }
    }

    fn verify_module(&self, stage: usize, sizes: u64, at: u64, f: &mut Findings) {
        let name = STAGES[stage];
        let words = self.modules[stage].len() / 4;
        if words > MOST_WORDS {
            let stored = words as u16;
            f.error(
                sizes + 2 * stage as u64,
                format!("stage `{name}` has {words} words, its size field says {stored}"),
            );
        }
        let module = match Module::parse(&self.modules[stage]) {
            Ok(module) => module,
            Err(message) => return f.error(at, format!("stage `{name}`: {message}")),
        };
        let expected = if self.dialect == Dialect::C { (1, 5) } else { (1, 0) };
        if module.version != expected {
            let ((a, b), (c, d)) = (module.version, expected);
            f.warning(
                at + 4,
                format!("stage `{name}` is SPIR-V {a}.{b}, the compiler of dialect {} writes {c}.{d}", self.dialect),
            );
        }
        if module.generator != SHADERC {
            f.warning(at + 8, format!("stage `{name}` has the generator {:#x}, not shaderc", module.generator));
        }
        if module.schema != 0 {
            f.error(at + 16, format!("stage `{name}` has the instruction schema {:#x}, not 0", module.schema));
        }
        match &module.entries[..] {
            [(model, entry)] => {
                if model != MODELS[stage] {
                    f.error(at, format!("stage `{name}` has an entry point of the model {model}"));
                }
                if entry != "main" {
                    f.error(
                        at,
                        format!("the entry point of stage `{name}` is {}, not `main`", quoted(entry.as_bytes())),
                    );
                }
            }
            entries => f.error(at, format!("stage `{name}` has {} entry points, not one", entries.len())),
        }
        if stage == 0 {
            self.compare_interface(&module, &self.inputs, true, at, f);
        }
        if stage == 4 {
            self.compare_interface(&module, &self.outputs, false, at, f);
        }
        self.compare_descriptors(&module, name, at, f);
    }

    fn compare_interface(&self, module: &Module, rows: &[Interface], is_input: bool, at: u64, f: &mut Findings) {
        let what = if is_input { "input" } else { "output" };
        let mut table: HashMap<u32, &Interface> = HashMap::new();
        for row in rows {
            table.entry(row.location.into()).or_insert(row);
        }
        for located in module.located(is_input) {
            let location = located.location;
            let Some(row) = table.get(&location) else {
                f.error(at, format!("the module has an {what} at location {location}, the table has none"));
                continue;
            };
            let Some((base, shape)) = located.shape else { continue };
            let in_table = super::ValueType { base: 0, ..row.ty };
            if Base::of(self.dialect, row.ty.base) != Some(base) || shape != in_table {
                let real = super::ValueType { base: base.number(self.dialect), ..shape }.name(self.dialect);
                let listed = row.ty.name(self.dialect);
                f.error(
                    at,
                    format!("the {what} at location {location} is {real} in the module, {listed} in the table"),
                );
            }
        }
    }

    fn compare_descriptors(&self, module: &Module, stage: &str, at: u64, f: &mut Findings) {
        for d in module.descriptors() {
            let here = format!("stage `{stage}`, set {} binding {}", d.set, d.binding);
            match (d.set, d.binding) {
                (0, n @ 0..5) => {
                    let size = self.tables[n as usize];
                    if let Some(array) = d.array.filter(|&a| a != u32::from(size)) {
                        f.error(
                            at,
                            format!("{here}: {array} descriptors, the table of {} has {size}", TABLES[n as usize]),
                        );
                    }
                }
                (1, 0) => self.compare_uniform(module, d.ty, &here, at, f),
                (2, n) => {
                    if n as usize >= self.subpass_inputs.len() {
                        f.error(at, format!("{here}: the table has {} subpass inputs", self.subpass_inputs.len()));
                    }
                }
                _ => f.error(at, format!("{here}: no table describes it")),
            }
        }
        // Two indices of 16 bits share a word.
        let in_tables =
            self.bindings.iter().filter(|b| Base::of(self.dialect, b.base).is_some_and(|b| b.table().is_some()));
        let words = in_tables.map(|b| usize::from(b.slot) / 2 + 1).max().unwrap_or(0);
        if let Some(n) = module.push_constants().filter(|&n| n != words) {
            f.error(at, format!("stage `{stage}` has {n} words of table indices, the bindings need {words}"));
        }
    }

    fn compare_uniform(&self, module: &Module, ty: u32, here: &str, at: u64, f: &mut Findings) {
        let Some(uniform) = &self.uniform else {
            return f.error(at, format!("{here}: the module has a uniform block, the tables have none"));
        };
        let Some(offsets) = module.block_offsets(ty) else { return };
        if offsets.len() != uniform.members.len() {
            let (a, b) = (offsets.len(), uniform.members.len());
            return f.error(at, format!("{here}: {a} members in the module, {b} in the table"));
        }
        for (offset, member) in offsets.iter().zip(&uniform.members) {
            if let Some(offset) = offset.filter(|&o| o != member.offset) {
                let name = quoted(&member.name);
                f.error(at, format!("{here}: {name} is at {offset} in the module, at {} in the table", member.offset));
            }
        }
    }
}
