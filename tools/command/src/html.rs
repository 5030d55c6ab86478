//! JSON of a page, or a WebAssembly module -> one HTML file without references to others; a source ->
//! the page that `explore --serve` serves.
//!
//! Invariant: text of a shader reaches the document inside of JSON only, in which `<`, `>` and `&`
//! are escapes, and in its title as text. The content security policy allows the page's own script
//! and style by their hashes, and no network; to a served page, its server.

use serde_json::Value;
use sha2::{Digest, Sha256};

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const PARTS: [&str; 6] = [
    include_str!("page/model.js"),
    include_str!("page/code.js"),
    include_str!("page/graph.js"),
    include_str!("page/trace.js"),
    include_str!("page/picture.js"),
    include_str!("page/main.js"),
];
const START: &str = include_str!("page/start.js");
const PLAYGROUND: &str = concat!(include_str!("page/editor.js"), include_str!("page/playground.js"));
const WORKER: &str = include_str!("page/worker.js");

/// The page of `picajit explore`. `page` is of `explore::page`.
pub fn explored(page: &Value) -> String {
    let title = page["name"].as_str().unwrap_or("shader");
    document(Document { kind: "explored", title, data: &json_in_html(page), blocks: "", last: START, policy: "" })
}

/// The playground around `module`, a WebAssembly module that exports the functions of the example
/// `playground`. `source` and `values` are the text that it begins with.
pub fn playground(module: &[u8], source: &str, values: &str) -> String {
    let data = serde_json::json!({ "source": source, "values": values });
    let module = base64(module);
    let blocks = format!(
        "<script type=\"text/plain\" id=\"module\">{module}</script>\n<script type=\"text/plain\" id=\"worker\">{WORKER}</script>"
    );
    document(Document {
        kind: "playground",
        title: "picajit playground",
        data: &json_in_html(&data),
        blocks: &blocks,
        last: PLAYGROUND,
        policy: " 'wasm-unsafe-eval'; worker-src blob:",
    })
}

/// The playground that asks its server in place of a module, about the file `name`. The server counts
/// `version` up when the texts change.
pub fn served_playground(name: &str, source: &str, values: &str, version: u64) -> String {
    let data = serde_json::json!({ "source": source, "values": values, "name": name, "version": version });
    document(Document {
        kind: "playground",
        title: name,
        data: &json_in_html(&data),
        blocks: "",
        last: PLAYGROUND,
        policy: "; connect-src 'self'",
    })
}

/// The parts in which pages differ.
struct Document<'a> {
    kind: &'a str,
    title: &'a str,
    data: &'a str,
    blocks: &'a str,
    /// The script after [`PARTS`].
    last: &'a str,
    /// Additions to the sources of scripts, and further directives.
    policy: &'a str,
}

fn document(d: Document<'_>) -> String {
    let script = PARTS.concat() + d.last;
    let policy = format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; style-src '{}'; script-src '{}'{}",
        hash(STYLE),
        hash(&script),
        d.policy
    );
    let parts = [
        ("policy", &*policy),
        ("kind", d.kind),
        ("title", &escaped(d.title)),
        ("style", STYLE),
        ("data", d.data),
        ("blocks", d.blocks),
        ("script", &script),
    ];
    // One pass, so that text of a shader that looks like a placeholder stays as it is.
    let mut page = String::with_capacity(TEMPLATE.len() + STYLE.len() + script.len() + d.data.len() + d.blocks.len());
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("placeholders of the template are closed");
        let (_, text) = parts.iter().find(|(part, _)| *part == name).expect("placeholders of the template have a text");
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// JSON in which no text ends the element around it.
fn json_in_html(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text)))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, n| word << 8 | u32::from(*chunk.get(n).unwrap_or(&0)));
        for n in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * n) & 63) as usize];
            text.push(if n > chunk.len() { '=' } else { digit.into() });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn base64_is_that_of_the_standard() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn no_text_leaves_its_place() {
        let name = "</script><script>alert(1)</script>{{script}}&\"";
        let page = explored(&json!({ "name": name, "words": [] }));
        assert_eq!(page.matches("<script").count(), 2, "the data and the page's own");
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(
            page.contains("<title>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;{{script}}&amp;&quot;</title>")
        );
        let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        assert_eq!(serde_json::from_str::<Value>(data).unwrap()["name"], name);
    }

    #[test]
    fn pages_name_no_other_file_and_no_address() {
        let policy = |page: &str| {
            let (_, policy) = page.split_once("default-src 'none'").expect("a policy");
            policy.split_once('"').expect("a closed policy").0.to_string()
        };
        // Playgrounds share a script, which asks a server if there is one, by relative addresses.
        for (page, has_server, may_fetch) in [
            (explored(&json!({ "name": "x" })), false, false),
            (playground(b"\0asm", "", ""), false, true),
            (served_playground("x", "", "", 1), true, true),
        ] {
            let own = page.replace(SVG_NAMESPACE, "");
            for word in ["http:", "https:", "src=", "href=", "@import", "url(http", "XMLHttp"] {
                assert!(!own.contains(word), "{word}");
            }
            assert!(may_fetch || !own.contains("fetch("));
            assert_eq!(policy(&page).contains("connect-src 'self'"), has_server);
        }
    }

    #[test]
    fn a_served_playground_has_its_file_and_no_module() {
        let page = served_playground("a.pica", "</script>", "c0 = 1", 7);
        assert_eq!(page.matches("<script").count(), 2, "the data and the page's own");
        assert!(page.contains("<title>a.pica</title>") && !page.contains("wasm-unsafe-eval"));
        let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        let expected = json!({ "source": "</script>", "values": "c0 = 1", "name": "a.pica", "version": 7 });
        assert_eq!(serde_json::from_str::<Value>(data).unwrap(), expected);
    }

    /// A name, and no reference.
    const SVG_NAMESPACE: &str = "http://www.w3.org/2000/svg";
}
