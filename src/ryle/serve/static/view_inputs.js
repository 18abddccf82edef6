// A table of the inputs, what is wrong first.

import { el, fill, si } from "./draw.js";
import { STAGES } from "./losses.js";
import { bar } from "./view_overview.js";

const SHAPES = [["✖", "error"], ["▲", "warning"], ["?", "faint"], ["●", "good"]];
const LOWEST = -60; // dBFS, left end of the bars; marks are where levels are too low and too high (ryle.watch.inputs)
const percent = (share) => (share === null || share === undefined ? "?" : `${Number((100 * share).toPrecision(3))} %`);
const COLUMNS = [
  ["input", (i) => i.index], ["state", (i, v) => v.rank], ["rms, steps", (i) => i.rms], ["dBFS", (i) => i.dbfs],
  ["clipped", (i) => i.clipped], ["saturated", (i) => i.saturated],
  ...STAGES.map((stage) => [`in ${stage}`, (i) => i.present[stage]]), ["delay", (i) => i.delay],
];

export const inputs = {
  name: "inputs", key: "2", title: "inputs",
  want: () => [],
  build(state) {
    let [column, backwards, wanted] = [1, false, ""];
    const filter = el("input", { type: "search", "aria-label": "only inputs with", oninput: () => { wanted = filter.value.toLowerCase(); state.changed(); } });
    const said = el("p", { class: "said" });
    const body = el("tbody");
    const heads = COLUMNS.map(([name], n) => el("th", { scope: "col", class: n < 2 ? "text" : false }, el("button", {
      type: "button",
      onclick: () => { backwards = n === column && !backwards; column = n; state.changed(); },
    }, name)));
    const table = el("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "inputs" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), body));
    return {
      element: el("div", {}, el("div", { class: "tools" }, el("label", {}, el("span", {}, "only inputs with"), filter), said), table),
      draw({ sight }) {
        if (!sight) return;
        heads.forEach((head, n) => (n === column ? head.setAttribute("aria-sort", backwards ? "descending" : "ascending") : head.removeAttribute("aria-sort")));
        const verdicts = new Map(sight.verdicts.map((v) => [v.index, v]));
        const unknown = { rank: 2, verdict: "unknown" };
        const rows = sight.inputs.map((i) => [i, verdicts.get(i.index) || unknown])
          .filter(([i, v]) => `${i.antenna} ${i.polarization} ${v.verdict}`.toLowerCase().includes(wanted));
        const key = ([i, v]) => COLUMNS[column][1](i, v) ?? Infinity;
        rows.sort((a, b) => (key(a) - key(b) || 0) * (backwards ? -1 : 1) || a[0].index - b[0].index);
        const bad = rows.filter(([, v]) => v.rank < 2).length;
        said.textContent = `${rows.length} inputs${bad ? `, ${bad} to look at` : rows.length ? ", nothing wrong" : ""}`;
        fill(body, rows.map(([i, v]) => {
          const [shape, kind] = SHAPES[v.rank] || SHAPES[2];
          const level = i.dbfs === null ? [] : el("div", { class: "level" }, bar(1 - i.dbfs / LOWEST, `${i.dbfs.toFixed(1)} dBFS`, [1 + 45 / LOWEST, 1 + 6 / LOWEST]));
          return el("tr", {},
            el("td", {}, `${i.antenna} ${i.polarization}`), el("td", { class: `text ${kind}` }, `${shape} ${v.verdict}`),
            el("td", {}, i.rms === null ? "?" : i.rms.toPrecision(3)), el("td", {}, i.dbfs === null ? "?" : i.dbfs.toFixed(1), level),
            el("td", {}, percent(i.clipped)), el("td", {}, percent(i.saturated)),
            STAGES.map((stage) => el("td", {}, percent(i.present[stage]))), el("td", {}, i.delay === null ? "?" : si(i.delay, "s", 6)));
        }));
      },
    };
  },
};
