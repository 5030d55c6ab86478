//! Messages of an editor -> answers, and diagnostics after edits.
//!
//! The loop is synchronous. It takes all waiting messages before it analyzes a text, so a burst of
//! edits costs one analysis. Lint of a large program waits for a pause between edits.

use super::document::Document;
use super::libraries::Libraries;
use super::settings::{self, Settings};
use super::text::{Encoding, Text};
use super::{actions, completion, diagnostics, folding, hover, layout, names, outline, signature, tokens};
use crate::uri;
use lsp_server::{Connection, ErrorCode, Message, Notification, ProtocolError, Request, RequestId, Response};
use lsp_types::notification::{self, Notification as _};
use lsp_types::request::{self, Request as _};
use lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionProviderCapability, CompletionOptions, CompletionResponse, Diagnostic,
    DocumentSymbolResponse, GotoDefinitionResponse, InitializeParams, InitializeResult, Location, OneOf, Position,
    PositionEncodingKind, PrepareRenameResponse, PublishDiagnosticsParams, RenameOptions, SemanticTokens,
    SemanticTokensFullOptions, SemanticTokensOptions, ServerCapabilities, ServerInfo, SignatureHelpOptions,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions, Uri, WorkspaceEdit,
};
use picajit::text::Options;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pause between edits after which large programs are linted.
const PAUSE: Duration = Duration::from_millis(300);

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// `shutdown`, then `exit`.
    AfterShutdown,
    /// `exit` or the end of the input, without `shutdown`.
    WithoutShutdown,
    /// The editor no longer reads.
    OutputClosed,
}

/// The editor no longer reads.
struct Closed;

/// An error response: code and text.
type Failure = (ErrorCode, String);

struct Server<'c> {
    connection: &'c Connection,
    encoding: Encoding,
    /// Those of the command line.
    given: Settings,
    settings: Settings,
    /// The folder that is open in the editor.
    root: PathBuf,
    libraries: Libraries,
    /// Open texts by URI.
    documents: BTreeMap<String, Document>,
    /// URIs of texts whose diagnostics are not published yet.
    changed: BTreeSet<String>,
    /// What each open text's program says about each file, by URI.
    said: BTreeMap<String, Said>,
    /// URIs of large texts that lint has not checked yet.
    unchecked: BTreeSet<String>,
    shut_down: bool,
}

/// Diagnostics of files, by URI.
type Said = BTreeMap<String, (Uri, Vec<Diagnostic>)>;

/// Serves an editor until it ends the session. Its settings replace those `given`.
pub fn serve(connection: &Connection, given: Settings) -> Result<Ended, ProtocolError> {
    let (id, params) = connection.initialize_start()?;
    let params: InitializeParams = serde_json::from_value(params).unwrap_or_default();
    let encoding = encoding(&params);
    let result = InitializeResult {
        capabilities: capabilities(encoding),
        server_info: Some(ServerInfo { name: "picajit".into(), version: Some(env!("CARGO_PKG_VERSION").into()) }),
    };
    connection.initialize_finish(id, serde_json::to_value(result).expect("the result has string keys"))?;
    let given = given.in_folder(&std::env::current_dir().unwrap_or_default());
    let root = settings::root(&params);
    let settings = given.with(params.initialization_options.as_ref().unwrap_or(&Value::Null), &root);
    let libraries = Libraries::new(settings.libraries.clone(), encoding);
    let mut server = Server {
        connection,
        encoding,
        given,
        settings,
        root,
        libraries,
        said: BTreeMap::new(),
        documents: BTreeMap::new(),
        changed: BTreeSet::new(),
        unchecked: BTreeSet::new(),
        shut_down: false,
    };
    Ok(server.run().unwrap_or(Ended::OutputClosed))
}

/// UTF-8 if the editor offers it.
fn encoding(params: &InitializeParams) -> Encoding {
    let offered = params.capabilities.general.as_ref().and_then(|general| general.position_encodings.as_ref());
    let utf8 = offered.is_some_and(|offered| offered.contains(&PositionEncodingKind::UTF8));
    if utf8 { Encoding::Utf8 } else { Encoding::Utf16 }
}

fn capabilities(encoding: Encoding) -> ServerCapabilities {
    ServerCapabilities {
        position_encoding: Some(match encoding {
            Encoding::Utf8 => PositionEncodingKind::UTF8,
            Encoding::Utf16 => PositionEncodingKind::UTF16,
        }),
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::INCREMENTAL),
            save: Some(true.into()),
            ..TextDocumentSyncOptions::default()
        })),
        hover_provider: Some(true.into()),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Right(RenameOptions {
            prepare_provider: Some(true),
            work_done_progress_options: Default::default(),
        })),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some([".", "[", ","].map(String::from).to_vec()),
            ..CompletionOptions::default()
        }),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX]),
            ..CodeActionOptions::default()
        })),
        signature_help_provider: Some(SignatureHelpOptions {
            trigger_characters: Some([" ", ","].map(String::from).to_vec()),
            ..SignatureHelpOptions::default()
        }),
        semantic_tokens_provider: Some(
            SemanticTokensOptions {
                legend: tokens::legend(),
                full: Some(SemanticTokensFullOptions::Bool(true)),
                ..SemanticTokensOptions::default()
            }
            .into(),
        ),
        folding_range_provider: Some(true.into()),
        document_highlight_provider: Some(OneOf::Left(true)),
        document_formatting_provider: Some(OneOf::Left(true)),
        document_symbol_provider: Some(OneOf::Left(true)),
        ..ServerCapabilities::default()
    }
}

impl Server<'_> {
    fn run(&mut self) -> Result<Ended, Closed> {
        loop {
            let message = match self.connection.receiver.try_recv() {
                Ok(message) => message,
                Err(_) => {
                    self.publish()?;
                    if !self.unchecked.is_empty() {
                        match self.connection.receiver.recv_timeout(PAUSE) {
                            Ok(message) => message,
                            Err(error) if error.is_timeout() => {
                                self.check()?;
                                continue;
                            }
                            Err(_) => return Ok(self.ended()),
                        }
                    } else {
                        match self.connection.receiver.recv() {
                            Ok(message) => message,
                            Err(_) => return Ok(self.ended()),
                        }
                    }
                }
            };
            match message {
                Message::Notification(n) if n.method == notification::Exit::METHOD => return Ok(self.ended()),
                Message::Notification(n) => self.notification(n)?,
                Message::Request(request) => {
                    let response = self.request(request);
                    self.send(response.into())?;
                }
                // The server sends no requests.
                Message::Response(_) => {}
            }
        }
    }

    fn ended(&self) -> Ended {
        if self.shut_down { Ended::AfterShutdown } else { Ended::WithoutShutdown }
    }

    fn send(&self, message: Message) -> Result<(), Closed> {
        self.connection.sender.send(message).map_err(|_| Closed)
    }

    /// Sends the diagnostics of each changed text, and of those that it is a library of.
    fn publish(&mut self) -> Result<(), Closed> {
        let mut changed = std::mem::take(&mut self.changed);
        let programs = changed.iter().flat_map(|uri| self.programs(uri)).map(|program| program.key().to_string());
        let programs: Vec<String> = programs.collect();
        changed.extend(programs);
        changed.iter().for_each(|uri| self.find_libraries(uri));
        for uri in changed {
            let Some(document) = self.documents.get(&uri) else { continue };
            if document.is_large() {
                self.unchecked.insert(uri.clone());
            } else {
                document.findings();
            }
            self.publish_text(&uri)?;
        }
        Ok(())
    }

    /// Lints the large texts that have changed, and sends their diagnostics again.
    fn check(&mut self) -> Result<(), Closed> {
        for uri in std::mem::take(&mut self.unchecked) {
            if self.documents.get(&uri).is_some_and(|document| !document.findings().is_empty()) {
                self.publish_text(&uri)?;
            }
        }
        Ok(())
    }

    /// Gives an open text its libraries.
    fn find_libraries(&mut self, key: &str) {
        let Some(document) = self.documents.get(key) else { return };
        let own = document.own().clone();
        let documents = &self.documents;
        let open = |path: &Path| {
            let mut open = documents.values().filter(|document| document.key() != key);
            open.find(|document| uri::path(document.key()).as_deref() == Some(path)).map(|d| d.own().clone())
        };
        let (libraries, faults) = self.libraries.of(&own, &open);
        drop(own);
        if let Some(document) = self.documents.get_mut(key) {
            document.set_libraries(libraries);
            document.faults = faults;
        }
    }

    /// The open texts whose program a file is part of.
    fn programs(&self, key: &str) -> impl Iterator<Item = &Document> {
        let path = uri::path(key);
        let is_it = move |text: &Text| {
            let other = text.uri.as_str();
            other == key || path.is_some() && uri::path(other) == path
        };
        self.documents.values().filter(move |document| document.texts().any(|(_, text)| is_it(text)))
    }

    /// Sends what the program of a text says, for each file of it; for the text at last.
    fn publish_text(&mut self, key: &str) -> Result<(), Closed> {
        let Some(document) = self.documents.get(key) else { return Ok(()) };
        let mut said: Said = [(key.to_string(), (document.uri().clone(), Vec::new()))].into();
        for (uri, diagnostic) in diagnostics::diagnostics(document) {
            said.entry(uri.as_str().into()).or_insert_with(|| (uri, Vec::new())).1.push(diagnostic);
        }
        self.replace(key, said)
    }

    /// Replaces what a text's program says, and sends the diagnostics of the files that it concerns.
    fn replace(&mut self, key: &str, said: Said) -> Result<(), Closed> {
        let mut files: BTreeMap<String, Uri> =
            said.iter().map(|(file, (uri, _))| (file.clone(), uri.clone())).collect();
        let before = if said.is_empty() { self.said.remove(key) } else { self.said.insert(key.into(), said) };
        files.extend(before.into_iter().flatten().map(|(file, (uri, _))| (file, uri)));
        let own = files.remove_entry(key);
        files.into_iter().chain(own).try_for_each(|(file, uri)| self.send_diagnostics(&file, uri))
    }

    /// Sends what all programs say about a file.
    fn send_diagnostics(&self, file: &str, uri: Uri) -> Result<(), Closed> {
        let own = self.said.get(file).into_iter();
        let others = self.said.iter().filter(|(program, _)| *program != file).map(|(_, said)| said);
        let mut diagnostics: Vec<Diagnostic> = Vec::new();
        for diagnostic in own.chain(others).filter_map(|said| said.get(file)).flat_map(|(_, found)| found) {
            if !diagnostics.contains(diagnostic) {
                diagnostics.push(diagnostic.clone());
            }
        }
        let version = self.documents.get(file).map(|document| document.version);
        let params = PublishDiagnosticsParams { uri, diagnostics, version };
        self.send(Notification::new(notification::PublishDiagnostics::METHOD.into(), params).into())
    }

    /// Follows the opening, editing and closing of texts. A damaged notification has no effect: the
    /// protocol has no answer to it.
    fn notification(&mut self, n: Notification) -> Result<(), Closed> {
        match n.method.as_str() {
            notification::DidOpenTextDocument::METHOD => {
                let Some(params) = parameters::<notification::DidOpenTextDocument>(n.params) else { return Ok(()) };
                let item = params.text_document;
                let key = item.uri.as_str().to_string();
                let options = Options { no_nop: self.settings.no_nop };
                let document = Document::new(item.uri, item.version, item.text, self.encoding, options);
                self.libraries.forget();
                self.documents.insert(key.clone(), document);
                self.changed.insert(key);
            }
            notification::DidChangeTextDocument::METHOD => {
                let Some(params) = parameters::<notification::DidChangeTextDocument>(n.params) else { return Ok(()) };
                let key = params.text_document.uri.as_str().to_string();
                let Some(document) = self.documents.get_mut(&key) else { return Ok(()) };
                params.content_changes.iter().for_each(|change| document.edit(change));
                document.version = params.text_document.version;
                self.changed.insert(key);
            }
            notification::DidCloseTextDocument::METHOD => {
                let Some(params) = parameters::<notification::DidCloseTextDocument>(n.params) else { return Ok(()) };
                let uri = params.text_document.uri;
                let key = uri.as_str();
                self.changed.extend(self.programs(key).map(|program| program.key().to_string()).collect::<Vec<_>>());
                self.documents.remove(key);
                self.changed.remove(key);
                self.libraries.forget();
                self.replace(key, Said::new())?;
            }
            notification::DidSaveTextDocument::METHOD | notification::DidChangeWatchedFiles::METHOD => {
                self.libraries.forget();
                self.changed.extend(self.documents.keys().cloned());
            }
            notification::DidChangeConfiguration::METHOD => {
                let Some(params) = parameters::<notification::DidChangeConfiguration>(n.params) else { return Ok(()) };
                // `null` asks the server to ask; the settings stay.
                if !params.settings.is_null() {
                    self.settings = self.given.with(&params.settings, &self.root);
                    self.libraries.set(self.settings.libraries.clone());
                    self.libraries.forget();
                    let options = Options { no_nop: self.settings.no_nop };
                    self.documents.values_mut().for_each(|document| document.set_options(options));
                    self.changed.extend(self.documents.keys().cloned());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn request(&mut self, r: Request) -> Response {
        if self.shut_down {
            return failure(r.id, (ErrorCode::InvalidRequest, "the server is shut down".into()));
        }
        let id = r.id.clone();
        let answer = match r.method.as_str() {
            request::Shutdown::METHOD => {
                self.shut_down = true;
                Ok(Value::Null)
            }
            request::HoverRequest::METHOD => self.answer::<request::HoverRequest>(r, |server, params| {
                let at = params.text_document_position_params;
                Ok(server.at(&at).and_then(|(document, position)| hover::hover(document, position)))
            }),
            request::GotoDefinition::METHOD => self.answer::<request::GotoDefinition>(r, |server, params| {
                let at = params.text_document_position_params;
                let found = server.at(&at).map(|(document, position)| names::definitions(document, position));
                Ok(found.map(GotoDefinitionResponse::Array))
            }),
            request::References::METHOD => self.answer::<request::References>(r, |server, params| {
                let declaration = params.context.include_declaration;
                let at = server.in_programs(&params.text_document_position);
                let mut found: Vec<Location> = Vec::new();
                for location in at.iter().flat_map(|(program, place)| names::references(program, *place, declaration)) {
                    if !found.contains(&location) {
                        found.push(location);
                    }
                }
                Ok((!at.is_empty()).then_some(found))
            }),
            request::PrepareRenameRequest::METHOD => {
                self.answer::<request::PrepareRenameRequest>(r, |server, params| {
                    let name =
                        server.at(&params).and_then(|(document, position)| names::renameable(document, position));
                    Ok(name
                        .map(|(range, placeholder)| PrepareRenameResponse::RangeWithPlaceholder { range, placeholder }))
                })
            }
            request::Rename::METHOD => self.answer::<request::Rename>(r, |server, params| {
                let at = server.in_programs(&params.text_document_position);
                let mut edits = Vec::new();
                for (program, place) in &at {
                    let renamed = names::rename(program, *place, &params.new_name);
                    edits.extend(renamed.map_err(|error| (ErrorCode::RequestFailed, error.to_string()))?);
                }
                Ok((!at.is_empty()).then(|| workspace_edit(edits)))
            }),
            request::Completion::METHOD => self.answer::<request::Completion>(r, |server, params| {
                let at = server.at(&params.text_document_position);
                Ok(at
                    .map(|(document, position)| CompletionResponse::Array(completion::completions(document, position))))
            }),
            request::CodeActionRequest::METHOD => self.answer::<request::CodeActionRequest>(r, |server, params| {
                let document = server.documents.get(params.text_document.uri.as_str());
                let wanted = params.context.only.is_none_or(|only| only.contains(&CodeActionKind::QUICKFIX));
                let actions = document.filter(|_| wanted).map(|document| actions::actions(document, params.range));
                Ok(actions.map(|actions| actions.into_iter().map(Into::into).collect()))
            }),
            request::SignatureHelpRequest::METHOD => {
                self.answer::<request::SignatureHelpRequest>(r, |server, params| {
                    let at = server.at(&params.text_document_position_params);
                    Ok(at.and_then(|(document, position)| signature::help(document, position)))
                })
            }
            request::SemanticTokensFullRequest::METHOD => {
                self.answer::<request::SemanticTokensFullRequest>(r, |server, params| {
                    let document = server.documents.get(params.text_document.uri.as_str());
                    let tokens = |document| SemanticTokens { result_id: None, data: tokens::tokens(document) };
                    Ok(document.map(|document| tokens(document).into()))
                })
            }
            request::FoldingRangeRequest::METHOD => self.answer::<request::FoldingRangeRequest>(r, |server, params| {
                Ok(server.documents.get(params.text_document.uri.as_str()).map(folding::ranges))
            }),
            request::DocumentHighlightRequest::METHOD => {
                self.answer::<request::DocumentHighlightRequest>(r, |server, params| {
                    let at = server.at(&params.text_document_position_params);
                    Ok(at.map(|(document, position)| names::highlights(document, position)))
                })
            }
            request::Formatting::METHOD => self.answer::<request::Formatting>(r, |server, params| {
                let document = server.documents.get(params.text_document.uri.as_str());
                Ok(document.map(|document| layout::edits(document, &params.options)))
            }),
            request::DocumentSymbolRequest::METHOD => {
                self.answer::<request::DocumentSymbolRequest>(r, |server, params| {
                    let document = server.documents.get(params.text_document.uri.as_str());
                    Ok(document.map(|document| DocumentSymbolResponse::Nested(outline::outline(document))))
                })
            }
            method => Err((ErrorCode::MethodNotFound, format!("no method `{method}`"))),
        };
        match answer {
            Ok(value) => Response::new_ok(id, value),
            Err(error) => failure(id, error),
        }
    }

    /// The open text and the position that a request names.
    fn at(&self, at: &lsp_types::TextDocumentPositionParams) -> Option<(&Document, Position)> {
        self.documents.get(at.text_document.uri.as_str()).map(|document| (document, at.position))
    }

    /// Each program of a text, its own first, and the line and byte there that a request names.
    fn in_programs(&self, at: &lsp_types::TextDocumentPositionParams) -> Vec<(&Document, (u32, u32))> {
        let Some((document, position)) = self.at(at) else { return Vec::new() };
        let (line, byte) = document.place_of(position);
        let others = self.programs(document.key()).filter(|program| program.key() != document.key());
        let others = others.filter_map(|program| {
            let path = uri::path(document.key());
            let mut texts = program.texts();
            let first = texts.find(|(_, text)| uri::path(text.uri.as_str()) == path).map(|(first, _)| first);
            first.map(|first| (program, (first + line, byte)))
        });
        std::iter::once((document, (line, byte))).chain(others).collect()
    }

    fn answer<R: request::Request>(
        &self,
        request: Request,
        answer: impl FnOnce(&Self, R::Params) -> Result<R::Result, Failure>,
    ) -> Result<Value, Failure> {
        let params = serde_json::from_value(request.params).map_err(|e| (ErrorCode::InvalidParams, e.to_string()))?;
        let result = answer(self, params)?;
        Ok(serde_json::to_value(result).expect("results have string keys"))
    }
}

fn parameters<N: notification::Notification>(params: Value) -> Option<N::Params> {
    serde_json::from_value(params).ok()
}

fn failure(id: RequestId, (code, message): Failure) -> Response {
    Response::new_err(id, code as i32, message)
}

/// Edits of several texts, each once.
#[allow(clippy::mutable_key_type)] // the key is the protocol's; its hash doesn't change
fn workspace_edit(edits: Vec<(Uri, lsp_types::TextEdit)>) -> WorkspaceEdit {
    let mut changes: HashMap<Uri, Vec<lsp_types::TextEdit>> = HashMap::new();
    for (uri, edit) in edits {
        let of_text = changes.entry(uri).or_default();
        if !of_text.contains(&edit) {
            of_text.push(edit);
        }
    }
    WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }
}
