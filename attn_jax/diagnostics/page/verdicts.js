function listChecks() {
  if (!report.checks) return;
  at("verdicts").hidden = false;
  const failed = report.checks.filter((check) => check.found.length);
  const passed = report.checks.filter((check) => !check.found.length);
  const badges = passed.map((check) => make("span", { class: "badge good", title: `${check.name}: not found` }, check.name));
  at("checks").append(
    ...failed.map(describe),
    make("p", { class: "passed" }, failed.length ? "Not found: " : "Healthy: nothing was found of ", ...badges),
  );
}

function describe(check) {
  const heads = check.found.reduce((sum, found) => sum + found.heads.length, 0);
  const count = heads ? ` in ${heads} ${heads === 1 ? "head" : "heads"}` : "";
  const where = check.found.map((found) => {
    const of = found.heads.length ? `, ${found.heads.length > 1 ? "heads" : "head"} ${found.heads.join(", ")}` : "";
    const value = found.value === null ? "" : ` (${short(found.value)})`;
    const note = found.note ? `, ${found.note}` : "";
    const button = make("button", { type: "button" }, `${found.path || "attention"}${of}${value}${note}`);
    button.disabled = !report.examples.some((example) => example.maps.some((map) => map.path === found.path));
    button.addEventListener("click", () => {
      chooseHead(found.path, found.heads[0] ?? 0);
      at("attention").scrollIntoView();
    });
    return make("li", {}, button);
  });
  return make(
    "details", {},
    make("summary", {}, make("span", { class: "badge bad" }, check.name), count),
    make("p", {}, `${check.reason[0].toUpperCase()}${check.reason.slice(1)} (threshold ${short(check.threshold)}).`),
    make("p", {}, `What to do: ${check.remedy}.`),
    make("ul", {}, ...where),
  );
}
