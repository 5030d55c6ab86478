// Lines that belong to instructions: source, disassembly, stages, bits; and their links.

/// Elements by address. A link survives as long as its view.
class Links {
  constructor() {
    this.byPc = new Map();
    this.chosen = null;
    this.current = null;
    this.onChoose = () => {};
  }

  clear() {
    this.byPc.clear();
  }

  /// Connects an element with instructions.
  add(element, pcs) {
    for (const pc of pcs) {
      if (!this.byPc.has(pc)) this.byPc.set(pc, []);
      this.byPc.get(pc).push(element);
    }
    element.addEventListener("mouseenter", () => this.mark("hot", pcs));
    element.addEventListener("mouseleave", () => this.mark("hot", []));
    element.addEventListener("click", () => {
      if (!String(getSelection())) this.choose(pcs[0], element);
    });
  }

  of(pc) {
    return this.byPc.get(pc) ?? [];
  }

  mark(className, pcs) {
    for (const element of document.querySelectorAll("." + className)) {
      if (element.closest("#text-panel, #graph-panel, #code-panel")) element.classList.remove(className);
    }
    for (const pc of pcs) for (const element of this.of(pc)) element.classList.add(className);
  }

  choose(pc, from) {
    this.chosen = pc;
    this.mark("chosen", pc === null ? [] : [pc]);
    if (pc !== null) this.reveal(pc, from);
    this.onChoose(pc);
  }

  /// The instruction that ran last.
  run(pc) {
    this.current = pc;
    this.mark("current", pc === null ? [] : [pc]);
    if (pc !== null) this.reveal(pc, null);
  }

  /// Scrolls all other views to an instruction.
  reveal(pc, from) {
    const seen = new Set(from ? [from.closest(".view")] : []);
    for (const element of this.of(pc)) {
      const view = element.closest(".view");
      if (!view || view.hidden || seen.has(view)) continue;
      seen.add(view);
      const outer = view.getBoundingClientRect(), inner = element.getBoundingClientRect();
      if (inner.top < outer.top || inner.bottom > outer.bottom) {
        view.scrollTop += inner.top - outer.top - outer.height / 3;
      }
      if (view.id === "graph" && (inner.left < outer.left || inner.right > outer.right)) {
        view.scrollLeft += inner.left - outer.left - 20;
      }
    }
  }
}

const links = new Links();

/// Tabs and the views they show. A view is `{id, title, fill}`; `fill` makes its content when it is first shown.
class Tabs {
  constructor(bar, views) {
    this.bar = bar;
    this.container = views;
    this.list = [];
    this.shown = null;
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.stopPropagation();
      const n = this.list.findIndex((tab) => tab.id === this.shown);
      this.show(this.list[(n + step + this.list.length) % this.list.length].id);
      this.list.find((tab) => tab.id === this.shown).button.focus();
    });
  }

  set(views) {
    this.bar.replaceChildren();
    // Elements that stay keep their focus and what undo knows.
    const kept = new Set(views.map((view) => view.element));
    for (const element of [...this.container.children]) if (!kept.has(element)) element.remove();
    this.list = views.map((view) => {
      const button = make("button", "", view.title);
      button.type = "button";
      button.id = "tab-" + view.id;
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", "view-" + view.id);
      button.addEventListener("click", () => this.show(view.id));
      const element = view.element ?? make("div", "view");
      element.id = "view-" + view.id;
      element.setAttribute("role", "tabpanel");
      element.setAttribute("aria-labelledby", button.id);
      if (!view.element) element.tabIndex = 0;
      this.bar.append(button);
      if (element.parentNode !== this.container) this.container.append(element);
      return { ...view, button, element, filled: false };
    });
    const wanted = this.list.some((tab) => tab.id === this.shown) ? this.shown : this.list[0]?.id;
    this.shown = null;
    if (wanted) this.show(wanted);
  }

  show(id) {
    this.shown = id;
    for (const tab of this.list) {
      const isShown = tab.id === id;
      tab.button.setAttribute("aria-selected", isShown);
      tab.button.tabIndex = isShown ? 0 : -1;
      tab.element.hidden = !isShown;
      if (isShown && !tab.filled) {
        tab.filled = true;
        tab.fill?.(tab.element);
        links.mark("chosen", links.chosen === null ? [] : [links.chosen]);
        links.mark("current", links.current === null ? [] : [links.current]);
      }
    }
    const pc = links.chosen ?? links.current;
    if (pc !== null) links.reveal(pc, null);
  }
}

/// A line of a view. `pcs` are the instructions it belongs to.
function row(pcs, ...cells) {
  const element = make("div", "row", ...cells);
  if (pcs.length > 0) {
    element.classList.add("linked");
    tint(element, pcs[0]);
    links.add(element, pcs);
  }
  return element;
}

const cell = (className, content) => make("span", className, String(content));

/// A line of assembly with its comment, label or directive in colour.
function assembly(line) {
  const comment = line.search(/[;]/);
  const code = comment < 0 ? line : line.slice(0, comment);
  const parts = [];
  const word = code.match(/^(\s*)([A-Za-z_$][\w$]*:)?(\s*)([.#]?[A-Za-z_]\w*)?/);
  let rest = code;
  if (word) {
    parts.push(word[1], word[2] ? make("span", "label", word[2]) : "", word[3], word[4] ? make("span", "keyword", word[4]) : "");
    rest = code.slice(word[0].length);
  }
  parts.push(rest);
  if (comment >= 0) parts.push(make("span", "comment", line.slice(comment)));
  return make("span", "line", ...parts.filter((part) => part !== ""));
}

/// The sign in the margin of instructions and lines with findings.
function mark(findings) {
  const worst = ["error", "warning", "note"].find((severity) => findings.some((f) => f.severity === severity));
  const element = make("span", "mark " + (worst ?? ""), worst === undefined ? "" : worst === "note" ? "i" : "!");
  element.title = findings.map((f) => `${f.severity}: ${f.text} [${f.rule}]\nhelp: ${f.help}`).join("\n");
  return element;
}

function sourceView(page, entry) {
  return (view) => {
    const pcsOf = new Map();
    page.words.forEach((word, pc) => {
      if (!pcsOf.has(word.line)) pcsOf.set(word.line, []);
      pcsOf.get(word.line).push(pc);
    });
    const findings = page.findings;
    const lines = page.source.map((line, n) => {
      const pcs = pcsOf.get(n + 1) ?? [];
      const here = findings.filter((f) => (f.line ?? null) === n + 1);
      const element = row(pcs, mark(here), cell("number", n + 1), cost(page, entry, pcs), executions(entry, pcs), assembly(line || " "));
      element.dataset.line = n + 1;
      return element;
    });
    view.append(make("div", "rows", ...lines));
  };
}

/// All findings of the file. Each goes to its line and selects its instruction.
function findingsView(page) {
  return (view) => {
    const items = page.findings.map((finding) => {
      const place = finding.line !== null ? `line ${finding.line}: ` : finding.pc !== null ? `at ${finding.pc}: ` : "";
      const link = make("button", "link", `${place}${finding.severity}: ${finding.text}`);
      link.type = "button";
      link.addEventListener("click", () => showFinding(finding));
      return make("li", finding.severity, link, make("div", "", `help: ${finding.help}`), make("div", "evidence", `${finding.rule}; ${finding.evidence}`));
    });
    view.append(make("ul", "findings", ...items));
  };
}

function showFinding({ pc, line }) {
  if (line !== null) view.showLine(line);
  else textTabs.show("disassembly");
  if (pc !== null) links.choose(pc, null);
}

/// How often the traced runs executed instructions.
function executions(entry, pcs) {
  const count = pcs.reduce((sum, pc) => sum + (entry.executions.get(pc) ?? 0), 0);
  const element = cell("count", count > 0 ? count + "×" : "");
  element.title = count > 0 ? "executions in the traced runs" : "";
  return element;
}

/// How often any run executes instructions: the least and the most, or `∞` without a bound.
function cost(page, entry, pcs) {
  entry.costs ??= new Map((entry.cost?.words ?? []).map(([pc, least, most]) => [pc, [least, most]]));
  const costs = pcs.map((pc) => entry.costs.get(pc)).filter(Boolean);
  const least = costs.reduce((sum, [n]) => sum + n, 0);
  const most = costs.some(([, n]) => n === null) ? "∞" : costs.reduce((sum, [, n]) => sum + n, 0);
  const element = cell("cost", costs.length === 0 ? "" : least === most ? least : `${least}-${most}`);
  element.title = costs.length === 0 ? "" : `a run executes this ${least} to ${most} times\n${page.timing}`;
  return element;
}

function disassemblyView(page, entry) {
  return (view) => {
    const reachable = new Set(entry.graph.reachable ?? page.words.keys());
    const labels = new Map(entry.labels);
    const findings = page.findings;
    const lines = [];
    page.words.forEach((word, pc) => {
      if (labels.has(pc)) lines.push(row([], make("span", "label", labels.get(pc) + ":")));
      if (pc === entry.pc) lines.push(row([], cell("comment", "; entry " + entry.index)));
      const here = findings.filter((f) => f.pc === pc);
      const line = row([pc], mark(here), cell("pc", pc), cell("bytes", hex(word.word, 8)), cost(page, entry, [pc]), executions(entry, [pc]), assembly(word.text));
      const names = operandNames(entry, word);
      if (names) line.append(cell("name", names));
      if (!reachable.has(pc)) line.style.opacity = "0.5";
      lines.push(line);
    });
    view.append(make("div", "rows", ...lines));
  };
}

/// Declared names of an instruction's registers.
function operandNames(entry, word) {
  const registers = (word.dst ? [word.dst] : []).concat(word.src).map(([file, n]) => file + n);
  return [...new Set(registers)].map((register) => entry.names[register]).filter(Boolean).join(", ");
}

/// A stage: lines `[pc or null, text]`, or with an offset and bytes before the text.
function stageView(lines) {
  return (view) => {
    if (!Array.isArray(lines)) {
      view.append(make("p", "empty", lines));
      return;
    }
    view.append(make("div", "rows", ...lines.map(([pc, ...rest]) => {
      const content = rest.length === 1
        ? [cell("pc", pc ?? ""), cell("line", rest[0])]
        : [cell("pc", pc ?? ""), cell("number", rest[0] === null ? "" : rest[0].toString(16)), cell("bytes long", rest[1]), cell("line", rest[2])];
      return row(pc === null ? [] : [pc], ...content);
    })));
  };
}

/// All bits of the selected word and of its descriptor, with names.
function bitsView(page) {
  return (view) => fillBits(view, page, links.chosen ?? links.current);
}

function fillBits(view, page, pc) {
  view.replaceChildren();
  const word = page.words[pc];
  if (!word) {
    view.append(make("p", "empty", "Select an instruction to see each bit of its word and of its operand descriptor."));
    return;
  }
  const part = (title, value, fields) => {
    const strip = make("div", "strip");
    const table = make("table", "bits", make("tr", "", make("th", "", "bits"), make("th", "", "field"), make("th", "", "value"), make("th", "", "meaning")));
    fields.forEach(([first, last, name, meaning], n) => {
      const bits = (value >>> last & (2 ** (first - last + 1) - 1)).toString(2).padStart(first - last + 1, "0");
      const piece = make("span", "tinted", bits);
      piece.style.setProperty("--hue", String(n * 67 % 360));
      piece.title = `${name}: ${meaning}`;
      strip.append(piece);
      const swatch = make("td", "tinted", first === last ? String(first) : `${first}-${last}`);
      swatch.style.setProperty("--hue", String(n * 67 % 360));
      table.append(make("tr", "", swatch, make("td", "", name), make("td", "", bits), make("td", "", meaning)));
    });
    view.append(make("div", "row", make("b", "", title), hex(value, 8)), strip, table);
  };
  view.append(make("div", "row", make("b", "", `${pc}`), word.text));
  part("word", word.word, word.fields);
  if (word.descriptor !== null) {
    const descriptor = page.descriptors[word.descriptor];
    if (descriptor) part(`descriptor ${word.descriptor}`, descriptor.word, descriptor.fields);
    else view.append(make("p", "empty", `The file has no descriptor ${word.descriptor}; it counts as zero.`));
  }
}
