//! The TextMate grammar in `examples/editors` has every word of the language. `BLESS=1` rewrites
//! it.

use super::super::manual::{COMPARISONS, DIRECTIVES, INSTRUCTIONS};
use picajit::internals::source::PROPERTIES;
use picajit::isa::table::{Format, ROWS};
use serde_json::{Value, json};
use std::path::Path;

/// The grammar's file.
fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/editors/picasso.tmLanguage.json")
}

/// An expression for any of these words. Longer ones precede, so that none hides another.
fn any<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words: Vec<_> = words.into_iter().map(|word| word.trim_start_matches('.')).collect();
    words.sort_by_key(|word| (std::cmp::Reverse(word.len()), *word));
    words.dedup();
    words.join("|")
}

/// The grammar that follows from the tables.
fn grammar() -> Value {
    let is_transfer = |name: &str| {
        let row = ROWS.iter().find(|row| row.mnemonic == name).expect("a test compares the tables");
        matches!(row.format, Format::F0 | Format::F2 | Format::F3 | Format::F4)
    };
    let names = || INSTRUCTIONS.iter().map(|entry| entry.name);
    let transfers = any(names().filter(|name| is_transfer(name)));
    let operations = any(names().filter(|name| !is_transfer(name)));
    let directives = any(DIRECTIVES.iter().map(|entry| entry.name));
    let properties = any(PROPERTIES.iter().flat_map(|(long, short, _)| [*long, *short]));
    let comparisons = any(COMPARISONS.iter().map(|entry| entry.name));
    let pattern = |name: &str, expression: String| json!({ "name": format!("{name}.picasso"), "match": expression });
    json!({
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "picasso",
        "scopeName": "source.picasso",
        "fileTypes": ["pica", "v.pica", "g.pica", "vsh", "gsh"],
        "patterns": [
            pattern("comment.line.semicolon", ";.*$".into()),
            pattern("meta.preprocessor", "^\\s*#.*$".into()),
            json!({
                "match": "(?i)^\\s*(\\.proc)\\s+([A-Za-z_$][A-Za-z0-9_$]*)",
                "captures": {
                    "1": { "name": "keyword.control.directive.picasso" },
                    "2": { "name": "entity.name.function.picasso" }
                }
            }),
            json!({
                "match": "(?i)\\b(call[cu]?)\\b(?:.*,)?\\s*([A-Za-z_$][A-Za-z0-9_$]*)",
                "captures": {
                    "1": { "name": "keyword.control.picasso" },
                    "2": { "name": "entity.name.function.picasso" }
                }
            }),
            pattern("entity.name.label", "[A-Za-z_$][A-Za-z0-9_$]*(?=:)".into()),
            pattern("keyword.control.directive", format!("(?i)(?<![\\w$])\\.(?:{directives})(?![\\w$])")),
            pattern("keyword.control", format!("(?i)(?<![\\w$.])r?(?:{transfers})(?![\\w$.])")),
            pattern("keyword.operator.instruction", format!("(?i)(?<![\\w$.])(?:{operations})(?![\\w$.])!?")),
            pattern("support.constant.property", format!("(?i)(?<![\\w$.])(?:{properties})(?![\\w$])")),
            pattern("keyword.operator.comparison", format!("(?i)(?<![\\w$.])(?:{comparisons})(?![\\w$.])")),
            pattern("variable.language.flag", "(?i)(?<![\\w$.])cmp\\.[xy](?![\\w$])".into()),
            pattern("variable.language.address", "(?i)(?<![\\w$.])(?:a[012]|a01|aL|lcnt)(?![\\w$])".into()),
            pattern("variable.language.register", "(?<![\\w$.])[ovrcib][0-9]+(?![\\w$])".into()),
            pattern("constant.language", "(?i)(?<![\\w$.])(?:true|false|on|off|inf|infinity|nan)(?![\\w$])".into()),
            pattern(
                "constant.numeric",
                "(?i)(?<![\\w$.])[-+]?(?:0x[0-9a-f]+(?:\\.[0-9a-f]*)?(?:p[-+]?[0-9]+)?|[0-9]+(?:\\.[0-9]*)?(?:e[-+]?[0-9]+)?|\\.[0-9]+)".into(),
            ),
            pattern("variable.other.component", "(?i)\\.[xyzwrgbastpq_]{1,4}(?![\\w$])".into()),
            pattern("variable.other", "[A-Za-z_$][A-Za-z0-9_$]*".into())
        ]
    })
}

#[test]
fn the_grammar_has_the_words_of_the_tables() {
    let expected = format!("{:#}\n", grammar());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path(), &expected).expect("the grammar can be written");
    }
    let found = std::fs::read_to_string(path()).unwrap_or_default().replace("\r\n", "\n");
    assert_eq!(found, expected, "help: BLESS=1 rewrites the grammar");
    for row in ROWS.iter() {
        let word = row.mnemonic;
        let listed = |part: &str| part.split(['|', '(', ')', ':', '?']).any(|w| w == word);
        assert!(
            grammar()["patterns"].as_array().expect("a list").iter().any(|p| p["match"].as_str().is_some_and(listed)),
            "{word}"
        );
    }
}
