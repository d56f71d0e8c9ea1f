/** Unpacks the weights of an example: heads × queries × keys bytes a map. */
async function unpack(example) {
  await Promise.all(
    example.maps.filter((map) => !map.bytes).map(async (map) => {
      const zipped = Uint8Array.from(atob(map.weights), (character) => character.charCodeAt(0));
      const stream = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("deflate"));
      map.bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    }),
  );
}

/** The bytes of a head. */
function bytesOf(map, head) {
  const size = sequenceOf(map);
  return map.bytes.subarray(head * size, (head + 1) * size);
}

/** The weight that a query of the chosen head puts on a key; NaN where it is not a number. */
function weight(query, key) {
  const step = bytesOf(chosen.map, chosen.head)[query * keys().length + key];
  return step > report.steps ? NaN : (step / report.steps) * chosen.map.largest[chosen.head];
}

/** Where the scale of colours ends: 1, or a head's largest weight where all are small. */
function scaleEnd() {
  const largest = chosen.map.largest[chosen.head];
  return largest > 0.2 ? Math.max(1, largest) : largest || 1;
}

/** Draws a head into a canvas, a pixel for each weight. */
function draw(canvas, map, head, end) {
  const [rows, columns] = [report.sequences[map.queries].length, report.sequences[map.keys].length];
  canvas.width = columns;
  canvas.height = rows;
  const colours = palette(map.largest[head], end);
  const pixels = new Uint32Array(rows * columns);
  bytesOf(map, head).forEach((step, i) => (pixels[i] = colours[step]));
  const image = new ImageData(new Uint8ClampedArray(pixels.buffer), columns, rows);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** What is pointed at, in words, with its number; and the largest weights beside it. */
function tell() {
  const { query, key } = chosen;
  const readout = at("readout");
  if (query === null && key === null) {
    readout.textContent = "Point at a token, or move over the map with the arrow keys.";
    at("ranking").replaceChildren();
    return;
  }
  const strong = (token) => make("b", { dir: "auto" }, ...named(token));
  if (query !== null && key !== null) {
    const value = weight(query, key);
    const number = Number.isNaN(value) ? "not a number" : value.toFixed(3);
    readout.replaceChildren(
      strong(queries()[query]), " looks at ", strong(keys()[key]), " with ", make("output", {}, number),
    );
  } else {
    const parts = query !== null
      ? [strong(queries()[query]), " looks at"]
      : [strong(keys()[key]), " is looked at by"];
    readout.replaceChildren(...parts);
  }
  rank(query !== null ? keys() : queries(), (i) => (query !== null ? weight(query, i) : weight(i, key)));
}

/** The five largest weights, as bars. */
function rank(tokens, value) {
  const sorted = tokens
    .map((token, i) => ({ token, i, value: value(i) }))
    .sort((a, b) => (b.value || 0) - (a.value || 0) || a.i - b.i);
  at("ranking").replaceChildren(
    ...sorted.slice(0, 5).map(({ token, value }) => {
      const bar = make("i");
      bar.style.inlineSize = `${100 * Math.min(1, value || 0)}%`;
      return make(
        "li", {}, make("bdi", {}, ...named(token)), make("span", {}, bar),
        make("output", {}, Number.isNaN(value) ? "NaN" : value.toFixed(3)),
      );
    }),
  );
}

views.push({ point: tell });
