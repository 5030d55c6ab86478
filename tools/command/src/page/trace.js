// The position in a trace: its controls, the instruction, the registers.

/// Values that an operand reads before the current row: `{name, bits, note}`.
function operand(view, [file, n, swizzle, negate, index], before) {
  const { replay, slots } = view;
  let name = file + n, bits, note = "";
  if (file === "c") {
    if (index) {
      const raw = { "a0.x": before(slots.a0), "a0.y": before(slots.a0 + 1), aL: before(slots.aL) }[index] | 0;
      const offset = raw >= -128 && raw <= 127 ? raw : 0;
      const number = (n + offset) & 0x7f;
      note = `${name}[${index}], ${index} = ${raw}`;
      name = "c" + number;
      bits = number < 96 ? replay.trace.uniforms.c[number] : [0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000];
      if (number >= 96) note += ", no such uniform: ones";
    } else {
      bits = replay.trace.uniforms.c[n];
    }
  } else {
    bits = [0, 1, 2, 3].map((c) => before(slots[file] + 4 * n + c));
  }
  bits = swizzle.map((c) => (negate ? bits[c] ^ 0x80000000 : bits[c]) >>> 0);
  const selector = swizzle.map((c) => XYZW[c]).join("");
  return { name: (negate ? "-" : "") + name + (selector === "xyzw" ? "" : "." + selector), register: name, bits, note };
}

function vector(bits) {
  return make("span", "", "(", ...bits.flatMap((b, n) => [n > 0 ? ", " : "", make("span", isOdd(b) ? "odd" : "", text(b))]), ")");
}

/// What the current row did.
function fillNow(view) {
  const { page, entry, replay, slots } = view;
  const panel = byId("now");
  panel.replaceChildren();
  if (!replay || replay.at < 0) {
    panel.append(make("p", "empty", "The trace begins with all registers zero."));
    return;
  }
  const changes = replay.changes(), { state } = replay;
  const before = (slot) => changes.get(slot) ?? state[slot];
  const [exit, executed] = replay.trace.runs[replay.run];
  const table = make("table");
  const line = (name, ...content) => table.append(make("tr", "", make("td", "", name), make("td", "", ...content)));
  if (replay.pc === null) {
    const head = make("div", "text", `${view.noun} ${replay.run} begins`);
    panel.append(head, table);
    line("inputs", replay.trace.origin);
    line("ends", `${exit}, after ${executed} instruction${executed === 1 ? "" : "s"}`);
    const { cost } = entry;
    if (cost) line("cost", `${cost.shortest ?? "no run ends"} to ${cost.longest ?? "∞"} instructions a run `, make("span", "note", `(${page.timing})`));
    return;
  }
  const pc = replay.pc, word = page.words[pc];
  const head = make("div", "text", cell("pc", pc), assembly(word.text));
  tint(head, pc);
  panel.append(head, table);
  for (const src of word.src) {
    const { name, register, bits, note } = operand(view, src, before);
    const of = entry.names[register];
    const [file, n, swizzle] = src;
    line(file === "c" ? name : jump(view, name, swizzle.map((c) => slots[file] + 4 * n + c)), vector(bits), note ? make("span", "note", "  " + note) : "", of ? make("span", "note", "  " + of) : "");
  }
  if (word.dst && word.dst[0] !== "a") {
    const [file, n, mask] = word.dst;
    const base = file === "o" ? slots.o + 64 * state[slots.bank] + 4 * n : slots.r + 4 * n;
    const now = [0, 1, 2, 3].map((c) => state[base + c]), old = [0, 1, 2, 3].map((c) => before(base + c));
    const of = entry.names[file + n];
    line(`${file}${n}${mask === "xyzw" ? "" : "." + mask} =`, vector(now), of ? make("span", "note", "  " + of) : "");
    if (now.some((b, c) => b !== old[c])) line("was", make("span", "old", `(${old.map(text).join(", ")})`));
  }
  if (word.dst && word.dst[0] === "a") line("a0 =", `(${state[slots.a0] | 0}, ${state[slots.a0 + 1] | 0})`);
  if (changes.has(slots.cmp) || changes.has(slots.cmp + 1) || word.text.startsWith("cmp")) {
    line("cmp =", `(${!!state[slots.cmp]}, ${!!state[slots.cmp + 1]})`);
  }
  if (changes.has(slots.aL)) line("aL =", String(state[slots.aL] | 0));
  if (word.text === "emit" && view.isGeometry) {
    const [slot, primitive, winding] = [0, 1, 2].map((n) => state[slots.setemit + n]);
    line("vertex", `in slot ${slot}${primitive ? `, and triangle ${state[slots.triangles]} of this run` : ""}${winding ? ", first two vertices exchanged" : ""}`);
    line("outputs", `bank ${state[slots.bank]} from here on`);
  }
  const uniform = word.fields.find(([, , name]) => name.endsWith(" uniform"));
  if (uniform) line(uniform[3], uniformValue(view, uniform[3]));
  if (word.fields.some(([, , name]) => name === "condition")) line("cmp", `(${!!state[slots.cmp]}, ${!!state[slots.cmp + 1]})`);
  const scopes = replay.trace.scopes[state[slots.scopes]];
  if (scopes) line("open", scopes);
  const left = state[slots.left];
  if (left > 0) line("loop", `${left - 1} more iteration${left === 2 ? "" : "s"} after this one`);
  const next = replay.rows[replay.at + 1];
  if (next && next[0] >= 0) {
    line("next", next[0] === pc + 1 ? `${next[0]}` : `${next[0]}, a transfer`, "  ", make("span", "note", page.words[next[0]]?.text ?? ""));
  } else {
    line("ends", exit);
  }
  for (const finding of (page.findings).filter((f) => f.pc === pc)) {
    panel.append(make("p", "finding", `${finding.severity}: ${finding.text}`, make("br"), `help: ${finding.help}`, make("br"),
      make("span", "note", `${finding.rule}; ${finding.evidence}`)));
  }
}

/// A register's name that goes to the last row that writes one of `slots`.
function jump(view, name, slots) {
  const button = make("button", "jump", name);
  Object.assign(button, { type: "button", title: "to its last write before this row" });
  button.addEventListener("click", () => view.goToWrite(slots));
  return button;
}

/// A boolean or integer uniform; the geometry unit sets b15 after its first run.
function uniformValue({ replay, isGeometry }, register) {
  const n = Number(register.slice(1)), { i, b } = replay.trace.uniforms;
  if (register[0] === "i") return `(${i[n].slice(0, 3).join(", ")})`;
  return String((b >> n & 1) === 1 || (n === 15 && isGeometry && replay.run > 0));
}

/// Registers that any instruction of the file names, by file.
function usedRegisters(page) {
  const used = { v: new Set(), r: new Set(), o: new Set(), c: new Set() };
  for (const word of page.words) {
    for (const [file, n] of (word.dst ? [word.dst] : []).concat(word.src)) used[file]?.add(n);
  }
  return used;
}

/// The table of registers, once for each entry; `fillRegisters` sets its values.
function makeRegisters(view) {
  const { page, entry, slots, isGeometry } = view;
  const table = make("table", "registers", make("tr", "", make("th", "", ""), ..."xyzw".split("").map((c) => make("th", "", c)), make("th", "", "")));
  const used = usedRegisters(page), cells = [];
  const add = (name, base, of, isUsed) => {
    const line = make("tr", "", make("td", "", jump(view, name, [0, 1, 2, 3].map((c) => base + c))));
    line.dataset.used = isUsed;
    for (let c = 0; c < 4; c++) {
      const value = make("td", "");
      value.dataset.slot = base + c;
      cells.push({ value, slot: base + c, shown: null });
      line.append(value);
    }
    const purpose = make("td", "of", of ?? "");
    purpose.title = of ?? "";
    line.append(purpose);
    table.append(line);
    return line;
  };
  const files = [["r", slots.r, ""], ["o", slots.o, isGeometry ? " bank 0" : ""], ["v", slots.v, ""]];
  if (isGeometry) files.splice(2, 0, ["o", slots.o + 64, " bank 1"]);
  for (const [file, base, note] of files) {
    for (let n = 0; n < 16; n++) add(file + n + note, base + 4 * n, entry.names[file + n], used[file].has(n));
  }
  const { c } = view.entry.trace?.uniforms ?? { c: [] };
  for (const n of [...used.c].sort((a, b) => a - b)) {
    if (!c[n]) continue;
    const of = entry.names["c" + n] ?? "";
    const values = c[n].map((bits) => make("td", (bits === 0 ? "zero " : "") + (isOdd(bits) ? "odd" : ""), text(bits)));
    const line = make("tr", "", make("td", "", "c" + n), ...values, make("td", "of", of));
    line.dataset.uniform = n;
    table.append(line);
  }
  const small = make("tr", "", make("td", "", "a0, aL"), make("td", ""), make("td", ""), make("td", ""), make("td", ""), make("td", "of", "address, loop counter"));
  const flags = make("tr", "", make("td", "", "cmp, bank"), make("td", ""), make("td", ""), make("td", ""), make("td", ""), make("td", "of", "flags, output bank"));
  table.append(small, flags);
  table.addEventListener("click", ({ target }) => {
    if (target.dataset.slot !== undefined && !String(getSelection())) view.goToWrite([Number(target.dataset.slot)]);
  });
  view.registers = { table, cells, small, flags };
  byId("registers").replaceChildren(table);
}

function fillRegisters(view) {
  const { replay, slots, page } = view;
  const all = byId("all-registers").checked;
  const { table, cells, small, flags } = view.registers;
  for (const line of table.querySelectorAll("tr[data-used]")) line.hidden = !all && line.dataset.used !== "true";
  if (!replay) return;
  const changed = replay.changes();
  const read = new Set();
  if (replay.pc !== null) {
    for (const [file, n, swizzle] of page.words[replay.pc].src) {
      if (file !== "c") swizzle.forEach((c) => read.add(slots[file] + 4 * n + c));
    }
  }
  const uniforms = new Set(replay.pc === null ? [] : page.words[replay.pc].src.filter(([file]) => file === "c")
    .map((source) => operand(view, source, (slot) => changed.get(slot) ?? replay.state[slot]).register));
  for (const line of table.querySelectorAll("tr[data-uniform]")) {
    for (const value of [...line.children].slice(1, 5)) value.classList.toggle("read", uniforms.has("c" + line.dataset.uniform));
  }
  const isBegin = replay.pc === null;
  for (const entry of cells) {
    const bits = replay.state[entry.slot];
    if (bits !== entry.shown) {
      entry.shown = bits;
      entry.value.textContent = text(bits);
      entry.value.title = hex(bits, 8);
    }
    const name = (bits === 0 ? "zero " : "") + (isOdd(bits) ? "odd " : "") + (!isBegin && changed.has(entry.slot) ? "changed " : "")
      + (read.has(entry.slot) ? "read" : "");
    if (entry.value.className !== name) entry.value.className = name;
  }
  const put = (line, values) => values.forEach(([content, slot], n) => {
    const value = line.children[n + 1];
    value.textContent = content;
    if (slot !== undefined) value.dataset.slot = slot;
    value.className = slot !== undefined && changed.has(slot) && !isBegin ? "changed" : "";
  });
  const s = replay.state;
  put(small, [[s[slots.a0] | 0, slots.a0], [s[slots.a0 + 1] | 0, slots.a0 + 1], [s[slots.aL] | 0, slots.aL], [""]]);
  put(flags, [[!!s[slots.cmp], slots.cmp], [!!s[slots.cmp + 1], slots.cmp + 1], [s[slots.bank], slots.bank], [""]]);
}
