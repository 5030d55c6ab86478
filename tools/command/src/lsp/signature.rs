//! A half-typed statement -> its arguments, and the one at the cursor.

use super::document::Document;
use super::manual;
use lsp_types::{Documentation, ParameterInformation, ParameterLabel, Position, SignatureHelp, SignatureInformation};
use picajit::internals::source::split_line;

/// The arguments of the statement at a position.
pub fn help(document: &Document, position: Position) -> Option<SignatureHelp> {
    let (line, byte) = document.place_of(position);
    let before = &document.row(line)[..byte as usize];
    if before.contains([';', '\0']) {
        return None;
    }
    let statement = split_line(before);
    let head = &before[statement.head.clone()];
    // After the head word a blank begins the arguments.
    let rest = before.get(statement.head.end..).filter(|rest| !head.is_empty() && !rest.is_empty())?;
    let entry = manual::find(head).filter(|entry| !entry.arguments.is_empty())?;
    let is_words = head.starts_with('.') && !entry.arguments.contains(", ");
    let (separator, typed) = if is_words { (" ", words_before(rest)) } else { (", ", rest.matches(',').count()) };
    let names: Vec<&str> = entry.arguments.split(separator).collect();
    let label = format!("{} {}", entry.name, entry.arguments);
    let mut at = entry.name.len() + 1;
    let parameters = names.iter().map(|name| {
        // Offsets count UTF-16 units, and the texts of the manual are ASCII.
        let offsets = [at as u32, (at + name.len()) as u32];
        at += name.len() + separator.len();
        ParameterInformation { label: ParameterLabel::LabelOffsets(offsets), documentation: None }
    });
    let parameters: Vec<_> = parameters.collect();
    let active = (typed as u32).min(parameters.len() as u32 - 1);
    Some(SignatureHelp {
        signatures: vec![SignatureInformation {
            label,
            documentation: Some(Documentation::String(entry.meaning.into())),
            parameters: Some(parameters),
            active_parameter: Some(active),
        }],
        active_signature: Some(0),
        active_parameter: Some(active),
    })
}

/// The complete words before the end of a text.
fn words_before(rest: &str) -> usize {
    let ends_in_word = !rest.ends_with([' ', '\t']);
    rest.split_whitespace().count() - usize::from(ends_in_word && !rest.trim().is_empty())
}
