// An image under the map: what the chosen query looks at is bright, the rest of the image darkened.
const picture = { image: make("img", { alt: "The image that the model was given" }), veil: make("canvas"), mark: make("i") };
at("picture").append(picture.image, picture.veil, picture.mark);

function setPicture() {
  const given = chosen.example.picture;
  at("picture-figure").hidden = !given;
  if (given) picture.image.src = given.png;
}

function drawVeil() {
  const given = chosen.example.picture;
  if (!given || chosen.query === null) {
    picture.mark.hidden = true;
    if (given) picture.veil.width = 1; // clears it
    return;
  }
  const { rows, columns, first } = given;
  const found = Array.from({ length: rows * columns }, (_, i) => weight(chosen.query, first + i) || 0);
  const most = Math.max(...found) || 1;
  const veil = new Uint8ClampedArray(4 * found.length);
  found.forEach((w, i) => veil.set([8, 10, 24, 225 * (1 - (w / most) ** power())], 4 * i));
  [picture.veil.width, picture.veil.height] = [columns, rows];
  picture.veil.getContext("2d").putImageData(new ImageData(veil, columns, rows), 0, 0);
  const patch = chosen.query - first;
  picture.mark.hidden = patch < 0;
  Object.assign(picture.mark.style, {
    width: `${100 / columns}%`, height: `${100 / rows}%`,
    left: `${(100 / columns) * (patch % columns)}%`, top: `${(100 / rows) * Math.floor(patch / columns)}%`,
  });
}

/** The token of the patch under a pointer. */
function patchAt(event) {
  const { rows, columns, first } = chosen.example.picture;
  const box = at("picture").getBoundingClientRect();
  const part = (x, size, n) => Math.min(n - 1, Math.max(0, Math.floor((x / size) * n)));
  const row = part(event.clientY - box.top, box.height, rows);
  return first + row * columns + part(event.clientX - box.left, box.width, columns);
}

at("picture").addEventListener("pointermove", (event) => point(patchAt(event), null));
at("picture").addEventListener("pointerleave", () => point(null, null));
at("picture").addEventListener("click", (event) => keep(patchAt(event)));
views.push({ example: setPicture, point: drawVeil });
