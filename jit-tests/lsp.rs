//! A recorded session of an editor with `picajit lsp`, message by message.
//!
//! `lsp/session.txt` has the editor's messages (`> `) and the server's (`< `). The test sends the
//! former to the real process and compares its answers. The editor waits for the answer to each
//! request and for the diagnostics of each version. `BLESS=1` rewrites the server's lines.

mod command;

use command::picajit;
use lsp_server::Message;
use std::io::BufReader;
use std::path::Path;
use std::process::{Child, Stdio};

/// The editor's messages, in order.
fn sent(recording: &str) -> Vec<Message> {
    let lines = recording.lines().filter_map(|line| line.strip_prefix("> "));
    lines.map(|line| serde_json::from_str(line).expect("a message")).collect()
}

/// Whether `answer` is the one that an editor waits for after `message`.
fn answers(message: &Message, answer: &Message) -> bool {
    match (message, answer) {
        (Message::Request(request), Message::Response(response)) => request.id == response.id,
        (Message::Notification(edit), Message::Notification(published)) => {
            let version = |n: &lsp_server::Notification, path: &str| n.params.pointer(path).cloned();
            version(edit, "/textDocument/version") == version(published, "/version")
        }
        _ => false,
    }
}

/// Whether the server answers `message`.
fn has_answer(message: &Message) -> bool {
    match message {
        Message::Request(_) => true,
        Message::Notification(n) => n.method.ends_with("didOpen") || n.method.ends_with("didChange"),
        Message::Response(_) => false,
    }
}

fn line(mark: char, message: &Message) -> String {
    format!("{mark} {}\n", serde_json::to_string(message).expect("a message has string keys"))
}

/// The language server that `arguments` start.
fn server(arguments: &[&str]) -> Child {
    let mut command = picajit();
    let pipes = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pipes.spawn().expect("the command runs")
}

#[test]
fn a_recorded_session_gets_the_recorded_answers() {
    let path = Path::new(command::REPOSITORY).join("jit-tests/lsp/session.txt");
    let recording = std::fs::read_to_string(&path).expect("the recording is in the repository").replace("\r\n", "\n");
    let messages = sent(&recording);
    let mut server = server(&["lsp", "--stdio"]);
    let mut to = server.stdin.take().expect("it is piped");
    let mut from = BufReader::new(server.stdout.take().expect("it is piped"));
    let mut replayed = String::new();
    for message in &messages {
        replayed += &line('>', message);
        message.write(&mut to).expect("the server reads");
        while has_answer(message) {
            let answer = Message::read(&mut from).expect("a message").expect("the server has not ended");
            replayed += &line('<', &answer).replace(env!("CARGO_PKG_VERSION"), "VERSION");
            if answers(message, &answer) {
                break;
            }
        }
    }
    drop(to);
    assert!(Message::read(&mut from).expect("the end of the output").is_none(), "no message after `exit`");
    let ended = server.wait_with_output().expect("the server ends");
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));

    // The recording covers what it is for.
    let count = |method: &str| recording.matches(&format!("\"method\":\"{method}\"")).count();
    assert_eq!(count("textDocument/didChange"), 200);
    for method in [
        "initialize",
        "textDocument/hover",
        "textDocument/rename",
        "textDocument/completion",
        "textDocument/codeAction",
        "textDocument/signatureHelp",
        "textDocument/semanticTokens/full",
        "textDocument/foldingRange",
        "textDocument/documentHighlight",
        "shutdown",
    ] {
        assert!(count(method) > 0, "{method}");
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &replayed).expect("the recording can be written");
        return;
    }
    for (n, (found, expected)) in replayed.lines().zip(recording.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of the recording; BLESS=1 accepts the change", n + 1);
    }
    assert_eq!(replayed.lines().count(), recording.lines().count());
}

#[test]
fn a_session_without_shutdown_and_bad_input_have_exit_codes() {
    for (input, code) in [("", 2), ("nonsense\r\n\r\n", 2), ("Content-Length: 3\r\n\r\n{}}", 2)] {
        let mut server = server(&["lsp"]);
        let mut to = server.stdin.take().expect("it is piped");
        // The server may have ended before it has read everything.
        let _ = std::io::Write::write_all(&mut to, input.as_bytes());
        drop(to);
        let ended = server.wait_with_output().expect("the server ends");
        let message = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{input:?}: {message}");
        assert!(message.starts_with("error: the language server ends"), "{message}");
    }
}
