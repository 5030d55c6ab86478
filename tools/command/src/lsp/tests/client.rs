//! An editor in memory: sends requests and edits to a server in a thread, and waits for answers.

use super::super::server::{Ended, serve};
use super::super::settings::Settings;
use super::uri;
use lsp_server::{Connection, Message, Notification, Request, Response};
use serde_json::{Value, json};
use std::thread::JoinHandle;
use std::time::Duration;

pub struct Client {
    connection: Connection,
    server: JoinHandle<Ended>,
    next: i32,
    version: i32,
    /// Diagnostics that arrived last.
    pub diagnostics: Value,
}

impl Client {
    /// Opens a text in a new session.
    pub fn new(text: &str, capabilities: Value) -> Client {
        let mut client = Client::start(json!({ "capabilities": capabilities }));
        client.open(uri().as_str(), text);
        client
    }

    /// Begins a session without texts.
    pub fn start(params: Value) -> Client {
        let (ours, theirs) = Connection::memory();
        let server = std::thread::spawn(move || serve(&theirs, Settings::default()).expect("the protocol is kept"));
        let mut client = Client { connection: ours, server, next: 0, version: 1, diagnostics: Value::Null };
        client.request("initialize", params).expect("it initializes");
        client.notify("initialized", json!({}));
        client
    }

    /// Opens a text.
    pub fn open(&mut self, uri: &str, text: &str) {
        let item = json!({ "uri": uri, "languageId": "picasso", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": item }));
    }

    /// The next diagnostics: the name of the file, and the code and line of each.
    pub fn said(&self) -> (String, Vec<String>) {
        let Message::Notification(n) = self.receive() else { panic!("diagnostics are expected") };
        let name = n.params["uri"].as_str().and_then(|uri| uri.rsplit('/').next()).unwrap_or_default();
        let found = n.params["diagnostics"].as_array().expect("a list").iter();
        let found = found.map(|d| format!("{} {}", d["code"].as_str().unwrap_or("?"), d["range"]["start"]["line"]));
        (name.into(), found.collect())
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        let message = Notification { method: method.into(), params };
        self.connection.sender.send(message.into()).expect("the server runs");
    }

    /// Sends edits of one version.
    pub fn edit(&mut self, changes: Vec<Value>) {
        self.version += 1;
        let document = json!({ "uri": uri(), "version": self.version });
        self.notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// The result of a request, or its error text.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.next += 1;
        let request = Request { id: self.next.into(), method: method.into(), params };
        self.connection.sender.send(request.into()).expect("the server runs");
        loop {
            match self.receive() {
                Message::Response(Response { id, response_result }) => {
                    assert_eq!(id, self.next.into());
                    return response_result.map_err(|error| error.message);
                }
                Message::Notification(n) => self.keep(n),
                Message::Request(r) => panic!("the server asks {r:?}"),
            }
        }
    }

    /// A request about a position.
    pub fn ask(&mut self, method: &str, line: u32, character: u32, more: Value) -> Result<Value, String> {
        let position = json!({ "line": line, "character": character });
        let mut params = json!({ "textDocument": { "uri": uri() }, "position": position });
        for (key, value) in more.as_object().expect("an object") {
            params[key] = value.clone();
        }
        self.request(method, params)
    }

    /// Waits for the diagnostics of the last version.
    pub fn published(&mut self) -> Value {
        while self.diagnostics["version"] != self.version {
            match self.receive() {
                Message::Notification(n) => self.keep(n),
                other => panic!("{other:?}"),
            }
        }
        self.diagnostics["diagnostics"].clone()
    }

    fn keep(&mut self, n: Notification) {
        assert_eq!(n.method, "textDocument/publishDiagnostics");
        self.diagnostics = n.params;
    }

    fn receive(&self) -> Message {
        self.connection.receiver.recv_timeout(Duration::from_secs(60)).expect("the server answers")
    }

    /// Ends the session as the protocol requires.
    pub fn end(mut self) {
        assert_eq!(self.request("shutdown", Value::Null), Ok(Value::Null));
        self.notify("exit", Value::Null);
        assert_eq!(self.server.join().expect("the server doesn't panic"), Ended::AfterShutdown);
    }
}
