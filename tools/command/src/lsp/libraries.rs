//! A text -> the other files of its program: libraries, files with `.nodvle`.
//!
//! The editor's settings name them. Without that setting they are the libraries beside the text
//! whose procedures it calls, or one of them calls. An open file counts as it is in the editor.
//! Others are read once, until [`Libraries::forget`].

use super::text::{Encoding, Text};
use crate::load;
use crate::uri;
use picajit::container::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Most files of a folder that are looked into.
const MOST_FILES: usize = 256;

/// Finds libraries.
pub struct Libraries {
    /// Those that the settings name.
    named: Option<Vec<PathBuf>>,
    encoding: Encoding,
    /// Files that were read, or why they can't be.
    read: BTreeMap<PathBuf, Result<Rc<Text>, String>>,
    /// The sources in each folder.
    folders: BTreeMap<PathBuf, Vec<PathBuf>>,
}

impl Libraries {
    pub fn new(named: Option<Vec<PathBuf>>, encoding: Encoding) -> Libraries {
        Libraries { named, encoding, read: BTreeMap::new(), folders: BTreeMap::new() }
    }

    /// Names the libraries of all texts.
    pub fn set(&mut self, named: Option<Vec<PathBuf>>) {
        self.named = named;
    }

    /// Files may have changed.
    pub fn forget(&mut self) {
        self.read.clear();
        self.folders.clear();
    }

    /// The libraries of a text, and what is wrong with their list. `open` has the open texts.
    pub fn of(&mut self, text: &Text, open: &impl Fn(&Path) -> Option<Rc<Text>>) -> (Vec<Rc<Text>>, Vec<String>) {
        let own = uri::path(text.uri.as_str());
        match &self.named {
            Some(named) => {
                let others: Vec<PathBuf> = named.iter().filter(|path| Some(*path) != own.as_ref()).cloned().collect();
                let (mut libraries, mut faults) = (Vec::new(), Vec::new());
                for path in others {
                    match self.text(&path, open) {
                        Ok(library) => libraries.push(library),
                        Err(fault) => faults.push(fault),
                    }
                }
                (libraries, faults)
            }
            None => (own.map_or_else(Vec::new, |own| self.beside(&own, text, open)), Vec::new()),
        }
    }

    /// The libraries in the folder of a text that its calls need.
    fn beside(&mut self, own: &Path, text: &Text, open: &impl Fn(&Path) -> Option<Rc<Text>>) -> Vec<Rc<Text>> {
        let mut defined: BTreeSet<String> = text.procedures().defined.iter().cloned().collect();
        let mut missing: Vec<String> = text.procedures().called.clone();
        let mut libraries: Vec<Rc<Text>> = Vec::new();
        let mut candidates: Option<Vec<Rc<Text>>> = None;
        while let Some(name) = missing.pop() {
            if defined.contains(&name) {
                continue;
            }
            let candidates = candidates.get_or_insert_with(|| self.candidates(own, open));
            // One with a procedure of a known name can't be part of the program.
            let fits = |library: &Rc<Text>| {
                let procedures = library.procedures();
                procedures.defined.contains(&name) && !procedures.defined.iter().any(|name| defined.contains(name))
            };
            let Some(n) = candidates.iter().position(fits) else { continue };
            let library = candidates.remove(n);
            defined.extend(library.procedures().defined.iter().cloned());
            missing.extend(library.procedures().called.iter().cloned());
            libraries.push(library);
        }
        libraries.sort_by(|a, b| a.uri.as_str().cmp(b.uri.as_str()));
        libraries
    }

    /// All libraries in the folder of a text.
    fn candidates(&mut self, own: &Path, open: &impl Fn(&Path) -> Option<Rc<Text>>) -> Vec<Rc<Text>> {
        let Some(folder) = own.parent() else { return Vec::new() };
        let paths = self.folders.entry(folder.into()).or_insert_with(|| sources(folder)).clone();
        let others = paths.into_iter().filter(|path| path != own);
        let texts = others.filter_map(|path| self.text(&path, open).ok());
        texts.filter(|text| text.is_library()).collect()
    }

    fn text(&mut self, path: &Path, open: &impl Fn(&Path) -> Option<Rc<Text>>) -> Result<Rc<Text>, String> {
        if let Some(text) = open(path) {
            return Ok(text);
        }
        let encoding = self.encoding;
        self.read.entry(path.into()).or_insert_with(|| read(path, encoding).map(Rc::new)).clone()
    }
}

/// The sources in a folder; none if it can't be read.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sources: Vec<PathBuf> = entries.filter(|path| load::is_source(path) && path.is_file()).collect();
    sources.sort();
    sources.truncate(MOST_FILES);
    sources
}

fn read(path: &Path, encoding: Encoding) -> Result<Text, String> {
    let name = path.display().to_string();
    let bytes = load::read(path, load::MAX_FILE).map_err(|error| error.to_string())?;
    if Kind::sniff(&bytes).is_some() {
        return Err(load::LoadError::NotJoined { name }.to_string());
    }
    let text = load::text(&name, &bytes).map_err(|error| error.to_string())?.into_owned();
    let uri = uri::reference(&name).parse().map_err(|_| format!("{name}: has no URI"))?;
    Ok(Text::new(uri, text, encoding))
}
