// The playground: editors in place of the source, and the module in a worker.

const begin = JSON.parse(byId("data").textContent);
/// Milliseconds without typing before a request, and after which a request is stopped.
const PAUSE = 120, PATIENCE = 10000;

class Editor {
  constructor(label, content) {
    this.gutter = make("div", "gutter");
    this.area = make("textarea", "");
    this.area.value = content;
    this.area.spellcheck = false;
    this.area.setAttribute("aria-label", label);
    this.element = make("div", "editor view", this.gutter, this.area);
    this.error = null;
    this.area.addEventListener("input", () => {
      this.number();
      request();
    });
    this.area.addEventListener("scroll", () => (this.gutter.scrollTop = this.area.scrollTop));
    this.number();
  }

  /// Line numbers, in the colours of their instructions.
  number(page) {
    const count = this.area.value.split("\n").length;
    const pcs = new Map();
    page?.words.forEach((word, pc) => pcs.has(word.line) || pcs.set(word.line, pc));
    this.gutter.replaceChildren(...Array.from({ length: count }, (_, n) => {
      const line = make("div", n + 1 === this.error ? "wrong" : "", String(n + 1));
      if (pcs.has(n + 1) && n + 1 !== this.error) {
        tint(line, pcs.get(n + 1));
        links.add(line, page.words.flatMap((word, pc) => (word.line === n + 1 ? [pc] : [])));
      }
      return line;
    }));
    this.gutter.scrollTop = this.area.scrollTop;
  }
}

let worker = null, sent = 0, answered = 0, timer = 0, alarm = 0;
const source = new Editor("Source", begin.source);
const values = new Editor("Values", begin.values);
const status = make("div", "", "The module is being prepared.");
status.id = "status";
status.setAttribute("role", "status");
const count = make("input", "");
Object.assign(count, { type: "number", min: 1, max: 1024, value: 8, title: "vertices" });
count.setAttribute("aria-label", "Vertices");
count.addEventListener("input", () => request());
byId("text-note").before(make("label", "note", "vertices ", count));
byId("text-views").after(status);

textViews = () => [
  { id: "source", title: "Source", element: source.element },
  { id: "values", title: "Values", element: values.element },
];

function start() {
  const code = new Blob([byId("worker").textContent], { type: "text/javascript" });
  const address = URL.createObjectURL(code);
  worker = new Worker(address);
  URL.revokeObjectURL(address);
  worker.onmessage = ({ data }) => receive(data);
  worker.postMessage({ module: byId("module").textContent });
}

/// Sends the text after a pause in typing.
function request() {
  clearTimeout(timer);
  timer = setTimeout(send, PAUSE);
}

function send() {
  if (!worker) start();
  const vertices = Math.max(1, Math.min(1024, Number(count.value) || 1));
  const chosen = Array.from({ length: Math.min(vertices, 8) }, (_, n) => n);
  sent += 1;
  worker.postMessage({ id: sent, request: JSON.stringify({ source: source.area.value, values: values.area.value, vertices, chosen }) });
  clearTimeout(alarm);
  alarm = setTimeout(() => {
    worker.terminate();
    worker = null;
    answered = sent;
    report("the request takes too long, and was stopped", true);
  }, PATIENCE);
}

function report(content, isWrong) {
  status.textContent = content;
  status.classList.toggle("wrong", isWrong);
}

function receive({ id, answer, failure }) {
  if (id === sent) clearTimeout(alarm);
  if (id < sent) return;
  answered = id;
  source.error = values.error = null;
  if (failure) {
    worker.terminate();
    worker = null;
    return report(failure, true);
  }
  const { page, error } = JSON.parse(answer);
  // Values that don't fit the source are an error beside the page.
  if (page) {
    const { selectionStart, selectionEnd } = source.area, focused = document.activeElement;
    const scroll = [source.area.scrollTop, values.area.scrollTop];
    showPage(page, view.page !== null);
    [source.area.scrollTop, values.area.scrollTop] = scroll;
    if (focused === source.area || focused === values.area) {
      focused.focus({ preventScroll: true });
      if (focused === source.area) source.area.setSelectionRange(selectionStart, selectionEnd);
    }
    const warnings = page.warnings.map((w) => `line ${w.line}: warning: ${w.text}`);
    const runs = page.entries[0]?.trace.runs.length ?? 0;
    report(warnings.length > 0 ? warnings.join("\n") : `${page.words.length} words, ${runs} run${runs === 1 ? "" : "s"}`, false);
  }
  if (error) {
    (error.in === "values" ? values : source).error = error.line;
    report(error.in === "source" ? `line ${error.line}, column ${error.column}: ${error.text}` : `${error.in}, ${error.text}`, true);
  }
  source.number(page);
  values.number();
}

textTabs.set(textViews());
send();
