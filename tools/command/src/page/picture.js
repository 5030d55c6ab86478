// Positions after division by w: points of vertices, triangles of a geometry program.

/// The corners of a shape `[run, x, y, z, w, ...]` in the plane; null where a position is not finite.
function corners(shape) {
  const points = [];
  for (let n = 1; n < shape.length; n += 4) {
    const [x, y, , w] = [0, 1, 2, 3].map((c) => number(shape[n + c]));
    const point = [x / w, y / w];
    points.push(point.every(Number.isFinite) ? point : null);
  }
  return points;
}

function drawPicture(view) {
  const canvas = byId("picture"), trace = view.entry?.trace;
  const pen = canvas.getContext("2d"), scale = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = width * scale;
  canvas.height = height * scale;
  pen.scale(scale, scale);
  const odd = byId("odd"), note = byId("picture-note");
  odd.replaceChildren();
  note.textContent = "";
  view.spots = [];
  if (!trace || width === 0) return;
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  const shapes = view.shapes ??= trace.shapes.map((shape) => ({ run: shape[0], points: corners(shape) }));
  const finite = shapes.flatMap((s) => s.points).filter(Boolean);
  // The frame shows clip space and nearly all points: single far ones don't shrink the rest to a dot.
  const bound = (axis) => {
    const sizes = finite.map((p) => Math.abs(p[axis])).sort((a, b) => a - b);
    return Math.max(1.15, (sizes[Math.floor(sizes.length * 0.95)] ?? 1) * 1.1);
  };
  const range = Math.max(bound(0), bound(1));
  const unit = Math.min(width, height) / 2 / range;
  const at = ([x, y]) => [width / 2 + Math.max(-1e4, Math.min(1e4, x)) * unit, height / 2 - Math.max(-1e4, Math.min(1e4, y)) * unit];
  pen.strokeStyle = ink("--line");
  pen.strokeRect(...at([-1, 1]), 2 * unit, 2 * unit);
  pen.beginPath();
  pen.moveTo(...at([-1e3, 0]));
  pen.lineTo(...at([1e3, 0]));
  pen.moveTo(...at([0, -1e3]));
  pen.lineTo(...at([0, 1e3]));
  pen.stroke();
  pen.fillStyle = ink("--faint");
  pen.font = "10px sans-serif";
  pen.fillText("1", at([1, 0])[0] + 3, at([1, 0])[1] - 3);
  const run = view.replay?.run ?? -1;
  const isLogged = (n) => trace.runs[n]?.[2] != null;
  const ordered = shapes.filter((s) => s.run !== run).concat(shapes.filter((s) => s.run === run));
  for (const { run: of, points } of ordered) {
    if (points.some((p) => p === null)) continue;
    view.spots.push({ run: of, isLogged: isLogged(of), points: points.map(at) });
    const colour = of === run ? ink("--warm") : isLogged(of) ? ink("--accent") : ink("--faint");
    pen.fillStyle = pen.strokeStyle = colour;
    pen.beginPath();
    if (points.length === 1) {
      pen.arc(...at(points[0]), of === run ? 5 : isLogged(of) ? 3.5 : 2, 0, 7);
      pen.fill();
    } else {
      points.forEach((p, n) => (n === 0 ? pen.moveTo(...at(p)) : pen.lineTo(...at(p))));
      pen.closePath();
      pen.globalAlpha = isLogged(of) ? 0.2 : 0.04;
      pen.fill();
      pen.globalAlpha = of === run ? 1 : isLogged(of) ? 0.6 : 0.15;
      pen.stroke();
      pen.globalAlpha = 1;
    }
  }
  const wrong = [...new Set(shapes.filter((s) => s.points.some((p) => p === null)).map((s) => s.run))];
  const left = trace.shapes_left_out > 0 ? `, ${trace.shapes_left_out} left out` : "";
  note.textContent = `${shapes.length} ${view.isGeometry ? "triangle" : "point"}${shapes.length === 1 ? "" : "s"}${left}, x/w and y/w`;
  if (wrong.length > 0) {
    odd.append(make("span", "odd", `${wrong.length} not finite:`));
    for (const n of wrong.slice(0, 6)) {
      const button = make("button", "", `${view.noun} ${n}`);
      button.type = "button";
      button.addEventListener("click", () => (isLogged(n) ? view.goToOdd(n) : view.askForRun(n)));
      odd.append(button);
    }
    if (wrong.length > 6) odd.append(`and ${wrong.length - 6} more`);
  }
}

/// Pixels from a point that still select it.
const NEAR = 10;

/// Whether a triangle has a place inside: it is on one side of all edges.
function surrounds(points, x, y) {
  const sides = points.map(([ax, ay], n) => {
    const [bx, by] = points[(n + 1) % points.length];
    return Math.sign((bx - ax) * (y - ay) - (by - ay) * (x - ax));
  });
  return sides.every((side) => side >= 0) || sides.every((side) => side <= 0);
}

/// The shape at a place of the canvas: the nearest point, or the uppermost triangle; those with a trace first.
function spotAt(view, x, y) {
  const distance = (spot) => Math.hypot(spot.points[0][0] - x, spot.points[0][1] - y);
  const isHit = (spot) => (spot.points.length === 1 ? distance(spot) <= NEAR : surrounds(spot.points, x, y));
  const rank = (spot) => (spot.isLogged ? 0 : 1) * NEAR + (spot.points.length === 1 ? distance(spot) : 0);
  const hits = (view.spots ?? []).filter(isHit).reverse();
  return hits.sort((a, b) => rank(a) - rank(b))[0] ?? null;
}

/// The nearest shape with a trace from the current run's, in a direction; those aside count as farther.
function spotBeside(view, [dx, dy]) {
  const centre = ({ points }) => [0, 1].map((axis) => points.reduce((sum, p) => sum + p[axis], 0) / points.length);
  const run = view.replay?.run, canvas = byId("picture");
  const current = view.spots.find((spot) => spot.run === run);
  const [x, y] = current ? centre(current) : [canvas.clientWidth / 2, canvas.clientHeight / 2];
  const rated = view.spots.filter((spot) => spot.isLogged && spot.run !== run).map((spot) => {
    const [px, py] = centre(spot), ahead = (px - x) * dx + (py - y) * dy, aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    return { spot, ahead, cost: ahead + 2 * aside };
  });
  return rated.filter(({ ahead }) => ahead > 0).sort((a, b) => a.cost - b.cost)[0]?.spot ?? null;
}

/// A click on a shape goes to its run; arrow keys go to the nearest one.
function bindPicture(view) {
  const canvas = byId("picture");
  const place = (event) => [event.offsetX, event.offsetY];
  canvas.addEventListener("click", (event) => {
    const spot = spotAt(view, ...place(event));
    if (spot) view.goToRun(spot.run);
  });
  canvas.addEventListener("mousemove", (event) => {
    const spot = spotAt(view, ...place(event));
    canvas.style.cursor = spot ? "pointer" : "";
    canvas.title = spot ? `${view.noun} ${spot.run}${spot.isLogged ? "" : ", without a trace"}` : "";
  });
  const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    const direction = directions[event.key];
    if (!direction || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    const spot = spotBeside(view, direction);
    if (spot) view.goToRun(spot.run);
  });
}
