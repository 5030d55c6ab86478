// An editor: a text area without ink above its own lines in colour, which wrap as it does.

class Editor {
  constructor(name, label, onInput) {
    this.name = name;
    this.rows = [];
    this.lines = make("div", "lines");
    this.area = make("textarea", "");
    Object.assign(this.area, { spellcheck: false, autocapitalize: "off", autocomplete: "off" });
    this.area.setAttribute("aria-label", label);
    this.element = make("div", "editor view", make("div", "sheet", this.lines, this.area));
    this.area.addEventListener("input", () => {
      this.colour();
      onInput();
    });
    this.colour();
  }

  get text() {
    return this.area.value;
  }

  set text(content) {
    this.area.value = content;
    this.colour();
  }

  /// Replaces the text so that the browser's undo brings it back; this needs the focus.
  replace(content) {
    if (content === this.text) return;
    this.area.focus({ preventScroll: true });
    this.area.select();
    if (!document.execCommand("insertText", false, content) || this.text !== content) this.text = content;
    this.area.setSelectionRange(0, 0);
    this.element.scrollTop = 0;
  }

  /// Makes the lines that differ from those shown.
  colour() {
    const texts = this.text.split("\n"), old = this.rows;
    const shorter = Math.min(texts.length, old.length);
    let head = 0, tail = 0;
    while (head < shorter && old[head].text === texts[head]) head++;
    while (tail < shorter - head && old[old.length - 1 - tail].text === texts[texts.length - 1 - tail]) tail++;
    for (const { row } of old.slice(head, old.length - tail)) row.remove();
    const made = texts.slice(head, texts.length - tail).map((text) => {
      const number = make("span", "number");
      return { text, number, row: make("div", "line-row", number, make("span", "code", assembly(text))) };
    });
    const after = this.lines.children[head] ?? null;
    made.forEach(({ row }) => this.lines.insertBefore(row, after));
    this.rows = [...old.slice(0, head), ...made, ...old.slice(old.length - tail)];
    this.rows.forEach(({ number }, n) => {
      if (number.textContent !== String(n + 1)) number.textContent = n + 1;
    });
  }

  /// Connects lines with the instructions of a page, in their colours, and marks those with errors.
  connect(page, errors) {
    const pcs = new Map();
    page?.words.forEach(({ line }, pc) => pcs.set(line, [...(pcs.get(line) ?? []), pc]));
    const wrong = new Map(errors.map((error) => [error.line, error.text]));
    this.rows.forEach((entry, n) => {
      // A new element has no listeners of an older page.
      const number = make("span", "number", n + 1), line = pcs.get(n + 1);
      if (line) {
        tint(number, line[0]);
        links.add(number, line);
      }
      if (wrong.has(n + 1)) number.title = wrong.get(n + 1);
      entry.row.classList.toggle("wrong", wrong.has(n + 1));
      entry.number.replaceWith(number);
      entry.number = number;
    });
  }

  /// Puts the cursor at a line and column, which count from 1.
  goTo(line, column) {
    const before = this.rows.slice(0, line - 1).reduce((sum, { text }) => sum + text.length + 1, 0);
    // Columns count characters, selections UTF-16 units.
    const units = [...(this.rows[line - 1]?.text ?? "")].slice(0, column - 1).join("").length;
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(before + units, before + units);
    this.rows[line - 1]?.row.scrollIntoView({ block: "nearest" });
  }
}
