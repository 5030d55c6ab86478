// The page: one entry at a time in all panels.

const view = { page: null, entry: null, replay: null, slots: null, noun: "vertex", isGeometry: false, graph: { boxes: [] } };
const textTabs = new Tabs(byId("text-tabs"), byId("text-views"));
const codeTabs = new Tabs(byId("code-tabs"), byId("code-views"));
/// Views of the text panel besides the disassembly; the playground has editors there.
let textViews = (page, entry) => (page.source ? [{ id: "source", title: "Source", fill: sourceView(page, entry) }] : []);

/// Shows a page; `keep` keeps the position if it exists there.
function showPage(page, keep) {
  view.page = page;
  view.slots = page.slots;
  byId("name").textContent = page.name;
  byId("summary").textContent = `${page.kind}, ${page.words.length} words`;
  const buttons = page.entries.map((entry, n) => {
    const button = make("button", "", `${entry.stage} ${entry.index}`);
    button.type = "button";
    button.addEventListener("click", () => showEntry(n, false));
    return button;
  });
  byId("entries").replaceChildren(...(page.entries.length > 1 ? buttons : []));
  const kept = keep ? page.entries.findIndex((entry) => entry.index === view.entry?.index) : 0;
  showEntry(Math.max(kept, 0), keep);
}

function showEntry(n, keep) {
  const { page } = view, entry = page.entries[n];
  const at = keep ? view.replay?.at : undefined;
  links.clear();
  if (!keep) links.chosen = null;
  if (links.chosen !== null && links.chosen >= page.words.length) links.chosen = null;
  links.current = null;
  view.shapes = undefined;
  view.entry = entry ?? { index: 0, stage: "vertex", pc: 0, names: {}, labels: [], graph: { error: "The file has no entry points." }, ssa: null };
  view.isGeometry = view.entry.stage === "geometry";
  view.noun = view.isGeometry ? "invocation" : "vertex";
  view.replay = view.entry.trace ? new Replay(view.entry.trace, page.slots) : null;
  countExecutions(view.entry);
  [...byId("entries").children].forEach((button, k) => button.setAttribute("aria-pressed", k === n));
  const texts = [...textViews(page, view.entry), { id: "disassembly", title: "Disassembly", fill: disassemblyView(page, view.entry) }];
  if (page.findings.length > 0) texts.push({ id: "findings", title: `Findings ${page.findings.length}`, fill: findingsView(page) });
  textTabs.set(texts);
  byId("text-note").textContent = page.findings.length > 0 ? "" : "no findings";
  const stages = [{ id: "ssa", title: "SSA", fill: stageView(view.entry.ssa ?? "There is no SSA without a control-flow graph.") }];
  for (const [id, title] of [["clif", "CLIF"], ["x86-64", "x86-64"], ["aarch64", "AArch64"], ["glsl", "GLSL"], ["spirv", "SPIR-V"]]) {
    if (view.entry[id] !== undefined) stages.push({ id, title, fill: stageView(view.entry[id]) });
  }
  stages.push({ id: "bits", title: "Bits", fill: bitsView(page) });
  codeTabs.set(stages);
  view.graph = drawGraph(byId("graph"), page, view.entry);
  const { blocks, states } = view.entry.graph;
  byId("graph-note").textContent = blocks ? `${blocks.length} block${blocks.length === 1 ? "" : "s"}, ${states} states` : "";
  makeRegisters(view);
  makeRuns();
  const rows = view.replay?.rows.length ?? 0;
  goTo(at !== undefined && at < rows ? at : 0);
  if (links.chosen !== null) links.choose(links.chosen, null);
}

function countExecutions(entry) {
  entry.executions = new Map();
  for (const [pc] of entry.trace?.rows ?? []) {
    if (pc >= 0) entry.executions.set(pc, (entry.executions.get(pc) ?? 0) + 1);
  }
}

function makeRuns() {
  const trace = view.entry.trace, runs = byId("runs");
  runs.replaceChildren();
  byId("cut").hidden = !trace?.cut;
  byId("cut").textContent = trace?.cut ? `Not everything is here: ${trace.cut}.` : "";
  byId("position").max = Math.max(0, (view.replay?.rows.length ?? 0) - 1);
  trace?.runs.forEach(([, , first], n) => {
    if (first === null) return;
    const button = make("button", "", `${view.noun} ${n}`);
    button.type = "button";
    button.dataset.run = n;
    button.addEventListener("click", () => goTo(first));
    runs.append(button);
  });
}

/// Goes to a row of the trace.
function goTo(at) {
  const { replay } = view;
  if (!view.page) return;
  const last = replay ? replay.rows.length - 1 : -1;
  replay?.seek(Math.max(0, Math.min(at, last)));
  fillNow(view);
  fillRegisters(view);
  drawPicture(view);
  const pc = replay?.pc ?? null;
  links.run(pc);
  if (codeTabs.shown === "bits" && links.chosen === null) fillBits(byId("view-bits"), view.page, pc);
  for (const { group, block } of view.graph.boxes) {
    group.classList.toggle("here", pc !== null && block.pcs.includes(pc));
    group.classList.toggle("visited", block.pcs.some((p) => view.entry.executions.has(p)));
  }
  const now = replay?.at ?? -1;
  byId("position").value = Math.max(0, now);
  byId("where").textContent = last < 0 ? "no trace" : `row ${now} of ${last}`;
  byId("first").disabled = byId("back").disabled = now <= 0;
  byId("last").disabled = byId("forward").disabled = now >= last;
  byId("before").disabled = byId("after").disabled = last < 0;
  for (const button of byId("runs").children) button.setAttribute("aria-pressed", Number(button.dataset.run) === replay.run);
}

/// Goes to the first row of run `n`, if it is traced.
view.goToRun = (n) => {
  const first = view.replay?.trace.runs[n]?.[2] ?? null;
  if (first !== null) goTo(first);
  else view.askForRun(n);
};

/// What to do about a run without a trace; the playground asks for one.
view.askForRun = (n) => (byId("picture-note").textContent = `${view.noun} ${n} has no trace: --trace ${n}`);

/// Goes to the last row before the current one that writes one of `slots`.
view.goToWrite = (slots) => {
  const at = view.replay?.lastWrite(slots, view.page.words) ?? null;
  if (at !== null) goTo(at);
  else byId("where").textContent = "no earlier write";
};

/// Shows a line of the source.
view.showLine = (line) => {
  textTabs.show("source");
  for (const element of byId("view-source").querySelectorAll(".row")) {
    const isAsked = element.dataset.line === String(line);
    element.classList.toggle("asked", isAsked);
    if (isAsked) element.scrollIntoView({ block: "nearest" });
  }
};

/// Goes to the first row of run `n` that makes a value infinite or NaN.
view.goToOdd = (n) => {
  const { replay, slots } = view, first = replay.trace.runs[n][2];
  const isRegister = (slot) => slot < slots.a0;
  for (let at = first + 1; at < replay.rows.length && replay.rows[at][0] >= 0; at++) {
    const row = replay.rows[at];
    for (let k = 1; k < row.length; k += 2) {
      if (isRegister(row[k]) && isOdd(row[k + 1])) return goTo(at);
    }
  }
  return goTo(first);
};

function goToNextRun(step) {
  const { replay } = view;
  const logged = (replay?.trace.runs ?? []).map(([, , first]) => first).filter((first) => first !== null);
  if (logged.length === 0) return;
  const starts = step < 0 ? logged.filter((first) => first < replay.at).reverse() : logged.filter((first) => first > replay.at);
  if (starts.length > 0) goTo(starts[0]);
}

function goToSame(direction) {
  const pc = links.chosen ?? view.replay?.pc;
  const at = pc === null || pc === undefined ? null : view.replay?.find(pc, direction);
  if (at !== null && at !== undefined) goTo(at);
}

links.onChoose = (pc) => {
  const bits = byId("view-bits");
  if (codeTabs.shown === "bits") fillBits(bits, view.page, pc ?? links.current);
  else if (bits) codeTabs.list.find((tab) => tab.id === "bits").filled = false;
};

function bindKeys() {
  const step = (by) => () => goTo((view.replay?.at ?? 0) + by);
  const actions = { first: () => goTo(0), back: step(-1), forward: step(1), last: () => goTo(Infinity), before: () => goToSame(-1), after: () => goToSame(1) };
  for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
  byId("position").addEventListener("input", (event) => goTo(Number(event.target.value)));
  byId("all-registers").addEventListener("change", () => view.page && fillRegisters(view));
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    drawPicture(view);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawPicture(view));
  new ResizeObserver(() => drawPicture(view)).observe(byId("picture").parentElement);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("textarea, select, dialog")) return;
    const isSlider = event.target.id === "position";
    const key = (event.shiftKey ? "Shift " : "") + event.key;
    const keys = {
      ArrowLeft: actions.back, ArrowRight: actions.forward, "Shift ArrowLeft": actions.before, "Shift ArrowRight": actions.after,
      Home: actions.first, End: actions.last, "[": () => goToNextRun(-1), "]": () => goToNextRun(1), Escape: () => links.choose(null, null),
      "Shift ?": () => byId("help").showModal(),
    };
    const tab = /^[1-9]$/.test(event.key) ? codeTabs.list[Number(event.key) - 1] : undefined;
    const action = tab ? () => codeTabs.show(tab.id) : keys[key];
    if (!action || (isSlider && !event.shiftKey && !tab)) return;
    event.preventDefault();
    action();
  });
}

bindKeys();
bindPicture(view);
