// ADC values: how often each came, of all inputs at once and of one, where it clips, and codes that never come.

import { choice, colour, el, HeatMap, si } from "./draw.js";
import { hundredth } from "./feed.js";

const ROOM = 0.4; // share of the range that values must reach for all of it to be drawn
const LEAST = 8; // levels on either side of 0 that are drawn at least
const LOWEST = -50; // dB of the values, the dark end of the map

const percent = (share) => `${Number((100 * share).toPrecision(3))} %`;

/** Columns over levels, on a logarithmic scale, in a canvas. */
class Columns {
  constructor(label) {
    this.canvas = el("canvas", { role: "img", "aria-label": label, class: "columns" });
    this.said = el("p", { class: "said" }, "\u00a0");
    this.element = el("figure", {}, el("figcaption", {}, label), this.canvas, this.said);
    this.last = null;
    new ResizeObserver(() => this.last && this.draw(...this.last)).observe(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
  }

  /** Draw: levels, counts, which clip, which are missing; a Gaussian of an rms is drawn over them. */
  draw(axis, counts, ends, missing, rms) {
    this.last = [axis, counts, ends, missing, rms];
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.max(120, this.canvas.clientWidth), Math.max(120, this.canvas.clientHeight)];
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const g = this.canvas.getContext("2d");
    g.scale(ratio, ratio);
    const [left, right, top, foot] = [56, 6, 6, 36];
    const [first, end] = reach(axis, counts, ends);
    const total = counts.reduce((a, b) => a + b, 0);
    const most = Math.log10(counts.reduce((a, b) => Math.max(a, b), 1));
    const least = -0.3; // half a value
    const x = (n) => left + ((n - first) / (end - first)) * (width - left - right);
    const y = (log) => top + ((most - Math.max(least, log)) / (most - least)) * (height - top - foot);
    this.place = { first, end, left, wide: width - left - right };
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "right";
    for (let share = 1, log = Math.log10(total); log > least; share /= 10, log--) {
      if (log > most) continue;
      g.fillStyle = colour("grid");
      g.fillRect(left, y(log), width - left - right, 1);
      g.fillStyle = colour("ink");
      g.fillText(percent(share), left - 4, y(log) + 4);
    }
    const wide = Math.max(1, (width - left - right) / (end - first));
    for (let n = first; n < end; n++) {
      if (counts[n]) {
        g.fillStyle = colour(ends[n] ? "error" : "bar");
        g.fillRect(x(n), y(Math.log10(counts[n])), wide + 0.5, height - foot - y(Math.log10(counts[n])));
      }
    }
    if (rms > 0) {
      const step = axis[1] - axis[0];
      g.strokeStyle = colour("ink");
      g.setLineDash([4, 3]);
      g.beginPath();
      for (let n = first; n < end; n++) {
        const log = Math.log10((total * step) / (rms * Math.sqrt(2 * Math.PI))) - ((axis[n] / rms) ** 2 / 2) * Math.LOG10E;
        if (log > least) g.lineTo(x(n + 0.5), Math.max(top, y(log)));
      }
      g.stroke();
      g.setLineDash([]);
    }
    g.textAlign = "center";
    g.fillStyle = colour("error");
    for (let n = first; n < end; n++) { // by shape as well as by colour
      if (missing[n]) g.fillText("×", x(n + 0.5), height - foot + 12);
      else if (ends[n]) g.fillText("▲", x(n + 0.5), height - foot + 12);
    }
    g.fillStyle = colour("ink");
    for (const n of [first, (first + end - 1) / 2, end - 1]) {
      g.textAlign = n === first ? "left" : n === end - 1 ? "right" : "center";
      g.fillText(`${Math.round(axis[Math.round(n)])}${n === end - 1 ? " steps" : ""}`, n === end - 1 ? width - right : x(n + 0.5), height - 6);
    }
  }

  point(event) {
    if (!this.last || !this.place) return;
    const { first, end, left, wide } = this.place;
    const [axis, counts, ends, missing] = this.last;
    const n = first + Math.floor(((event.offsetX - left) / wide) * (end - first));
    if (n < first || n >= end) return;
    const total = counts.reduce((a, b) => a + b, 0);
    const more = missing[n] ? ", missing: those beside it came" : ends[n] ? ", the converter clips here" : "";
    this.said.textContent = `${axis[n]} steps: ${counts[n]} values, ${percent(counts[n] / total)}${more}`;
  }
}

/** Choose which levels are drawn: as far as values go on either side, or all if they go far. */
export function reach(axis, counts, ends) {
  const middle = (axis.length - 1) / 2;
  let far = 0;
  for (let n = 0; n < axis.length; n++) if (counts[n]) far = Math.max(far, Math.abs(n - middle));
  const at = ends.indexOf(1, Math.ceil(middle));
  const whole = at < 0 ? middle : at - middle;
  const shown = Math.min(middle, far >= ROOM * whole ? Math.max(whole, far) : Math.max(far + 1, LEAST));
  return [middle - shown, middle + shown + 1];
}

export const levels = {
  name: "levels", key: "l", title: "levels", chooses: true,
  want: (state) => ["levels", `levels/${state.inputs[0]}`],
  build(state) {
    const tools = el("div", { class: "tools" });
    const facts = el("p", { class: "said" });
    const columns = new Columns("How often each ADC value came; dashed: noise of the same rms");
    const map = new HeatMap("ADC values of the last second, of each input, dB of all its values", { high: true });
    map.chosen = (_, y) => { state.inputs[0] = y; state.changed(); };
    let which = "lately";
    let offered = "";
    let last = null;
    return {
      element: el("div", {}, tools, facts, columns.element, map.element),
      draw() {
        const inputs = state.sight?.inputs || [];
        const now = [inputs.length, state.inputs[0], which].join();
        if (now !== offered) {
          offered = now;
          tools.replaceChildren(
            choice("input", inputs.map((i) => [i.index, `${i.antenna} ${i.polarization}`]), state.inputs[0], (value) => { state.inputs[0] = Number(value); state.changed(); }),
            choice("values", [["lately", "of the last second"], ["in_all", "since the start"]], which, (value) => { which = value; state.changed(); }),
          );
        }
        const all = state.part("levels");
        if (all && !all.problem && all !== last) {
          last = all;
          const [rows, bins] = all.share.shape;
          const { data } = all.share;
          map.draw(bins, rows, (x, y) => hundredth(data[y * bins + x]), LOWEST, 0, [`${LOWEST} dB`, "0 dB"],
            (x, y) => `${state.label(y)}: ${si(hundredth(data[y * bins + x]), "dB", 3)} at ${Math.round(all.axis.data[x])} steps`);
          map.label(Array.from({ length: rows }, (_, n) => state.label(n)), [all.axis.data[0], 0, all.axis.data[bins - 1]].map((v) => `${Math.round(v)} steps`));
        }
        const one = state.part(`levels/${state.inputs[0]}`);
        if (!one || one.problem) {
          facts.textContent = one ? one.problem : "no ADC values have been seen yet; they are, some seconds after this view was opened";
          return;
        }
        const of = inputs[one.input];
        const said = of?.codes;
        const clips = one.clipped === null ? "where it clips is not known" : `${one.clipped > 0 ? "✖" : "✔"} ${percent(one.clipped)} at the ends, ±${one.clips} steps`;
        const judged = said ? `✖ ${said}` : said === "" ? "✔ codes as they should be" : one.bits ? "too few codes to judge them" : "codes are not judged";
        const level = of?.dbfs === null || of?.dbfs === undefined ? "? dBFS" : `${of.dbfs.toFixed(1)} dBFS`;
        facts.textContent = `${state.label(one.input)}: rms ${si(one.rms, "steps")}, ${level}; ${clips}; ${judged}`;
        facts.className = said || one.clipped > 0 ? "said error" : "said";
        const counts = one[which].data;
        let power = 0;
        let total = 0;
        for (let n = 0; n < counts.length; n++) {
          total += counts[n];
          power += counts[n] * one.axis.data[n] ** 2;
        }
        columns.draw(one.axis.data, counts, one.ends.data, one.missing.data, total ? Math.sqrt(power / total) : 0);
      },
    };
  },
};
