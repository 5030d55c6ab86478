//! Invalid inputs and their exact error texts: programs (`.test`) and containers (`.hex`).
//!
//! The assembler gets a `.test` file whole; `; error:` holds line, column and message.
//! A `.hex` file holds the bytes of a shader file as hexadecimal digits; text after `;` is comment.

use crate::directive;
use libtest_mimic::{Failed, Trial};
use picajit::container::shbin::Shbin;
use picajit::text;
use std::path::Path;

/// One trial per file: nothing here depends on an engine.
pub fn trial(name: &str, path: &Path) -> Trial {
    let path = path.to_path_buf();
    Trial::test(name, move || check(&path))
}

fn check(path: &Path) -> Result<(), Failed> {
    let source = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let want = directive::parse(&source)?.error.ok_or("no `; error:` line")?;
    let got = if path.extension().is_some_and(|e| e == "hex") {
        match Shbin::parse(&bytes(&source)?) {
            Err(e) => e.to_string(),
            Ok(_) => return Err("the container was accepted".into()),
        }
    } else {
        match text::assemble(&source) {
            // The place and the words; the lines with the source and the caret repeat the file.
            Err(e) => format!("{}:{}: {}", e.line, e.column, e.kind),
            Ok(_) => return Err("the program was accepted".into()),
        }
    };
    if got == want { Ok(()) } else { Err(format!("expected: {want}\n     got: {got}").into()) }
}

/// The digits of a hex file as bytes.
fn bytes(source: &str) -> Result<Vec<u8>, String> {
    let code = |line: &str| line.split(';').next().unwrap_or("").to_string();
    let digits: Vec<char> = source.lines().flat_map(|l| code(l).chars().collect::<Vec<_>>()).collect();
    let digits: Vec<u32> = digits
        .iter()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).ok_or(format!("`{c}` is not a hexadecimal digit")))
        .collect::<Result<_, _>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err("an odd number of digits".into());
    }
    Ok(digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect())
}
