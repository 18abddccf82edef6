// Alarms, and what the engines said.

import { duration, el, fill } from "./draw.js";

const MOST = 300; // alarms that have ended and are still listed

/** Write an alarm with its cure. */
export function alarmCard(alarm, now) {
  const over = alarm.ended !== null;
  const shape = over ? "✔" : alarm.severity === "error" ? "✖" : "▲";
  const when = over ? `over since ${duration(now - alarm.ended)}` : `for ${duration(now - alarm.since)}`;
  return el("div", { class: `alarm ${over ? "over" : alarm.severity}` },
    el("p", {}, el("span", { class: `word ${over ? "faint" : alarm.severity}` }, `${shape} ${alarm.kind}: ${alarm.subject}`), el("span", { class: "faint" }, ` ${when}`)),
    el("p", {}, alarm.text), el("p", { class: "faint" }, alarm.cure));
}

export const alarms = {
  name: "alarms", key: "9", title: "alarms",
  want: () => [],
  build(state) {
    const room = el("section", { class: "card", "aria-label": "alarms" });
    state.ended ??= new Map();
    return {
      element: room,
      draw({ sight, ended }) {
        if (!sight) return;
        for (const a of sight.alarms) {
          if (a.ended !== null) ended.set([a.kind, a.subject, a.since].join("\u0000"), a);
        }
        while (ended.size > MOST) ended.delete(ended.keys().next().value);
        const under = sight.alarms.filter((a) => a.ended === null);
        const over = [...ended.values()].sort((a, b) => b.ended - a.ended);
        fill(room, el("h2", {}, "Under way"), under.length ? under.map((a) => alarmCard(a, sight.time)) : el("p", { class: "good" }, "✔ none"),
          el("h2", {}, "Over"), over.length ? over.map((a) => alarmCard(a, sight.time)) : el("p", { class: "faint" }, "none that this page has seen"));
      },
    };
  },
};

export const log = {
  name: "log", key: "0", title: "log",
  want: () => [],
  build(state) {
    let wanted = "";
    const filter = el("input", { type: "search", oninput: () => { wanted = filter.value.toLowerCase(); state.changed(); } });
    const text = el("pre", { tabindex: 0, role: "log", "aria-label": "what engines said" });
    return {
      element: el("div", {}, el("div", { class: "tools" }, el("label", {}, el("span", {}, "only lines with"), filter)), el("div", { class: "card" }, text)),
      draw({ sight }) {
        const lines = (sight?.log || []).filter((line) => line.toLowerCase().includes(wanted));
        const said = lines.length ? lines.join("\n") : "nothing";
        if (text.textContent !== said) text.textContent = said;
      },
    };
  },
};
