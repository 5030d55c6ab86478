"use strict";
// Values of registers as text, elements, and the replay of a log.

const floats = new Float32Array(1), words = new Uint32Array(floats.buffer);

/// The number with these bits.
function number(bits) {
  words[0] = bits;
  return floats[0];
}

/// The shortest decimal that reads back to the same bits.
function text(bits) {
  const x = number(bits);
  if (x !== x) return "nan";
  if (x === Infinity || x === -Infinity) return x < 0 ? "-inf" : "inf";
  if (Object.is(x, -0)) return "-0";
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(x.toPrecision(digits));
    if (Math.fround(short) === x) return String(short);
  }
  return String(Number(x.toPrecision(9)));
}

const isOdd = (bits) => (bits & 0x7f800000) === 0x7f800000;
const hex = (value, digits) => (value >>> 0).toString(16).padStart(digits, "0");
const XYZW = "xyzw";

/// An element with a class, properties and children. Strings become text, never markup.
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

/// The hue that belongs to the instruction at `pc`: neighbours differ.
const hue = (pc) => String((pc * 47 + 205) % 360);

function tint(element, pc) {
  element.classList.add("tinted");
  element.style.setProperty("--hue", hue(pc));
}

/// A log with a position. `at` is the row that was applied last, -1 before the first.
class Replay {
  constructor(trace, slots) {
    this.trace = trace;
    this.slots = slots;
    this.rows = trace.rows;
    this.state = new Uint32Array(slots.count);
    this.at = -1;
    // The old values make a way back.
    const state = new Uint32Array(slots.count);
    this.banks = [];
    this.old = this.rows.map((row) => {
      this.banks.push(state[slots.bank]);
      const old = [];
      for (let n = 1; n < row.length; n += 2) {
        old.push(state[row[n]]);
        state[row[n]] = row[n + 1];
      }
      return old;
    });
    let run = 0;
    this.runOf = this.rows.map(([first]) => (first < 0 ? (run = -1 - first) : run));
  }

  seek(target) {
    target = Math.max(-1, Math.min(target, this.rows.length - 1));
    for (; this.at < target; this.at++) {
      const row = this.rows[this.at + 1];
      for (let n = 1; n < row.length; n += 2) this.state[row[n]] = row[n + 1];
    }
    for (; this.at > target; this.at--) {
      const row = this.rows[this.at], old = this.old[this.at];
      for (let n = row.length - 2; n >= 1; n -= 2) this.state[row[n]] = old[(n - 1) / 2];
    }
  }

  /// Slots that the current row changes, with their old values.
  changes() {
    const changed = new Map(), row = this.rows[this.at];
    for (let n = 1; row && n < row.length; n += 2) changed.set(row[n], this.old[this.at][(n - 1) / 2]);
    return changed;
  }

  get row() {
    return this.rows[this.at];
  }

  get pc() {
    return this.row && this.row[0] >= 0 ? this.row[0] : null;
  }

  get run() {
    return this.at < 0 ? 0 : this.runOf[this.at];
  }

  /// Whether row `at` writes a slot: its instruction names the register, or it changes the value.
  writes(at, slot, words) {
    const row = this.rows[at], { slots } = this;
    for (let n = 1; n < row.length; n += 2) if (row[n] === slot) return true;
    // Each run begins with its own inputs.
    if (row[0] < 0) return slot < slots.r;
    const { dst, text } = words[row[0]];
    if (!dst) return text.startsWith("cmp") && (slot === slots.cmp || slot === slots.cmp + 1);
    const [file, n, mask] = dst;
    const base = file === "a" ? slots.a0 : slots[file] + 4 * n + (file === "o" ? 64 * this.banks[at] : 0);
    return slot >= base && slot < base + 4 && mask.includes(XYZW[slot - base]);
  }

  /// The last row before the position that writes one of `wanted`, or null.
  lastWrite(wanted, words) {
    for (let at = this.at - 1; at >= 0; at--) {
      if (wanted.some((slot) => this.writes(at, slot, words))) return at;
    }
    return null;
  }

  /// The next row from the position in a direction whose address is `pc`, or null.
  find(pc, direction) {
    for (let n = this.at + direction; n >= 0 && n < this.rows.length; n += direction) {
      if (this.rows[n][0] === pc) return n;
    }
    return null;
  }
}
