//! What an editor sends at the beginning, or when its settings change -> [`Settings`].
//!
//! `{ "libraries": ["common.pica"], "noNop": true }`, or the same in a field `picasso`. Paths are
//! relative to the folder that is open in the editor. A field of a wrong type counts as missing.

use crate::uri;
use lsp_types::InitializeParams;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The settings of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// No NOPs at the ends of blocks.
    pub no_nop: bool,
    /// The libraries of each text; `None`: those beside it that it needs.
    pub libraries: Option<Vec<PathBuf>>,
}

impl Settings {
    /// These settings, replaced by those that an editor sends.
    pub fn with(&self, sent: &Value, root: &Path) -> Settings {
        let sent = sent.get("picasso").unwrap_or(sent);
        let libraries = sent.get("libraries").and_then(Value::as_array).map(|list| {
            let paths = list.iter().filter_map(Value::as_str).filter(|path| !path.is_empty());
            paths.map(|path| root.join(path)).collect::<Vec<_>>()
        });
        Settings {
            no_nop: sent.get("noNop").and_then(Value::as_bool).unwrap_or(self.no_nop),
            libraries: libraries.or_else(|| self.libraries.clone()),
        }
    }

    /// The same with paths of this folder in place of relative ones.
    pub fn in_folder(mut self, folder: &Path) -> Settings {
        for path in self.libraries.iter_mut().flatten() {
            *path = folder.join(&*path);
        }
        self
    }
}

/// The folder that is open in the editor, or the one in which the server runs.
pub fn root(params: &InitializeParams) -> PathBuf {
    #[allow(deprecated)] // older editors send only these fields
    let (root_uri, root_path) = (params.root_uri.as_ref(), params.root_path.as_ref());
    let folder = params.workspace_folders.as_ref().and_then(|folders| folders.first()).map(|folder| &folder.uri);
    let of_uri = folder.or(root_uri).and_then(|folder| uri::path(folder.as_str()));
    let here = || std::env::current_dir().unwrap_or_default();
    of_uri.or_else(|| root_path.map(PathBuf::from)).unwrap_or_else(here)
}
