//! `picajit explore --serve`: a source -> its page with editors, for browsers of this machine, until
//! Ctrl-C.
//!
//! Invariant: only a request with the token in its path and with this server's own `Host` and `Origin`
//! gets anything but an empty 404. So a page of another site can't ask, neither by the address nor by
//! a name that it resolves to 127.0.0.1. The server reads the named files and writes none.

use crate::display::path_name;
use crate::load::{self, LoadError};
use crate::{Status, VerbResult, html, interrupt, pipe, report};
use picajit::container::Kind;
use picajit_explore::playground;
use serde_json::json;
use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tiny_http::{Header, Method, Request, Response, Server};

/// Most bytes of a source, of a text of values, and of a request.
const MOST: u64 = 1 << 20;
/// Most bytes of a request that are read and dropped after its response.
const MOST_DROPPED: usize = 64 << 20;
/// Time between two looks at Ctrl-C.
const TICK: Duration = Duration::from_millis(100);

/// Why there is no server.
#[derive(Debug)]
enum ServeError {
    SeveralFiles,
    NoFile,
    NotSource { name: String },
    Port { port: u16, error: io::Error },
    Accept(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::SeveralFiles => {
                f.write_str("--serve takes one source\nhelp: name the one to edit, or leave out --serve")
            }
            ServeError::NoFile => f.write_str("-: standard input can't be served\nhelp: name the file of the source"),
            ServeError::NotSource { name } => write!(
                f,
                "{name}: is no assembly text, so the page could not edit it\n\
                 help: `picajit disasm` prints the text of a shader, to store in a file that ends in .pica"
            ),
            ServeError::Port { port, error } => write!(
                f,
                "127.0.0.1:{port}: can't be used: {error}\nhelp: another --port, or none, which takes any that is free"
            ),
            ServeError::Accept(error) => write!(f, "no further connections can be accepted: {error}"),
        }
    }
}

impl Error for ServeError {}

/// Serves the page of a source. `values` is the file that the editor of values begins with.
pub fn run(files: &[PathBuf], values: Option<&Path>, port: u16, out: &mut dyn Write) -> VerbResult {
    let [source] = files else { return Err(ServeError::SeveralFiles.into()) };
    if [Some(source.as_path()), values].into_iter().flatten().any(pipe::is_pipe) {
        return Err(ServeError::NoFile.into());
    }
    let name = path_name(source);
    if Kind::sniff(&load::begins(source)?).is_some() || !load::is_source(source) {
        return Err(ServeError::NotSource { name }.into());
    }
    let files = Files::new(source, values)?;
    let bound = |error| ServeError::Port { port, error };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(bound)?;
    let host = listener.local_addr().map_err(bound)?.to_string();
    let server = Server::from_listener(listener, None).map_err(|error| -> Box<dyn Error> { error })?;
    let site = Arc::new(Site { host, token: token(), name: name.clone(), files });
    let interrupted = interrupt::flag();
    writeln!(out, "{name}: http://{}/{}/ until Ctrl-C", site.host, site.token)?;
    out.flush()?;
    while !interrupted.load(Ordering::Relaxed) {
        let Some(request) = server.recv_timeout(TICK).map_err(ServeError::Accept)? else { continue };
        // Each has a thread: a long run, or a body that never arrives, blocks no other request. A panic
        // ends the thread, and the request, which it drops, is answered with 500.
        let site = site.clone();
        if let Err(error) = thread::Builder::new().name("request".into()).spawn(move || site.respond(request)) {
            report::warning(format_args!("a request had no thread: {error}"));
        }
    }
    Ok(Status::Fine)
}

/// 128 bits that no other program can guess. The keys of a `RandomState` come from the system's random
/// numbers, and they can't be computed from SipHash's results.
fn token() -> String {
    let keys = RandomState::new();
    format!("{:016x}{:016x}", keys.hash_one(0u64), keys.hash_one(1u64))
}

/// The files, and their texts as last read.
struct Files {
    source: PathBuf,
    values: Option<PathBuf>,
    texts: Mutex<Texts>,
}

#[derive(Clone)]
struct Texts {
    /// The number of contents so far.
    version: u64,
    source: String,
    values: String,
}

impl Files {
    fn new(source: &Path, values: Option<&Path>) -> Result<Files, LoadError> {
        let values = values.map(Path::to_path_buf);
        let texts = Mutex::new(Texts { version: 1, source: text(source)?, values: optional(values.as_deref())? });
        Ok(Files { source: source.into(), values, texts })
    }

    /// The texts after another look at the files; an error leaves them as they were.
    fn look(&self) -> (Texts, Option<LoadError>) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let read = text(&self.source).and_then(|source| Ok((source, optional(self.values.as_deref())?)));
        let error = match read {
            Ok((source, values)) => {
                if (&source, &values) != (&texts.source, &texts.values) {
                    *texts = Texts { version: texts.version + 1, source, values };
                }
                None
            }
            Err(error) => Some(error),
        };
        (texts.clone(), error)
    }
}

fn text(path: &Path) -> Result<String, LoadError> {
    Ok(load::text(&path_name(path), &load::read(path, MOST)?)?.into_owned())
}

fn optional(path: Option<&Path>) -> Result<String, LoadError> {
    path.map_or(Ok(String::new()), text)
}

/// What is served, and where.
struct Site {
    /// Address and port.
    host: String,
    token: String,
    /// The source's, for the page.
    name: String,
    files: Files,
}

/// A response: its status, and a body with its type.
struct Reply(u16, Option<(&'static str, String)>);

impl Reply {
    const NOT_FOUND: Reply = Reply(404, None);
    const NOT_CHANGED: Reply = Reply(204, None);
    const UNREADABLE: Reply = Reply(400, None);
    const TOO_LARGE: Reply = Reply(413, None);

    fn json(body: String) -> Reply {
        Reply(200, Some(("application/json", body)))
    }
}

impl Site {
    fn respond(&self, mut request: Request) {
        let Reply(status, content) = self.reply(&mut request);
        let (kind, body) = content.unzip();
        let mut response =
            Response::from_data(body.unwrap_or_default()).with_status_code(status).with_chunked_threshold(usize::MAX);
        let headers =
            [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer")];
        for (field, value) in headers.into_iter().chain(kind.map(|kind| ("Content-Type", kind))) {
            response.add_header(Header::from_bytes(field, value).expect("the headers are ASCII"));
        }
        if request.body_length().is_some_and(|length| length > MOST_DROPPED) {
            // tiny_http allocates what the header announces to drop the body, and no memory ends the process. So
            // such a connection gets its response and is then left open.
            std::mem::forget(request.upgrade("none", response));
        } else {
            // A client that went away needs no response.
            let _ = request.respond(response);
        }
    }

    fn reply(&self, request: &mut Request) -> Reply {
        let url = request.url().to_string();
        let Some(path) = self.path(&url).filter(|_| self.is_own(request)) else { return Reply::NOT_FOUND };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match (request.method(), path) {
            (Method::Get, "") => self.page(),
            (Method::Get, "text") => self.changes(query),
            (Method::Post, "answer") => answer(request),
            _ => Reply::NOT_FOUND,
        }
    }

    /// The part of a path after the token.
    fn path<'a>(&self, url: &'a str) -> Option<&'a str> {
        url.strip_prefix('/')?.strip_prefix(&self.token)?.strip_prefix('/')
    }

    /// Whether the request comes from this server's page, or from no page.
    fn is_own(&self, request: &Request) -> bool {
        let values = |field: &'static str| {
            let headers = request.headers().iter().filter(move |header| header.field.equiv(field));
            headers.map(|header| header.value.as_str())
        };
        values("Host").eq([&*self.host])
            && values("Origin").all(|origin| origin.strip_prefix("http://") == Some(&self.host))
    }

    fn page(&self) -> Reply {
        let Texts { version, source, values } = self.files.look().0;
        let name = self.name.rsplit('/').next().unwrap_or(&self.name);
        Reply(200, Some(("text/html; charset=utf-8", html::served_playground(name, &source, &values, version))))
    }

    /// The texts, unless they still have the version of `after=N`.
    fn changes(&self, query: &str) -> Reply {
        let (Texts { version, source, values }, error) = self.files.look();
        match error {
            Some(error) => Reply::json(json!({ "version": version, "error": error.to_string() }).to_string()),
            None if query == format!("after={version}") => Reply::NOT_CHANGED,
            None => Reply::json(json!({ "version": version, "source": source, "values": values }).to_string()),
        }
    }
}

/// What the library says of a source and values.
fn answer(request: &mut Request) -> Reply {
    if request.body_length().is_some_and(|length| length as u64 > MOST) {
        return Reply::TOO_LARGE;
    }
    let mut body = Vec::new();
    match request.as_reader().take(MOST + 1).read_to_end(&mut body) {
        Err(_) => Reply::UNREADABLE,
        Ok(length) if length as u64 > MOST => Reply::TOO_LARGE,
        Ok(_) => Reply::json(playground::answer(&String::from_utf8_lossy(&body))),
    }
}
