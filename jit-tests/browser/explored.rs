//! Pages of `picajit explore`.

use crate::Folder;
use crate::devtools::Browser;
use crate::extent;
use crate::prerequisites::third_party_files;
use picajit::container::shbin::Shbin;
use picajit::internals::generator;
use picajit::internals::kernel::Config;
use picajit::text::assemble;
use picajit_explore::trace::{State, Values, states};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A trial by name.
pub type Trial = (&'static str, fn(Browser));

/// Trials by name.
pub const TRIALS: &[Trial] = &[
    ("steps-back-to-the-same-registers", steps_back),
    ("opens-every-file", opens_every_file),
    ("shows-hostile-names-as-text", hostile_names),
    ("links-lines-of-one-instruction", links),
    ("works-with-keys-alone", keys),
    ("fits-wide-and-narrow-windows-light-and-dark", windows),
    ("finds-the-first-value-that-is-not-finite", explosion),
    ("says-that-a-trace-is-cut", cut),
    ("goes-to-the-vertex-of-a-point", points),
    ("goes-to-the-triangle-of-a-geometry-program", triangles),
    ("goes-to-the-last-write-of-a-register", writes),
    ("goes-to-the-lines-of-findings", findings),
    ("wraps-long-lines", long_lines),
];

/// Largest page.
const PAGE_BYTES: u64 = 3_000_000;
/// Longest time to open one: 1 s on a quiet machine. Tests share theirs.
const OPENING: Duration = Duration::from_secs(5);

fn repository() -> &'static Path {
    Path::new(crate::command::REPOSITORY)
}

fn builtins() -> Vec<PathBuf> {
    let folder = repository().join("tools/command/src/shaders");
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    all.sort();
    assert!(all.len() >= 10);
    all
}

/// The current row and registers of a page.
const STATE: &str = "[view.replay.at, [...view.replay.state]]";

#[track_caller]
fn assert_state(shown: &Value, expected: &[State]) {
    let at = shown[0].as_u64().unwrap() as usize;
    let state: Vec<u32> = shown[1].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect();
    let differs = state.iter().zip(&expected[at]).position(|(a, b)| a != b);
    assert_eq!(differs, None, "a slot of row {at}");
    assert_eq!(state.len(), expected[at].len());
}

fn steps_back(mut browser: Browser) {
    let folder = Folder::new("steps");
    let mut longest = 0;
    if !extent::full() {
        extent::announce("short form: every third built-in shader; PICAJIT_FULL=1 steps through all");
    }
    for file in builtins().into_iter().step_by(if extent::full() { 1 } else { 3 }) {
        let page = folder.explore(&file, &["--trace", "0,2,3", "--vertices", "5"]);
        browser.open(&page);
        let shbin = assemble(&std::fs::read_to_string(&file).unwrap()).unwrap().shbin;
        let (program, dvle) = (shbin.program().unwrap(), &shbin.dvles[0]);
        let values =
            Values { uniforms: generator::uniforms(dvle), inputs: generator::inputs(5), origin: String::new() };
        let expected = states(&program, dvle, &values, &[0, 2, 3], Config::default());
        longest = longest.max(expected.len());
        assert_eq!(browser.evaluate("view.replay.rows.length"), expected.len());
        // By real keys and clicks near the end, then every row in both directions.
        browser.key("End", 0);
        assert_state(&browser.evaluate(STATE), &expected);
        for n in 0..12.min(expected.len() - 1) {
            if n % 2 == 0 {
                browser.key("ArrowLeft", 0)
            } else {
                browser.click("#back")
            }
            let shown = browser.evaluate(STATE);
            assert_eq!(shown[0], expected.len() - 2 - n);
            assert_state(&shown, &expected);
        }
        let all = "(() => { const all = []; const note = () => all.push([view.replay.at, [...view.replay.state]]); \
                   goTo(Infinity); for (; view.replay.at > 0; goTo(view.replay.at - 1)) note(); note(); \
                   for (; view.replay.at + 1 < view.replay.rows.length; goTo(view.replay.at + 1)) note(); note(); return all; })()";
        let all = browser.evaluate(all);
        assert_eq!(all.as_array().unwrap().len(), 2 * expected.len());
        all.as_array().unwrap().iter().for_each(|shown| assert_state(shown, &expected));
        // What is on the screen is that state: the first row's registers are the last one's after a jump back.
        browser.key("Home", 0);
        assert_state(&browser.evaluate(STATE), &expected);
    }
    assert!(longest > 100, "no program of some length: {longest} rows");
    browser.assert_no_problems("built-in shaders");
}

fn opens_every_file(mut browser: Browser) {
    let folder = Folder::new("all");
    let mut files = builtins();
    files.extend(third_party_files("shbin", "shbin"));
    if !extent::full() {
        extent::announce("short form: every fourth page; PICAJIT_FULL=1 opens all");
        files = files.into_iter().step_by(4).collect();
    }
    let (mut slowest, mut largest) = (Duration::ZERO, 0);
    for file in &files {
        let page = folder.explore(file, &[]);
        let bytes = std::fs::metadata(&page).unwrap().len();
        let time = browser.open(&page);
        let of = file.display().to_string();
        assert!(bytes < PAGE_BYTES, "{of}: {bytes} bytes");
        assert!(time < OPENING, "{of}: {time:?}");
        (slowest, largest) = (slowest.max(time), largest.max(bytes));
        // Every entry, every tab.
        let shown = browser.evaluate(
            "view.page.entries.map((entry, n) => { showEntry(n, false); \
             for (const tabs of [textTabs, codeTabs]) for (const tab of tabs.list) tabs.show(tab.id); goTo(Infinity); \
             return [document.querySelectorAll('#graph g.box').length, document.querySelectorAll('#view-disassembly .row').length, \
             document.querySelectorAll('#view-x86-64 .row.linked').length]; })",
        );
        for entry in shown.as_array().unwrap() {
            assert!(entry.as_array().unwrap().iter().all(|n| n.as_u64().unwrap() > 0), "{of}: {shown}");
        }
        browser.assert_no_problems(&of);
    }
    eprintln!("{} pages: at most {largest} bytes, at most {slowest:.1?} to open", files.len());
}

/// A file in which every text is hostile.
fn hostile_shbin() -> Vec<u8> {
    let source =
        ".fvec one[2]\n.alias x one\n.in position\n.out place position\n.proc main\nmov place, position\nend\n.end\n";
    let mut shbin: Shbin = assemble(source).unwrap().shbin;
    let dvle = &mut shbin.dvles[0];
    dvle.uniforms[0].name = "<script>window.hit = 1</script>".into();
    dvle.uniforms[1].name = "</script><img src=x onerror='window.hit = 2'>\u{202E}gnp.exe".into();
    dvle.labels.iter_mut().for_each(|l| l.name = "<svg onload='window.hit = 3'>&amp;".into());
    shbin.write().unwrap()
}

fn hostile_names(mut browser: Browser) {
    let folder = Folder::new("hostile");
    let file = folder.file("<script>window.hit = 4<\u{202E}.shbin", hostile_shbin());
    let page = folder.explore(&file, &[]);
    browser.open(&page);
    let text = browser.evaluate("document.body.innerText + document.title");
    let text = text.as_str().unwrap();
    assert!(text.contains("<script>window.hit = 1</script>") || text.contains("onerror='window.hit = 2'"), "{text}");
    assert!(text.contains("\\u{202e}") && !text.contains('\u{202E}'), "{text}");
    assert_eq!(
        browser.evaluate("[typeof window.hit, document.querySelectorAll('img, #graph ~ script').length]"),
        serde_json::json!(["undefined", 0])
    );
    let source = "; <script>window.hit = 5</script> \u{202E} --><!--\n.proc main\n  mov o0, v0 ; </script><script>window.hit = 6</script>\n end\n.end\n";
    let page = folder.explore(&folder.file("a.pica", source), &[]);
    browser.open(&page);
    let text = browser.evaluate("document.querySelector('#view-source').innerText");
    let text = text.as_str().unwrap();
    assert!(text.contains("<script>window.hit = 5</script> \\u{202e}") && !text.contains('\u{202E}'), "{text}");
    assert_eq!(browser.evaluate("typeof window.hit"), "undefined");
    browser.assert_no_problems("hostile files");
    // The policy holds: neither a script nor a request that a bug could insert does anything.
    let tried = browser.evaluate(
        "(async () => { const s = document.createElement('script'); s.textContent = 'window.hit = 7'; document.body.append(s); \
         let sent = true; try { await fetch('https://example.invalid/'); } catch { sent = false; } return [typeof window.hit, sent]; })()",
    );
    assert_eq!(tried, serde_json::json!(["undefined", false]));
    assert!(!browser.problems.is_empty(), "the browser reports what the policy forbids");
    assert!(!browser.problems.iter().any(|p| p.starts_with("request: ")), "{:?}", browser.problems);
}

fn links(mut browser: Browser) {
    let folder = Folder::new("links");
    let page = folder.explore(&repository().join("tools/command/src/shaders/lights.pica"), &[]);
    browser.open(&page);
    browser.click("#tab-disassembly");
    // `mul` or whatever stands at 4: its line, its box, its SSA.
    browser.click("#view-disassembly .row.linked:nth-of-type(7)");
    let chosen = browser.evaluate("links.chosen").as_u64().expect("a click selects an instruction");
    let count = |browser: &mut Browser, view: &str| {
        browser.evaluate(&format!("document.querySelectorAll('{view} .chosen').length")).as_u64()
    };
    assert_eq!(count(&mut browser, "#view-disassembly"), Some(1));
    assert!(count(&mut browser, "#graph") >= Some(1) && count(&mut browser, "#view-ssa") >= Some(1));
    for tab in ["clif", "x86-64", "aarch64"] {
        browser.click(&format!("#tab-{tab}"));
        assert!(count(&mut browser, &format!("#view-{tab}")) >= Some(1), "{tab}, instruction {chosen}");
        let hues = browser.evaluate("[...new Set([...document.querySelectorAll('.chosen')].map((e) => e.style.getPropertyValue('--hue') || e.querySelector('rect').style.getPropertyValue('--hue')))]");
        assert_eq!(hues.as_array().unwrap().len(), 1, "one colour: {hues}");
    }
    browser.click("#tab-bits");
    let bits = browser.evaluate("document.querySelector('#view-bits').innerText");
    for name in ["opcode", "destination", "descriptor", "write mask", "selector 1"] {
        assert!(bits.as_str().unwrap().contains(name), "{bits}");
    }
    browser.assert_no_problems("lights");
}

fn keys(mut browser: Browser) {
    let folder = Folder::new("keys");
    let page = folder.explore(&repository().join("tools/command/src/shaders/lights.pica"), &[]);
    browser.open(&page);
    let at = |browser: &mut Browser| browser.evaluate("view.replay.at").as_u64().unwrap();
    browser.key("ArrowRight", 0);
    browser.key("ArrowRight", 0);
    assert_eq!(at(&mut browser), 2);
    browser.key("ArrowLeft", 0);
    assert_eq!(at(&mut browser), 1);
    browser.key("]", 0);
    assert_eq!(browser.evaluate("[view.replay.run, view.replay.pc]"), serde_json::json!([1, null]));
    browser.key("[", 0);
    assert_eq!(browser.evaluate("view.replay.run"), 0);
    // Next time at the same instruction: in the next vertex, or the next iteration.
    browser.key("ArrowRight", 0);
    let pc = browser.evaluate("view.replay.pc");
    browser.key("ArrowRight", 8);
    assert_eq!(browser.evaluate("view.replay.pc"), pc);
    assert!(at(&mut browser) > 2);
    browser.key("3", 0);
    assert_eq!(browser.evaluate("codeTabs.shown"), "x86-64");
    // Every control can get the focus by Tab, and shows it.
    let mut focused = Vec::new();
    for _ in 0..40 {
        browser.key("Tab", 0);
        focused.push(browser.evaluate("document.activeElement.id").as_str().unwrap_or("").to_string());
    }
    for id in ["theme", "tab-source", "graph", "tab-x86-64", "back", "forward", "position", "registers"] {
        assert!(focused.iter().any(|f| f == id), "{id} is not among {focused:?}");
    }
    browser.assert_no_problems("keys");
}

fn windows(mut browser: Browser) {
    let folder = Folder::new("windows");
    let page = folder.explore(&repository().join("tools/command/src/shaders/lights.pica"), &[]);
    for (width, height, dark) in [(1500, 1000, false), (1500, 1000, true), (400, 850, false), (400, 850, true)] {
        browser.window(width, height, dark);
        browser.open(&page);
        (0..20).for_each(|_| browser.key("ArrowRight", 0));
        let name = format!("explore-{width}-{}", if dark { "dark" } else { "light" });
        let (colours, most) = browser.picture(&name);
        assert!(colours > 100, "{name}: {colours} colours");
        assert_eq!(most.iter().all(|c| *c < 90), dark, "{name}: mostly {most:?}");
        let sizes = browser.evaluate("[document.documentElement.scrollWidth, innerWidth, [...document.querySelectorAll('.panel')].every((p) => p.clientHeight > 30)]");
        assert!(sizes[0].as_u64() <= sizes[1].as_u64(), "{name}: the page is wider than the window: {sizes}");
        assert_eq!(sizes[2], true, "{name}: a panel has no height");
    }
    // The button overrules the system.
    browser.click("#theme");
    let (_, most) = browser.picture("explore-theme");
    assert!(most.iter().all(|c| *c > 200), "light again: {most:?}");
    browser.assert_no_problems("windows");
}

fn explosion(mut browser: Browser) {
    let folder = Folder::new("explosion");
    let values = folder.file("values.txt", include_str!("../../examples/playground/values.txt"));
    let file = repository().join("examples/playground/example.pica");
    let page = folder.explore(&file, &["--values", values.to_str().unwrap(), "--vertices", "8", "--trace", "0-7"]);
    browser.window(1400, 880, false);
    browser.open(&page);
    assert_eq!(
        browser.evaluate("[...document.querySelectorAll('#odd button')].map((b) => b.textContent)"),
        serde_json::json!(["vertex 5"])
    );
    browser.click("#odd button");
    // RCP of a sum of weights that is 0.
    let now = browser.evaluate("document.querySelector('#now').innerText");
    let now = now.as_str().unwrap();
    assert!(now.contains("rcp") && now.contains("inf"), "{now}");
    let line = browser.evaluate("document.querySelector('#view-source .current').innerText");
    assert!(line.as_str().unwrap().contains("rcp r1.x, r1.x"), "{line}");
    // docs/explore.png is this picture.
    browser.click("#tab-x86-64");
    browser.picture("explosion");
    browser.assert_no_problems("explosion");
}

fn cut(mut browser: Browser) {
    let folder = Folder::new("cut");
    let source = ".proc main\nagain:\nadd r0, v0, r0\njmpu !b0, again\nend\n.end\n";
    let page = folder.explore(&folder.file("endless.pica", source), &[]);
    browser.open(&page);
    let said = browser.evaluate("document.querySelector('#cut').innerText");
    assert!(said.as_str().unwrap().starts_with("Not everything is here: "), "{said}");
    assert!(browser.evaluate("view.replay.rows.length").as_u64().unwrap() > 1000);
    browser.assert_no_problems("an endless run");
}

/// Clicks on the first point of a run in the picture.
fn click_point(browser: &mut Browser, run: u32) {
    let place = format!(
        "(() => {{ const spot = view.spots.find((s) => s.run === {run}), r = byId('picture').getBoundingClientRect(); \
         return [0, 1].map((axis) => [r.x, r.y][axis] + spot.points.reduce((sum, p) => sum + p[axis], 0) / spot.points.length); }})()"
    );
    let at = browser.evaluate(&place);
    browser.click_at(&at);
}

fn points(mut browser: Browser) {
    let folder = Folder::new("points");
    let file = folder.file("square.pica", ".out o position\n.proc main\n    mov o, v0\n    end\n.end\n");
    let corners = [[-1, 1], [1, 1], [-1, -1], [1, -1], [0, 0]];
    let values: String = (0..).zip(corners).map(|(n, [x, y])| format!("{n}: v0 = {x}, {y}, 0, 1\n")).collect();
    let values = folder.file("values.txt", values);
    let page = folder.explore(&file, &["--values", values.to_str().unwrap(), "--vertices", "5", "--trace", "0-3"]);
    browser.window(1500, 1000, false);
    browser.open(&page);
    for run in [3, 0, 2, 1] {
        click_point(&mut browser, run);
        assert_eq!(browser.evaluate("[view.replay.run, view.replay.pc]"), serde_json::json!([run, null]));
    }
    // One without a trace says how to get it.
    click_point(&mut browser, 4);
    assert_eq!(
        browser.evaluate("[view.replay.run, byId('picture-note').textContent]"),
        serde_json::json!([1, "vertex 4 has no trace: --trace 4"])
    );
    // Places without a point do nothing.
    let empty = browser.evaluate(
        "(() => { const r = byId('picture').getBoundingClientRect(); return [r.x + r.width / 2, r.y + 3]; })()",
    );
    browser.click_at(&empty);
    assert_eq!(browser.evaluate("view.replay.run"), 1);
    browser.evaluate("byId('picture').focus()");
    for (key, run) in [("ArrowLeft", 0), ("ArrowDown", 2), ("ArrowRight", 3), ("ArrowRight", 3), ("ArrowUp", 1)] {
        browser.key(key, 0);
        assert_eq!(browser.evaluate("[view.replay.run, view.replay.pc]"), serde_json::json!([run, null]), "{key}");
    }
    browser.assert_no_problems("points");
}

fn triangles(mut browser: Browser) {
    let folder = Folder::new("triangles");
    let source = ".gsh\n.out o position\n.proc main\n    setemit 0\n    mov o, v0\n    emit\n    setemit 1\n    mov o, v1\n    emit\n    \
                  setemit 2, prim\n    mov o, v2\n    emit\n    end\n.end\n";
    let mut values = String::new();
    for n in 0..3 {
        let left = f64::from(n) * 0.6 - 0.9;
        for (register, [x, y]) in [[left, -0.5], [left + 0.5, -0.5], [left, 0.5]].into_iter().enumerate() {
            values += &format!("{n}: v{register} = {x}, {y}, 0, 1\n");
        }
    }
    let (file, values) = (folder.file("fans.pica", source), folder.file("values.txt", values));
    let page = folder.explore(&file, &["--values", values.to_str().unwrap(), "--vertices", "3", "--trace", "0-2"]);
    browser.window(1500, 1000, false);
    browser.open(&page);
    for run in [2, 0, 1] {
        click_point(&mut browser, run);
        assert_eq!(browser.evaluate("view.replay.run"), run);
    }
    browser.assert_no_problems("triangles");
}

fn writes(mut browser: Browser) {
    let folder = Folder::new("writes");
    let source = ".out o position\n.proc main\n    mov r0, v0\n    mov r1, c0\n    add r0.x, r0, r1\n    mov r0.x, r0\n    \
                  cmp r0, eq, eq, r0\n    mova a0.x, c0.x\n    add o, r0, r1\n    end\n.end\n";
    let file = folder.file("writes.pica", source);
    let page = folder.explore(&file, &["--trace", "0,1", "--vertices", "2"]);
    browser.open(&page);
    let pc = |browser: &mut Browser| browser.evaluate("[view.replay.run, view.replay.pc]");
    browser.key("]", 0);
    (0..7).for_each(|_| browser.key("ArrowRight", 0));
    assert_eq!(pc(&mut browser), serde_json::json!([1, 6]));
    // The move at 3 writes the value that r0.x has; the add at 2 and the move at 0 write it too.
    let value = |register: &str, component: usize| {
        format!(
            "table.registers tr[data-used]:nth-of-type({}) td:nth-of-type({})",
            register_row(register),
            component + 2
        )
    };
    let clicks = [(value("r0", 0), 3), (value("r0", 0), 2), (value("r0", 0), 0)];
    for (selector, expected) in clicks {
        browser.click(&selector);
        assert_eq!(pc(&mut browser), serde_json::json!([1, expected]), "{selector}");
    }
    // Names of operands and of registers.
    (0..6).for_each(|_| browser.key("ArrowRight", 0));
    browser.click("#now tr:nth-of-type(2) .jump");
    assert_eq!(pc(&mut browser), serde_json::json!([1, 1]), "r1, the second operand");
    browser.click("table.registers tr:nth-of-type(2) .jump");
    assert_eq!(pc(&mut browser), serde_json::json!([1, 0]), "r0");
    // Inputs are written where a run begins; before that there is nothing.
    browser.click("#now tr:nth-of-type(1) .jump");
    assert_eq!(pc(&mut browser), serde_json::json!([1, null]), "v0");
    browser.evaluate("goTo(0)");
    browser.click(&value("r0", 0));
    assert_eq!(
        browser.evaluate("[view.replay.at, byId('where').textContent]"),
        serde_json::json!([0, "no earlier write"])
    );
    let flags = "(() => { goTo(Infinity); view.goToWrite([view.slots.cmp]); const a = view.replay.pc; goTo(Infinity); \
                 view.goToWrite([view.slots.a0]); return [a, view.replay.pc]; })()";
    assert_eq!(browser.evaluate(flags), serde_json::json!([4, 5]));
    browser.assert_no_problems("writes");
}

/// The row of register `r0` to `r15` in the table, from 1, below its head.
fn register_row(register: &str) -> usize {
    register[1..].parse::<usize>().unwrap() + 2
}

fn findings(mut browser: Browser) {
    let folder = Folder::new("findings");
    let unused = "; a comment\n".repeat(200);
    let source = format!(".out o position\n{unused}.proc main\n    mov o, r0\n    end\n.end\n");
    let file = folder.file("findings.pica", source);
    let page = folder.explore(&file, &[]);
    browser.open(&page);
    assert_eq!(browser.evaluate("byId('tab-findings').textContent"), "Findings 1");
    browser.click("#tab-findings");
    let text = browser.evaluate("byId('view-findings').innerText");
    assert!(
        text.as_str().unwrap().contains("read-before-write") && text.as_str().unwrap().contains("help: "),
        "{text}"
    );
    browser.click("#view-findings button");
    let place = "(() => { const row = document.querySelector('#view-source .asked'), r = row.getBoundingClientRect(), \
                 v = byId('view-source').getBoundingClientRect(); \
                 return [textTabs.shown, row.dataset.line, links.chosen, r.top >= v.top && r.bottom <= v.bottom + 1]; })()";
    assert_eq!(browser.evaluate(place), serde_json::json!(["source", "203", 0, true]));
    // A binary has no lines; its instructions are in the disassembly.
    let shbin = assemble(".out o position\n.proc main\n    mov o, r0\n    end\n.end\n").unwrap().shbin;
    let page = folder.explore(&folder.file("findings.shbin", shbin.write().unwrap()), &[]);
    browser.open(&page);
    browser.click("#tab-findings");
    browser.click("#view-findings button");
    assert_eq!(browser.evaluate("[textTabs.shown, links.chosen]"), serde_json::json!(["disassembly", 0]));
    browser.assert_no_problems("findings");
}

fn long_lines(mut browser: Browser) {
    let folder = Folder::new("long");
    let comment = "word ".repeat(100) + &"x".repeat(400);
    let source = format!(".out o position\n.proc main\n    mov o, v0 ; {comment}\n    end\n.end\n");
    let page = folder.explore(&folder.file("long.pica", source), &[]);
    for width in [1500, 400] {
        browser.window(width, 1000, false);
        browser.open(&page);
        for tab in ["source", "disassembly", "ssa", "clif", "x86-64", "glsl"] {
            browser.click(&format!("#tab-{tab}"));
            let sizes = browser.evaluate(&format!("[byId('view-{tab}').scrollWidth, byId('view-{tab}').clientWidth]"));
            assert!(sizes[0].as_u64() <= sizes[1].as_u64(), "{tab} at {width}: {sizes}");
        }
        browser.click("#tab-source");
        assert_eq!(browser.evaluate("document.querySelectorAll('#view-source .row')[2].clientHeight > 60"), true);
    }
    browser.picture("long-lines");
    browser.assert_no_problems("long lines");
}
