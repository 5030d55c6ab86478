//! Files with a value in every field -> JSON -> the same files, also after damage.

use super::record::Record;
use super::{FieldsError, build, mbs, metallib, of, pica, vbc};
use picajit::container::Kind;
use picajit::container::dvoj::Dvoj;
use picajit::container::shbin::Shbin;
use picajit_containers::mbs::Mbs;
use picajit_containers::metallib::Tag;
use picajit_containers::vbc::Vbc;
use serde_json::{Value, json};

pub(super) const FILES: [(&str, &[u8]); 6] = [
    ("all.dvoj", include_bytes!("../../../../jit-tests/containers/all.dvoj")),
    ("odd_flags.shbin", include_bytes!("../../../../jit-tests/containers/odd_flags.shbin")),
    ("both.mbs", include_bytes!("../../../../jit-tests/containers/both.mbs")),
    ("seed.vbc", include_bytes!("../../../../jit-tests/containers/seed.vbc")),
    ("st_frag_Mali-400.mbs", include_bytes!("../../../../jit-tests/containers/st_frag_Mali-400.mbs")),
    ("a2.vbc", include_bytes!("../../../../jit-tests/containers/a2.vbc")),
];

/// The fields of a file that its format's reader accepts.
pub(super) fn fields(bytes: &[u8]) -> Option<Result<Value, FieldsError>> {
    let kind = Kind::sniff(bytes)?;
    let mut vbc = None;
    match kind {
        Kind::Shbin => drop(Shbin::parse(bytes).ok()?),
        Kind::Dvoj => drop(Dvoj::parse(bytes).ok()?),
        Kind::Mbs => drop(Mbs::parse(bytes).ok()?),
        Kind::Vbc => vbc = Some(Vbc::parse(bytes).ok()?),
        Kind::Metallib => return None,
    }
    Some(of(kind, bytes, vbc.as_ref()).map(|fields| fields.json.into()))
}

#[test]
fn files_are_built_back() {
    for (name, bytes) in FILES {
        let fields = fields(bytes).unwrap().unwrap();
        let (kind, built) = build(&fields).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((Some(kind), &built[..]), (Kind::sniff(bytes), bytes), "{name}");
        // JSON text keeps every value.
        let read: Value = serde_json::from_str(&fields.to_string()).unwrap();
        assert_eq!(read, fields, "{name}");
    }
}

/// Every byte of a file is in its JSON: whatever it is changed to, the file is built back.
#[test]
fn no_byte_is_lost() {
    for (name, good) in FILES {
        let mut accepted = 0;
        for at in 0..good.len() {
            for change in [|_| 0, |_| 0xFF, |b: u8| b ^ 1, |b: u8| b ^ 0x80] {
                let mut bytes = good.to_vec();
                bytes[at] = change(bytes[at]);
                let Some(fields) = fields(&bytes) else { continue };
                accepted += 1;
                let fields = fields.unwrap_or_else(|e| panic!("{name} at {at:#x}: {e}"));
                let (_, built) = build(&fields).unwrap_or_else(|e| panic!("{name} at {at:#x}: {e}"));
                assert_eq!(built, bytes, "{name} at {at:#x}");
            }
        }
        assert!(accepted > good.len(), "{name}: {accepted} of {} files are read", 4 * good.len());
    }
}

fn has_key(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(map) => map.contains_key(key) || map.values().any(|value| has_key(value, key)),
        Value::Array(list) => list.iter().any(|value| has_key(value, key)),
        _ => false,
    }
}

/// JSON has the key of every field that the document lists.
#[test]
fn every_field_is_in_json() {
    let all: Vec<Value> = FILES.iter().map(|(_, bytes)| fields(bytes).unwrap().unwrap()).collect();
    for record in pica::RECORDS.iter().chain(&mbs::RECORDS).chain(&vbc::RECORDS) {
        for field in record.fields {
            assert!(all.iter().any(|file| has_key(file, field.key)), "{}: {}", record.name, field.key);
        }
    }
    for record in &metallib::RECORDS[1..] {
        for name in record.name.split(", ") {
            let name: [u8; 4] = name.as_bytes().try_into().unwrap();
            let json = metallib::tag(&Tag { name, body: vec![7; record.size()].into() });
            assert!(record.fields.iter().all(|field| json.get(field.key).is_some()), "{json}");
            let odd = metallib::tag(&Tag { name, body: vec![7; record.size() + 1].into() });
            assert_eq!(odd["body"]["hex"], "07".repeat(record.size() + 1), "another size is shown as it is");
        }
    }
}

#[test]
fn a_record_is_its_bytes() {
    let records: [&[&Record]; 4] = [&pica::RECORDS, &mbs::RECORDS, &vbc::RECORDS, &metallib::RECORDS];
    for record in records.into_iter().flatten() {
        let bytes: Vec<u8> = (1..=record.size() as u8).collect();
        let map = record.read(&bytes, 0, &mut Vec::new()).unwrap();
        assert_eq!(record.write(&map, "x").unwrap(), bytes, "{}", record.name);
        assert_eq!(record.read(&bytes[1..], 0, &mut Vec::new()), None);
    }
}

#[test]
fn unusual_values_are_named() {
    let unusual = |n: usize| {
        let (_, bytes) = FILES[n];
        let fields = of(Kind::sniff(bytes).unwrap(), bytes, None).unwrap();
        fields.unusual.into_iter().map(|u| (u.at, u.name, u.value)).collect::<Vec<_>>()
    };
    let row = |at, name: &str, value: &str| (at, name.to_string(), value.to_string());
    assert!(unusual(1).contains(&row(0x5E, "DVLE 06: type", "130")));
    assert_eq!(unusual(2), [row(0x3E, "FBUU 06: zeros", "[170,187]"), row(0x2D0, "FINS 00: zero", "119")]);
}

/// An edited value gives another file; an impossible one gives an error that names it.
#[test]
fn edits_are_checked() {
    let good = |n: usize| fields(FILES[n].1).unwrap().unwrap();
    let mut json = good(0);
    json["lines"][1]["line"] = json!(77);
    let (_, bytes) = build(&json).unwrap();
    assert_eq!(Dvoj::parse(&bytes).unwrap().lines[1].line, 77);
    let mut json = good(2);
    json["chunks"][0]["chunks"][3]["chunks"][0]["string"] = json!("lamp\0\0\0\0\0\0\0\0");
    let (_, bytes) = build(&json).unwrap();
    let mbs = Mbs::parse(&bytes).unwrap();
    assert_eq!(mbs.programs().next().unwrap().uniforms().unwrap().symbols().next().unwrap().name(), b"lamp");
    let check = |n: usize, edit: &dyn Fn(&mut Value), wanted: &str| {
        let mut json = good(n);
        edit(&mut json);
        let error = build(&json).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{error}");
    };
    check(0, &|j| j["version"] = json!(65536), "`fields.version` is 65536, at most 65535 is possible");
    check(0, &|j| j["version"] = json!("1"), "`fields.version` is not a number from 0");
    check(0, &|j| drop(j.as_object_mut().unwrap().remove("merge")), "`fields.merge` is missing\nhelp: ");
    check(0, &|j| j["lines"] = json!([]), "`fields.lines` has 0 rows, and `lines_count` is 3\nhelp: change both");
    check(0, &|j| j["labels_offset"] = json!(88), "`fields.labels`, 0x20 bytes at 0x58, overlaps another part");
    check(0, &|j| j["size"] = json!(300), "`fields.symbols`, 0x20 bytes at 0x118, ends after the file's 0x12c bytes");
    check(1, &|j| j["size"] = json!(u32::MAX), "`fields.size` is 4294967295, at most 4194304 is possible");
    check(
        1,
        &|j| j["dvles"][0]["constants"][0]["words"] = json!([1]),
        "`fields.dvles[0].constants[0].words` is not an array",
    );
    check(2, &|j| j["chunks"][0]["tag"] = json!("CFRAX"), "`fields.chunks[0].tag` is not four bytes");
    check(
        3,
        &|j| j["modules"]["vert"]["hex"] = json!("0"),
        "`fields.modules.vert` is not a text or an object with `hex`",
    );
    check(3, &|j| j["dialect"] = json!("D"), "`fields.dialect` is not A0, A1, A2 or C");
    check(3, &|j| j["format"] = json!("MTLB"), "`fields.format` is not SHBIN, DVOJ, MBS1 or VBC");
}

/// Lists of names in tags are rows; a list that its body does not fill is shown as it is.
#[test]
fn lists_of_metal_tags_are_rows() {
    let bytes = super::damage::handmade::library();
    let library = picajit_containers::metallib::Metallib::parse(&bytes).unwrap();
    let (fields, _) = super::metallib(&library, &bytes[..88], bytes.len() as u64);
    let function = |n: usize, part: &str| fields["functions"][n][part]["tags"].clone();
    let attributes = json!([
        { "tag": "VATT", "attributes": [{ "name": "pos", "index": 0, "usage": 0, "active": 1 }] },
        { "tag": "VATY", "types": [6] },
    ]);
    assert_eq!(function(0, "public"), attributes);
    let constant = json!({ "name": "k", "type": 0x1D, "index": 7, "active": 1 });
    assert_eq!(function(2, "public"), json!([{ "tag": "CNST", "constants": [constant] }]));
    assert_eq!(function(0, "private")[0]["source"], json!({ "line": 5, "path": "/Users/a/x.metal" }));
    for body in [&b"\x01\0"[..], b"\x01\0\x06\0", b""] {
        let json = metallib::tag(&Tag { name: *b"VATY", body: body.into() });
        assert_eq!(json["body"]["hex"], super::hex(body));
    }
}
