const report = JSON.parse(document.getElementById("report").textContent);
const at = (id) => document.getElementById(id);

/** An element; children that are strings become text, never markup. */
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A token as it stands, a sign before one that nobody would see; the mark of a space is faint. */
function named(token) {
  const text = token.trim() === "" ? `␣${token}` : token;
  return text.split(/(▁+)/).filter(Boolean).map((part) => (part[0] === "▁" ? make("i", { class: "space" }, part) : part));
}

/** A number in few characters. */
function short(value) {
  if (value === null || Number.isNaN(value)) return "not a number";
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  return size >= 0.001 || size === 0 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
}

/** What is looked at: an example, a map (a layer) of it, a head; and the query and key pointed at. */
const chosen = { example: null, map: null, head: 0, query: null, key: null, kept: null };

/** Called with what changed: "example", "map", "head" or "point"; each includes those after it. */
const views = [];
const ORDER = ["example", "map", "head", "point"];
function choose(changed, values) {
  Object.assign(chosen, values);
  const first = ORDER.indexOf(changed);
  for (const view of views) for (const part of ORDER.slice(first)) view[part]?.();
}

/** Points at a query, a key or both; at the kept query where it is neither. */
function point(query, key) {
  if (query === null && key === null) query = chosen.kept;
  if (query !== chosen.query || key !== chosen.key) choose("point", { query, key });
}

/** Keeps a query chosen when nothing is pointed at; lets it go when it is kept already. */
function keep(query) {
  chosen.kept = query === chosen.kept ? null : query;
  choose("point", { query, key: null });
}

const queries = () => report.sequences[chosen.map.queries];
const keys = () => report.sequences[chosen.map.keys];
const ofKind = (kind) => chosen.example.maps.filter((map) => map.kind === kind);
const sequenceOf = (map) => report.sequences[map.queries].length * report.sequences[map.keys].length;
