//! `picajit explore --serve` and its page.

use crate::Folder;
use crate::command::picajit;
use crate::devtools::Browser;
use crate::playground::{enter, wait_for_answer};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// Trials by name.
pub const TRIALS: &[crate::explored::Trial] =
    &[("follows-the-file", follows), ("says-that-the-server-has-ended", ended)];

/// A server, which ends with its value.
pub struct Server {
    child: Child,
    /// The address of its page.
    pub address: String,
}

impl Server {
    pub fn start(source: &Path, values: Option<&Path>) -> Server {
        let mut command = picajit();
        command.args(["explore", "--serve"]).arg(source);
        if let Some(values) = values {
            command.arg("--values").arg(values);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line).unwrap();
        let address = line.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:"));
        Server { address: address.unwrap_or_else(|| panic!("no address: {line}")).to_string(), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shader(source: &str) -> String {
    format!(".out o position\n.proc main\n    mov o, {source}\n    end\n.end\n")
}

fn follows(mut browser: Browser) {
    let folder = Folder::new("follows");
    let file = folder.file("mine.pica", shader("v0"));
    let server = Server::start(&file, None);
    browser.open_served(&server.address);
    wait_for_answer(&mut browser, 0);
    assert_eq!(
        browser.evaluate("[source.text, values.text, byId('name').textContent]"),
        json!([shader("v0"), "", "mine.pica"])
    );
    // Another program changes the file.
    std::fs::write(&file, shader("v1")).unwrap();
    browser.wait_until("view.page.words[0].text === 'mov o0, v1'");
    assert_eq!(browser.evaluate("source.text"), shader("v1"));
    // Edits in the page stay until the user wants the file's text.
    enter(&mut browser, "source", &shader("v2"));
    std::fs::write(&file, shader("v3")).unwrap();
    browser.wait_until("status.textContent.startsWith('The file has changed.')");
    assert_eq!(browser.evaluate("source.text"), shader("v2"));
    browser.click("#status button");
    browser.wait_until("view.page.words[0].text === 'mov o0, v3'");
    std::fs::remove_file(&file).unwrap();
    browser.wait_until("status.classList.contains('wrong') && status.textContent.includes('mine.pica')");
    assert_eq!(browser.evaluate("source.text"), shader("v3"));
    std::fs::write(&file, shader("v4")).unwrap();
    browser.wait_until("view.page.words[0].text === 'mov o0, v4'");
    browser.assert_no_problems("follows");
}

fn ended(mut browser: Browser) {
    let folder = Folder::new("ended");
    let server = Server::start(&folder.file("mine.pica", shader("v0")), None);
    browser.open_served(&server.address);
    wait_for_answer(&mut browser, 0);
    drop(server);
    browser.wait_until("status.textContent === 'The server has ended.'");
}
