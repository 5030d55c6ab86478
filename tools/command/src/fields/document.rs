//! The table of all fields in `docs/containers.md`, made from the records. `BLESS=1` rewrites it.

use super::record::{Field, Form, Record, View};
use super::tests::{FILES, fields};
use super::{mbs, metallib, pica, vbc};
use picajit::container::Kind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const START: &str = "<!-- The test `fields::document` writes the rest of this file. -->\n";

/// A part without a fixed layout: format, record, place, what it is, key, text, written.
type Extra = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

const EXTRAS: &[Extra] = &[
    ("SHBIN and DVOJ", "DVLB", "08", "offsets of the DVLEs", "`dvle_offsets`", "`--all`", "yes"),
    ("SHBIN and DVOJ", "DVLP, DVOJ", "by offset", "code", "`code`", "`disasm`", "yes"),
    ("SHBIN and DVOJ", "DVLP", "by offset", "source file names", "`files`", "yes", "yes"),
    ("SHBIN and DVOJ", "DVLE, DVOJ", "by offset", "symbols", "`symbols`", "yes", "yes"),
    ("SHBIN and DVOJ", "file", "any", "bytes that no field gives", "`other_bytes`", "`--all`", "yes"),
    ("SHBIN and DVOJ", "file", "end", "size", "`size`", "yes", "yes"),
    ("MBS", "file", "00", "magic and size", "`magic`", "`--all`", "computed"),
    ("MBS", "chunk", "00", "tag", "`tag`", "yes", "yes"),
    ("MBS", "chunk", "04", "size", "none: of the body", "no: of the body", "computed"),
    ("MBS", "STRI", "00", "name with its zeros", "`string`", "yes", "yes"),
    ("MBS", "VINI", "00", "number of words", "none: of `words`", "no: of the values", "computed"),
    ("MBS", "VINI", "04", "values", "`words`", "yes", "yes"),
    ("MBS", "DBIN", "00", "instructions", "`code`", "`disasm`", "yes"),
    ("MBS", "unknown", "00", "bytes", "`body`", "size", "yes"),
    ("VBC", "tables", "00", "numbers of rows", "none: of the arrays", "no: of the rows", "computed"),
    ("VBC", "uniform block", "00", "size", "`uniform.size`", "yes", "yes"),
    ("VBC", "member", "by dialect", "offset", "`offset`", "yes", "yes"),
    ("VBC", "member", "by dialect", "name", "`name`", "yes", "yes"),
    ("VBC", "subpass input", "00", "object of the compiler's memory", "`dumped`", "yes", "yes"),
    ("VBC", "stages", "end", "SPIR-V", "`modules`", "size", "yes"),
    ("Metal library", "group", "00", "size", "`counts_itself`", "`--all`", "computed"),
    ("Metal library", "NAME, DEPF, DYNL", "00", "text", "`text`", "yes", "kept"),
    ("Metal library", "CNST", "00", "name, type, index, active of each constant", "`constants`", "yes", "kept"),
    ("Metal library", "VATT", "00", "name, index, usage, active of each attribute", "`attributes`", "yes", "kept"),
    ("Metal library", "VATY", "00", "type of each attribute", "`types`", "yes", "kept"),
    ("Metal library", "DEBI", "00", "line and path", "`source`", "yes", "kept"),
    ("Metal library", "RETR, ARGR", "00", "unknown", "`body`", "yes", "kept"),
    ("Metal library", "SARC", "00", "archive of sources", "none: `extract`", "size", "kept"),
    ("Metal library", "RBUF, RBUZ, SBUF", "00", "reflection", "none: `sections` has the size", "size", "kept"),
];

/// Name, records, whether `build` writes them.
const FORMATS: [(&str, &[&Record], &str); 4] = [
    ("SHBIN and DVOJ", &pica::RECORDS, "yes"),
    ("MBS", &mbs::RECORDS, "yes"),
    ("VBC", &vbc::RECORDS, "yes"),
    ("Metal library", &metallib::RECORDS, "kept"),
];

fn text(view: View) -> String {
    match view {
        View::Always => "yes".into(),
        View::Layout => "`--all`".into(),
        View::Unless(values) => {
            let values: Vec<String> =
                values.iter().map(|n| if *n > 9 { format!("{n:X}") } else { n.to_string() }).collect();
            format!("unless {}", values.join(", "))
        }
    }
}

fn size(form: Form) -> String {
    match form {
        Form::Number(size) => size.to_string(),
        Form::Numbers(count, size) => format!("{count} x {size}"),
        Form::Text(size) | Form::Hex(size) => format!("{size} bytes"),
    }
}

fn table() -> String {
    let mut out = String::new();
    for (format, records, written) in FORMATS {
        out += &format!(
            "\n### {format}\n\n| record | at | size | field | key | text | written |\n|---|---|---|---|---|---|---|\n"
        );
        for record in records {
            for Field { at, form, key, name, view } in record.fields {
                let (at, size, text) = (record.at + at, size(*form), text(*view));
                out += &format!("| {} | {at:02X} | {size} | {name} | `{key}` | {text} | {written} |\n", record.name);
            }
        }
        for (_, record, at, name, key, text, written) in EXTRAS.iter().filter(|extra| extra.0 == format) {
            out += &format!("| {record} | {at} | any | {name} | {key} | {text} | {written} |\n");
        }
    }
    out
}

fn document() -> (std::path::PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/containers.md");
    let text = std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    (path, text)
}

#[test]
fn the_table_is_that_of_the_records() {
    let (path, text) = document();
    let (before, found) = text.split_once(START).expect("the page has the line before the table");
    let expected = table();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, format!("{before}{START}{expected}")).unwrap();
        return;
    }
    assert!(found == expected, "the table is stale\nhelp: BLESS=1 rewrites it");
    assert!(expected.lines().all(|line| !line.contains("|  |")), "no empty cell");
}

#[test]
fn records_have_no_gaps() {
    for (format, records, _) in FORMATS {
        for record in records {
            let mut at = 0;
            for field in record.fields {
                assert_eq!(field.at, at, "{format}, {}: {}", record.name, field.name);
                let same = record.fields.iter().filter(|other| other.key == field.key).count();
                assert_eq!(same, 1, "{}: {}", record.name, field.key);
                at = field.at + field.form.size();
            }
            assert_eq!(record.size(), at);
        }
    }
}

/// The offsets in the first column of the tables of a section of the page.
fn described<'a>(text: &'a str, heading: &str) -> Vec<(&'a str, usize)> {
    let (_, section) = text.split_once(heading).unwrap_or_else(|| panic!("{heading}"));
    let section = section.split("\n## ").next().unwrap().split("\n### ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" |").next());
    cells.flat_map(|cell| cell.split(", ")).filter_map(|n| Some((n, usize::from_str_radix(n, 16).ok()?))).collect()
}

/// A section, the records that it describes, the format's records, offsets of parts without a record.
type Described = (&'static str, &'static [&'static str], &'static [&'static Record], &'static [usize]);

/// What the first thirteen sections describe by hand has a field, and every field is described.
#[test]
fn every_described_field_has_a_key() {
    let (_, text) = document();
    let cases: [Described; 14] = [
        ("\n## 2. DVLB\n", &["DVLB"], &pica::RECORDS, &[8]),
        ("\n## 3. DVLP\n", &["DVLP"], &pica::RECORDS, &[]),
        ("\n## 4. DVLE\n", &["DVLE"], &pica::RECORDS, &[]),
        ("\n### 4.1 Constants\n", &["constant"], &pica::RECORDS, &[]),
        ("\n### 4.2 Labels\n", &["label"], &pica::RECORDS, &[]),
        ("\n### 4.3 Outputs\n", &["output"], &pica::RECORDS, &[]),
        ("\n### 4.4 Uniforms and inputs\n", &["uniform"], &pica::RECORDS, &[]),
        ("\n## 7. DVOJ\n", &["DVOJ"], &pica::RECORDS, &[]),
        ("\n## 11. MBS1\n", &["record of VUNI, VVAR", "record of VATT"], &mbs::RECORDS, &[]),
        ("\n### 12.1 Header\n", &["header"], &vbc::RECORDS, &[]),
        ("\n### 12.2 Inputs and outputs\n", &["input, output"], &vbc::RECORDS, &[]),
        ("\n### 12.3 Bindings\n", &["binding"], &vbc::RECORDS, &[]),
        ("\n### 12.4 Uniform block\n", &["type of a member"], &vbc::RECORDS, &[]),
        ("\n### 12.5 Subpass inputs\n", &["subpass input"], &vbc::RECORDS, &[]),
    ];
    for (heading, names, records, extra) in cases {
        let fields = records.iter().filter(|record| names.contains(&record.name));
        let fields = fields.flat_map(|record| record.fields.iter().map(|field| record.at + field.at));
        let fields: BTreeSet<usize> = fields.chain(extra.iter().copied()).collect();
        let described: BTreeSet<usize> = described(&text, heading).into_iter().map(|(_, at)| at).collect();
        let pairs: BTreeSet<usize> =
            if heading == "\n## 7. DVOJ\n" { (0x14..=0x54).step_by(8).collect() } else { BTreeSet::new() };
        assert!(described.is_subset(&fields), "{heading}: {described:X?} are described, {fields:X?} are fields");
        let missing: Vec<_> = fields.difference(&described).filter(|at| !pairs.contains(at)).collect();
        assert!(missing.is_empty(), "{heading}: {missing:X?} are not described");
    }
    let header = metallib::RECORDS[0];
    for (written, at) in described(&text, "\n## 13. Metal library\n") {
        // The names of some tags are hexadecimal numbers too.
        let is_field = header.fields.iter().any(|field| field.at == at);
        assert!(is_field || written.len() > 2, "the header has no field at {written}");
    }
    let (_, metal) = text.split_once("\n## 13. Metal library\n").unwrap();
    let (metal, _) = metal.split_once("\n## 14. ").unwrap();
    let tags = metal.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let tags = tags
        .flat_map(|cell| cell.split(", "))
        .filter(|tag| tag.len() == 4 && tag.chars().all(|c| c.is_ascii_uppercase()));
    let known: String =
        metallib::RECORDS.iter().map(|r| r.name).chain(EXTRAS.iter().map(|e| e.1)).collect::<Vec<_>>().join(", ");
    let tags: Vec<&str> = tags.collect();
    assert!(tags.len() > 10);
    for tag in tags {
        assert!(known.contains(tag), "the tag {tag} has no row");
    }
}

/// Values of the JSON that are no bytes of the file.
const DERIVED: [&str; 3] = ["format", "dialect", "at"];

/// The keys of values, without those below a key of `known`.
fn keys<'a>(value: &'a Value, known: &BTreeSet<&str>, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let is_part = match value {
                    Value::Array(list) => list.is_empty() || list.iter().any(Value::is_object),
                    Value::Object(map) => !map.contains_key("hex"),
                    _ => false,
                };
                if !is_part || known.contains(key.as_str()) {
                    found.insert(key);
                }
                if is_part && !known.contains(key.as_str()) {
                    keys(value, known, found);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, known, found)),
        _ => {}
    }
}

/// Files with parts that those of the tests lack: initial values and an unknown chunk; memory in place
/// of subpass inputs.
fn rare(format: &str) -> Option<Value> {
    let file = |name: &str| FILES.iter().find(|file| file.0 == name).and_then(|file| fields(file.1)?.ok());
    let mut json = Value::Null;
    if format == "MBS" {
        json = file("both.mbs")?;
        let chunks = json["chunks"][0]["chunks"][3]["chunks"][0]["chunks"].as_array_mut()?;
        chunks.push(json!({ "tag": "VINI", "words": [1, 0x3F80_0000] }));
        chunks.push(json!({ "tag": "NEW1", "body": { "hex": "00" } }));
    } else if format == "VBC" {
        json = file("seed.vbc")?;
        json["subpass_inputs"] = json!([{ "dumped": { "hex": "00".repeat(48) } }]);
    }
    fields(&super::build(&json).ok()?.1)?.ok()
}

/// Every key of the JSON has a row, and the key of every row is in the JSON.
#[test]
fn every_key_has_a_row() {
    for (format, kinds, records) in [
        ("SHBIN and DVOJ", &[Kind::Shbin, Kind::Dvoj][..], &pica::RECORDS[..]),
        ("MBS", &[Kind::Mbs], &mbs::RECORDS),
        ("VBC", &[Kind::Vbc], &vbc::RECORDS),
    ] {
        let of_records = records.iter().flat_map(|record| record.fields).map(|field| field.key);
        let extras = EXTRAS.iter().filter(|extra| extra.0 == format).map(|extra| extra.4);
        let extras = extras.filter_map(|key| key.strip_prefix('`')?.strip_suffix('`')?.rsplit('.').next());
        let rows: BTreeSet<&str> = of_records.chain(extras).collect();
        let files = FILES.iter().filter(|(_, bytes)| Kind::sniff(bytes).is_some_and(|kind| kinds.contains(&kind)));
        let mut files: Vec<Value> = files.map(|(_, bytes)| fields(bytes).unwrap().unwrap()).collect();
        files.extend(rare(format));
        let mut found = BTreeSet::new();
        files.iter().for_each(|file| keys(file, &rows, &mut found));
        found.retain(|key| !DERIVED.contains(key));
        assert_eq!(found, rows, "{format}: the keys of files, and those of the table");
    }
}
