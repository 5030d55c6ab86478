// The playground: editors in place of the source; answers come from the module in a worker, or from the server that sent the page.

const begin = JSON.parse(byId("data").textContent);
/// Milliseconds without typing before a request, after which a request is stopped, and between looks at a server's file.
const PAUSE = 120, PATIENCE = 10000, LOOK = 700;
/// Most vertices of a request, and traced ones.
const VERTICES = 1024, TRACED = 8;
/// Most bytes of a link's texts.
const LINKED = 1 << 20;
const isServed = begin.version !== undefined;

/// The module in a thread of its own, which a long request doesn't outlive.
class Module {
  constructor() {
    this.worker = null;
    this.waiting = new Map();
    this.count = 0;
  }

  start() {
    const address = URL.createObjectURL(new Blob([byId("worker").textContent], { type: "text/javascript" }));
    this.worker = new Worker(address);
    URL.revokeObjectURL(address);
    this.worker.onmessage = ({ data: { id, answer, failure } }) => {
      if (failure !== undefined) return this.stop(failure);
      this.waiting.get(id)?.done(answer);
      this.waiting.delete(id);
    };
    this.worker.postMessage({ module: byId("module").textContent });
  }

  stop(why) {
    this.worker?.terminate();
    this.worker = null;
    this.waiting.forEach(({ fail }) => fail(new Error(why)));
    this.waiting.clear();
  }

  ask(request) {
    if (!this.worker) this.start();
    const id = ++this.count;
    return new Promise((done, fail) => {
      this.waiting.set(id, { done, fail });
      this.worker.postMessage({ id, request });
    });
  }
}

/// The server of `picajit explore --serve`.
class Server {
  constructor() {
    this.control = new AbortController();
  }

  stop(why) {
    this.control.abort(new Error(why));
    this.control = new AbortController();
  }

  async ask(request) {
    const answer = await fetch("answer", { method: "POST", body: request, signal: this.control.signal });
    if (!answer.ok) throw new Error(`the server answers with status ${answer.status}`);
    return answer.text();
  }
}

/// Text between visits. A browser may not allow it.
const store = {
  load() {
    try {
      return isServed ? null : JSON.parse(localStorage.getItem("picajit playground"));
    } catch {
      return null;
    }
  },
  save(texts) {
    try {
      if (!isServed) localStorage.setItem("picajit playground", JSON.stringify(texts));
    } catch {
      // The text is lost with the page.
    }
  },
};

const backend = isServed ? new Server() : new Module();
const source = new Editor("source", "Source", changed), values = new Editor("values", "Values", changed);
const status = make("div", "");
const count = make("input", "");
let sent = 0, answered = 0, timer = 0, traced = null, wanted = null, served = null, isLost = false;
/// A request is due, since the text has changed; and the text is a link's, without edits.
let isDue = false, isLinked = false;

function button(text, title, action) {
  const element = make("button", "", text);
  Object.assign(element, { type: "button", title });
  element.addEventListener("click", action);
  return element;
}

/// The editor of the shown tab.
const shownEditor = () => (textTabs.shown === "values" ? values : source);

function makeControls() {
  status.id = "status";
  status.setAttribute("role", "status");
  Object.assign(count, { type: "number", min: 1, max: VERTICES, value: 8 });
  count.setAttribute("aria-label", "Vertices");
  count.addEventListener("input", () => {
    traced = null;
    changed();
  });
  const file = make("input", "");
  Object.assign(file, { type: "file", hidden: true, id: "file" });
  file.addEventListener("change", async () => {
    if (file.files[0]) shownEditor().replace(await file.files[0].text());
    file.value = "";
  });
  const tools = make("div", "buttons", button("Open", "a file instead of the shown text", () => file.click()),
    button("Save", "the shown text as a file", saveFile), button("Link", "an address that carries the program", makeLink));
  if (!isServed) tools.append(button("Example", "the text of a new page", () => put({ values: begin.values, source: begin.source })));
  tools.setAttribute("role", "group");
  tools.setAttribute("aria-label", "Files");
  byId("text-views").before(make("div", "bar tools", tools, file, make("label", "note", "vertices ", count)));
  byId("text-views").after(status);
}

function saveFile() {
  const editor = shownEditor();
  const address = URL.createObjectURL(new Blob([editor.text], { type: "text/plain" }));
  const name = editor === values ? "values.txt" : (begin.name ?? "shader.pica");
  Object.assign(make("a", ""), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/// Bytes through a transformation, as far as `most` of them.
async function through(bytes, transformation, most) {
  const reader = new Blob([bytes]).stream().pipeThrough(transformation).getReader(), parts = [];
  for (let length = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    length += value.length;
    if (length > most) throw new Error("the link holds too much");
    parts.push(value);
  }
}

/// Removes the texts from the address, which are not those here.
function clearLink() {
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
}

async function makeLink() {
  const bytes = new TextEncoder().encode(JSON.stringify({ source: source.text, values: values.text, vertices: count.value }));
  const packed = await through(bytes, new CompressionStream("deflate-raw"), Infinity);
  const digits = btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join(""));
  history.replaceState(null, "", "#p=" + digits.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""));
  const isCopied = await navigator.clipboard?.writeText(location.toString()).then(() => true, () => false);
  say(`The address carries the program${isCopied ? ", and was copied" : ""}: ${location.hash.length} characters.`);
}

/// Takes the texts of the address, if it has some.
async function takeLink() {
  const digits = location.hash.match(/^#p=([\w-]+)$/)?.[1];
  if (!digits) return false;
  try {
    const packed = Uint8Array.from(atob(digits.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const texts = JSON.parse(new TextDecoder().decode(await through(packed, new DecompressionStream("deflate-raw"), LINKED)));
    if (typeof texts.source !== "string") throw new Error("it has no source");
    isLinked = true;
    count.value = Number(texts.vertices) || 8;
    put({ values: typeof texts.values === "string" ? texts.values : "", source: texts.source });
    changed();
    isLinked = false;
    return true;
  } catch (error) {
    clearLink();
    say(`The address carries no program: ${error.message}.`, true);
    return false;
  }
}

/// Puts texts into the editors; undo brings the old ones back.
function put(texts) {
  for (const editor of [values, source]) {
    textTabs.show(editor.name);
    editor.replace(texts[editor.name]);
  }
}

/// The text changed: what other panels show is of an older one until the answer is here.
function changed() {
  document.body.classList.add("stale");
  // The user's own text is kept until the next edit: a reload follows the link again.
  if (!isLinked) {
    clearLink();
    store.save({ source: source.text, values: values.text, vertices: count.value });
  }
  isDue = true;
  clearTimeout(timer);
  timer = setTimeout(send, PAUSE);
}

async function send() {
  const vertices = Math.max(1, Math.min(VERTICES, Number(count.value) || 1)), id = ++sent;
  const chosen = traced ?? Array.from({ length: Math.min(vertices, TRACED) }, (_, n) => n);
  isDue = false;
  const alarm = setTimeout(() => backend.stop("the request takes too long, and was stopped"), PATIENCE);
  try {
    const answer = await backend.ask(JSON.stringify({ source: source.text, values: values.text, vertices, chosen, name: begin.name }));
    if (id === sent && !isDue) receive(JSON.parse(answer));
  } catch (error) {
    if (id === sent) say(error.message, true);
  } finally {
    clearTimeout(alarm);
    if (id === sent) answered = id;
  }
}

function say(content, isWrong = false) {
  status.replaceChildren(content);
  status.classList.toggle("wrong", isWrong);
}

/// Errors and warnings as a list; each goes to its line.
function list(messages, isWrong) {
  const items = messages.map(({ in: part, line, column, text, help }) => {
    const editor = part === "values" ? values : source;
    const place = { request: "request", values: `values, line ${line}`, source: `line ${line}, column ${column}` }[part];
    const item = button(`${place}: ${text}`, "go to the line", () => {
      textTabs.show(editor.name);
      editor.goTo(line, column);
    });
    return make("li", "", item, help ? make("div", "note", `help: ${help}`) : "");
  });
  status.replaceChildren(make("ul", "", ...items));
  status.classList.toggle("wrong", isWrong);
}

function receive({ page, errors }) {
  // Values that don't fit the source are an error beside the page.
  if (page) {
    const { scrollTop } = source.element;
    showPage(page, view.page !== null);
    source.element.scrollTop = scrollTop;
    document.body.classList.remove("stale");
    const runs = page.entries[0]?.trace.runs.length ?? 0;
    if (page.warnings.length > 0) list(page.warnings.map((w) => ({ ...w, in: "source", text: `warning: ${w.text}` })), false);
    else say(`${page.words.length} words, ${runs} run${runs === 1 ? "" : "s"}`);
  }
  if (errors.length > 0) list(errors, true);
  source.connect(page, errors.filter((error) => error.in === "source"));
  values.connect(null, errors.filter((error) => error.in === "values"));
  if (page && wanted !== null) view.goToRun(wanted);
  wanted = null;
}

/// Looks whether the server's file has changed. Own edits stay until the user wants the file's text.
async function look() {
  let news;
  try {
    const answer = await fetch("text?after=" + served.version, { signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    news = answer.status === 204 ? null : await answer.json();
  } catch {
    isLost = true;
    return say("The server has ended.", true);
  }
  if (news?.error !== undefined) {
    isLost = true;
    return say(news.error, true);
  }
  if (isLost && !news) say("The file is there again.");
  isLost = false;
  if (!news) return;
  const isEdited = source.text !== served.source || values.text !== served.values;
  served = news;
  if (isEdited) {
    status.replaceChildren("The file has changed. ", button("Load it", "instead of the text here", () => put(served)));
    return;
  }
  [source.text, values.text] = [news.source, news.values];
  changed();
}

async function follow() {
  served = { version: begin.version, source: source.text, values: values.text };
  for (;;) {
    await new Promise((done) => setTimeout(done, LOOK));
    if (!document.hidden) await look();
  }
}

textViews = () => [
  { id: "source", title: "Source", element: source.element },
  { id: "values", title: "Values", element: values.element },
];
view.showLine = (line) => {
  textTabs.show("source");
  source.goTo(line, 1);
};
/// Traces another vertex in place of the last one, and goes there.
view.askForRun = (n) => {
  const vertices = Number(count.value);
  traced = [...(traced ?? Array.from({ length: Math.min(vertices, TRACED) }, (_, k) => k)).slice(0, TRACED - 1), n];
  wanted = n;
  changed();
};

async function main() {
  makeControls();
  say("The module is being prepared.");
  textTabs.set(textViews());
  const texts = store.load() ?? begin;
  source.text = texts.source ?? begin.source;
  values.text = texts.values ?? begin.values;
  count.value = texts.vertices ?? 8;
  // A link replaces the text as an edit does, which asks for the answer.
  if (!(await takeLink())) send();
  addEventListener("hashchange", takeLink);
  if (isServed) follow();
}

main();
