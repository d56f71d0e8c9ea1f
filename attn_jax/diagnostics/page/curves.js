// Small multiples of what a run measured, a line for each split; and tables, the config, the start.
const SVG = "http://www.w3.org/2000/svg";
function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function drawCurve({ name, lines: given }) {
  const [width, height] = [300, 120];
  const points = given.flatMap((line) => line.points);
  const range = (i) => [Math.min(...points.map((p) => p[i])), Math.max(...points.map((p) => p[i]))];
  const [[x0, x1], [y0, y1]] = [range(0), range(1)];
  const x = (step) => 6 + (width - 12) * (x1 > x0 ? (step - x0) / (x1 - x0) : 0.5);
  const y = (value) => height - 8 - (height - 16) * (y1 > y0 ? (value - y0) / (y1 - y0) : 0.5);
  const image = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", preserveAspectRatio: "none" });
  image.append(shape("line", { class: "axis", x1: 0, x2: width, y1: height - 1, y2: height - 1 }));
  given.forEach(({ split, points: line }) => {
    const place = line.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    image.append(shape("polyline", { class: split, points: place }));
  });
  const needle = shape("line", { class: "needle", y1: 0, y2: height, visibility: "hidden" });
  image.append(needle);
  const last = given.map(({ split, points: line }) => `${split} ${short(line.at(-1)[1])}`).join(", ");
  image.setAttribute("aria-label", `${name} from step ${x0} to ${x1}; at the end ${last}`);
  const told = make("figcaption", {}, make("b", {}, name.replaceAll("_", " ")), make("span", { class: "told" }));
  const tell = (step) => {
    const parts = given.map(({ split, points: line }) => {
      const nearest = line.reduce((a, b) => (Math.abs(b[0] - step) < Math.abs(a[0] - step) ? b : a));
      return make("span", { class: split }, `${split} ${short(nearest[1])}`);
    });
    told.lastChild.replaceChildren(`step ${short(Math.round(step))} `, ...parts.flatMap((part) => [part, " "]));
  };
  tell(x1);
  image.addEventListener("pointermove", (event) => {
    const box = image.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, ((event.clientX - box.left) / box.width * width - 6) / (width - 12)));
    const step = x0 + share * (x1 - x0);
    needle.setAttribute("visibility", "visible");
    for (const end of ["x1", "x2"]) needle.setAttribute(end, x(step));
    tell(step);
  });
  image.addEventListener("pointerleave", () => (needle.setAttribute("visibility", "hidden"), tell(x1)));
  const scale = make("div", { class: "ends" }, make("span", {}, short(y1)), make("span", {}, short(y0)));
  return make("figure", {}, told, make("div", { class: "plot" }, scale, image));
}

function listTable({ title, columns, rows }) {
  const id = `table-${title.toLowerCase().replace(/\W+/g, "-")}`;
  const shown = (value) => (typeof value === "number" ? short(value) : String(value ?? ""));
  const cells = (row) => row.map((value, i) =>
    make("td", { "data-name": columns[i], class: typeof value === "number" ? "number" : "" }, shown(value)));
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)));
  const table = make(
    "table", { class: "rows" }, make("thead", {}, head),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row)))),
  );
  return make("section", { "aria-labelledby": id }, make("h2", { id }, title), make("div", { class: "scroll" }, table));
}

function listConfig() {
  at("config").hidden = !report.config.length;
  at("fields").append(...report.config.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, value === null ? "none" : String(value)))));
}

async function show(example) {
  document.documentElement.dataset.state = "busy";
  await unpack(example);
  const map = example.maps[0];
  chosen.example = example;
  at("sentence").textContent = example.title;
  const focus = firstQuery(map);
  choose("example", { map, head: 0, query: focus, key: null, kept: focus });
  document.documentElement.dataset.state = "ready";
}

function listContents() {
  const sections = [...document.querySelectorAll("main section")].filter((section) => !section.hidden);
  if (sections.length < 2) return;
  at("contents").append(...sections.map((section) => {
    const heading = section.querySelector("h2");
    return make("a", { href: `#${heading.id}` }, heading.textContent);
  }));
}

async function start() {
  at("title").textContent = report.title;
  at("subtitle").textContent = report.subtitle;
  at("precision").textContent =
    `Weights are stored in ${report.steps} steps of each head's largest weight: a number shown is within ` +
    `1/${2 * report.steps} of that weight from the model's own.`;
  at("tables").append(...report.tables.map(listTable));
  listChecks();
  at("curves").append(...report.curves.map(drawCurve));
  at("training").hidden = !report.curves.length;
  listConfig();
  at("attention").hidden = !report.examples.length;
  listContents();
  if (!report.examples.length) return void (document.documentElement.dataset.state = "ready");
  at("example").append(...report.examples.map((example, i) => make("option", { value: i }, example.title)));
  at("example").addEventListener("change", ({ target }) => show(report.examples[target.value]));
  at("example").closest("label").hidden = report.examples.length < 2;
  at("scale").addEventListener("change", () => choose("map", {}));
  darkness.addEventListener("change", () => choose("map", {}));
  await show(report.examples[0]);
}

start();
