//! Assembly texts that become one program, and the lines of its words.

use picajit::internals::source::split_line;

/// The texts of a program.
#[derive(Clone, Debug)]
pub struct Source {
    /// In the order of the program.
    pub files: Vec<SourceFile>,
    /// The line of every code word: file index, then line from 1. `.file` begins another index in
    /// one text.
    pub lines: Vec<(u32, u32)>,
}

/// One text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path as given.
    pub name: String,
    /// The whole file.
    pub text: String,
    /// The parts that `.file` separates.
    parts: usize,
}

impl SourceFile {
    /// The text of the file `name`.
    pub fn new(name: String, text: String) -> SourceFile {
        let parts = 1 + statements(&text).filter(|head| head.eq_ignore_ascii_case(".file")).count();
        SourceFile { name, text, parts }
    }

    /// Whether it gives no entry.
    pub fn is_library(&self) -> bool {
        is_library(&self.text)
    }
}

impl Source {
    /// A program of one text.
    pub fn single(name: String, text: String, lines: Vec<(u32, u32)>) -> Source {
        Source { files: vec![SourceFile::new(name, text)], lines }
    }

    /// The text of each file index.
    pub fn texts(&self) -> Vec<&SourceFile> {
        self.files.iter().flat_map(|file| std::iter::repeat_n(file, file.parts)).collect()
    }

    /// The file of an index, and a line of it, from 1, without blanks around it.
    pub fn line(&self, (file, line): (u32, u32)) -> Option<(&SourceFile, &str)> {
        let text = self.whole_line((file, line))?;
        Some((*self.texts().get(file as usize)?, text.trim()))
    }

    /// A line of the file of an index, from 1.
    pub fn whole_line(&self, (file, line): (u32, u32)) -> Option<&str> {
        let file = *self.texts().get(file as usize)?;
        Some(file.text.lines().nth(line.checked_sub(1)? as usize).unwrap_or_default())
    }

    /// All texts as one that assembles to the same words, and the line of every word in it, for views
    /// of one text.
    pub fn joined(&self) -> (String, Vec<(u32, u32)>) {
        if let [file] = &self.files[..] {
            return (file.text.clone(), self.lines.clone());
        }
        let (mut text, mut first_lines) = (String::new(), Vec::new());
        for file in &self.files {
            let separator = if text.is_empty() { "" } else { ".file " };
            text += &format!("{separator}; ---- {} ----\n", file.name);
            first_lines.extend(std::iter::repeat_n(text.lines().count() as u32, file.parts));
            text += file.text.trim_end_matches('\n');
            text.push('\n');
        }
        let line = |&(file, line): &(u32, u32)| (file, first_lines.get(file as usize).copied().unwrap_or(0) + line);
        (text, self.lines.iter().map(line).collect())
    }
}

/// The first word of each line, less labels.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| &line[split_line(line).head])
}

/// Whether a text gives no entry: each of its parts has `.nodvle`.
pub fn is_library(text: &str) -> bool {
    let (mut all, mut this) = (true, false);
    for head in statements(text) {
        this |= head.eq_ignore_ascii_case(".nodvle");
        if head.eq_ignore_ascii_case(".file") {
            all &= std::mem::take(&mut this);
        }
    }
    all && this
}

/// The names of a text's procedures.
pub fn procedures(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let statement = split_line(line);
        line[statement.head].eq_ignore_ascii_case(".proc").then(|| &line[statement.rest])
    })
}
