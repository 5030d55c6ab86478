//! A [`Foreign`] -> JSON. `inspect` prints it, or a text made from it.

use crate::fat::{Library, Slice};
use crate::fields::{self, Fields, FieldsError, Unusual};
use crate::foreign::{Content, Foreign};
use picajit::container::Kind;
use picajit_containers::finding::quoted;
use picajit_containers::mbs::{Chunk, Extra, Mbs, MbsProgram, NO_PARENT, ProgramPart, Symbol, Table, UNUSED};
use picajit_containers::metallib::bitcode::Bitcode;
use picajit_containers::metallib::sources::{Sources, archive};
use picajit_containers::metallib::{Function, Group, Metallib, data_type_name};
use picajit_containers::vbc::spirv::Module;
use picajit_containers::vbc::{Dialect, Interface, STAGES, SubpassInput, TABLES, Vbc, stage_names, texel_name};
use serde_json::{Map, Value, json};

/// Modules of a library whose producer and target are shown. More would read a large library whole.
const MOST_TARGETS: usize = 256;
/// The version byte of every VBC file that is read: the last byte of its magic.
const VBC_VERSION: u8 = Kind::Vbc.magic()[3];

/// The contents of a file, and the fields with unusual values.
pub fn contents(name: &str, file: &mut Foreign) -> (Value, Vec<Unusual>) {
    let (fields, unusual) = match fields(file) {
        Ok(Fields { json, unusual }) => (json.into(), unusual),
        Err(error) => (json!({ "error": error.to_string() }), Vec::new()),
    };
    let mut json = match &mut file.content {
        Content::Mbs(mbs) => mbs_json(mbs),
        Content::Vbc(vbc) => vbc_json(vbc),
        Content::Metallib(library, source) => metallib_json(library, source, file.size),
    };
    let mut all = Map::new();
    all.insert("file".into(), json!(name));
    all.insert("kind".into(), json!(file.kind.to_string()));
    all.insert("bytes".into(), json!(file.size));
    if !file.slices.is_empty() {
        all.insert("slices".into(), file.slices.iter().map(Slice::json).collect());
    }
    if let Value::Object(fields) = &mut json {
        all.append(fields);
    }
    all.insert("fields".into(), fields);
    (Value::Object(all), unusual)
}

fn fields(file: &Foreign) -> Result<Fields, FieldsError> {
    match &file.content {
        Content::Mbs(_) => fields::of(file.kind, &file.bytes, None),
        Content::Vbc(vbc) => fields::of(file.kind, &file.bytes, Some(vbc)),
        Content::Metallib(library, _) => {
            let (json, unusual) = fields::metallib(library, &file.bytes, file.size);
            Ok(Fields { json, unusual })
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn mbs_json(mbs: &Mbs) -> Value {
    json!({ "programs": mbs.programs().map(program).collect::<Vec<_>>() })
}

fn program(program: &MbsProgram) -> Value {
    let table = |t: Option<&Table>| t.into_iter().flat_map(Table::symbols).map(symbol).collect::<Vec<_>>();
    let part = |wanted: fn(&ProgramPart) -> Option<Value>| program.parts.iter().find_map(wanted);
    json!({
        "stage": program.stage.to_string(),
        "core": program.core_name().map_or_else(|| program.core.to_string(), Into::into),
        "code_bytes": program.code().map(<[u8]>::len),
        "instructions": program.instructions(),
        "stack": part(|p| if let ProgramPart::Stack { size, offset } = p { Some(json!([size, offset])) } else { None }),
        "discard": part(|p| if let ProgramPart::Discard(flag) = p { Some(json!(flag)) } else { None }),
        "buffers": part(|p| if let ProgramPart::Buffers(flags) = p { Some(json!(flags)) } else { None }),
        "announced_instructions": part(|p| match p {
            ProgramPart::Instructions { count, .. } => Some(json!(count)),
            _ => None,
        }),
        "attribute_prefetch": part(|p| match p {
            ProgramPart::Instructions { attribute_prefetch, .. } => Some(json!(attribute_prefetch)),
            _ => None,
        }),
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
        "components": s.component_count,
        "element": s.component_size,
        "array": (s.entry_count != 0).then_some(s.entry_count),
        "stride": s.src_stride,
        "flags": s.flags,
        "invariant": (s.invariant != 0).then_some(s.invariant),
        "parent": (s.parent != NO_PARENT).then_some(s.parent),
    });
    let indices = s.extras.iter().find_map(|e| if let Extra::Index(chunks) = e { Some(chunks) } else { None });
    if let Some(chunks) = indices {
        let index = |c: &Chunk| match c.body[..].try_into() {
            Ok(word) => (text(&c.tag), json!(i32::from_le_bytes(word))),
            Err(_) => (text(&c.tag), json!(fields::hex(&c.body))),
        };
        json["indices"] = Value::Object(chunks.iter().map(index).collect());
    }
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
        "version": VBC_VERSION,
        "shader_type": (dialect != Dialect::A0).then_some(vbc.shader_type),
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

fn metallib_json(library: &Metallib, source: &mut Library, size: u64) -> Value {
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
        "uuid": uuid.map(|t| fields::hex(&t.body)),
        "sections": sections(library),
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

/// Name, offset and size of every section that a field gives.
fn sections(library: &Metallib) -> Value {
    let h = &library.header;
    let fixed = [("functions", h.functions), ("public", h.public), ("private", h.private), ("modules", h.modules)];
    let tagged = library.extension().unwrap_or_default().iter();
    let tagged =
        tagged.filter_map(|tag| Some((tag.name.escape_ascii().to_string(), library.tagged_section(tag.name)?)));
    let all = fixed.into_iter().map(|(name, section)| (name.to_string(), section)).chain(tagged);
    all.map(|(name, s)| json!({ "section": name, "offset": s.offset, "size": s.size })).collect()
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
        "offsets": function.offsets(),
        "hash": function.hash().map(|hash| fields::hex(&hash)),
        "triple": bitcode.triple,
        "producer": bitcode.ident.or(bitcode.producer),
    });
    for (key, tag) in [("sources_offset", b"SOFF"), ("reflection_offset", b"RFLT")] {
        if let Some(offset) = function.group().u64(tag) {
            json[key] = json!(offset);
        }
    }
    if let Some(&[data_type]) = function.group().tag(b"LAYR") {
        json["layer"] = json!(data_type_name(data_type));
    }
    if let Some((patch, points)) = function.tessellation() {
        let patch = ["none", "triangle", "quad", "type 3"][usize::from(patch)];
        json["tessellation"] = json!({ "patch": patch, "control_points": points });
    }
    let [public, private] = metadata;
    if let Some(attributes) = public.and_then(|g| g.vertex_attributes()).filter(|a| !a.is_empty()) {
        let row = attributes.iter().map(|a| {
            json!({
                "name": text(&a.name),
                "index": a.index,
                "type": a.data_type.map(data_type_name),
                "usage": (a.usage != 0).then_some(a.usage),
                "active": a.active,
            })
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
    if let Some(path) = private.and_then(|g| g.tag(b"DEPF")) {
        json["air_file"] = json!(text(path.strip_suffix(&[0]).unwrap_or(path)));
    }
    for (key, tag) in [("returns", b"RETR"), ("arguments", b"ARGR")] {
        if let Some(body) = public.and_then(|g| g.tag(tag)) {
            json[key] = json!(fields::hex(body));
        }
    }
    json
}
