//! An open text with its libraries: the analysis of their current versions.
//!
//! Lines of the analysis count on from the text to its libraries, so a line says which text it is
//! in.

use super::text::{Encoding, Text};
use lsp_types::{Location, Position, Range, TextDocumentContentChangeEvent, Uri};
use picajit::internals::source::{Analysis, Place, analyze_all};
use picajit::program::Program;
use picajit::text::Options;
use picajit_lint::{Finding, Subject, lint};
use std::cell::OnceCell;
use std::rc::Rc;

/// Words of a vertex unit's memory.
const VERTEX_WORDS: usize = 512;

/// An open text.
pub struct Document {
    pub version: i32,
    own: Rc<Text>,
    /// The other files of its program.
    libraries: Vec<Rc<Text>>,
    /// What is wrong with the list of libraries.
    pub faults: Vec<String>,
    options: Options,
    analysis: OnceCell<Analysis>,
    findings: OnceCell<Vec<Finding>>,
}

impl Document {
    pub fn new(uri: Uri, version: i32, text: String, encoding: Encoding, options: Options) -> Document {
        Document {
            version,
            own: Rc::new(Text::new(uri, text, encoding)),
            libraries: Vec::new(),
            faults: Vec::new(),
            options,
            analysis: OnceCell::new(),
            findings: OnceCell::new(),
        }
    }

    pub fn uri(&self) -> &Uri {
        &self.own.uri
    }

    /// The URI as text.
    pub fn key(&self) -> &str {
        self.own.uri.as_str()
    }

    /// The text alone.
    pub fn own(&self) -> &Rc<Text> {
        &self.own
    }

    /// The text and its libraries, each with its first line in the analysis.
    pub fn texts(&self) -> impl Iterator<Item = (u32, &Text)> {
        let mut first = 0;
        std::iter::once(&self.own).chain(&self.libraries).map(move |text| {
            let this = first;
            first += text.rows();
            (this, &**text)
        })
    }

    /// Replaces the libraries.
    pub fn set_libraries(&mut self, libraries: Vec<Rc<Text>>) {
        let same = libraries.len() == self.libraries.len()
            && libraries.iter().zip(&self.libraries).all(|(a, b)| Rc::ptr_eq(a, b));
        if !same {
            self.libraries = libraries;
            self.forget();
        }
    }

    /// Analyzes it and its libraries again as `options` say.
    pub fn set_options(&mut self, options: Options) {
        self.options = options;
        self.forget();
    }

    fn forget(&mut self) {
        self.analysis = OnceCell::new();
        self.findings = OnceCell::new();
    }

    /// The analysis of the current text and its libraries.
    pub fn analysis(&self) -> &Analysis {
        self.analysis.get_or_init(|| self.analysis_with(&[self.own.as_str()]))
    }

    /// The analysis with other texts in place of the first ones.
    pub fn analysis_with(&self, texts: &[&str]) -> Analysis {
        let rest = self.texts().skip(texts.len()).map(|(_, text)| text.as_str());
        analyze_all(&texts.iter().copied().chain(rest).collect::<Vec<_>>(), self.options)
    }

    /// Whether lint of the text takes long, so that it waits for a pause between edits.
    pub fn is_large(&self) -> bool {
        self.analysis().assembly.shbin.code.len() > VERTEX_WORDS
    }

    /// The findings of lint; none of a text with errors, and none of libraries alone.
    pub fn findings(&self) -> &[Finding] {
        self.findings.get_or_init(|| {
            let analysis = self.analysis();
            let texts: Vec<&str> = self.texts().map(|(_, text)| text.as_str()).collect();
            // Each part has the whole text that it is in.
            let sources: Vec<&str> = analysis.parts.iter().map(|part| texts[analysis.text(part.first_line)]).collect();
            let of = |program: Program| lint(&Subject::assembly(&program, &analysis.assembly, &sources));
            self.program().filter(|_| !analysis.assembly.shbin.dvles.is_empty()).map_or_else(Vec::new, of)
        })
    }

    /// The findings, if they are known already.
    pub fn known_findings(&self) -> &[Finding] {
        self.findings.get().map_or(&[], Vec::as_slice)
    }

    /// The program of a text without errors.
    pub fn program(&self) -> Option<Program> {
        let analysis = self.analysis();
        if analysis.is_correct() { analysis.assembly.shbin.program().ok() } else { None }
    }

    /// Applies an edit; without a range it replaces the whole text.
    pub fn edit(&mut self, change: &TextDocumentContentChangeEvent) {
        Rc::make_mut(&mut self.own).edit(change);
        self.forget();
    }

    /// The text that a line of the analysis is in, and its first line.
    fn text_of(&self, line: u32) -> (u32, &Text) {
        self.texts().take_while(|(first, _)| *first <= line).last().expect("the first text begins at line 0")
    }

    /// A line of the analysis, without its end; empty beyond the texts.
    pub fn row(&self, line: u32) -> &str {
        let (first, text) = self.text_of(line);
        text.row(line - first)
    }

    /// Number of lines of the text alone.
    pub fn rows(&self) -> u32 {
        self.own.rows()
    }

    /// A position in the text as a line and a byte in it.
    pub fn place_of(&self, position: Position) -> (u32, u32) {
        self.own.place_of(position)
    }

    /// A place as a range of the protocol, in the text that the place is in.
    pub fn range(&self, place: Place) -> Range {
        let (first, text) = self.text_of(place.line);
        text.range(Place { line: place.line - first, ..place })
    }

    /// A place with its text.
    pub fn location(&self, place: Place) -> Location {
        Location { uri: self.text_of(place.line).1.uri.clone(), range: self.range(place) }
    }

    /// A line as people count: from 1, with the name of its file if that is a library.
    pub fn line_name(&self, line: u32) -> String {
        let (first, text) = self.text_of(line);
        let number = line - first + 1;
        if first == 0 {
            return number.to_string();
        }
        format!("{number} of {}", text.name())
    }
}
