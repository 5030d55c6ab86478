//! `picajit explore --serve`: what its server answers, whom it doesn't answer, and its end.

use super::{Folder, VERTEX, arguments};
use crate::args::Args;
use picajit_explore::playground;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Stdio};

/// A server, ended with its test.
struct Served {
    child: Child,
    /// The address without its scheme: `127.0.0.1:PORT`, and the token.
    host: String,
    token: String,
}

/// What a server sent.
struct Reply {
    status: u16,
    headers: String,
    body: String,
}

impl Served {
    #[track_caller]
    fn start(folder: &Folder, args: impl Into<Args>) -> Served {
        let mut child = folder.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("a.pica: http://").and_then(|rest| rest.strip_suffix("/ until Ctrl-C\n"));
        let (host, token) = address.and_then(|address| address.split_once('/')).unwrap_or_else(|| panic!("{line:?}"));
        assert!(host.starts_with("127.0.0.1:") && token.len() == 32, "{line}");
        Served { host: host.into(), token: token.into(), child }
    }

    /// Sends bytes, and returns everything that comes back until the server closes the connection.
    fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let mut reply = Vec::new();
        // The server may close before it has read everything.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut reply);
        reply
    }

    /// `headers` are lines.
    #[track_caller]
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
        let reply = String::from_utf8(self.raw((head + body).as_bytes())).unwrap();
        let (headers, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {reply:?}"));
        let status = headers.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        Reply { status: status.expect("a status"), headers: headers.to_lowercase() + "\r\n", body: body.into() }
    }

    /// A request as the page sends it. `path` follows the token.
    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        let headers = format!("Host: {0}\r\nOrigin: http://{0}\r\n", self.host);
        self.send(method, &format!("/{}/{path}", self.token), &headers, body)
    }

    /// The texts, if they have another version than `version`.
    #[track_caller]
    fn changes(&self, version: u64) -> Option<Value> {
        let reply = self.ask("GET", &format!("text?after={version}"), "");
        match reply.status {
            204 => assert_eq!(reply.body, ""),
            status => assert_eq!(status, 200),
        }
        (reply.status == 200).then(|| serde_json::from_str(&reply.body).unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serve_gives_its_page_and_the_librarys_answers() {
    let folder = Folder::new("serve");
    folder.file("a.pica", VERTEX).file("values.txt", "pos = 1, 2, 3, 4\n");
    let served = Served::start(&folder, "explore --serve a.pica --values values.txt");
    let page = served.ask("GET", "", "");
    assert_eq!(page.status, 200);
    for header in [
        "content-type: text/html; charset=utf-8",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(page.headers.contains(&format!("\r\n{header}\r\n")), "{header}: {}", page.headers);
    }
    let (_, data) = page.body.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let texts = json!({ "source": VERTEX, "values": "pos = 1, 2, 3, 4\n", "name": "a.pica", "version": 1 });
    assert_eq!(data, texts);
    assert!(page.body.contains("connect-src 'self'") && !page.body.contains("wasm-unsafe-eval"));
    // A browser that opens the address has no origin yet.
    let headers = format!("Host: {}\r\n", served.host);
    assert_eq!(served.send("GET", &format!("/{}/", served.token), &headers, "").body, page.body);

    let good = json!({ "source": VERTEX, "values": "b1 = true", "vertices": 3, "chosen": [0, 2] }).to_string();
    for request in [&good, "{\"source\": \"mull\"}", "no JSON", "\u{e9}"] {
        let reply = served.ask("POST", "answer", request);
        assert_eq!((reply.status, reply.body), (200, playground::answer(request)), "{request}");
        assert!(reply.headers.contains("\r\ncontent-type: application/json\r\n"), "{}", reply.headers);
    }
}

#[test]
fn serve_gives_others_nothing() {
    let folder = Folder::new("serve-others");
    folder.file("a.pica", VERTEX);
    let served = Served::start(&folder, "explore a.pica --serve --port 0");
    let (host, token) = (&served.host, &served.token);
    let port = host.strip_prefix("127.0.0.1:").unwrap();
    let own = format!("Host: {host}\r\n");
    let own_path = format!("/{token}/");
    let wrong_token = format!("/{}{}/", &token[1..], &token[..1]);
    for (method, path, headers) in [
        ("GET", "/".to_string(), own.clone()),
        ("GET", format!("/{token}"), own.clone()),
        ("GET", format!("/{}/", &token[..31]), own.clone()),
        ("GET", wrong_token, own.clone()),
        ("GET", format!("//{token}/"), own.clone()),
        ("GET", format!("http://{host}{own_path}"), own.clone()),
        ("GET", format!("{own_path}a.pica"), own.clone()),
        ("GET", format!("{own_path}../a.pica"), own.clone()),
        ("GET", format!("{own_path}answer"), own.clone()),
        ("POST", own_path.clone(), own.clone()),
        ("POST", format!("{own_path}text?after=0"), own.clone()),
        ("HEAD", own_path.clone(), own.clone()),
        ("OPTIONS", format!("{own_path}answer"), own.clone()),
        ("GET", own_path.clone(), String::new()),
        ("GET", own_path.clone(), format!("Host: localhost:{port}\r\n")),
        ("GET", own_path.clone(), "Host: 127.0.0.1\r\n".into()),
        ("GET", own_path.clone(), format!("Host: evil.example:{port}\r\n")),
        ("GET", own_path.clone(), format!("{own}{own}")),
        ("GET", own_path.clone(), format!("{own}Origin: http://evil.example\r\n")),
        ("GET", own_path.clone(), format!("{own}Origin: null\r\n")),
        ("GET", own_path.clone(), format!("{own}Origin: https://{host}\r\n")),
        ("POST", format!("{own_path}answer"), format!("{own}Origin: http://localhost:{port}\r\n")),
    ] {
        let reply = served.send(method, &path, &headers, "");
        assert_eq!((reply.status, reply.body.as_str()), (404, ""), "{method} {path} {headers}");
        assert!(!reply.headers.contains("access-control"), "{}", reply.headers);
    }
    assert_eq!(served.ask("GET", "", "").status, 200);
}

#[test]
fn serve_follows_its_files() {
    let folder = Folder::new("serve-changes");
    folder.file("a.pica", VERTEX).file("values.txt", "b1 = true\n");
    let served = Served::start(&folder, "explore --serve --values values.txt a.pica");
    assert_eq!(served.changes(1), None);
    let first = json!({ "version": 1, "source": VERTEX, "values": "b1 = true\n" });
    assert_eq!(served.changes(0), Some(first.clone()));
    assert_eq!(served.ask("GET", "text", "").status, 200, "without a version too");
    // The same content again is no change.
    folder.file("a.pica", VERTEX);
    assert_eq!(served.changes(1), None);
    folder.file("a.pica", ".proc main\n");
    let second = json!({ "version": 2, "source": ".proc main\n", "values": "b1 = true\n" });
    assert_eq!((served.changes(1), served.changes(2)), (Some(second), None));
    folder.file("values.txt", "b1 = false\n");
    assert_eq!(served.changes(2).unwrap()["values"], "b1 = false\n");

    std::fs::remove_file(folder.0.join("a.pica")).unwrap();
    let missing = json!({ "version": 3, "error": "a.pica: no such file\nhelp: check the path" });
    assert_eq!((served.changes(2), served.changes(3)), (Some(missing.clone()), Some(missing)));
    let page = served.ask("GET", "", "");
    assert!(page.status == 200 && page.body.contains(".proc main"), "the last text");
    folder.file("a.pica", b"\xFF");
    let said = served.changes(3).unwrap();
    assert!(said["version"] == 3 && said["error"].as_str().unwrap().contains("is not UTF-8 text"), "{said}");
    folder.file("a.pica", vec![b'\n'; (1 << 20) + 1]);
    let said = served.changes(3).unwrap();
    assert!(said["error"].as_str().unwrap().contains("larger than 1 MiB"), "{said}");
    folder.file("a.pica", VERTEX);
    assert_eq!(served.changes(3).unwrap()["version"], 4);
}

#[test]
fn serve_survives_bad_requests() {
    let folder = Folder::new("serve-bad");
    folder.file("a.pica", VERTEX);
    let served = Served::start(&folder, "explore --serve a.pica");
    let large = served.ask("POST", "answer", &"x".repeat((1 << 20) + 1));
    assert_eq!((large.status, large.body.as_str()), (413, ""));
    let full = format!("{{\"source\": \"{}\"}}", " ".repeat((1 << 20) - 14));
    assert_eq!((full.len(), served.ask("POST", "answer", &full).status), (1 << 20, 200));

    let (host, token) = (&served.host, &served.token);
    let head = format!("POST /{token}/answer HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    let chunk =
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n", 2 << 20, "x".repeat(2 << 20));
    assert!(served.raw(chunk.as_bytes()).starts_with(b"HTTP/1.1 413 "));
    for length in ["18446744073709551615", "9223372036854775807", "4611686018427387904", "1099511627776"] {
        // Its body never comes, and the connection stays open: only the status is read.
        for head in [&head, &format!("POST / HTTP/1.1\r\nHost: {host}\r\n")] {
            let mut stream = TcpStream::connect(host).unwrap();
            stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n").as_bytes()).unwrap();
            let mut status = [0; 12];
            stream.read_exact(&mut status).unwrap();
            let expected = if head.contains(token) { b"HTTP/1.1 413" } else { b"HTTP/1.1 404" };
            assert_eq!(&status, expected, "{length}");
        }
    }
    // Clients that wait with their bodies, or with anything.
    let waiting: Vec<TcpStream> = (0..20)
        .map(|n| {
            let mut stream = TcpStream::connect(host).unwrap();
            let part = [&head[..], "Content-Length: 5000\r\n\r\nx"].concat();
            stream.write_all(&part.as_bytes()[..if n < 10 { part.len() } else { n }]).unwrap();
            stream
        })
        .collect();
    for bytes in [
        &b"\0\xFF\x80garbage\r\n\r\n"[..],
        b"",
        b"\r\n\r\n",
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
        b"GET / HTTP/1.1\r\nExpect: wonders\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        &[b'a'; 100_000],
    ] {
        served.raw(bytes);
    }
    let half = format!("{head}Content-Length: 5000\r\n\r\n{{");
    served.raw(half.as_bytes());
    assert_eq!(served.ask("GET", "", "").status, 200);
    let request = json!({ "source": VERTEX }).to_string();
    assert_eq!(served.ask("POST", "answer", &request).body, playground::answer(&request));
    drop(waiting);
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_serve() {
    let folder = Folder::new("serve-interrupt");
    folder.file("a.pica", VERTEX);
    let mut served = Served::start(&folder, "explore --serve a.pica");
    // An open connection delays nothing. The handler is older than the line with the address.
    let _open = TcpStream::connect(&served.host).unwrap();
    assert_eq!(served.ask("GET", "", "").status, 200);
    let mut shell = std::process::Command::new("/bin/sh");
    assert!(shell.args(["-c", &format!("kill -INT {}", served.child.id())]).status().unwrap().success());
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}

#[test]
fn serve_takes_one_source() {
    let folder = Folder::new("serve-errors");
    folder.file("a.pica", VERTEX).file("b.pica", VERTEX).file("latin.pica", b"\xE9").file("a.txt", "");
    folder.good("asm a.pica -o a.shbin --json");
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    for (args, text) in [
        (arguments("explore --serve a.pica b.pica"), "error: --serve takes one source\nhelp: "),
        (arguments("explore --serve -"), "error: -: standard input can't be served\nhelp: "),
        (arguments("explore --serve a.pica --values -"), "error: -: standard input can't be served\nhelp: "),
        (
            arguments("explore --serve a.shbin"),
            "error: a.shbin: is no assembly text, so the page could not edit it\nhelp: ",
        ),
        (arguments("explore --serve a.txt"), "error: a.txt: is no assembly text"),
        (arguments("explore --serve latin.pica"), "error: latin.pica: is named like assembly and is not UTF-8"),
        (arguments("explore --serve no.pica"), "error: no.pica: no such file\nhelp: check the path"),
        (arguments("explore --serve a.pica --values no.txt"), "error: no.txt: no such file"),
        (
            arguments("explore --serve a.pica -o page.html"),
            "error: the argument '--serve' cannot be used with '--output",
        ),
        (arguments("explore --serve a.pica --entry 0"), "error: the argument '--serve' cannot be used with '--entry"),
        (
            arguments("explore a.pica -o page.html --port 1"),
            "error: the argument '--output <PAGE>' cannot be used with '--port",
        ),
    ] {
        let said = folder.bad(args.clone());
        assert!(said.starts_with(text), "{args:?}: {said}");
    }
    let said = folder.bad(arguments("explore --serve a.pica --port").value(&port));
    assert!(
        said.starts_with(&format!("error: 127.0.0.1:{port}: can't be used: ")) && said.contains("\nhelp: "),
        "{said}"
    );
}

#[test]
fn playground_needs_the_module() {
    let folder = Folder::new("playground");
    let said = folder.bad("playground -o page.html");
    assert!(said.starts_with("error: this build has no WebAssembly module\nhelp: `picajit explore --serve"), "{said}");
    assert!(!folder.0.join("page.html").exists());
}
