// Bandpasses of all inputs, and one baseline: its fringe over the band and in time, its lags.

import { choice, el, gaps, HeatMap, Lines, si } from "./draw.js";
import { hundredth } from "./feed.js";

const MOST_LINES = 8;

/** Lowest and highest of hundredths, less the 2 % that are lowest: ends of filters. */
function span(values) {
  const known = [];
  const step = Math.max(1, Math.floor(values.length / 20000));
  for (let n = 0; n < values.length; n += step) if (values[n] !== -32768) known.push(values[n]);
  if (!known.length) return [0, 1];
  known.sort((a, b) => a - b);
  return [known[Math.floor(0.02 * known.length)] / 100, known[known.length - 1] / 100];
}

/** Say why there is nothing to draw; true if there is something. */
function there(part, said) {
  said.textContent = part ? part.problem || `integration ${part.number}` : "no integration has been seen yet; one is, some seconds after this view was opened";
  return Boolean(part && !part.problem);
}

export const bandpass = {
  name: "bandpass", key: "3", title: "bandpass", chooses: true,
  want: () => ["bandpass"],
  build(state) {
    const said = el("p", { class: "said" });
    const map = new HeatMap("Power of each input over the band, dB", { high: true });
    const lines = new Lines("Chosen inputs, dB of squared steps", { unit: "dB" });
    const shown = [];
    map.chosen = (_, y) => {
      const at = shown.indexOf(y);
      if (at >= 0) shown.splice(at, 1);
      else shown.push(y);
      while (shown.length > MOST_LINES) shown.shift();
      state.changed();
    };
    let last = null;
    return {
      element: el("div", {}, el("div", { class: "tools" }, said), map.element, lines.element,
        el("p", { class: "said" }, "A click on a row adds it to the lines, or takes it away; ↑ ↓ choose one input.")),
      draw() {
        const part = state.part("bandpass");
        if (!there(part, said)) return;
        const [rows, bins] = part.power.shape;
        const { data } = part.power;
        const axis = part.axis.data;
        if (part !== last) {
          const [low, high] = span(data);
          map.draw(bins, rows, (x, y) => hundredth(data[y * bins + x]), low, high, [`${low.toFixed(1)} dB`, `${high.toFixed(1)} dB`],
            (x, y) => `${state.label(y)}: ${si(hundredth(data[y * bins + x]), "", 4)} dB at ${axis[x].toFixed(4)} ${part.unit}`);
          map.label(Array.from({ length: rows }, (_, n) => state.label(n)), [axis[0], axis[(bins / 2) | 0], axis[bins - 1]].map((f) => `${Number(f.toFixed(3))} ${part.unit}`));
          last = part;
        }
        const chosen = (shown.length ? shown : [state.inputs[0]]).filter((n) => n < rows);
        lines.draw(axis, chosen.map((n) => [state.label(n), Array.from({ length: bins }, (_, x) => {
          const v = hundredth(data[n * bins + x]);
          return Number.isNaN(v) ? null : v;
        })]), part.unit);
      },
    };
  },
};

export const baseline = {
  name: "fringes", key: "4", title: "fringes", chooses: true,
  want: (state) => [`spectra/${state.inputs.join("-")}`],
  build(state) {
    const said = el("p", { class: "said" });
    const choices = el("div", { class: "tools" });
    const pictures = {
      amplitude: new Lines("Amplitude over the band, squared steps", { unit: "steps²" }),
      phase: new Lines("Phase over the band", { unit: "°", points: true, span: [-180, 180] }),
      lag: new Lines("Lags, squared steps", { unit: "steps²", axis: "ns" }),
      amplitude_in_time: new Lines("Amplitude in time, average of the band", { unit: "steps²", axis: "integration", points: true }),
      phase_in_time: new Lines("Phase in time", { unit: "°", axis: "integration", points: true, span: [-180, 180] }),
    };
    const order = ["amplitude", "phase", "amplitude_in_time", "phase_in_time", "lag"];
    let offered = "";
    return {
      element: el("div", {}, choices, said, el("div", { class: "pair" }, order.map((name) => pictures[name].element))),
      draw() {
        const inputs = state.sight?.inputs || [];
        const now = [inputs.length, ...state.inputs].join();
        if (now !== offered) {
          offered = now;
          const options = inputs.map((i) => [i.index, `${i.antenna} ${i.polarization}`]);
          choices.replaceChildren(...["first input", "second input"].map((name, k) => choice(name, options, state.inputs[k], (value) => {
            state.inputs[k] = Number(value);
            state.changed();
          })));
        }
        const part = state.part(`spectra/${state.inputs.join("-")}`);
        if (!there(part, said)) return;
        const [snr] = part.snr.data.slice(-1);
        const peak = part.peak === null || part.peak === undefined ? "" : `, lag ${part.peak.toFixed(2)} ns`;
        said.textContent = `${state.label(part.first)} × ${state.label(part.second)}: integration ${part.number}, ${si(snr)} σ${peak}` +
          (part.fine ? "" : ` (${part.axis.data.length} parts of the band; all channels come in a moment)`);
        for (const name of ["amplitude", "phase"]) pictures[name].draw(part.axis.data, [[name, gaps(part[name].data)]], part.unit);
        for (const name of ["amplitude_in_time", "phase_in_time"]) pictures[name].draw(part.numbers.data, [[name.replaceAll("_", " "), gaps(part[name].data)]]);
        if (part.lag) pictures.lag.draw(part.lag.data, [["amplitude", gaps(part.lag_amplitude.data)]]);
      },
    };
  },
};
