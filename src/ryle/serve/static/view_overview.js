// Engines along the way of the signal, what they lose, how far the observation is, and what is wrong.

import { count, duration, el, fill, si } from "./draw.js";
import { alarmCard } from "./view_log.js";

const ROLES = { simulate: "digitizers, simulated", f: "F-engine", x: "X-engine", fx: "FX-engine", catcher: "catcher" };
const STATES = { running: ["●", "good"], done: ["■", "faint"], failed: ["✖", "error"] };
const LOST = ["missing", "late", "duplicate", "malformed", "foreign", "kernel_drops", "ring_full"];
const FULL = 0.9; // share of its cores' time from which on an engine is marked (ryle.watch.terminal_text)
const NS = "http://www.w3.org/2000/svg";

/** A bar of one share, as a picture: inline styles are not allowed here. */
export function bar(share, words, limits = []) {
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", words);
  const rect = (x, width, kind = "") => {
    const r = document.createElementNS(NS, "rect");
    for (const [k, v] of Object.entries({ x, width, y: 0, height: 10, class: kind })) r.setAttribute(k, v);
    svg.append(r);
  };
  rect(0, Math.max(0, Math.min(100, 100 * (share || 0))));
  for (const limit of limits) rect(100 * limit - 0.5, 1, "limit");
  return svg;
}

/** Write packets a second. */
function rate(packets) {
  return packets < 1000 ? `${packets.toFixed(1)} packets/s` : `${(packets / 1000).toPrecision(4)} k packets/s`;
}

/** Say of each GPU of an engine what is used of it, by whomever. */
function gpus(values) {
  const of = (what) => (values[`gpu_${what}`] && typeof values[`gpu_${what}`] === "object" ? values[`gpu_${what}`] : {});
  const [busy, power, used, size] = ["busy", "power", "memory", "memory_size"].map(of);
  return Object.keys({ ...busy, ...power, ...used }).map((name) => [name,
    `${si(busy[name], "%")} busy, ${si(power[name], "W")}, ${si(used[name], "B")} of ${si(size[name], "B")} in use`]);
}

function engineCard(engine, now) {
  const [shape, kind] = engine.alive ? STATES[engine.state] || ["○", "warning"] : engine.state === "done" ? STATES.done : STATES.failed;
  const values = engine.values;
  const facts = [];
  const fact = (name, ...what) => facts.push(el("dt", {}, name), el("dd", {}, ...what));
  if (values.position !== undefined && values.position !== null) fact("signal", duration(values.position));
  if (engine.rates.bytes) fact("in", si(engine.rates.bytes * 8, "b/s"));
  else if (engine.rates.received) fact("in", rate(engine.rates.received));
  if (engine.rates.sent) fact("out", rate(engine.rates.sent));
  if (engine.alive && Number.isFinite(engine.rates.cpu)) {
    const [used, most] = [engine.rates.cpu / 1000, values.cores];
    const words = `${used.toFixed(2)} of ${count(most)} cores`;
    fact("processor", used > FULL * most ? el("span", { class: "warning" }, `▲ ${words}`) : words);
  }
  if (engine.alive && Number.isFinite(values.memory)) fact("memory", si(values.memory, "B"));
  for (const [name, words] of engine.alive ? gpus(values) : []) fact(`GPU ${name}`, words);
  const account = values.account && typeof values.account === "object" ? values.account : null;
  if (account) {
    fact("placed", `${count(account.placed)} ${account.unit || "packets"}`);
    for (const name of LOST) {
      const lately = engine.rates[`account.${name}`];
      if (account[name]) fact(name.replace("_", " "), el("span", { class: "warning" }, `▲ ${count(account[name])}`), lately ? ` (${lately.toFixed(1)} /s)` : "");
    }
  }
  if (values.integrations !== undefined) fact("integrations", count(values.integrations));
  const silent = now - engine.updated;
  if (engine.alive && engine.state === "running" && silent > 3) fact("last heard", el("span", { class: "warning" }, `▲ ${duration(silent)} ago`));
  const ring = values.ring && typeof values.ring === "object" ? values.ring : null;
  const total = ring ? Object.values(ring).reduce((a, b) => a + (Number.isFinite(b) ? b : 0), 0) : 0;
  const full = total ? 1 - (ring.free || 0) / total : 0;
  return el("section", { class: "card", "aria-label": engine.name },
    el("h2", {}, engine.name, " ", el("span", { class: "faint" }, ROLES[engine.role] || engine.role)),
    el("p", { class: `word ${kind}` }, `${shape} ${engine.alive || engine.state === "done" ? engine.state : "gone"}`),
    el("dl", { class: "facts" }, facts),
    total ? [el("div", { class: "bar" }, bar(full, `ring ${Math.round(100 * full)} % full`)), el("p", { class: "faint" }, `ring: ${Math.round(100 * full)} % of ${total} blocks in use`)] : []);
}

export const overview = {
  name: "overview", key: "1", title: "overview",
  want: () => [],
  build() {
    const run = el("section", { class: "card", "aria-label": "the observation" });
    const engines = el("div", { class: "cards" });
    const wrong = el("section", { class: "card", "aria-label": "alarms" });
    return {
      element: el("div", {}, run, wrong, engines),
      draw(state) {
        const s = state.sight;
        if (!s) return;
        if (!s.engines.length) {
          fill(run, el("p", {}, "No correlator runs on this machine. Start one, ", el("code", {}, "ryle run FILE"), ", and it appears here."));
          fill(wrong);
          fill(engines);
          return;
        }
        const at = Math.max(0, s.position - (s.begin ?? 0));
        const whole = s.duration ? at / s.duration : null;
        const of = s.duration ? ` of ${duration(s.duration)}` : "";
        fill(run, el("dl", { class: "facts" },
          el("dt", {}, "signal"), el("dd", {}, `${duration(at)}${of}`),
          el("dt", {}, "integrations"), el("dd", {}, `${count(s.integrations)} in the file`),
          el("dt", {}, "file"), el("dd", {}, s.file || "none yet"),
          el("dt", {}, "disk"), el("dd", {}, `${si(s.disk_free, "B")} free`)),
          whole === null ? [] : el("div", { class: "bar" }, bar(whole, `${Math.round(100 * whole)} % done`)));
        const under = s.alarms.filter((a) => a.ended === null);
        fill(wrong, el("h2", {}, "Alarms"), under.length ? under.map((a) => alarmCard(a, s.time)) : el("p", { class: "good" }, "✔ none"));
        fill(engines, s.engines.map((e) => engineCard(e, s.time)));
      },
    };
  },
};
