// Lightness grows evenly with the weight (in OKLab), so that a step looks as large anywhere, to
// colour-blind eyes as well; from the colour of the page to ink, or in the dark to light.
const RAMPS = {
  light: [[0.985, 0.004, 250], [0.665, 0.125, 245], [0.345, 0.15, 275]],
  dark: [[0.24, 0.02, 265], [0.595, 0.105, 245], [0.95, 0.1, 100]],
};
const MISSING = { light: 0xff4d5ad1, dark: 0xff7a86f0 }; // of what is not a number; bytes a b g r
const darkness = matchMedia("(prefers-color-scheme: dark)");
const theme = () => (darkness.matches ? "dark" : "light");

/** OKLab to the bytes of sRGB, as Uint32 of little-endian r g b a. */
function packed([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const [red, green, blue] = linear.map((x) => {
    const bent = x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, bent)));
  });
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

/** The colours of 0 to 1 in 256 steps. */
function ramp(stops) {
  const lab = stops.map(([L, chroma, hue]) => {
    const angle = (hue * Math.PI) / 180;
    return [L, chroma * Math.cos(angle), chroma * Math.sin(angle)];
  });
  return Uint32Array.from({ length: 256 }, (_, step) => {
    const where = (step / 255) * (lab.length - 1);
    const from = Math.min(Math.floor(where), lab.length - 2);
    const part = where - from;
    return packed(lab[from].map((x, i) => x + part * (lab[from + 1][i] - x)));
  });
}

const ramps = { light: ramp(RAMPS.light), dark: ramp(RAMPS.dark) };
const power = () => Number(at("scale").value);

/** The colour of a share, 0 to 1, as packed bytes. */
const colour = (share) => ramps[theme()][Math.round(255 * Math.min(1, share) ** power())];

/** The same for style sheets. */
const css = (bytes) => `rgb(${bytes & 255} ${(bytes >> 8) & 255} ${(bytes >> 16) & 255})`;

/** The colour of each byte that a weight of a head can be stored as, where the scale ends at `end`. */
function palette(largest, end) {
  const found = new Uint32Array(256);
  for (let step = 0; step <= report.steps; step++) {
    found[step] = colour(((step / report.steps) * largest) / (end || 1));
  }
  found[255] = MISSING[theme()];
  return found;
}

/** A colour that can be read on another. */
function ink(bytes) {
  const bright = 0.3 * (bytes & 255) + 0.6 * ((bytes >> 8) & 255) + 0.1 * ((bytes >> 16) & 255);
  return bright > 140 ? "#10131a" : "#ffffff";
}

function drawLegend() {
  const stops = Array.from({ length: 17 }, (_, i) => css(colour(i / 16)));
  at("legend").querySelector("i").style.background = `linear-gradient(90deg, ${stops})`;
  at("largest").textContent = short(scaleEnd());
}

views.push({ head: drawLegend });
