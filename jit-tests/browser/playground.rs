//! The playground: the page that `.ci/playground` builds, and the one that `picajit explore --serve`
//! gives.

use crate::Folder;
use crate::devtools::Browser;
use crate::served::Server;
use picajit_explore::playground::answer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Which of the two pages a trial opens.
#[derive(Clone, Copy)]
pub enum Page {
    Built,
    Served,
}

type Trial = (&'static str, fn(Browser, Page));

/// Trials of both, by name.
pub const TRIALS: &[Trial] = &[
    ("follows-the-text", edits),
    ("lists-all-errors-and-goes-to-them", errors),
    ("dims-what-is-of-an-older-text", older_text),
    ("traces-the-vertex-of-a-point", points),
    ("has-colours-below-the-text-it-edits", colours),
    ("opens-and-saves-files", files),
    ("has-links-that-carry-the-program", links),
    ("stays-responsive-during-long-runs", long_runs),
    ("fits-wide-and-narrow-windows-light-and-dark", windows),
];

/// Trials of the built page.
pub const BUILT: &[crate::explored::Trial] =
    &[("gives-the-native-librarys-results", results), ("keeps-the-text-over-a-reload", reloads)];

/// Largest page.
const PAGE_BYTES: u64 = 2_000_000;

const EXAMPLE: &str = include_str!("../../examples/playground/example.pica");
const VALUES: &str = include_str!("../../examples/playground/values.txt");

/// `PICAJIT_PLAYGROUND`, or where the script puts it.
pub fn page() -> PathBuf {
    let built = Path::new(crate::command::REPOSITORY).join("target/playground/playground.html");
    std::env::var_os("PICAJIT_PLAYGROUND").map_or(built, PathBuf::from)
}

/// Opens a page with the example and waits for its first answer. A server ends with the returned
/// value.
fn open(browser: &mut Browser, page: Page, folder: &Folder) -> Option<Server> {
    let server = match page {
        Page::Built => {
            browser.open(&self::page());
            None
        }
        Page::Served => {
            let (source, values) = (folder.file("shader.pica", EXAMPLE), folder.file("values.txt", VALUES));
            let server = Server::start(&source, Some(&values));
            browser.open_served(&server.address);
            Some(server)
        }
    };
    wait_for_answer(browser, 0);
    server
}

/// Waits for the answer to a request after number `before`, with none under way.
pub fn wait_for_answer(browser: &mut Browser, before: u64) {
    browser.wait_until(&format!("sent > {before} && answered === sent"));
}

fn number_of_requests(browser: &mut Browser) -> u64 {
    browser.evaluate("sent").as_u64().unwrap()
}

/// Replaces all text of an editor, `source` or `values`, as a user does, and waits for the answer.
pub fn enter(browser: &mut Browser, editor: &str, text: &str) {
    browser.click(&format!("#tab-{editor}"));
    browser.click(&format!("#view-{editor} textarea"));
    browser.evaluate(&format!("{editor}.area.select()"));
    let before = number_of_requests(browser);
    browser.type_text(text);
    wait_for_answer(browser, before);
}

fn results(mut browser: Browser) {
    let bytes = std::fs::metadata(page()).unwrap().len();
    assert!(bytes <= PAGE_BYTES, "{bytes} bytes");
    open(&mut browser, Page::Built, &Folder::new("results"));
    let shaders = Path::new(crate::command::REPOSITORY).join("tools/command/src/shaders");
    let mut sources = vec![EXAMPLE.to_string()];
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

fn edits(mut browser: Browser, page: Page) {
    let folder = Folder::new("edits");
    browser.window(1500, 1000, false);
    let _server = open(&mut browser, page, &folder);
    enter(&mut browser, "source", ".out o position\n.proc main\n    mul o, c0, v0\n    end\n.end\n");
    assert_eq!(browser.evaluate("view.page.words.length"), 2);
    // The example's values name registers that this shader doesn't declare.
    let shown = browser.evaluate("[status.textContent, values.lines.querySelector('.wrong .number').textContent]");
    assert_eq!(shown[1], "2", "{shown}");
    assert!(shown[0].as_str().unwrap().starts_with("values, line 2: `matrix[0]`"), "{shown}");
    enter(&mut browser, "values", "c0 = 2\nv0 = 1, 2, 3, 1\n1: v0 = 0, 0, -3, 1");
    let text = browser.evaluate("document.querySelector('#status').innerText");
    assert!(text.as_str().unwrap().starts_with("2 words"), "{text}");
    browser.click("#runs button:nth-child(2)");
    browser.click("#forward");
    let now = browser.evaluate("document.querySelector('#now').innerText");
    assert!(now.as_str().unwrap().contains("(0, 0, -6, 2)"), "{now}");
    // A click on a line's number selects its instruction, after several answers too.
    browser.click("#tab-source");
    browser.click("#view-source .line-row:nth-child(4) .number");
    assert_eq!(browser.evaluate("links.chosen"), 1);
    enter(&mut browser, "source", ".out o position\n.proc main\n    mov o, v0\n    end\n.end\n");
    assert_eq!(browser.evaluate("view.page.words[0].text"), "mov o0, v0");
    browser.assert_no_problems("edits");
}

fn errors(mut browser: Browser, page: Page) {
    let folder = Folder::new("errors");
    let _server = open(&mut browser, page, &folder);
    let above = "; a comment\n".repeat(100);
    enter(
        &mut browser,
        "source",
        &format!("{above}.out o position\n.proc main\n    mull o, c0, v0\n    add o, c0, c1\n    end\n.end\n"),
    );
    let shown = browser.evaluate("[...status.querySelectorAll('li')].map((item) => item.innerText)");
    let shown: Vec<&str> = shown.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(
        shown[0].starts_with("line 103, column 5: unknown instruction `mull`\nhelp: did you mean `mul`?"),
        "{shown:?}"
    );
    assert!(shown[1].starts_with("line 104, column"), "{shown:?}");
    let wrong = "[...source.lines.querySelectorAll('.wrong .number')].map((number) => number.textContent)";
    assert_eq!(browser.evaluate(wrong), json!(["103", "104"]));
    // The last good page stays, and a click goes to the line.
    assert_eq!(browser.evaluate("view.page.words.length > 10"), true);
    browser.click("#tab-values");
    browser.click("#status li:nth-child(2) button");
    let place = "(() => { const row = source.rows[103].row.getBoundingClientRect(), view = source.element.getBoundingClientRect(); \
                 return [textTabs.shown, document.activeElement === source.area, source.text.slice(0, source.area.selectionStart).split('\\n').length, \
                 row.top >= view.top && row.bottom <= view.bottom]; })()";
    assert_eq!(browser.evaluate(place), json!(["source", true, 104, true]));
    enter(&mut browser, "source", ".out o position\n.proc main\n    mov o, v0\n    end\n.end\n");
    assert_eq!(browser.evaluate("source.lines.querySelectorAll('.wrong').length"), 0);
    browser.assert_no_problems("errors");
}

fn older_text(mut browser: Browser, page: Page) {
    let folder = Folder::new("older");
    let _server = open(&mut browser, page, &folder);
    let is_dim = "getComputedStyle(byId('registers')).opacity < 1";
    assert_eq!(browser.evaluate(is_dim), false);
    // From the first letter on, before any answer.
    let typed = "(() => { source.area.focus(); source.area.setSelectionRange(0, 0); document.execCommand('insertText', false, 'x'); \
                 return getComputedStyle(byId('registers')).opacity < 1; })()";
    let before = number_of_requests(&mut browser);
    assert_eq!(browser.evaluate(typed), true);
    wait_for_answer(&mut browser, before);
    assert_eq!(browser.evaluate(is_dim), true, "an error: the page is of the text before");
    enter(&mut browser, "source", EXAMPLE);
    assert_eq!(browser.evaluate(is_dim), false);
    browser.assert_no_problems("older text");
}

fn points(mut browser: Browser, page: Page) {
    let folder = Folder::new("far");
    browser.window(1500, 1000, false);
    let _server = open(&mut browser, page, &folder);
    enter(&mut browser, "values", "0: position = 0, 0, 0, 1\n");
    browser.evaluate("count.value = 20; count.dispatchEvent(new Event('input')); 0");
    browser.wait_until("view.page.entries[0].trace.runs.length === 20 && answered === sent");
    assert_eq!(browser.evaluate("view.page.entries[0].trace.runs[15][2]"), Value::Null);
    browser.evaluate("view.goToRun(15); 0");
    browser.wait_until("view.replay.run === 15");
    assert_eq!(browser.evaluate("view.replay.pc"), Value::Null);
    browser.assert_no_problems("points");
}

fn colours(mut browser: Browser, page: Page) {
    let folder = Folder::new("colours");
    let _server = open(&mut browser, page, &folder);
    for width in [1500, 400] {
        browser.window(width, 1000, false);
        let long = format!(
            "; {}\n.out o position\n.proc main\n    mov o, v0 ; \u{e9}\n\n    end\n.end{}",
            "a word and ".repeat(60),
            "\n".repeat(30)
        );
        enter(&mut browser, "source", &long);
        let rows = "[...source.lines.children].map((row) => row.querySelector('.code').textContent).join('\\n')";
        assert_eq!(browser.evaluate(rows), long.as_str());
        assert_eq!(browser.evaluate("source.lines.querySelectorAll('.keyword').length"), 5);
        // Both wrap alike: the text area needs the height of the lines below it.
        let heights = browser.evaluate("[source.area.scrollHeight, source.lines.clientHeight, source.element.scrollWidth, source.element.clientWidth]");
        assert_eq!((&heights[0], &heights[2]), (&heights[1], &heights[3]), "at {width}: {heights}");
        assert!(heights[1].as_u64() > Some(38 * 18), "{heights}");
        browser.picture(&format!("editor-{width}"));
    }
    // An edit in the middle makes its line only.
    let same = "(() => { const rows = [...source.lines.children]; source.area.setSelectionRange(source.text.indexOf('mov'), source.text.indexOf('mov') + 3); \
                source.area.focus(); document.execCommand('insertText', false, 'abs'); \
                return [...source.lines.children].map((row, n) => row === rows[n]); })()";
    let same = browser.evaluate(same);
    let made: Vec<usize> =
        (0..).zip(same.as_array().unwrap()).filter(|(_, same)| **same == false).map(|(n, _)| n).collect();
    assert_eq!(made, [3], "{same}");
    browser.assert_no_problems("colours");
}

fn files(mut browser: Browser, page: Page) {
    let (folder, stored) = (Folder::new("files"), Folder::new("stored"));
    let _server = open(&mut browser, page, &folder);
    let text = ".out o position\n.proc main\n    mov o, v1\n    end\n.end\n";
    let before = number_of_requests(&mut browser);
    browser.choose_file("#file", &folder.file("mine.pica", text));
    wait_for_answer(&mut browser, before);
    assert_eq!(browser.evaluate("[source.text, view.page.words[0].text]"), json!([text, "mov o0, v1"]));
    browser.store_files_in(stored.path());
    browser.evaluate("[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'Save').click()");
    let file = stored.path().join("shader.pica");
    let start = Instant::now();
    while std::fs::read_to_string(&file).ok().as_deref() != Some(text) {
        assert!(start.elapsed().as_secs() < 60, "{} is not stored", file.display());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // Undo brings back the text before the opened file.
    browser.evaluate("source.area.focus(); document.execCommand('undo'); 0");
    assert_eq!(browser.evaluate("source.text"), EXAMPLE);
    browser.assert_no_problems("files");
}

fn links(mut browser: Browser, page: Page) {
    let folder = Folder::new("links");
    let _server = open(&mut browser, page, &folder);
    let text = format!("; \u{e9} </script> &\n{}", EXAMPLE.replace("Vertex 5", "Vertex 6"));
    enter(&mut browser, "source", &text);
    enter(&mut browser, "values", "weights = 1, 0, 0, 0");
    browser.evaluate("makeLink()");
    let hash = browser.evaluate("location.hash");
    let hash = hash.as_str().unwrap();
    assert!(hash.starts_with("#p=") && hash.len() < text.len(), "{} characters", hash.len());
    enter(&mut browser, "source", ".out o position\n.proc main\n    mov o, v1\n    end\n.end\n");
    let before = number_of_requests(&mut browser);
    browser.evaluate(&format!("location.hash = '{hash}'; 0"));
    wait_for_answer(&mut browser, before);
    let expected = |hash: &str| json!([text, "weights = 1, 0, 0, 0", hash, true]);
    let shown = "[source.text, values.text, location.hash, view.page.words.length > 10]";
    assert_eq!(browser.evaluate(shown), expected(hash));
    // The user's own text is in store until the link's is edited.
    if matches!(page, Page::Built) {
        assert_eq!(browser.evaluate("store.load().source.includes('mov o, v1')"), true);
    }
    // A damaged link and one that holds too much leave the text.
    browser.evaluate("location.hash = '#p=AAAA'; 0");
    browser.wait_until("status.textContent.startsWith('The address carries no program')");
    let bomb = "through(new Uint8Array(1 << 22), new CompressionStream('deflate-raw'), Infinity).then((packed) => { \
                location.hash = '#p=' + btoa(String.fromCharCode(...packed)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', ''); })";
    browser.evaluate(bomb);
    browser.wait_until("status.textContent.includes('the link holds too much')");
    assert_eq!(browser.evaluate(shown), expected(""));
    enter(&mut browser, "source", &text);
    if matches!(page, Page::Built) {
        assert_eq!(browser.evaluate("store.load().source === source.text"), true);
    }
    browser.assert_no_problems("links");
}

fn reloads(mut browser: Browser) {
    let folder = Folder::new("reloads");
    open(&mut browser, Page::Built, &folder);
    let text = ".out o position\n.proc main\n    mov o, v1\n    end\n.end\n";
    enter(&mut browser, "values", "v1 = 1, 2, 3, 4");
    enter(&mut browser, "source", text);
    browser.reload();
    wait_for_answer(&mut browser, 0);
    let shown = "[source.text, values.text, view.page.words.length]";
    assert_eq!(browser.evaluate(shown), json!([text, "v1 = 1, 2, 3, 4", 2]));
    let before = number_of_requests(&mut browser);
    browser
        .evaluate("[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'Example').click()");
    wait_for_answer(&mut browser, before);
    assert_eq!(browser.evaluate("[source.text, values.text]"), json!([EXAMPLE, VALUES]));
    browser.assert_no_problems("reloads");
}

fn long_runs(mut browser: Browser, page: Page) {
    let folder = Folder::new("long-runs");
    let _server = open(&mut browser, page, &folder);
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

fn windows(mut browser: Browser, page: Page) {
    let folder = Folder::new("windows-playground");
    let _server = open(&mut browser, page, &folder);
    for (width, height, dark) in [(1500, 1000, false), (1500, 1000, true), (400, 850, false), (400, 850, true)] {
        browser.window(width, height, dark);
        browser.reload();
        wait_for_answer(&mut browser, 0);
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
