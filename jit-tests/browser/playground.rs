//! The playground that `.ci/playground` builds.

use crate::devtools::Browser;
use picajit::internals::explore::playground::answer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

type Trial = (&'static str, fn(Browser));

/// Trials by name.
pub const TRIALS: &[Trial] = &[
    ("playground/gives-the-native-librarys-results", results),
    ("playground/follows-the-text", edits),
    ("playground/stays-responsive-during-long-runs", long_runs),
    ("playground/fits-wide-and-narrow-windows-light-and-dark", windows),
];

/// Largest page.
const PAGE_BYTES: u64 = 2_000_000;

/// `PICAJIT_PLAYGROUND`, or where the script puts it.
pub fn page() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/playground/playground.html");
    std::env::var_os("PICAJIT_PLAYGROUND").map_or(built, PathBuf::from)
}

/// Opens the page and waits for its first answer.
fn open(browser: &mut Browser) {
    browser.open(&page());
    browser.wait_until("view.page !== null");
}

/// Replaces all text of an editor, `source` or `values`, as a user does, and waits for the answer.
fn enter(browser: &mut Browser, editor: &str, text: &str) {
    browser.click(&format!("#tab-{editor}"));
    browser.click(&format!("#view-{editor} textarea"));
    browser.evaluate(&format!("{editor}.area.select()"));
    let before = browser.evaluate("sent").as_u64().unwrap();
    browser.type_text(text);
    browser.wait_until(&format!("sent > {before} && answered === sent"));
}

fn results(mut browser: Browser) {
    let bytes = std::fs::metadata(page()).unwrap().len();
    assert!(bytes <= PAGE_BYTES, "{bytes} bytes");
    open(&mut browser);
    let shaders = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/picajit/shaders");
    let mut sources = vec![include_str!("../../examples/playground/example.pica").to_string()];
    sources.extend(std::fs::read_dir(shaders).unwrap().map(|f| std::fs::read_to_string(f.unwrap().path()).unwrap()));
    for source in sources {
        let request =
            json!({ "source": source, "values": "c1 = inf, nan, -0, 1e-40", "vertices": 20, "chosen": [0, 7] });
        let expected: Value = serde_json::from_str(&answer(&request.to_string())).unwrap();
        // A worker of its own answers the request; the page would only show a part of it.
        let ask = format!(
            "new Promise((done) => {{ const w = new Worker(URL.createObjectURL(new Blob([byId('worker').textContent]))); \
             w.onmessage = ({{ data }}) => {{ w.terminate(); done(JSON.parse(data.answer ?? JSON.stringify(data))); }}; \
             w.postMessage({{ module: byId('module').textContent, request: JSON.stringify({request}) }}); }})"
        );
        let got = browser.evaluate(&ask);
        assert_eq!(got, expected, "{source}");
        assert!(got["page"]["entries"][0]["trace"]["rows"].as_array().unwrap().len() > 5);
    }
    browser.assert_no_problems("playground");
}

fn edits(mut browser: Browser) {
    browser.window(1500, 1000, false);
    open(&mut browser);
    enter(&mut browser, "source", ".out o position\n.proc main\n    mul o, c0, v0\n    end\n.end\n");
    assert_eq!(browser.evaluate("view.page.words.length"), 2);
    // The example's values name registers that this shader doesn't declare.
    let shown = browser.evaluate("[status.textContent, values.error]");
    assert_eq!(shown[1], 2, "{shown}");
    assert!(shown[0].as_str().unwrap().starts_with("values, line 2: `matrix[0]`"), "{shown}");
    enter(&mut browser, "values", "c0 = 2\nv0 = 1, 2, 3, 1\n1: v0 = 0, 0, -3, 1");
    let text = browser.evaluate("document.querySelector('#status').innerText");
    assert!(text.as_str().unwrap().starts_with("2 words"), "{text}");
    browser.click("#runs button:nth-child(2)");
    browser.click("#forward");
    let now = browser.evaluate("document.querySelector('#now').innerText");
    assert!(now.as_str().unwrap().contains("(0, 0, -6, 2)"), "{now}");
    // An error has its place, and the last good page stays.
    enter(&mut browser, "source", ".out o position\n.proc main\n    mull o, c0, v0\n    end\n.end\n");
    let shown = browser
        .evaluate("[status.textContent, source.gutter.querySelector('.wrong')?.textContent, view.page.words.length]");
    assert_eq!(shown, json!(["line 3, column 5: unknown instruction `mull`", "3", 2]));
    enter(&mut browser, "source", ".out o position\n.proc main\n    mov o, v0\n    end\n.end\n");
    assert_eq!(browser.evaluate("[source.error, view.page.words[0].text]"), json!([null, "mov o0, v0"]));
    browser.assert_no_problems("edits");
}

fn long_runs(mut browser: Browser) {
    open(&mut browser);
    let start = Instant::now();
    let nested = ".consti n(255, 0, 1, 0)\n.proc main\n".to_string()
        + &"for n\n".repeat(4)
        + "add r0, v0, r0\n"
        + &"nop\n.end\n".repeat(4)
        + "end\n.end\n";
    browser.evaluate("globalThis.beats = 0; setInterval(() => beats++, 20); 0");
    enter(&mut browser, "source", &nested);
    let time = start.elapsed().as_millis() as u64;
    let said = browser.evaluate("byId('cut').innerText");
    assert!(said.as_str().unwrap().contains("the log ends in run 0"), "{said}");
    let runs = browser.evaluate("view.page.entries[0].trace.runs");
    assert_eq!(runs[0][0], "out of fuel", "{runs}");
    let beats = browser.evaluate("beats").as_u64().unwrap();
    assert!(beats >= time / 20 / 10, "{beats} beats in {time} ms: the page stood still");
    browser.assert_no_problems("long runs");
}

fn windows(mut browser: Browser) {
    for (width, height, dark) in [(1500, 1000, false), (1500, 1000, true), (400, 850, false), (400, 850, true)] {
        browser.window(width, height, dark);
        open(&mut browser);
        (0..6).for_each(|_| browser.key("ArrowRight", 0));
        let name = format!("playground-{width}-{}", if dark { "dark" } else { "light" });
        let (colours, most) = browser.picture(&name);
        assert!(colours > 100, "{name}: {colours} colours");
        assert_eq!(most.iter().all(|c| *c < 90), dark, "{name}: mostly {most:?}");
        let sizes = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]");
        assert!(sizes[0].as_u64() <= sizes[1].as_u64(), "{name}: {sizes}");
    }
    browser.assert_no_problems("windows");
}
