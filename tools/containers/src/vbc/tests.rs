//! Third-party files, their conversions, repairs and contradictions.

use super::*;
use crate::finding::Severity;
use crate::testing::prerequisites::{skipped, temporary_folder};
use crate::testing::{hostile, third_party};
use std::io::Read;

/// Third-party files, the compressed one unpacked.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = third_party::files("vbc");
    for (name, packed) in third_party::with_ending("vbc", "gz") {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        files.push((name, bytes));
    }
    files
}

fn file(name: &str) -> Option<Vbc> {
    files().into_iter().find(|(n, _)| n.contains(name)).map(|(_, bytes)| Vbc::parse(&bytes).unwrap())
}

fn errors(vbc: &Vbc) -> Vec<String> {
    let errors = vbc.verify().into_iter().filter(|f| f.severity == Severity::Error);
    errors.map(|f| f.to_string()).collect()
}

#[test]
fn the_corpus_is_read_and_written_back() {
    for (name, bytes) in files() {
        let vbc = Vbc::parse(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(vbc.write(), bytes, "{name}");
        let dialect = if name.contains("a77136f") { Dialect::A2 } else { Dialect::C };
        assert_eq!(vbc.dialect, dialect, "{name}");
        let errors = errors(&vbc);
        let expected = match name.as_str() {
            n if n.contains("c110b1b_subpass") => 2,
            n if n.contains("wrap") => 1,
            _ => 0,
        };
        assert_eq!(errors.len(), expected, "{name}: {errors:#?}");
    }
}

#[test]
fn the_validator_accepts_the_modules() {
    let files = files();
    if files.is_empty() {
        return;
    }
    let validator = |path: &std::path::Path| {
        std::process::Command::new("spirv-val")
            .args(["--scalar-block-layout", "--target-env", "vulkan1.2"])
            .arg(path)
            .output()
    };
    // An emulator may report a missing program by its exit status only.
    if !validator(std::path::Path::new("--version")).is_ok_and(|output| output.status.success()) {
        skipped("modules of VBC files in SPIR-V's validator: no spirv-val");
        return;
    }
    let path = temporary_folder().join(format!("picajit-{}.spv", std::process::id()));
    for (name, bytes) in files {
        let vbc = Vbc::parse(&bytes).unwrap();
        for module in vbc.modules.iter().filter(|m| !m.is_empty()) {
            std::fs::write(&path, module).unwrap();
            let output = validator(&path).unwrap();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let _ = std::fs::remove_file(path);
}

/// A file of dialect C made by the writer: every kind of binding, a uniform, a subpass input.
fn handmade() -> Vbc {
    let entry_point = |model: u32| {
        let words =
            [0x0723_0203, 0x0001_0500, 0x000D_000B, 9, 0, 5 << 16 | 15, model, 1, u32::from_le_bytes(*b"main"), 0];
        words.iter().flat_map(|w: &u32| w.to_le_bytes()).collect::<Vec<u8>>()
    };
    let ty = |base, rows, columns, array| ValueType { base, rows, columns, array };
    let row = |location, ty| Interface { location, ty, reserved: [0; 3] };
    let binding = |slot, base, detail| Binding { slot, base, stages: 16, detail };
    let member = |name: &[u8], offset, ty| Member { name: name.into(), offset, ty: Some(ty) };
    Vbc {
        dialect: Dialect::C,
        shader_type: 1,
        tables: DEFAULT_TABLES,
        inputs: vec![row(0, ty(4, 3, 1, 1)), row(1, ty(4, 4, 4, 2))],
        outputs: vec![row(0, ty(4, 4, 1, 1)), row(1, ty(3, 1, 1, 1))],
        bindings: vec![
            binding(0, 5, [5, 2, 4, 4]),
            binding(1, 6, [1, 3, 1, 4]),
            binding(2, 7, [16, 0, 0, 0]),
            binding(3, 8, [32, 0, 0, 0]),
            binding(4, 9, [6, 2, 4, 4]),
            binding(5, 10, [6, 0, 4, 2]),
        ],
        uniform: Some(Uniform {
            size: 80,
            stages: 17,
            members: vec![member(b"mvp", 0, ty(4, 4, 4, 1)), member(b"_n2", 64, ty(2, 1, 1, 4))],
        }),
        subpass_inputs: vec![SubpassInput::Plain { texel: 2, count: 4, reserved: 0 }],
        modules: [entry_point(0), vec![], vec![], vec![], entry_point(4)],
    }
}

#[test]
fn every_layout_is_written_and_read() {
    let c = handmade();
    assert_eq!(c.verify(), []);
    assert_eq!(Vbc::parse(&c.write()).unwrap(), c);
    let a2 = c.converted(Dialect::A2).unwrap();
    assert_eq!(Vbc::parse(&a2.write()).unwrap(), a2);
    assert_eq!((errors(&a2), a2.converted(Dialect::C).unwrap()), (vec![], c));
    for dialect in [Dialect::A1, Dialect::A0] {
        let mut vbc = Vbc { dialect, ..a2.clone() };
        vbc.uniform.iter_mut().flat_map(|u| &mut u.members).for_each(|m| m.ty = None);
        assert_eq!(Vbc::parse(&vbc.write()).unwrap(), vbc);
        assert_eq!(errors(&vbc), [""; 0]);
    }
}

#[test]
fn texts_name_types_as_the_language_does() {
    let c = handmade();
    let a2 = c.converted(Dialect::A2).unwrap();
    for vbc in [&c, &a2] {
        let types: Vec<String> = vbc.inputs.iter().chain(&vbc.outputs).map(|r| r.ty.name(vbc.dialect)).collect();
        assert_eq!(types, ["float3", "float4x4[2]", "float4", "uint"]);
    }
    let shown: Vec<String> =
        c.bindings.iter().map(|b| format!("{} {}", b.kind(c.dialect), b.describe(c.dialect))).collect();
    let expected = ["Sampler Cube Float 4x4", "Image 2D UNorm 1x4", "ROBuffer 16 bytes", "RWBuffer 32 bytes"];
    assert_eq!(shown[..4], expected);
    assert_eq!(a2.bindings[1].describe(Dialect::A2), "2D Float 1x4");
}

#[test]
fn a_wrapped_size_is_found_by_the_next_magic() {
    let mut vbc = handmade();
    // The vertex stage has more words than its size can hold.
    vbc.modules[0].resize(4 * 70_000, 0);
    let bytes = vbc.write();
    assert_eq!(bytes[5..7], (70_000u32 as u16).to_le_bytes());
    let read = Vbc::parse(&bytes).unwrap();
    assert!(read == vbc && read.write() == bytes);
    assert!(errors(&read)[0].contains("stage `vert` has 70000 words, its size field says 4464"));
    assert!(read.repaired().is_err());
}

#[test]
fn what_a2_holds_survives_c() {
    for (name, bytes) in files() {
        let vbc = Vbc::parse(&bytes).unwrap();
        let target = if vbc.dialect == Dialect::C { Dialect::A2 } else { Dialect::C };
        match vbc.converted(target) {
            Ok(to) => {
                assert_eq!(Vbc::parse(&to.write()).unwrap(), to, "{name}");
                assert_eq!(errors(&to), [""; 0], "{name}");
                assert_eq!(to.converted(vbc.dialect).unwrap().write(), bytes, "{name}");
            }
            Err(e) => assert!(name.contains("c110b1b_subpass") || name.contains("wrap"), "{name}: {e}"),
        }
    }
}

#[test]
fn what_a_dialect_lacks_is_named() {
    let (Some(c), Some(a2)) = (file("c110b1b_full"), file("a77136f_full")) else { return };
    let fails = |vbc: &Vbc, target, wanted: &str| {
        assert_eq!(vbc.converted(target).unwrap_err().message, wanted);
    };
    let mut snorm = c.clone();
    let image = snorm.bindings.iter_mut().find(|b| b.slot == 3).unwrap();
    image.detail[1] = 4;
    fails(&snorm, Dialect::A2, "the binding at slot 3 has a type that dialect A2 can't express");
    let mut long = a2.clone();
    long.uniform.as_mut().unwrap().members[1].name = vec![b'x'; 256];
    fails(
        &long,
        Dialect::C,
        &format!("the member `{}...` has a name of 256 bytes, dialect C holds 255", "x".repeat(64)),
    );
    let mut far = a2.clone();
    far.uniform.as_mut().unwrap().members[1].offset = 1 << 16;
    fails(&far, Dialect::C, "the member `tint` is at offset 65536, dialect C holds 65535");
    let mut none = a2;
    none.bindings[0].detail[0] = 0;
    let slot = none.bindings[0].slot;
    fails(&none, Dialect::C, &format!("the binding at slot {slot} has a type that dialect C can't express"));
    // The largest rank is no number to count on from.
    let mut rank = c.clone();
    rank.bindings[0].detail[0] = 255;
    fails(&rank, Dialect::A2, "the binding at slot 0 has a type that dialect A2 can't express");
    fails(&c, Dialect::A1, "dialect C does not convert to A1, only A2 and C do");
}

#[test]
fn contradictions_to_the_modules_are_found() {
    let Some(full) = file("c110b1b_full") else { return };
    let has = |change: &dyn Fn(&mut Vbc), wanted: &str| {
        let mut vbc = full.clone();
        change(&mut vbc);
        let found = errors(&vbc);
        assert!(found.iter().any(|m| m.contains(wanted)), "{wanted}: {found:#?}");
    };
    has(&|v| v.inputs[0].ty.rows = 2, "the input at location 0 is float3 in the module, float2 in the table");
    has(&|v| v.inputs.truncate(1), "the module has an input at location 1, the table has none");
    has(&|v| v.outputs[1].ty.base = 4, "the output at location 2 is uint in the module, float in the table");
    has(&|v| v.uniform.as_mut().unwrap().members[1].offset = 68, "`tint` is at 64 in the module, at 68 in the table");
    has(&|v| v.uniform = None, "the module has a uniform block, the tables have none");
    has(&|v| v.bindings.retain(|b| b.slot < 9), "words of table indices, the bindings need");
    has(&|v| v.tables[2] = 99, "descriptors, the table of buffers has 99");
    has(&|v| v.modules.swap(0, 4), "stage `vert` has an entry point of the model Fragment");
    has(&|v| v.modules[4].truncate(40), "stage `frag`: no valid SPIR-V");
    has(&|v| v.inputs[1].location = 0, "location 0 has two inputs");
    has(&|v| v.bindings[1].slot = 0, "two bindings at slot 0");
    has(&|v| v.bindings[1].stages = 2, "names stages that are absent: tesc");
}

#[test]
fn defects_are_repaired_or_named() {
    let (Some(subpass), Some(wrap)) = (file("c110b1b_subpass"), file("wrap")) else { return };
    assert_eq!(subpass.subpass_inputs.iter().map(|s| s.name().unwrap()).collect::<Vec<_>>(), [&b"base"[..], b"ids"]);
    let message = wrap.repaired().unwrap_err().message;
    assert_eq!(message, "stage `vert` has 150285 words, its size holds 65535");
    // The optimiser has removed both inputs from the module.
    let message = subpass.clone().repaired().unwrap_err().message;
    assert_eq!(message, "the type of subpass input 0 is not known: the fragment module does not use it");
    let mut used = subpass;
    used.modules[4].extend(subpass_variables());
    let repaired = used.repaired().unwrap();
    let plain = |texel| SubpassInput::Plain { texel, count: 4, reserved: 0 };
    assert_eq!(repaired.subpass_inputs, [plain(2), plain(1)]);
    assert_eq!(errors(&repaired), [""; 0]);
    assert_eq!(Vbc::parse(&repaired.write()).unwrap(), repaired);
    assert_eq!(repaired.converted(Dialect::A2).unwrap().subpass_inputs, [plain(4), plain(3)]);
}

/// Instructions that declare subpass inputs 0, of float, and 1, of uint.
fn subpass_variables() -> Vec<u8> {
    let inst = |op: u32, operands: &[u32]| [&[(operands.len() as u32 + 1) << 16 | op], operands].concat();
    let input = |index: u32, number: Vec<u32>| {
        let [ty, image, pointer, variable] = [0, 1, 2, 3].map(|n| 10_000 + 10 * index + n);
        let image_inst = inst(25, &[image, ty, 6, 0, 0, 0, 2, 0]);
        let rest = [inst(32, &[pointer, 0, image]), inst(59, &[pointer, variable, 0])].concat();
        let decorations =
            [[variable, 34, 2], [variable, 33, index], [variable, 43, index]].map(|d| inst(71, &d)).concat();
        [decorations, number, image_inst, rest].concat()
    };
    let words = [input(0, inst(22, &[10_000, 32])), input(1, inst(21, &[10_010, 32, 0]))].concat();
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

#[test]
fn hostile_files_give_an_error_or_a_model() {
    for (name, bytes) in files().into_iter().chain([("by hand".into(), handmade().write())]) {
        hostile::files(&bytes, |file| {
            if let Ok(vbc) = Vbc::parse(file) {
                assert_eq!(vbc.write(), file, "{name}");
                vbc.verify();
                for target in [Dialect::A2, Dialect::C] {
                    if let Ok(to) = vbc.converted(target) {
                        assert_eq!(to.converted(vbc.dialect).unwrap(), vbc, "{name}");
                    }
                }
                drop(vbc.repaired());
            }
        });
    }
}
