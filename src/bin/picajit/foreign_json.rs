//! A [`Foreign`] -> JSON. `inspect` prints it, or a text made from it.

use crate::foreign::{Content, Foreign};
use picajit::container::finding::quoted;
use picajit::container::mbs::{Mbs, MbsProgram, Symbol, Table, UNUSED};
use picajit::container::metallib::bitcode::Bitcode;
use picajit::container::metallib::sources::{Sources, archive};
use picajit::container::metallib::{Function, Group, Metallib, data_type_name};
use picajit::container::vbc::spirv::Module;
use picajit::container::vbc::{Interface, STAGES, SubpassInput, TABLES, Vbc, stage_names, texel_name};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::BufReader;

/// Modules of a library whose producer and target are shown. More would read a large library whole.
const MOST_TARGETS: usize = 256;

/// The contents of a file.
pub fn contents(name: &str, file: &mut Foreign) -> Value {
    let mut json = match &mut file.content {
        Content::Mbs(mbs) => mbs_json(mbs),
        Content::Vbc(vbc) => vbc_json(vbc),
        Content::Metallib(library, source) => metallib_json(library, source, file.size),
    };
    let mut all = Map::new();
    all.insert("file".into(), json!(name));
    all.insert("kind".into(), json!(file.kind.to_string()));
    all.insert("bytes".into(), json!(file.size));
    if let Value::Object(fields) = &mut json {
        all.append(fields);
    }
    Value::Object(all)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn mbs_json(mbs: &Mbs) -> Value {
    json!({ "programs": mbs.programs().map(program).collect::<Vec<_>>() })
}

fn program(program: &MbsProgram) -> Value {
    let table = |t: Option<&Table>| t.into_iter().flat_map(Table::symbols).map(symbol).collect::<Vec<_>>();
    json!({
        "stage": program.stage.to_string(),
        "core": program.core_name().map_or_else(|| program.core.to_string(), Into::into),
        "code_bytes": program.code().map(<[u8]>::len),
        "instructions": program.instructions(),
        "uniform_space": program.uniforms().map(|t| t.space),
        "uniforms": table(program.uniforms()),
        "attributes": table(program.attributes()),
        "varyings": table(program.varyings()),
    })
}

fn symbol(s: &Symbol) -> Value {
    let mut json = json!({
        "name": text(s.name()),
        "type": s.type_name(),
        "precision": s.precision_name(),
        "offset": (s.offset != UNUSED).then_some(s.offset),
    });
    if let Some(words) = s.initial() {
        json["initial"] = words.iter().map(|w| crate::display::float_json(f32::from_bits(*w))).collect();
    }
    json
}

fn vbc_json(vbc: &Vbc) -> Value {
    let dialect = vbc.dialect;
    let interface = |rows: &[Interface]| {
        let row = |r: &Interface| json!({ "location": r.location, "type": r.ty.name(dialect) });
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let bindings = vbc.bindings.iter().map(|b| {
        json!({ "slot": b.slot, "kind": b.kind(dialect), "holds": b.describe(dialect), "stages": stage_names(b.stages) })
    });
    let members = vbc
        .uniform
        .iter()
        .flat_map(|u| &u.members)
        .map(|m| json!({ "name": text(&m.name), "type": m.ty.map(|ty| ty.name(dialect)), "offset": m.offset }));
    let subpass = vbc.subpass_inputs.iter().map(|input| match input {
        SubpassInput::Plain { texel, count, .. } => {
            let ty = texel_name(dialect, *texel).map_or_else(|| format!("texel {texel}"), Into::into);
            json!({ "type": ty, "components": count })
        }
        SubpassInput::Dumped(bytes) => {
            json!({ "name": input.name().map(text), "damage": format!("{} bytes of the compiler's memory", bytes.len()) })
        }
    });
    let offsets = vbc.module_offsets();
    let stages = (0..5).filter(|&n| !vbc.modules[n].is_empty()).map(|n| {
        let mut json = json!({ "stage": STAGES[n], "offset": offsets[n], "words": vbc.modules[n].len() / 4 });
        match Module::parse(&vbc.modules[n]) {
            Ok(module) => {
                json["spirv"] = json!(format!("{}.{}", module.version.0, module.version.1));
                json["entry_points"] =
                    module.entries.iter().map(|(model, name)| json!(format!("{name} ({model})"))).collect();
            }
            Err(error) => json["error"] = json!(error),
        }
        json
    });
    let tables: Map<String, Value> =
        TABLES.iter().zip(vbc.tables).map(|(name, n)| ((*name).into(), json!(n))).collect();
    json!({
        "dialect": dialect.to_string(),
        "tables": tables,
        "inputs": interface(&vbc.inputs),
        "outputs": interface(&vbc.outputs),
        "bindings": bindings.collect::<Vec<_>>(),
        "uniform_bytes": vbc.uniform.as_ref().map(|u| u.size),
        "uniform_stages": vbc.uniform.as_ref().map(|u| stage_names(u.stages)),
        "uniform_members": members.collect::<Vec<_>>(),
        "subpass_inputs": subpass.collect::<Vec<_>>(),
        "stages": stages.collect::<Vec<_>>(),
    })
}

fn metallib_json(library: &Metallib, source: &mut BufReader<File>, size: u64) -> Value {
    let h = &library.header;
    let names: Vec<String> = library.extension().unwrap_or(&[]).iter().map(|t| quoted(&t.name)).collect();
    let uuid = library.extension().unwrap_or(&[]).iter().find(|t| t.name == *b"UUID");
    // Functions may share modules and metadata; what is shown stays in proportion to the file.
    let mut budget = size.saturating_mul(2);
    let mut functions = Vec::new();
    for (n, f) in library.functions().enumerate() {
        let metadata = [true, false].map(|is_public| library.metadata(f, is_public));
        let module = if n < MOST_TARGETS { library.module_extent(f).map_or(0, |e| e.size) } else { 0 };
        let cost = metadata.iter().flatten().map(|g| g.len()).sum::<u64>() + module;
        let left = budget.checked_sub(cost);
        budget = left.unwrap_or(budget);
        let bitcode = if left.is_some() && module > 0 { library.module(source, f).ok() } else { None };
        let bitcode = bitcode.and_then(|m| Bitcode::parse(&m).ok()).unwrap_or_default();
        functions.push(function(library, f, bitcode, if left.is_some() { metadata } else { [None; 2] }));
    }
    let mut json = json!({
        "version": h.version(),
        "type": h.file_type_name(),
        "platform": h.platform_name(),
        "extension": names.iter().map(|n| n.trim_matches('`')).collect::<Vec<_>>(),
        "uuid": uuid.map(|t| t.body.iter().map(|b| format!("{b:02x}")).collect::<String>()),
        "functions": functions,
    });
    if let Some(Ok(tags)) = library.dynamic(source) {
        let name = |body: &[u8]| text(body.strip_suffix(&[0]).unwrap_or(body));
        let names =
            |wanted: &[u8; 4]| tags.iter().filter(|t| t.name == *wanted).map(|t| name(&t.body)).collect::<Vec<_>>();
        json["library_name"] = json!(names(b"NAME"));
        json["linked_libraries"] = json!(names(b"DYNL"));
    }
    if let Some(Ok(sources)) = library.sources(source) {
        let id = |(id, packed): (&[u8], &[u8])| json!({ "archive": text(id), "bytes": packed.len() });
        json["link_options"] = json!(text(&sources.link_options));
        json["working_directory"] = json!(sources.working_directory.as_deref().map(text));
        json["sources"] = sources_json(&sources, id);
    }
    json
}

fn sources_json(sources: &Sources, id: impl Fn((&[u8], &[u8])) -> Value) -> Value {
    sources.archives.iter().filter_map(archive).map(id).collect()
}

fn function(library: &Metallib, function: Function<'_>, bitcode: Bitcode, metadata: [Option<&Group>; 2]) -> Value {
    let [air, metal] = function.versions().map_or([None, None], |v| v.map(Some));
    let mut json = json!({
        "name": text(function.name()),
        "type": function.type_name(),
        "air": air,
        "metal": metal,
        "module_bytes": library.module_extent(function).map(|e| e.size),
        "triple": bitcode.triple,
        "producer": bitcode.producer,
    });
    if let Some((patch, points)) = function.tessellation() {
        let patch = ["none", "triangle", "quad", "type 3"][usize::from(patch)];
        json["tessellation"] = json!({ "patch": patch, "control_points": points });
    }
    let [public, private] = metadata;
    if let Some(attributes) = public.and_then(|g| g.vertex_attributes()).filter(|a| !a.is_empty()) {
        let row = attributes.iter().map(|a| {
            json!({ "name": text(&a.name), "index": a.index, "type": a.data_type.map(data_type_name), "active": a.active })
        });
        json["attributes"] = row.collect();
    }
    if let Some(constants) = public.and_then(|g| g.constants()).filter(|c| !c.is_empty()) {
        let row = constants.iter().map(|c| {
            json!({ "name": text(&c.name), "index": c.index, "type": data_type_name(c.data_type), "active": c.active })
        });
        json["constants"] = row.collect();
    }
    if let Some((line, path)) = private.and_then(|g| g.debug_line()) {
        json["source"] = json!(format!("{}:{line}", text(path)));
    }
    json
}
