// The table of layers × heads: what each head looks like, or a number of it; a cell chooses its head.
const grid = at("heads");

function listKinds() {
  const kinds = [...new Set(chosen.example.maps.map((map) => map.kind))];
  at("kinds").replaceChildren(
    ...kinds.map((kind) => {
      const button = make("button", { type: "button", "aria-pressed": kind === chosen.map.kind }, kind);
      button.addEventListener("click", () => chooseHead(ofKind(kind)[0].path, chosen.head));
      return button;
    }),
  );
  at("kinds").hidden = kinds.length < 2;
}

/** Chooses a head; the query stays where there is one like it. */
function chooseHead(path, head) {
  const map = chosen.example.maps.find((other) => other.path === path);
  if (!map) return;
  const before = chosen.map;
  head = Math.min(head, map.largest.length - 1);
  const same = before && before.queries === map.queries;
  const focus = same ? chosen.kept : firstQuery(map);
  const point = same ? {} : { query: focus, key: null, kept: focus };
  const keyed = same && before.keys === map.keys ? {} : { key: null };
  choose(map === before ? "head" : "map", { map, head, ...point, ...keyed });
}

/** The query that is chosen at first: what the example says, if it is one of this map's. */
function firstQuery(map) {
  const { focus } = chosen.example;
  return focus !== null && focus < report.sequences[map.queries].length ? focus : 0;
}

const flagged = (path, head) =>
  (report.checks ?? []).flatMap((check) =>
    check.found.filter((x) => x.path === path && (!x.heads.length || x.heads.includes(head))).map(() => check.name),
  );

function fillHeads() {
  const maps = ofKind(chosen.map.kind);
  const most = Math.max(...maps.map((map) => map.largest.length));
  const measure = report.measures.find((x) => x.name === at("measure").value);
  const known = measure ? maps.flatMap((map) => measure.values[map.path] ?? []).filter((x) => x !== null) : [];
  const [least, greatest] = [Math.min(...known), Math.max(...known)];
  const heading = make("tr", {}, make("td"), ...Array.from({ length: most }, (_, h) => make("th", { scope: "col" }, `${h}`)));
  const rows = maps.map((map) => {
    const cells = map.largest.map((_, head) => {
      const cell = make("td", { role: "gridcell", tabindex: -1 });
      Object.assign(cell.dataset, { path: map.path, head });
      const wrong = flagged(map.path, head);
      const said = [`layer ${map.layer}, head ${head}`];
      if (measure) {
        const value = measure.values[map.path]?.[head] ?? null;
        const share = greatest > least ? (value - least) / (greatest - least) : 0.5;
        const shade = ramps[theme()][Math.round(255 * share)];
        if (value !== null) Object.assign(cell.style, { background: css(shade), color: ink(shade) });
        cell.append(value === null ? "–" : tiny(value));
        said.push(`${measure.name} ${short(value)}`);
      } else {
        const canvas = make("canvas");
        draw(canvas, map, head, Math.max(...map.largest) || 1);
        cell.append(canvas);
      }
      if (wrong.length) {
        cell.classList.add("flagged");
        said.push(wrong.join(", "));
      }
      cell.title = said.join(": ");
      cell.setAttribute("aria-label", said.join(", "));
      return cell;
    });
    return make("tr", {}, make("th", { scope: "row" }, map.layer), ...cells);
  });
  grid.style.setProperty("--heads", most);
  grid.replaceChildren(make("thead", {}, heading), make("tbody", {}, ...rows));
  at("meaning").textContent = measure ? measure.meaning : "a picture of each head; rows are layers, columns heads";
}

/** At most four characters. */
function tiny(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return size < 0.005 ? "<.01" : value.toFixed(2).replace(/^(-?)0\./, "$1.");
}

function markHead() {
  for (const cell of grid.querySelectorAll("[role=gridcell]")) {
    const is = cell.dataset.path === chosen.map.path && Number(cell.dataset.head) === chosen.head;
    cell.setAttribute("aria-selected", is);
    cell.tabIndex = is ? 0 : -1;
  }
  const { layer, path } = chosen.map;
  const marks = flagged(path, chosen.head).map((name) => make("span", { class: "badge bad" }, name));
  at("chosen").replaceChildren(`Layer ${layer}, head ${chosen.head} `, ...marks);
}

grid.addEventListener("click", ({ target }) => {
  const cell = target.closest("[role=gridcell]");
  if (cell) chooseHead(cell.dataset.path, Number(cell.dataset.head));
});
grid.addEventListener("keydown", (event) => {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (!(event.key in moves)) return;
  event.preventDefault();
  const [down, right] = moves[event.key];
  const maps = ofKind(chosen.map.kind);
  const map = maps[maps.indexOf(chosen.map) + down] ?? chosen.map;
  const head = Math.min(Math.max(chosen.head + right, 0), map.largest.length - 1);
  chooseHead(map.path, head);
  grid.querySelector("[aria-selected=true]").focus();
});

at("measure").append(make("option", { value: "" }, "picture"), ...report.measures.map((x) => make("option", {}, x.name)));
at("measure").addEventListener("change", () => (fillHeads(), markHead()));

let filled = null;
views.push({
  map() {
    listKinds();
    const now = `${report.examples.indexOf(chosen.example)} ${chosen.map.kind} ${theme()} ${power()}`;
    if (now !== filled) fillHeads();
    filled = now;
  },
  head: markHead,
});
