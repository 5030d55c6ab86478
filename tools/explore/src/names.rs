//! Registers and semantics -> their names; text of a file -> text that is safe to show.

use picajit::container::shbin::Dvle;

/// The name of an output semantic (container notes, 4.3); a number if it has none.
pub fn semantic(number: u16) -> String {
    let name = match number {
        0 => "position",
        1 => "normalquat",
        2 => "color",
        3 => "texcoord0",
        4 => "texcoord0w",
        5 => "texcoord1",
        6 => "texcoord2",
        8 => "view",
        9 => "dummy",
        other => return format!("semantic {other}"),
    };
    name.into()
}

/// Components of an output row (bit 0 = x): `xyz`.
pub fn components(mask: u16) -> String {
    ["x", "y", "z", "w"].into_iter().enumerate().filter(|(n, _)| mask >> n & 1 != 0).map(|(_, c)| c).collect()
}

/// Semantics of output register `register`: `position`, or `xy texcoord0, zw texcoord1`; empty if
/// it has none.
pub fn purpose(dvle: &Dvle, register: usize) -> String {
    let rows = dvle.outputs.iter().filter(|o| usize::from(o.register) == register);
    let named = rows.map(|o| match o.mask & 0xF {
        0xF => semantic(o.semantic),
        mask => format!("{} {}", components(mask), semantic(o.semantic)),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// A register in the numbering of uniform tables: `v3`, `c12`, `i0`, `b15`.
pub fn unified(number: u16) -> String {
    match number {
        0x00..=0x0F => format!("v{number}"),
        0x10..=0x6F => format!("c{}", number - 0x10),
        0x70..=0x73 => format!("i{}", number - 0x70),
        0x78..=0x87 => format!("b{}", number - 0x78),
        _ => format!("{number:#x}"),
    }
}

/// Text of a file for a page: characters that are invisible, or that change the direction or the
/// place of others, stand as escapes. Quotes and markup stay; the page inserts text as text.
pub fn visible(text: &str) -> String {
    let hidden = |c: char| {
        matches!(c, '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push(c),
            c if c.is_control() || hidden(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn text_that_hides_or_reorders_other_text_is_escaped() {
        assert_eq!(visible("a\u{202E}b\u{200b}\u{2066}\n\x1b"), "a\\u{202e}b\\u{200b}\\u{2066}\\n\\u{1b}");
        assert_eq!(visible("<script>\t\"\u{e9}\u{4e2d}"), "<script>\t\"\u{e9}\u{4e2d}");
    }
}
