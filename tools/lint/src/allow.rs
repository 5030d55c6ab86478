//! `; lint: allow RULE reason` in a source -> findings of that rule are left out.
//!
//! At the end of a statement the comment concerns that line, on a line of its own the next
//! statement, and before the first statement the whole file. A comment without a reason has no
//! effect.

use super::{Finding, Rule};

/// Removes the findings that comments allow. `sources` are the texts by file index.
pub(super) fn apply(sources: &[&str], findings: &mut Vec<Finding>) {
    for (file, text) in (0u32..).zip(sources) {
        let allowed = allowed(text);
        findings.retain(|finding| {
            let line = match finding.source {
                Some((of, line)) if of == file => Some(line),
                // What concerns no line may be allowed in any file, for the whole file.
                None => None,
                Some(_) => return true,
            };
            let fits = |a: &Allowed| a.rule == finding.rule && (a.line.is_none() || a.line == line);
            !allowed.iter().any(fits)
        });
    }
}

/// An allowed rule: in a line, or in the whole file.
struct Allowed {
    rule: Rule,
    line: Option<u32>,
}

fn allowed(text: &str) -> Vec<Allowed> {
    let mut found = Vec::new();
    let mut begun = false;
    // Rules of comments on lines of their own, for the next statement.
    let mut waiting: Vec<Rule> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let (code, comment) = text.split_once(';').unwrap_or((text, ""));
        let rule = rule_of(comment);
        let is_statement = !code.trim().is_empty();
        if is_statement {
            begun = true;
            let rules = waiting.drain(..).chain(rule);
            found.extend(rules.map(|rule| Allowed { rule, line: Some(line) }));
        } else if let Some(rule) = rule {
            if begun { waiting.push(rule) } else { found.push(Allowed { rule, line: None }) }
        }
    }
    found
}

/// The rule of a comment `lint: allow RULE reason`.
fn rule_of(comment: &str) -> Option<Rule> {
    let rest = comment.trim_start_matches(';').trim().strip_prefix("lint:")?.trim_start().strip_prefix("allow")?;
    let mut words = rest.split_whitespace();
    let rule = Rule::from_name(words.next()?)?;
    words.next().map(|_| rule)
}
