// Maps: every baseline at once, closure phases, what was lost, and the sky.

import { choice, el, HeatMap, si } from "./draw.js";
import { hundredth } from "./feed.js";
import { lost, STAGES } from "./losses.js";

/** Say why there is nothing to draw; true if there is something. */
function there(part, said, words) {
  said.textContent = part ? part.problem || words(part) : "no integration has been seen yet; one is, some seconds after this view was opened";
  return Boolean(part && !part.problem);
}

/** Give the product X(a1, p1)·conj(X(a2, p2)), a1 ≤ a2, as ryle.watch.fringes.product_of does. */
export function productOf(a1, p1, a2, p2, pols) {
  return pols * pols * ((a2 * (a2 + 1)) / 2 + a1) + p1 + pols * p2;
}

// What is drawn of products: name, words, map of colours, ends of the scale, and its unit.
const QUANTITIES = {
  coefficient: ["correlation coefficient", "cividis", 0, 100, "%"],
  phase: ["phase", "phase", -180, 180, "°"],
  strength: ["fringe out of the noise", "cividis", 0, 20, "σ"],
};

export const matrix = {
  name: "matrix", key: "5", title: "matrix",
  want: () => ["products"],
  build(state) {
    let [quantity, hands] = ["coefficient", "0,0"];
    const said = el("p", { class: "said" });
    const tools = el("div", { class: "tools" });
    const maps = Object.fromEntries(Object.entries(QUANTITIES).map(([name, [words, map]]) =>
      [name, new HeatMap(`Antenna by antenna: ${words}`, { map, square: true })]));
    const room = el("div", {}, maps[quantity].element);
    let offered = 0;
    const antenna = (n) => state.sight?.inputs[n * state.pols]?.antenna ?? `antenna ${n}`;
    return {
      element: el("div", {}, tools, said, room),
      draw() {
        if (state.pols !== offered) {
          offered = state.pols;
          const names = Array.from({ length: offered }, (_, p) => state.sight?.inputs[p]?.polarization ?? String(p));
          const pairs = names.flatMap((a, p1) => names.map((b, p2) => [`${p1},${p2}`, a + b]));
          tools.replaceChildren(
            choice("shown", Object.entries(QUANTITIES).map(([name, [words]]) => [name, words]), quantity, (value) => {
              quantity = value;
              room.replaceChildren(maps[quantity].element);
              state.changed();
            }),
            choice("polarizations", pairs, hands, (value) => { hands = value; state.changed(); }));
        }
        const part = state.part("products");
        if (!there(part, said, (p) => `integration ${p.number}`)) return;
        const { antennas, pols } = part;
        const [p1, p2] = hands.split(",").map((p) => Math.min(pols - 1, Number(p)));
        const { data } = part[quantity];
        const [words, , low, most, unit] = QUANTITIES[quantity];
        const sign = quantity === "phase" ? -1 : 1; // of the conjugate
        const value = (x, y) => (x <= y ? hundredth(data[productOf(x, p1, y, p2, pols)]) : sign * hundredth(data[productOf(y, p2, x, p1, pols)]));
        let high = most;
        if (quantity === "coefficient") { // what antennas have with themselves would hide all others
          high = 1;
          for (let y = 1; y < antennas; y++) for (let x = 0; x < y; x++) high = Math.max(high, value(x, y) || 0);
        }
        maps[quantity].label(Array.from({ length: antennas }, (_, n) => antenna(n)), [antenna(0), antenna(antennas - 1)]);
        maps[quantity].draw(antennas, antennas, value, low, high, [`${low} ${unit}`, `${Number(high.toPrecision(3))} ${unit}`],
          (x, y) => `${antenna(x)} × ${antenna(y)}: ${words} ${si(value(x, y), "", 4)} ${unit}`);
        maps[quantity].chosen = (x, y) => {
          state.inputs = [x * pols + p1, y * pols + p2];
          location.hash = "fringes";
        };
      },
    };
  },
};

const BINS = 72;

export const closure = {
  name: "closure", key: "6", title: "closure",
  want: (state) => [`closure/${state.closurePolarization || 0}`],
  build(state) {
    const said = el("p", { class: "said" });
    const map = new HeatMap("Closure phases: triangles of each antenna with the first one, by phase", { high: true });
    const tools = el("div", { class: "tools" });
    let offered = 0;
    return {
      element: el("div", {}, tools, said, map.element,
        el("p", { class: "said" }, "Of a source in the phase centre all stand at 0°, whatever the antennas' own delays and phases.")),
      draw() {
        if (state.pols !== offered) {
          offered = state.pols;
          const names = Array.from({ length: offered }, (_, p) => [p, state.sight?.inputs[p]?.polarization ?? String(p)]);
          tools.replaceChildren(choice("polarization", names, state.closurePolarization || 0, (value) => {
            state.closurePolarization = Number(value);
            state.changed();
          }));
        }
        const part = state.part(`closure/${state.closurePolarization || 0}`);
        if (!there(part, said, (p) => `integration ${p.number}, ${p.phase.data.length} triangles`)) return;
        const { antennas } = part;
        const counts = new Float64Array(antennas * BINS);
        let most = 1;
        let good = 0;
        let squares = 0;
        part.phase.data.forEach((v, t) => {
          const phase = hundredth(v);
          if (Number.isNaN(phase)) return;
          good++;
          squares += phase * phase;
          const bin = Math.min(BINS - 1, Math.floor(((phase + 180) / 360) * BINS));
          for (let k = 0; k < 3; k++) {
            const antenna = part.corners.data[3 * t + k];
            if (antenna) most = Math.max(most, ++counts[antenna * BINS + bin]); // the first has them all
          }
        });
        if (good) said.textContent += `, ${Math.sqrt(squares / good).toFixed(1)}° rms`;
        const name = (y) => state.sight?.inputs[y * state.pols]?.antenna ?? `antenna ${y}`;
        const value = (x, y) => counts[y * BINS + x] || NaN;
        map.label(Array.from({ length: antennas }, (_, n) => name(n)), ["−180°", "−90°", "0°", "90°", "180°"]);
        map.draw(BINS, antennas, value, 0, most, ["1", `${most} triangles`],
          (x, y) => `${name(y)}: ${counts[y * BINS + x]} triangles of ${Math.round((x / BINS) * 360 - 180)}° to ${Math.round(((x + 1) / BINS) * 360 - 180)}°`);
      },
    };
  },
};

export const losses = {
  name: "losses", key: "7", title: "losses",
  want: () => ["losses"],
  build(state) {
    let stage = "worst";
    const map = new HeatMap("What was lost of each input, in time", { map: "loss", high: true });
    const options = [["worst", "the worst of all"], ...STAGES.map((s) => [s, `behind ${s}`])];
    const table = el("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "packets by engine" });
    return {
      element: el("div", {}, el("div", { class: "tools" }, choice("hand-over", options, stage, (value) => { stage = value; state.changed(); })), map.element, table),
      draw() {
        const all = state.losses;
        const rows = stage === "worst" ? all.codes : [all.codes[STAGES.indexOf(stage)]];
        const code = (x, y) => {
          const at = all.column(x) * all.inputs + y;
          let most = 0;
          for (const row of rows) most = Math.max(most, row[at]);
          return most;
        };
        if (all.length && all.inputs) {
          const ends = [0, all.length - 1].map((t) => `${new Date(all.times[all.column(t)] * 1000).toISOString().slice(11, 19)} UTC`);
          map.label(Array.from({ length: all.inputs }, (_, n) => state.label(n)), ends);
          map.draw(all.length, all.inputs, (x, y) => code(x, y) || NaN, 1, 255, ["nothing lost, 10⁻⁵", "all of it lost"], (x, y) => {
            const share = lost(code(x, y));
            const when = new Date(all.times[all.column(x)] * 1000).toISOString().slice(11, 19);
            return `${state.label(y)} at ${when} UTC: ${Number.isNaN(share) ? "not known" : share ? `${Number((100 * share).toPrecision(3))} % lost` : "nothing lost"}`;
          });
        }
        const engines = (state.sight?.engines || []).filter((e) => e.values.account && typeof e.values.account === "object");
        const names = ["placed", "missing", "late", "duplicate", "malformed", "foreign", "kernel_drops", "ring_full"];
        table.replaceChildren(el("table", {},
          el("thead", {}, el("tr", {}, ["engine", ...names].map((n) => el("th", { scope: "col" }, n.replace("_", " "))))),
          el("tbody", {}, engines.map((e) => el("tr", {}, el("td", {}, e.name), names.map((n) => {
            const rate = e.rates[`account.${n}`];
            const bad = n !== "placed" && rate > 0;
            return el("td", { class: bad ? "warning" : false }, `${bad ? "▲ " : ""}${e.values.account[n] ?? "?"}${rate > 0 ? ` (${si(rate, "/s")})` : ""}`);
          }))))));
      },
    };
  },
};

export const image = {
  name: "image", key: "8", title: "image",
  want: () => ["image"],
  build(state) {
    const said = el("p", { class: "said" });
    const map = new HeatMap("Dirty image of one integration, Stokes I, squared steps", { square: true });
    return {
      element: el("div", {}, el("div", { class: "tools" }, said), map.element,
        el("p", { class: "said" }, "North is up, east is left. Naturally weighted; sources that are far off have side lobes.")),
      draw() {
        const part = state.part("image");
        if (!there(part, said, (p) => `integration ${p.number}, ${p.utc.slice(0, 19)} UTC: ${p.object || "phase centre"}, RA ${p.ra.toFixed(4)}°, Dec ${p.dec.toFixed(4)}°, ${p.frequency.toFixed(1)} MHz, pixels of ${Number((p.pixel * 3600).toPrecision(3))}″`)) return;
        const [height, width] = part.dirty.shape;
        const { data } = part.dirty;
        const side = ((width * part.pixel) / 2) * 60;
        map.label([], [`${side.toFixed(1)}′ east`, `${side.toFixed(1)}′ west`]);
        let [low, high] = [Infinity, -Infinity];
        for (const v of data) {
          if (v < low) low = v;
          if (v > high) high = v;
        }
        const value = (x, y) => data[(height - 1 - y) * width + x]; // rows grow north, columns grow west
        map.draw(width, height, value, low, high, [si(low), si(high)], (x, y) => {
          const east = ((width / 2 - 1 - x) * part.pixel * 60).toFixed(2);
          const north = ((height / 2 - 1 - y) * part.pixel * 60).toFixed(2);
          return `${si(value(x, y), "", 4)} steps² at ${east}′ east, ${north}′ north`;
        });
      },
    };
  },
};
