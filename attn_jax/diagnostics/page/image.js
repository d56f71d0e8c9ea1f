// An image under the map: what the chosen query looks at is bright, the rest of the image darkened.
const picture = { image: make("img", { alt: "The image that the model was given" }), veil: make("canvas"), mark: make("i") };
at("picture").append(picture.image, picture.veil, picture.mark);

function setPicture() {
  if (chosen.example.picture) picture.image.src = chosen.example.picture;
}

/** Whether the map has an image under it. */
const pictured = () => Boolean(chosen.example.picture && chosen.map.cells);

function drawVeil() {
  at("picture-figure").hidden = !pictured();
  if (!pictured() || chosen.query === null) {
    picture.mark.hidden = true;
    picture.veil.width = 1; // clears it
    return;
  }
  const { rows, columns, of } = chosen.map.cells;
  const found = of.map((cell, i) => (cell < 0 ? 0 : weight(chosen.query, i) || 0));
  const most = Math.max(...found) || 1;
  const veil = new Uint8ClampedArray(4 * rows * columns);
  for (let cell = 0; cell < rows * columns; cell++) veil.set([8, 10, 24, 225], 4 * cell);
  of.forEach((cell, i) => cell >= 0 && (veil[4 * cell + 3] = 225 * (1 - (found[i] / most) ** power())));
  [picture.veil.width, picture.veil.height] = [columns, rows];
  picture.veil.getContext("2d").putImageData(new ImageData(veil, columns, rows), 0, 0);
  const cell = of[chosen.query];
  picture.mark.hidden = cell < 0;
  Object.assign(picture.mark.style, {
    width: `${100 / columns}%`, height: `${100 / rows}%`,
    left: `${(100 / columns) * (cell % columns)}%`, top: `${(100 / rows) * Math.floor(cell / columns)}%`,
  });
}

/** The token of the cell under a pointer; null where it has none. */
function patchAt(event) {
  const { rows, columns, of } = chosen.map.cells;
  const box = at("picture").getBoundingClientRect();
  const part = (x, size, n) => Math.min(n - 1, Math.max(0, Math.floor((x / size) * n)));
  const row = part(event.clientY - box.top, box.height, rows);
  const token = of.indexOf(row * columns + part(event.clientX - box.left, box.width, columns));
  return token < 0 ? null : token;
}

at("picture").addEventListener("pointermove", (event) => point(patchAt(event), null));
at("picture").addEventListener("pointerleave", () => point(null, null));
at("picture").addEventListener("click", (event) => {
  const token = patchAt(event);
  if (token !== null) keep(token);
});
views.push({ example: setPicture, point: drawVeil });
