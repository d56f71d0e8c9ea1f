// Token-to-token lines: the strongest of a head, or all of the token that is pointed at.
const MOST_LINES = 4; // for each token, on average, where none is pointed at
const lines = { canvas: make("canvas", { "aria-hidden": "true" }), left: make("div"), right: make("div") };
lines.frame = make("div", { class: "sides" }, lines.left, lines.canvas, lines.right);
at("lines").append(lines.frame);

function listTokens() {
  at("lines-figure").hidden = pictured();
  lines.left.replaceChildren(...queries().map(label));
  lines.right.replaceChildren(...keys().map(label));
  lines.frame.classList.toggle("dense", Math.max(queries().length, keys().length) > 40);
}

/** The least weight of which a head's strongest lines are. */
function faintest() {
  const counts = new Uint32Array(256);
  for (const step of bytesOf(chosen.map, chosen.head)) counts[step] += 1;
  let [left, step] = [MOST_LINES * (queries().length + keys().length), report.steps];
  while (step > 1 && (left -= counts[step]) > 0) step -= 1;
  return (step / report.steps) * chosen.map.largest[chosen.head];
}

function drawLines() {
  if (pictured()) return;
  const { canvas, left, right } = lines;
  const [width, height] = [canvas.clientWidth, Math.max(left.offsetHeight, right.offsetHeight)];
  if (!width) return;
  const sharp = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = width * sharp;
  canvas.height = height * sharp;
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  context.strokeStyle = getComputedStyle(canvas).color;
  const line = left.children[0].offsetHeight;
  const { query, key } = chosen;
  const one = query !== null || key !== null;
  const least = one ? 0 : faintest();
  for (let i = 0; i < queries().length; i++) {
    if (query !== null && query !== i) continue;
    for (let j = 0; j < keys().length; j++) {
      if (query === null && key !== null && key !== j) continue;
      const w = weight(i, j);
      if (!(w > 0 && w >= least)) continue;
      const [y0, y1] = [(i + 0.5) * line, (j + 0.5) * line];
      context.globalAlpha = Math.min(1, w / scaleEnd()) ** power() * (one ? 1 : 0.8);
      context.lineWidth = one ? 1 + 2.5 * Math.min(1, w / scaleEnd()) : 1.25;
      context.beginPath();
      context.moveTo(0, y0);
      context.bezierCurveTo(width / 2, y0, width / 2, y1, width, y1);
      context.stroke();
    }
  }
  shade(left, one && query === null ? (i) => weight(i, key) : (i) => (i === query ? -1 : 0));
  shade(right, query !== null ? (j) => weight(query, j) : (j) => (j === key ? -1 : 0));
}

/** Backgrounds of tokens: a weight each, −1 for the one that is chosen. */
function shade(side, value) {
  [...side.children].forEach((token, i) => {
    const w = value(i);
    token.classList.toggle("on", w === -1);
    const bytes = colour(Math.max(0, w || 0) / scaleEnd());
    Object.assign(token.style, w > 0 ? { background: css(bytes), color: ink(bytes) } : { background: "", color: "" });
  });
}

for (const [side, place] of [["left", (i) => [i, null]], ["right", (i) => [null, i]]]) {
  lines[side].addEventListener("pointerover", ({ target }) => target.dataset.i && point(...place(Number(target.dataset.i))));
  lines[side].addEventListener("pointerleave", () => point(null, null));
}
lines.left.addEventListener("click", ({ target }) => target.dataset.i && keep(Number(target.dataset.i)));

let waiting = 0;
const soon = () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(drawLines);
};
new ResizeObserver(() => chosen.map && soon()).observe(at("lines"));
views.push({ map: listTokens, point: soon });
