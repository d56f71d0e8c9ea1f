// The heat map: a canvas of one pixel a weight, enlarged; tokens around it stay when it is scrolled.
const CELL = { least: 12, most: 30 }; // pixels; below the least, tokens cannot be read
const map = { cell: 0, canvas: make("canvas"), row: make("i", { class: "row" }), column: make("i", { class: "column" }) };
map.body = make("div", { class: "body" }, map.canvas, map.row, map.column);
map.left = make("div", { class: "left" });
map.top = make("div", { class: "top" });
map.frame = make("div", { class: "frame" }, make("div", { class: "corner" }), map.top, map.left, map.body);
at("map").append(map.frame);

/** A label; the token is text. */
const label = (token, i) => make("span", { "data-i": i, dir: "auto", title: token }, ...named(token));

function layOut() {
  map.top.replaceChildren(...keys().map(label));
  map.left.replaceChildren(...queries().map(label));
  fit();
}

/** Cells as large as fit beside each other, between what can be read and what is pleasant. */
function fit() {
  const beside = map.left.offsetWidth;
  const free = at("map").clientWidth - beside - 2;
  map.cell = Math.floor(Math.min(CELL.most, Math.max(CELL.least, free / keys().length)));
  map.frame.style.setProperty("--cell", `${map.cell}px`);
  map.frame.classList.toggle("ruled", map.cell >= 16);
  map.canvas.style.width = `${map.cell * keys().length}px`;
  map.canvas.style.height = `${map.cell * queries().length}px`;
}

function mark() {
  for (const [side, i] of [["left", chosen.query], ["top", chosen.key]]) {
    map[side].querySelector(".on")?.classList.remove("on");
    if (i !== null) map[side].children[i].classList.add("on");
  }
  map.row.hidden = chosen.query === null;
  map.column.hidden = chosen.key === null;
  map.row.style.top = `${chosen.query * map.cell}px`;
  map.column.style.left = `${chosen.key * map.cell}px`;
}

/** Which query and key are under a pointer. */
function under(event) {
  const box = map.canvas.getBoundingClientRect();
  const [i, j] = [event.clientY - box.top, event.clientX - box.left].map((x) => Math.floor(x / map.cell));
  const inside = i >= 0 && j >= 0 && i < queries().length && j < keys().length;
  return inside ? [i, j] : [null, null];
}

map.body.addEventListener("pointermove", (event) => point(...under(event)));
map.body.addEventListener("pointerleave", () => point(null, null));
map.body.addEventListener("click", (event) => {
  const [i, j] = under(event);
  if (i === null) return;
  keep(i);
  point(i, j);
});
for (const [side, place] of [["left", (i) => [i, null]], ["top", (i) => [null, i]]]) {
  const of = (event) => event.target.closest("[data-i]")?.dataset.i;
  map[side].addEventListener("pointerover", (event) => of(event) && point(...place(Number(of(event)))));
  map[side].addEventListener("pointerleave", () => point(null, null));
}
map.left.addEventListener("click", ({ target }) => target.dataset.i && keep(Number(target.dataset.i)));

at("map").addEventListener("keydown", (event) => {
  const [rows, columns] = [queries().length, keys().length];
  const here = [chosen.query ?? 0, chosen.key ?? -1];
  const moves = {
    ArrowUp: [here[0] - 1, Math.max(here[1], 0)],
    ArrowDown: [here[0] + (chosen.query !== null && chosen.key !== null), Math.max(here[1], 0)],
    ArrowLeft: [here[0], here[1] - 1],
    ArrowRight: [here[0], here[1] + 1],
    Home: [here[0], 0],
    End: [here[0], columns - 1],
    PageUp: [0, Math.max(here[1], 0)],
    PageDown: [rows - 1, Math.max(here[1], 0)],
  };
  if (event.key === "Escape") keep(chosen.kept), point(null, null);
  else if (event.key === "Enter" && chosen.query !== null) keep(chosen.query);
  else if (event.key in moves) {
    const [i, j] = moves[event.key];
    point(Math.min(Math.max(i, 0), rows - 1), Math.min(Math.max(j, 0), columns - 1));
    map.left.children[chosen.query].scrollIntoView({ block: "nearest", inline: "nearest" });
    map.top.children[chosen.key].scrollIntoView({ block: "nearest", inline: "nearest" });
  } else return;
  event.preventDefault();
});

new ResizeObserver(() => chosen.map && (fit(), mark())).observe(at("map"));
views.push({ map: layOut, head: () => draw(map.canvas, chosen.map, chosen.head, scaleEnd()), point: mark });
