//! The headers of the files in `hardware/` and of the entries of `hardware.rs` -> the tables of
//! docs/isa.md: for each row of the discrepancy table, each conformance vector and each console
//! check, the behaviour, its evidence, and its test.
//!
//! Invariant: rows 1-68, vectors 1-9, checks 0-40 and the values that only 3dbrew gives have tests,
//! every test has a header, and the document equals the headers. `BLESS=1` rewrites the document.
//!
//! A header is comment lines. `; row: 31` (or `; vector: 2`) opens a block, which needs `;
//! behaviour:`, `; evidence:` and, for a row, `; differs:`. A line `; ... text` continues the one
//! above. `; fp-tests: 9-18, 37` and `; 3dbrew: rcp(-0)` need no block.

use crate::{directive, files, hardware, name};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/isa.md");

/// The parts of the discrepancy table and the last row of each.
const PARTS: [(&str, u8); 4] =
    [("9a. Encoding", 12), ("9b. Arithmetic", 41), ("9c. Control flow", 60), ("9d. Geometry", 68)];
const ROWS: u8 = 68;
const VECTORS: u8 = 9;
/// Checks of the console suite, numbered from 0.
const CHECKS: u8 = 41;
/// Values of ISA notes 4.2 that come from 3dbrew's table and not from the suite.
const VALUES: [&str; 6] = ["rcp(-0)", "rsq(-0)", "cmp(s, 0)", "max(s, 0)", "mul(s, 2)", "mul(n, 0.5)"];
/// The evidence tags of ISA notes 0: a statement of evidence begins with one.
const TAGS: [&str; 7] = ["HW", "TOOL", "DOC", "EMU", "INF", "UNK", "OWN"];

/// Subject of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Row(u8),
    Vector(u8),
}

/// A row or vector in the header of one test.
#[derive(Debug)]
struct Block {
    subject: Subject,
    behaviour: String,
    evidence: String,
    differs: String,
}

/// The header of a file.
#[derive(Debug, Default)]
struct Header {
    blocks: Vec<Block>,
    checks: BTreeSet<u8>,
    values: Vec<String>,
}

/// A test with a header.
struct DocumentedTest {
    /// File name without extension, or the name of a Rust test.
    name: String,
    /// Markdown link to it.
    link: String,
    text: String,
}

/// The trials of this file.
pub fn trials() -> Vec<Trial> {
    vec![Trial::test("rows/docs", check_document), Trial::test("rows/wrong-headers-fail", wrong_headers)]
}

fn check_document() -> Result<(), Failed> {
    let tables = tables(&sources()?).map_err(|wrong| wrong.join("\n"))?;
    let old = std::fs::read_to_string(DOCUMENT).map_err(|e| format!("{DOCUMENT}: {e}"))?;
    let mut new = old.clone();
    for (name, table) in &tables {
        new = replaced(&new, name, table)?;
    }
    if new == old {
        return Ok(());
    }
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(DOCUMENT, new).map_err(|e| format!("{DOCUMENT}: {e}").into());
    }
    let at = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    let show = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_string();
    Err(format!("docs/isa.md:{}:\n  file: {}\n   now: {}\nBLESS=1 rewrites it", at + 1, show(&old), show(&new)).into())
}

/// Every test with a header: the files of `hardware/`, then the entries of `hardware.rs`.
fn sources() -> Result<Vec<DocumentedTest>, String> {
    let mut sources = Vec::new();
    for path in files("hardware") {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = name(&path).trim_start_matches("hardware/").to_string();
        let skips = directive::parse(&text).map_err(|e| format!("{name}: {e}"))?.skips;
        let mut link = format!("[{name}](../jit-tests/hardware/{name}.test)");
        skips.iter().for_each(|(engine, _)| link += &format!(", fails on {engine}"));
        sources.push(DocumentedTest { name, link, text });
    }
    for entry in hardware::ENTRIES {
        let link = format!("[{}](../jit-tests/hardware.rs)", entry.name);
        sources.push(DocumentedTest { name: entry.name.to_string(), link, text: entry.header.to_string() });
    }
    Ok(sources)
}

/// `text` with the section between the markers of `name` replaced by `table`.
fn replaced(text: &str, name: &str, table: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- begin {name}: "), format!("<!-- end {name} -->"));
    let missing = || format!("docs/isa.md lacks `{begin}...` or `{end}`");
    let start = text.find(&begin).ok_or_else(missing)?;
    let start = start + text[start..].find('\n').ok_or_else(missing)? + 1;
    let stop = start + text[start..].find(&end).ok_or_else(missing)?;
    Ok(format!("{}\n{table}\n{}", &text[..start], &text[stop..]))
}

/// The generated tables by name, or all errors of the headers.
fn tables(sources: &[DocumentedTest]) -> Result<Vec<(&'static str, String)>, Vec<String>> {
    let mut wrong = Vec::new();
    let mut headers = Vec::new();
    for source in sources {
        match header(&source.text).and_then(|header| named_for(&source.name, &header).map(|()| header)) {
            Ok(header) => headers.push((source, header)),
            Err(e) => wrong.push(format!("{}: {e}", source.name)),
        }
    }
    let mut blocks: Vec<(&Block, &str)> =
        headers.iter().flat_map(|(source, h)| h.blocks.iter().map(|b| (b, &*source.link))).collect();
    blocks.sort_by_key(|(block, _)| block.subject);
    let subjects = (1..=ROWS).map(Subject::Row).chain((1..=VECTORS).map(Subject::Vector));
    for subject in subjects.filter(|s| blocks.iter().all(|(b, _)| b.subject != *s)) {
        wrong.push(format!("no test for {subject:?}"));
    }
    for check in (0..CHECKS).filter(|n| headers.iter().all(|(_, h)| !h.checks.contains(n))) {
        wrong.push(format!("no test for fp-tests {check}"));
    }
    for value in VALUES.iter().filter(|v| headers.iter().all(|(_, h)| !h.values.iter().any(|w| w == *v))) {
        wrong.push(format!("no test for 3dbrew's {value}"));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    Ok(vec![("values", values_table(&headers)), ("rows", rows_table(&blocks)), ("vectors", vectors_table(&blocks))])
}

/// Reads a header; a file without one is an error.
fn header(text: &str) -> Result<Header, String> {
    let mut found = Header::default();
    let mut seen = false;
    for (key, value) in fields(text) {
        seen = true;
        let number = |limit: u8| -> Result<u8, String> {
            let n = value.parse().ok().filter(|n| (1..=limit).contains(n));
            n.ok_or_else(|| format!("`{key}: {value}` is not a number from 1 to {limit}"))
        };
        let subject = match key {
            "row" => Some(Subject::Row(number(ROWS)?)),
            "vector" => Some(Subject::Vector(number(VECTORS)?)),
            _ => None,
        };
        if let Some(subject) = subject {
            let (behaviour, evidence, differs) = Default::default();
            found.blocks.push(Block { subject, behaviour, evidence, differs });
            continue;
        }
        match key {
            "fp-tests" => found.checks.extend(ranges(&value)?),
            "3dbrew" if VALUES.contains(&&*value) => found.values.push(value),
            "3dbrew" => return Err(format!("`{value}` is none of 3dbrew's values")),
            _ => {
                let block = found.blocks.last_mut().ok_or_else(|| format!("`{key}` before any row or vector"))?;
                let field = match key {
                    "behaviour" => &mut block.behaviour,
                    "evidence" => &mut block.evidence,
                    _ => &mut block.differs,
                };
                if !field.is_empty() {
                    return Err(format!("`{key}` twice for {:?}", block.subject));
                }
                *field = value;
            }
        }
    }
    if !seen {
        return Err("no header, such as `; row: N`".into());
    }
    found.blocks.iter().try_for_each(complete)?;
    Ok(found)
}

fn complete(block: &Block) -> Result<(), String> {
    let mut needed = vec![("behaviour", &block.behaviour), ("evidence", &block.evidence)];
    if let Subject::Row(_) = block.subject {
        needed.push(("differs", &block.differs));
    }
    if let Some((field, _)) = needed.iter().find(|(_, value)| value.is_empty()) {
        return Err(format!("{:?} lacks `{field}`", block.subject));
    }
    let tag = block.evidence.split(|c: char| !c.is_ascii_uppercase()).next().unwrap_or("");
    if TAGS.contains(&tag) { Ok(()) } else { Err(format!("`{}` begins with no tag of evidence", block.evidence)) }
}

/// `(key, value)` of the header lines, continuations joined.
fn fields(text: &str) -> Vec<(&str, String)> {
    const KEYS: [&str; 7] = ["row", "vector", "fp-tests", "3dbrew", "behaviour", "evidence", "differs"];
    let mut out: Vec<(&str, String)> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let comment = line.trim().strip_prefix(';').map_or("", str::trim);
        if let (true, Some(more), Some(last)) = (open, comment.strip_prefix("..."), out.last_mut()) {
            last.1 = format!("{} {}", last.1, more.trim());
            continue;
        }
        let field = comment.split_once(':').filter(|(key, _)| KEYS.contains(key));
        open = field.is_some();
        out.extend(field.map(|(key, value)| (key, value.trim().to_string())));
    }
    out
}

/// `0-8, 37`
fn ranges(text: &str) -> Result<BTreeSet<u8>, String> {
    let mut all = BTreeSet::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<u8>(), last.parse::<u8>()) {
            (Ok(first), Ok(last)) if first <= last && last < CHECKS => all.extend(first..=last),
            _ => return Err(format!("`{part}` is no range of checks from 0 to {}", CHECKS - 1)),
        }
    }
    Ok(all)
}

/// Checks that a name `row-31-...` or `rows-13-14-...` lists the rows of the header, and that a
/// header with rows has such a name.
fn named_for(name: &str, header: &Header) -> Result<(), String> {
    let mut words = name.split('-');
    let rows = matches!(words.next(), Some("row" | "rows"));
    let named: BTreeSet<u8> =
        words.take_while(|_| rows).map_while(|w| w.parse().ok().filter(|_| w.len() < 3)).collect();
    let said: BTreeSet<u8> = header
        .blocks
        .iter()
        .filter_map(|b| match b.subject {
            Subject::Row(n) => Some(n),
            Subject::Vector(_) => None,
        })
        .collect();
    if named == said { Ok(()) } else { Err(format!("named for rows {named:?}, but the header has {said:?}")) }
}

fn rows_table(blocks: &[(&Block, &str)]) -> String {
    let mut out = String::new();
    let mut first = 1;
    for (title, last) in PARTS {
        let _ = write!(out, "### {title}\n\n| row | picajit | evidence | differs in | test |\n|---|---|---|---|---|\n");
        for (block, link) in blocks {
            if let Subject::Row(n) = block.subject
                && (first..=last).contains(&n)
            {
                let [behaviour, evidence, differs] =
                    [&block.behaviour, &block.evidence, &block.differs].map(|text| cell(text));
                let _ = writeln!(out, "| {n} | {behaviour} | {evidence} | {differs} | {link} |");
            }
        }
        out.push('\n');
        first = last + 1;
    }
    out.trim_end().to_string() + "\n"
}

fn vectors_table(blocks: &[(&Block, &str)]) -> String {
    let mut out = "| vector | behaviour | evidence | test |\n|---|---|---|---|\n".to_string();
    for (block, link) in blocks {
        if let Subject::Vector(n) = block.subject {
            let _ = writeln!(out, "| {n} | {} | {} | {link} |", cell(&block.behaviour), cell(&block.evidence));
        }
    }
    out
}

/// Checks and values of section 4.2, with their test files.
fn values_table(headers: &[(&DocumentedTest, Header)]) -> String {
    let mut out = "| fp-tests | 3dbrew | test |\n|---|---|---|\n".to_string();
    for (source, header) in headers.iter().filter(|(_, h)| !h.checks.is_empty() || !h.values.is_empty()) {
        let checks: Vec<u8> = header.checks.iter().copied().collect();
        let _ = writeln!(out, "| {} | {} | {} |", compact(&checks), header.values.join("; "), source.link);
    }
    out
}

/// `0-8, 37`
fn compact(numbers: &[u8]) -> String {
    let parts = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Incomplete headers, and headers that disagree with the file's name, must fail.
fn wrong_headers() -> Result<(), Failed> {
    const RIGHT: &str = "; row: 31\n; behaviour: holds\n; ... always\n; evidence: DOC\n; differs: none\n";
    let right = header(RIGHT)?;
    if right.blocks[0].behaviour != "holds always" || named_for("row-31-cmp", &right).is_err() {
        return Err("a right header is misread".into());
    }
    let wrong = [
        ("nothing", String::new()),
        ("no such row", RIGHT.replace("31", "69")),
        ("no behaviour", RIGHT.replace("behaviour", "behavior")),
        ("no evidence", RIGHT.replace("; evidence: DOC\n", "")),
        ("evidence without a tag", RIGHT.replace("DOC", "hearsay")),
        ("no emulators named", RIGHT.replace("; differs: none\n", "")),
        ("a duplicate field", RIGHT.to_string() + "; differs: all\n"),
        ("a field without a block", RIGHT.replace("; row: 31\n", "")),
        ("an unknown check", RIGHT.to_string() + "; fp-tests: 40-41\n"),
        ("an unknown value", RIGHT.to_string() + "; 3dbrew: max(0, 0)\n"),
    ];
    for (what, text) in wrong {
        if header(&text).is_ok() {
            return Err(format!("accepted: {what}").into());
        }
    }
    for name in ["row-30-cmp", "rows-31-32-cmp", "cmp"] {
        if named_for(name, &right).is_ok() {
            return Err(format!("accepted: the name {name}").into());
        }
    }
    let all = sources()?;
    let fewer = |left_out: &str| {
        let kept = |s: &&DocumentedTest| !s.name.contains(left_out);
        let text =
            |s: &DocumentedTest| DocumentedTest { name: s.name.clone(), link: s.link.clone(), text: s.text.clone() };
        tables(&all.iter().filter(kept).map(text).collect::<Vec<_>>())
    };
    for left_out in ["row-31", "row-66", "row-39", "row-20"] {
        if fewer(left_out).is_ok() {
            return Err(format!("accepted: tables without {left_out}").into());
        }
    }
    if !Path::new(DOCUMENT).is_file() || replaced("a\n", "rows", "b").is_ok() {
        return Err("accepted: a document without markers".into());
    }
    Ok(())
}
