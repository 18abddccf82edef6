// Elements, numbers, colours, lines and maps: what all views draw with.

import uPlot from "./uplot.js";

/** Make an element. Text is set as text, never as markup: names come from observation files and from other machines. */
export function el(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
    else if (value === true) found.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) found.setAttribute(name, value);
  }
  for (const child of children.flat()) found.append(child instanceof Node ? child : document.createTextNode(child));
  return found;
}

/** Put children into an element in place of those that it has. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().map((c) => (c instanceof Node ? c : document.createTextNode(c))));
}

/** Make a list to choose one from: options are [value, text]. */
export function choice(label, options, chosen, changed) {
  const select = el("select", { "aria-label": label, onchange: () => changed(select.value) },
    options.map(([value, text]) => el("option", { value, selected: String(value) === String(chosen) }, text)));
  return el("label", {}, el("span", {}, label), select);
}

/** Write a number with so many significant digits, and a prefix of the SI; "?" if nobody knows it. */
export function si(value, unit = "", digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return `? ${unit}`.trim();
  if (value === 0) return `0 ${unit}`.trim();
  const power = Math.max(-4, Math.min(5, Math.floor(Math.log10(Math.abs(value)) / 3)));
  const prefix = ["p", "n", "µ", "m", "", "k", "M", "G", "T", "P"][power + 4];
  return `${Number((value / 1000 ** power).toPrecision(digits))} ${prefix}${unit}`.trim();
}

/** Write a count with its digits in threes; "?" if nobody knows it. */
export function count(value) {
  return value === null || value === undefined ? "?" : Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
}

/** Write seconds as people read them. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "?";
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  const s = Math.floor(seconds);
  const two = (n) => String(n).padStart(2, "0");
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

/** Give a colour of the style sheet. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Colours of lines that colour-blind people can tell apart (Okabe and Ito, 2008). */
export const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c", "#b8a800"];
const DASHES = [[], [6, 3], [2, 2]]; // and by more than colour, from the ninth on
export const dash = (n) => DASHES[Math.floor(n / LINES.length) % DASHES.length];

// Maps of colours, red, green and blue at even places. Cividis (Nuñez et al., 2018) looks alike to nearly everybody;
// phases need one that closes.
const ANCHORS = {
  cividis: [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]],
  phase: [[20, 20, 110], [0, 114, 178], [200, 225, 240], [230, 159, 0], [120, 40, 20], [20, 20, 110]],
  loss: [[34, 62, 92], [86, 180, 233], [240, 228, 66], [230, 159, 0], [213, 94, 0], [110, 15, 45]],
};

/** Give 256 colours as pixels (little-endian RGBA). */
export function colours(name) {
  const anchors = ANCHORS[name];
  return Uint32Array.from({ length: 256 }, (_, n) => {
    const at = (n / 255) * (anchors.length - 1);
    const low = Math.min(anchors.length - 2, Math.floor(at));
    const [r, g, b] = anchors[low].map((v, k) => Math.round(v + (anchors[low + 1][k] - v) * (at - low)));
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

const NOTHING = 0x00000000; // what is not known is seen through

/** A map in a canvas: rows of values in colours, with its scale, and what is under the pointer said below it. */
export class HeatMap {
  constructor(label, { map = "cividis", high = false, square = false } = {}) {
    this.colours = colours(map);
    this.canvas = el("canvas", { role: "img", "aria-label": label, class: square ? "map square" : high ? "map high" : "map" });
    this.scale = el("canvas", { class: "scale", width: 256, height: 1, "aria-hidden": "true" });
    this.ends = [el("span"), el("span")];
    this.said = el("p", { class: "said" }, "\u00a0");
    this.names = el("div", { class: "names", "aria-hidden": "true" });
    this.across = el("div", { class: "across", "aria-hidden": "true" });
    this.element = el("figure", { class: "heat" }, el("figcaption", {}, label),
      el("div", { class: square ? "chart square" : "chart" }, this.names, this.canvas, this.across),
      el("div", { class: "legend" }, this.ends[0], this.scale, this.ends[1]), this.said);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("click", (event) => this.chosen && this.chosen(...this.place(event)));
    const context = this.scale.getContext("2d");
    const image = context.createImageData(256, 1);
    new Uint32Array(image.data.buffer).set(this.colours);
    context.putImageData(image, 0, 0);
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * this.canvas.width);
    const y = Math.floor(((event.clientY - box.top) / box.height) * this.canvas.height);
    return [Math.max(0, Math.min(this.canvas.width - 1, x)), Math.max(0, Math.min(this.canvas.height - 1, y))];
  }

  point(event) {
    if (this.tell) this.said.textContent = this.tell(...this.place(event)) || "\u00a0";
  }

  /** Name the rows, as many as there is room for, and the places across. */
  label(names, across) {
    const step = Math.ceil(names.length / 40);
    const said = names.filter((_, n) => n % step === 0);
    const key = [...said, "", ...across].join("\u0000");
    if (key === this.labelled) return;
    this.labelled = key;
    fill(this.names, said.map((name) => el("span", {}, name)));
    fill(this.across, across.map((text) => el("span", {}, text)));
  }

  /** Draw: `value(x, y)` is NaN, or lies between low and high; `tell(x, y)` says what it is. */
  draw(width, height, value, low, high, ends, tell) {
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.image = null;
    }
    const context = this.canvas.getContext("2d");
    this.image ??= context.createImageData(width, height);
    const pixels = new Uint32Array(this.image.data.buffer);
    const by = 255 / (high - low || 1);
    for (let y = 0, n = 0; y < height; y++) {
      for (let x = 0; x < width; x++, n++) {
        const v = value(x, y);
        pixels[n] = Number.isNaN(v) ? NOTHING : this.colours[Math.max(0, Math.min(255, ((v - low) * by) | 0))];
      }
    }
    context.putImageData(this.image, 0, 0);
    this.ends[0].textContent = ends[0];
    this.ends[1].textContent = ends[1];
    this.tell = tell;
  }
}

/** Lines over an axis, drawn by uPlot; made anew when there are other lines, or the page has other colours. */
export class Lines {
  constructor(label, { unit = "", axis = "", points = false, span = null } = {}) {
    Object.assign(this, { label, unit, axis, points, span, made: "" });
    this.room = el("div", { class: "lines", role: "img", "aria-label": label });
    this.element = el("figure", {}, el("figcaption", {}, label), this.room);
    new ResizeObserver(() => this.plot && this.plot.setSize(this.size())).observe(this.room);
  }

  size() {
    return { width: Math.max(200, this.room.clientWidth), height: 210 };
  }

  /** Draw: x, and of each line [name, values]. */
  draw(x, lines, axis = this.axis) {
    const made = [axis, colour("ink"), ...lines.map(([name]) => name)].join("\u0000");
    if (made !== this.made) {
      if (this.plot) this.plot.destroy();
      this.made = made;
      const ink = { stroke: colour("ink"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid") } };
      this.plot = new uPlot({
        ...this.size(),
        scales: { x: { time: false }, y: this.span ? { range: this.span } : {} },
        axes: [{ ...ink, label: axis, labelSize: 18, size: 34 }, { ...ink, label: this.unit, labelSize: 18, size: 56 }],
        cursor: { drag: { x: true, y: false }, points: { show: false } },
        legend: { show: lines.length <= 8 },
        series: [{ label: axis || "x" }, ...lines.map(([name], n) => ({
          label: name, stroke: LINES[n % LINES.length], width: 1.4, dash: dash(n), spanGaps: false,
          ...(this.points ? { paths: () => null, points: { show: true, size: 3.5, fill: LINES[n % LINES.length] } } : { points: { show: false } }),
        }))],
      }, [x, ...lines.map(([, y]) => y)], this.room);
    } else {
      this.plot.setData([x, ...lines.map(([, y]) => y)]);
    }
  }
}

/** Put NaN as uPlot has it: null. */
export function gaps(values) {
  return Array.from(values, (v) => (Number.isNaN(v) ? null : v));
}
