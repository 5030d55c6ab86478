// The control-flow graph as SVG: blocks in layers, edges that go back on the right.

const SVG = "http://www.w3.org/2000/svg";

function shape(tag, attributes, className) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (className) element.setAttribute("class", className);
  return element;
}

function label(content, x, y, className) {
  const element = shape("text", { x, y }, className);
  element.textContent = content;
  return element;
}

const GLYPH = 6.7, LINE = 15, GAP_X = 26, GAP_Y = 34;
/// Lines of a box; longer blocks show their first ones.
const BOX_LINES = 40;

function drawGraph(view, page, entry) {
  view.replaceChildren();
  const { blocks, error } = entry.graph;
  if (!blocks) {
    view.append(make("p", "empty", error));
    return { boxes: [] };
  }
  const boxes = blocks.map((block, id) => {
    const lines = block.pcs.slice(0, BOX_LINES).map((pc) => ({ pc, text: `${String(pc).padStart(3)} ${page.words[pc]?.text ?? ""}` }));
    const rest = block.pcs.length - lines.length;
    const end = (rest > 0 ? `… ${rest} more; ` : "") + block.end;
    const longest = Math.max(8, end.length, ...lines.map((line) => Math.min(line.text.length, 46)));
    return { id, block, lines, end, width: longest * GLYPH + 16, height: (lines.length + (end ? 2 : 1)) * LINE + 8, layer: 0, x: 0, y: 0 };
  });
  // Blocks stand in reverse postorder, so edges to later ones form no ring.
  for (const box of boxes) {
    for (const [to] of box.block.edges) if (to > box.id) boxes[to].layer = Math.max(boxes[to].layer, box.layer + 1);
  }
  const layers = [];
  for (const box of boxes) (layers[box.layer] ??= []).push(box);
  const above = boxes.map(() => []);
  for (const box of boxes) for (const [to] of box.block.edges) if (to > box.id) above[to].push(box.id);
  let y = 8, width = 0;
  for (const layer of layers.filter(Boolean)) {
    const wish = (box) => above[box.id].length === 0 ? 0 : above[box.id].reduce((sum, id) => sum + boxes[id].x + boxes[id].width / 2, 0) / above[box.id].length;
    layer.sort((a, b) => wish(a) - wish(b) || a.id - b.id);
    let x = 0;
    for (const box of layer) {
      box.y = y;
      box.x = x = Math.max(x, wish(box) - box.width / 2);
      x += box.width + GAP_X;
      width = Math.max(width, x);
    }
    y += Math.max(...layer.map((box) => box.height)) + GAP_Y;
  }
  const left = Math.min(...boxes.map((box) => box.x)) - 10;
  const svg = shape("svg", { role: "img", "aria-label": `Control flow: ${blocks.length} blocks` });
  const arrow = shape("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
  const tip = shape("path", { d: "M0 0 8 4 0 8z" });
  tip.style.fill = "var(--faint)";
  arrow.append(tip);
  svg.append(arrow);
  let lanes = 0;
  for (const box of boxes) {
    const count = box.block.edges.length;
    box.block.edges.forEach(([to, name, backward], n) => {
      const target = boxes[to];
      const x1 = box.x + box.width * (n + 1) / (count + 1), y1 = box.y + box.height;
      const x2 = target.x + target.width / 2, y2 = target.y - 1;
      let path, at;
      if (to > box.id) {
        const bend = Math.max(16, (y2 - y1) / 2);
        path = `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
        at = [x1 + (x2 - x1) * 0.12 + 4, y1 + 12];
      } else {
        const side = width + 6 + 9 * lanes++;
        path = `M${x1} ${y1}C${x1} ${y1 + 22} ${side} ${y1 + 22} ${side} ${y1 - 4}L${side} ${y2 + 10}C${side} ${y2 - 20} ${x2} ${y2 - 24} ${x2} ${y2}`;
        at = [x1 + 4, y1 + 12];
      }
      svg.append(shape("path", { d: path, "marker-end": "url(#arrow)" }, `edge ${backward ? "backward" : ""} ${name}`));
      if (name) svg.append(label(name, ...at, "edge"));
    });
  }
  for (const box of boxes) {
    const group = shape("g", { transform: `translate(${box.x} ${box.y})` }, "box");
    group.append(shape("rect", { width: box.width, height: box.height, rx: 5 }, "frame"));
    const title = label(`b${box.id}`, 8, 13, "title");
    const scopes = shape("title", {});
    scopes.textContent = box.block.scopes || "no open scopes";
    title.append(scopes);
    group.append(title);
    box.lines.forEach(({ pc, text }, n) => {
      const line = shape("g", {}, "word");
      const back = shape("rect", { x: 3, y: 17 + n * LINE, width: box.width - 6, height: LINE, rx: 2 }, "tint");
      back.style.setProperty("--hue", hue(pc));
      const whole = shape("title", {});
      whole.textContent = text;
      line.append(whole, back, label(text.length > 46 ? text.slice(0, 45) + "…" : text, 8, 28 + n * LINE));
      links.add(line, [pc]);
      group.append(line);
    });
    if (box.end) group.append(label(box.end, 8, 28 + box.lines.length * LINE, "end"));
    box.group = group;
    svg.append(group);
  }
  const total = width + 9 * lanes + 18 - left;
  svg.setAttribute("viewBox", `${left} 0 ${total} ${y}`);
  svg.setAttribute("width", total);
  svg.setAttribute("height", y);
  view.append(svg);
  return { boxes };
}
