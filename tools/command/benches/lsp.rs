//! Time of a keystroke in an editor: `cargo bench --bench lsp`.
//!
//! Starts the language server, opens a text of 4,000 lines, and types a line into its middle,
//! character by character. A keystroke is the time from the edit's message to the diagnostics of
//! its version. Also the requests that an editor sends after each one: completion, hover, semantic
//! tokens, folding, code actions.

use lsp_server::{Message, Notification, Request};
use serde_json::{Value, json};
use std::io::BufReader;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const LINES: usize = 4_000;
const URI: &str = "file:///bench.pica";

/// A geometry program, whose memory takes most of the words that 4,000 lines give.
fn large_source() -> String {
    let mut text = String::from(".gsh point c8\n.fvec m[4], tint\n.out pos position\n.out col color\n.proc main\n");
    let mut n = 0;
    while text.lines().count() + 40 < LINES {
        n += 1;
        text += &format!("; Step {n}.\nl{n}:\n");
        for k in 0..12 {
            text += &format!("    mad r{}.xyz, r{}, m[{}].xyzz, r{}  ; {k}\n", k % 8, n % 16, k % 4, (k + n) % 16);
        }
        text += &format!(
            "    ifc cmp.x && cmp.y\n        mov pos, r{}\n    .else\n        mov col, tint\n    .end\n",
            n % 16
        );
    }
    text + "    end\n.end\n"
}

/// As many lines with a vertex program, whose memory is full: most lines are comments.
fn vertex_source() -> String {
    let mut text = String::from(".fvec m[4]\n.in p\n.out pos position\n.proc main\n");
    for n in 0..500 {
        text += &format!(
            "; Row {n}.\n;\n; It transforms the position.\n    dp4 pos.{}, m[{}], p\n",
            ["x", "y", "z", "w"][n % 4],
            n % 4
        );
        text += ";\n;\n;\n;\n";
    }
    text.truncate(text.len() - 8);
    text + "    end\n.end\n"
}

struct Server {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: i32,
    version: i32,
}

impl Server {
    fn start() -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_picajit"))
            .arg("lsp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let to = child.stdin.take().expect("it is piped");
        let from = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut server = Server { child, to, from, next: 0, version: 0 };
        server.request("initialize", json!({ "capabilities": {} }));
        server.notify("initialized", json!({}));
        server
    }

    fn notify(&mut self, method: &str, params: Value) {
        let message = Message::Notification(Notification { method: method.into(), params });
        message.write(&mut self.to).expect("the server reads");
    }

    /// The time until the answer.
    fn request(&mut self, method: &str, params: Value) -> Duration {
        self.next += 1;
        let id = self.next.into();
        let started = Instant::now();
        let request = Message::Request(Request { id, method: method.into(), params });
        request.write(&mut self.to).expect("the server reads");
        while !matches!(self.receive(), Message::Response(_)) {}
        started.elapsed()
    }

    fn receive(&mut self) -> Message {
        Message::read(&mut self.from).expect("a message").expect("the server runs")
    }

    /// The time until the diagnostics of the version that `method` makes, and their number.
    fn change(&mut self, method: &str, mut params: Value) -> (Duration, usize) {
        self.version += 1;
        params["textDocument"]["version"] = self.version.into();
        let started = Instant::now();
        self.notify(method, params);
        loop {
            if let Message::Notification(n) = self.receive()
                && n.params["version"] == self.version
            {
                return (started.elapsed(), n.params["diagnostics"].as_array().map_or(0, Vec::len));
            }
        }
    }
}

fn main() {
    println!("a keystroke in {LINES} lines, from the edit to its diagnostics, in ms");
    println!(
        "{:<12} {:>6} {:>8} {:>8} {:>8} {:>10} {:>10} {:>8} {:>8} {:>8}",
        "text", "lines", "first", "median", "most", "completion", "hover", "tokens", "folding", "actions"
    );
    for (name, source) in [("geometry", large_source()), ("vertex", vertex_source())] {
        measure(name, &source);
    }
}

fn measure(name: &str, source: &str) {
    let mut server = Server::start();
    let item = json!({ "uri": URI, "languageId": "picasso", "text": source });
    let (first, errors) = server.change("textDocument/didOpen", json!({ "textDocument": item }));
    let lines = source.lines().count();
    assert!(lines > LINES * 9 / 10, "{name} has {lines} lines");
    let row = lines / 2;
    let mut times = Vec::new();
    let mut most_errors = 0;
    for (n, c) in "\nmov r0, r1.xyzw ; as typed".chars().enumerate() {
        let (line, column) = if n == 0 { (row, 0) } else { (row + 1, n - 1) };
        let at = json!({ "line": line, "character": column });
        let change = json!({ "range": { "start": at, "end": at }, "text": c.to_string() });
        let document = json!({ "uri": URI });
        let params = json!({ "textDocument": document, "contentChanges": [change] });
        let (time, errors) = server.change("textDocument/didChange", params);
        times.push(time);
        most_errors = most_errors.max(errors);
    }
    assert!(most_errors > errors, "a half-typed line has errors");
    times.sort();
    let at = json!({ "textDocument": { "uri": URI }, "position": { "line": row + 1, "character": 9 } });
    let completion = server.request("textDocument/completion", at.clone());
    let hover = server.request("textDocument/hover", at);
    let text = json!({ "textDocument": { "uri": URI } });
    let tokens = server.request("textDocument/semanticTokens/full", text.clone());
    let folding = server.request("textDocument/foldingRange", text.clone());
    let mut line = text;
    line["range"] = json!({ "start": { "line": row, "character": 0 }, "end": { "line": row + 2, "character": 0 } });
    line["context"] = json!({ "diagnostics": [] });
    let actions = server.request("textDocument/codeAction", line);
    let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
    let (median, most) = (ms(times[times.len() / 2]), ms(times[times.len() - 1]));
    println!(
        "{name:<12} {lines:>6} {:>8} {median:>8} {most:>8} {:>10} {:>10} {:>8} {:>8} {:>8}",
        ms(first),
        ms(completion),
        ms(hover),
        ms(tokens),
        ms(folding),
        ms(actions)
    );
    server.request("shutdown", Value::Null);
    server.notify("exit", Value::Null);
    let _ = server.child.wait();
}
