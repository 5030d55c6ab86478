//! A headless Chromium, driven over a pipe by its DevTools protocol: pages, clicks, keys, pictures.
//!
//! Messages are JSON with a zero byte after each. Invariant: the browser ends with its value, and
//! its profile is removed.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest time for an answer of the browser, also where many programs share the machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The browser's command, if there is one: `PICAJIT_CHROMIUM`, or the first on the path.
pub fn command() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("PICAJIT_CHROMIUM") {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&folders).flat_map(|f| names.map(|name| f.join(name))).find(|path| path.is_file())
}

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    events: VecDeque<Value>,
    number: u64,
    session: Option<String>,
    profile: PathBuf,
    /// Errors and warnings of the console, uncaught exceptions, and requests that leave the machine
    /// or go to another server than that of the opened page.
    pub problems: Vec<String>,
    /// Start of the addresses of the opened page's server.
    server: Option<String>,
}

impl Browser {
    /// Starts `chromium` with an empty page.
    pub fn start(chromium: &Path, name: &str) -> Browser {
        let profile =
            crate::prerequisites::temporary_folder().join(format!("picajit-browser-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&profile).unwrap();
        // The browser reads file 3 and writes file 4.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]).arg(chromium).args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            "--window-size=1500,1000",
        ]);
        shell.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell starts the browser");
        let to = child.stdin.take().expect("it is piped");
        let mut from = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                let value = serde_json::from_slice(message.strip_suffix(&[0]).unwrap_or(&message));
                if value.is_ok_and(|value| sender.send(value).is_err()) {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Browser {
            child,
            to,
            from: receiver,
            events: VecDeque::new(),
            number: 0,
            session: None,
            profile,
            problems: Vec::new(),
            server: None,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().map(str::to_string);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let id = self.number;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser reads");
        loop {
            let answer = self.receive();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push_back(answer);
        }
    }

    fn receive(&mut self) -> Value {
        let message = self.from.recv_timeout(PATIENCE).expect("the browser answers in time");
        self.note(&message);
        message
    }

    fn note(&mut self, message: &Value) {
        let event = &message["params"];
        match message["method"].as_str().unwrap_or("") {
            "Runtime.exceptionThrown" => self.problems.push(format!("exception: {}", event["exceptionDetails"])),
            "Runtime.consoleAPICalled" if matches!(event["type"].as_str(), Some("error" | "warning" | "assert")) => {
                self.problems.push(format!("console: {}", event["args"]));
            }
            "Log.entryAdded" if matches!(event["entry"]["level"].as_str(), Some("error" | "warning")) => {
                self.problems.push(format!("log: {}", event["entry"]));
            }
            "Network.requestWillBeSent" => {
                let address = event["request"]["url"].as_str().unwrap_or("");
                let local = ["file:", "blob:", "data:", "about:"].into_iter().chain(self.server.as_deref());
                if !local.into_iter().any(|start| address.starts_with(start)) {
                    self.problems.push(format!("request: {address}"));
                }
            }
            _ => {}
        }
    }

    /// Waits for an event that arrives after this call began or is stored.
    fn wait_for(&mut self, method: &str) {
        loop {
            let event = self.events.pop_front().unwrap_or_else(|| self.receive());
            if event["method"] == method {
                return;
            }
        }
    }

    /// Opens a file and waits until it is loaded. Returns the time that took.
    pub fn open(&mut self, path: &Path) -> Duration {
        let start = Instant::now();
        self.navigate(&format!("file://{}", path.display()));
        start.elapsed()
    }

    /// Opens the page of a server on this machine.
    pub fn open_served(&mut self, address: &str) {
        self.server = Some(address.to_string());
        self.navigate(address);
    }

    fn navigate(&mut self, address: &str) {
        self.events.clear();
        let result = self.call("Page.navigate", json!({ "url": address }));
        assert!(result["errorText"].is_null(), "{address}: {result}");
        self.wait_for("Page.loadEventFired");
    }

    /// Loads the page again.
    pub fn reload(&mut self) {
        self.events.clear();
        self.call("Page.reload", json!({}));
        self.wait_for("Page.loadEventFired");
    }

    /// Gives a file to the input element that `selector` finds.
    pub fn choose_file(&mut self, selector: &str, path: &Path) {
        let document = self.call("DOM.getDocument", json!({}));
        let found =
            self.call("DOM.querySelector", json!({ "nodeId": document["root"]["nodeId"], "selector": selector }));
        self.call("DOM.setFileInputFiles", json!({ "nodeId": found["nodeId"], "files": [path] }));
    }

    /// The folder of files that the page stores.
    pub fn store_files_in(&mut self, folder: &Path) {
        self.call("Page.setDownloadBehavior", json!({ "behavior": "allow", "downloadPath": folder }));
    }

    /// The value of an expression; promises are awaited.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait_until(&mut self, expression: &str) {
        let start = Instant::now();
        while self.evaluate(expression) != true {
            assert!(start.elapsed() < PATIENCE, "never true: {expression}; {:?}", self.problems);
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Clicks with the mouse on the middle of the element that `selector` finds.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let at = self.middle(selector);
        self.click_at(&at);
    }

    /// Clicks with the mouse at a place `[x, y]` of the window.
    pub fn click_at(&mut self, at: &Value) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    #[track_caller]
    fn middle(&mut self, selector: &str) -> Value {
        let find = format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{ block: 'nearest' }}); \
             const r = e.getBoundingClientRect(); return [r.x + Math.min(r.width, 300) / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        );
        self.evaluate(&find)
    }

    /// Presses and releases a key, such as `ArrowLeft`, with Shift (8) or Control (2) held.
    pub fn key(&mut self, key: &str, modifiers: u8) {
        for kind in ["rawKeyDown", "keyUp"] {
            let code = match key {
                "End" => 35,
                "Home" => 36,
                "ArrowLeft" => 37,
                "ArrowUp" => 38,
                "ArrowRight" => 39,
                "ArrowDown" => 40,
                "Tab" => 9,
                "Enter" => 13,
                "Escape" => 27,
                other => u32::from(other.as_bytes()[0].to_ascii_uppercase()),
            };
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Types text into the element that has the focus.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// The size of the window's content, and whether the system prefers dark pages.
    pub fn window(&mut self, width: u32, height: u32, dark: bool) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
        // Two frames: the second begins when the first is painted.
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
    }

    /// The number of distinct colours on the screen, and the colour of most pixels. With
    /// `PICAJIT_SCREENSHOTS` set to a folder, the picture is stored there under `name`.
    pub fn picture(&mut self, name: &str) -> (usize, [u8; 3]) {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = decode(shot["data"].as_str().unwrap());
        if let Some(folder) = std::env::var_os("PICAJIT_SCREENSHOTS") {
            std::fs::write(Path::new(&folder).join(format!("{name}.png")), &bytes).unwrap();
        }
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        let mut counts = std::collections::HashMap::new();
        for pixel in pixels[..info.buffer_size()].chunks_exact(info.color_type.samples()) {
            *counts.entry([pixel[0], pixel[1], pixel[2]]).or_insert(0u32) += 1;
        }
        let most = counts.iter().max_by_key(|(_, n)| **n).map(|(colour, _)| *colour).unwrap();
        (counts.len(), most)
    }

    /// Fails if the page reported a problem.
    #[track_caller]
    pub fn assert_no_problems(&mut self, of: &str) {
        // An answer comes after all earlier events.
        self.evaluate("0");
        let mut text = String::new();
        self.problems.drain(..).for_each(|p| writeln!(text, "{p}").unwrap());
        assert!(text.is_empty(), "{of}: {text}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > Duration::from_secs(10) {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

fn decode(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').collect();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.chunks(4) {
        let word = (0..4).fold(0, |word, n| word << 6 | chunk.get(n).map_or(0, |c| digit(*c)));
        bytes.extend(&word.to_be_bytes()[1..chunk.len()]);
    }
    bytes
}
