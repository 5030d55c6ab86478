//! Messages of an editor -> answers, and diagnostics after edits.
//!
//! The loop is synchronous. It takes all waiting messages before it analyzes a text, so a burst of
//! edits costs one analysis. Lint of a large program waits for a pause between edits.

use super::document::{Document, Encoding};
use super::{completion, diagnostics, hover, layout, names, outline};
use lsp_server::{Connection, ErrorCode, Message, Notification, ProtocolError, Request, RequestId, Response};
use lsp_types::notification::{self, Notification as _};
use lsp_types::request::{self, Request as _};
use lsp_types::{
    CompletionOptions, CompletionResponse, DocumentSymbolResponse, GotoDefinitionResponse, InitializeParams,
    InitializeResult, OneOf, Position, PositionEncodingKind, PrepareRenameResponse, PublishDiagnosticsParams,
    RenameOptions, ServerCapabilities, ServerInfo, TextDocumentSyncCapability, TextDocumentSyncKind,
    TextDocumentSyncOptions, Uri, WorkspaceEdit,
};
use picajit::text::Options;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
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
    options: Options,
    /// Open texts by URI.
    documents: BTreeMap<String, Document>,
    /// URIs of texts whose diagnostics are not published yet.
    changed: BTreeSet<String>,
    /// URIs of large texts that lint has not checked yet.
    unchecked: BTreeSet<String>,
    shut_down: bool,
}

/// Serves an editor until it ends the session.
pub fn serve(connection: &Connection, options: Options) -> Result<Ended, ProtocolError> {
    let (id, params) = connection.initialize_start()?;
    let params: InitializeParams = serde_json::from_value(params).unwrap_or_default();
    let encoding = encoding(&params);
    let result = InitializeResult {
        capabilities: capabilities(encoding),
        server_info: Some(ServerInfo { name: "picajit".into(), version: Some(env!("CARGO_PKG_VERSION").into()) }),
    };
    connection.initialize_finish(id, serde_json::to_value(result).expect("the result has string keys"))?;
    let mut server = Server {
        connection,
        encoding,
        options,
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

    /// Sends the diagnostics of each changed text.
    fn publish(&mut self) -> Result<(), Closed> {
        for uri in std::mem::take(&mut self.changed) {
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

    fn publish_text(&self, uri: &str) -> Result<(), Closed> {
        let Some(document) = self.documents.get(uri) else { return Ok(()) };
        let found = diagnostics::diagnostics(document);
        self.send_diagnostics(document.uri.clone(), found, Some(document.version))
    }

    fn send_diagnostics(
        &self,
        uri: Uri,
        diagnostics: Vec<lsp_types::Diagnostic>,
        version: Option<i32>,
    ) -> Result<(), Closed> {
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
                let document = Document::new(item.uri, item.version, item.text, self.encoding, self.options);
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
                self.documents.remove(uri.as_str());
                self.changed.remove(uri.as_str());
                self.send_diagnostics(uri, Vec::new(), None)?;
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
                let at = server.at(&params.text_document_position);
                Ok(at.map(|(document, position)| names::references(document, position, declaration)))
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
                let Some((document, position)) = server.at(&params.text_document_position) else { return Ok(None) };
                match names::rename(document, position, &params.new_name) {
                    Ok(edits) => Ok(Some(workspace_edit(document, edits))),
                    Err(error) => Err((ErrorCode::RequestFailed, error.to_string())),
                }
            }),
            request::Completion::METHOD => self.answer::<request::Completion>(r, |server, params| {
                let at = server.at(&params.text_document_position);
                Ok(at
                    .map(|(document, position)| CompletionResponse::Array(completion::completions(document, position))))
            }),
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

#[allow(clippy::mutable_key_type)] // the key is the protocol's; its hash doesn't change
fn workspace_edit(document: &Document, edits: Vec<lsp_types::TextEdit>) -> WorkspaceEdit {
    WorkspaceEdit { changes: Some([(document.uri.clone(), edits)].into()), ..WorkspaceEdit::default() }
}
