//! Texts with libraries: diagnostics, names and renames in several files.

use super::client::Client;
use crate::uri::reference;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const MAIN: &str = "\
.in p v0
.out place position
.proc main
    mov r0, p
    call light
    mov place, r0
    end
.end
";
const LIGHT: &str = "\
.nodvle
.constf two(2, 2, 2, 2)
.proc light
    mul r0, two, r0
    call half
.end
";
const HALF: &str = ".nodvle\n.proc half\n    add r0, r0, r0\n    nop\n.end\n";

/// A new folder with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("picajit-lsp-{name} {}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("it can be made");
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("it can be written");
    }
    folder
}

fn uri(folder: &Path, name: &str) -> String {
    reference(&folder.join(name).display().to_string())
}

fn at(uri: &str, line: u32, character: u32) -> Value {
    json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": character } })
}

/// The file and line of each location.
fn places(answer: Result<Value, String>) -> Vec<String> {
    let answer = answer.expect("locations");
    let place = |l: &Value| {
        let name = l["uri"].as_str().and_then(|uri| uri.rsplit('/').next()).unwrap_or_default();
        format!("{name} {}", l["range"]["start"]["line"])
    };
    answer.as_array().expect("a list").iter().map(place).collect()
}

fn said(name: &str, found: &[&str]) -> (String, Vec<String>) {
    (name.into(), found.iter().map(|text| text.to_string()).collect())
}

#[test]
fn a_text_has_the_libraries_beside_it_that_it_calls() {
    // A library of another `light`, with a name of the text, is no part of the program.
    let other = ".nodvle\n.proc light\nend\n.end\n.proc main\nend\n.end\n";
    let files = [("a other.pica", other), ("half.pica", HALF), ("light.pica", LIGHT), ("main.pica", MAIN)];
    let folder = folder("beside", &files);
    let main = uri(&folder, "main.pica");
    let mut client = Client::start(json!({ "capabilities": {} }));
    client.open(&main, MAIN);
    assert_eq!(client.said(), said("light.pica", &["without-entry 1"]));
    assert_eq!(client.said(), said("main.pica", &[]));
    assert_eq!(places(client.request("textDocument/definition", at(&main, 4, 10))), ["light.pica 2"]);
    let hover = client.request("textDocument/hover", at(&main, 4, 10)).expect("a hover");
    let hover = hover["contents"]["value"].as_str().expect("a text").to_string();
    assert!(hover.contains("procedure `light`: ") && hover.contains("defined in line 3 of light.pica"), "{hover}");
    let items = client.request("textDocument/completion", at(&main, 4, 10)).expect("words");
    let has = |name: &str| items.as_array().expect("a list").iter().any(|item| item["label"] == name);
    assert!(has("light") && has("half") && !has("two"), "{items}");

    // A rename changes each file of the program.
    let mut params = at(&main, 4, 10);
    params["newName"] = "shade".into();
    let edits = client.request("textDocument/rename", params.clone()).expect("edits");
    let lines = |name: &str| {
        let edits = edits["changes"][uri(&folder, name)].as_array().expect("a list");
        edits.iter().map(|edit| edit["range"]["start"]["line"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!((lines("main.pica"), lines("light.pica")), (vec![Some(4)], vec![Some(2)]));
    params["newName"] = "half".into();
    assert!(client.request("textDocument/rename", params).is_err(), "the other library has that name");

    // The library in the editor counts, not the file; its names are those of the open programs too.
    let light = uri(&folder, "light.pica");
    client.open(&light, LIGHT);
    assert_eq!(client.said(), said("light.pica", &["without-entry 1"]));
    assert_eq!(client.said(), said("light.pica", &["without-entry 1"]));
    assert_eq!(client.said(), said("main.pica", &[]));
    let mut params = at(&light, 2, 7);
    params["context"] = json!({ "includeDeclaration": true });
    assert_eq!(places(client.request("textDocument/references", params)), ["light.pica 2", "main.pica 4"]);
    let change = json!({ "text": LIGHT.replace("mul r0", "mull r0") });
    let document = json!({ "uri": light, "version": 2 });
    client.notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [change] }));
    let broken = said("light.pica", &["without-entry 1", "unknown-mnemonic 3"]);
    assert_eq!([client.said(), client.said()], [broken.clone(), broken]);
    assert_eq!(client.said(), said("main.pica", &[]));
    client.end();
    std::fs::remove_dir_all(folder).expect("it can be removed");
}

#[test]
fn settings_name_the_libraries() {
    let files = [("light.pica", LIGHT), ("half.pica", HALF), ("main.pica", MAIN)];
    let folder = folder("named", &files);
    let main = uri(&folder, "main.pica");
    let options = json!({ "libraries": ["light.pica", "missing.pica"] });
    let root = reference(&folder.display().to_string());
    let folders = json!([{ "uri": root, "name": "shaders" }]);
    let params = json!({ "capabilities": {}, "initializationOptions": options, "workspaceFolders": folders });
    let mut client = Client::start(params);
    client.open(&main, MAIN);
    assert_eq!(client.said(), said("light.pica", &["without-entry 1", "undefined 4"]));
    assert_eq!(client.said(), said("main.pica", &["library 0"]));
    for (libraries, light, main) in [
        (json!(["light.pica", "half.pica"]), &["without-entry 1"] as &[&str], &[] as &[&str]),
        (json!([]), &[], &["undefined 4"]),
        (Value::Null, &["without-entry 1"], &[]),
    ] {
        let settings = json!({ "picasso": { "libraries": libraries } });
        client.notify("workspace/didChangeConfiguration", json!({ "settings": settings }));
        assert_eq!(client.said(), said("light.pica", light), "{libraries}");
        assert_eq!(client.said(), said("main.pica", main), "{libraries}");
    }
    client.end();
    std::fs::remove_dir_all(folder).expect("it can be removed");
}
