// The page: its views, keys, theme, and the loop that draws what has come, at most once a frame of the screen.

import { el, fill, duration } from "./draw.js";
import { Feed } from "./feed.js";
import { Losses } from "./losses.js";
import { overview } from "./view_overview.js";
import { inputs } from "./view_inputs.js";
import { bandpass, baseline } from "./view_spectra.js";
import { levels } from "./view_levels.js";
import { matrix, closure, losses, image } from "./view_maps.js";
import { alarms, log } from "./view_log.js";
import { control } from "./view_control.js";

const VIEWS = [overview, inputs, bandpass, baseline, matrix, closure, losses, image, alarms, log, levels, control];
const SILENT = 3000; // ms after which it is said that nothing came

/** What all views read: the newest parts, and what was chosen. */
const state = {
  parts: null, losses: new Losses(), view: overview,
  inputs: [0, 2], antennas: 0, pols: 2, part(name) { return this.parts.get(name); },
  get sight() { return this.parts.get("sight")?.sight; },
  label(n) { return this.sight?.inputs[n]?.antenna !== undefined ? `${this.sight.inputs[n].antenna} ${this.sight.inputs[n].polarization}` : `input ${n}`; },
  changed() { dirty = true; },
};
let dirty = true;
let drawn = 0;
let built = null;

const feed = new Feed((part) => {
  if (part.part === "sight") state.losses.add(part.sight);
  if (part.part === "losses") state.losses.begin(part);
  if (part.antennas) [state.antennas, state.pols] = [part.antennas, part.pols];
  if (part.part === "sight") dirty = true; // it comes last of a look
}, () => { dirty = true; });
state.parts = feed.parts;

const byId = (id) => document.getElementById(id);

function header() {
  const sight = state.sight;
  byId("name").textContent = sight?.observation || "Ryle";
  const age = performance.now() - feed.last;
  let said;
  if (feed.problem) said = feed.problem;
  else if (!feed.open) said = "the server does not answer; trying again";
  else if (!sight) said = "waiting for the first look";
  else if (age > SILENT) said = `last heard ${duration(age / 1000)} ago`;
  else if (!sight.engines.length) said = "nothing runs here";
  else said = `${sight.telescope ? `${sight.telescope}, ` : ""}${new Date(sight.time * 1000).toISOString().slice(11, 19)} UTC`;
  set(byId("state"), said);
  const under = (sight?.alarms || []).filter((a) => a.ended === null);
  const errors = under.filter((a) => a.severity === "error").length;
  const words = under.length ? `${errors ? "✖" : "▲"} ${under.length} alarm${under.length > 1 ? "s" : ""}` : sight?.engines.length ? "✔ no alarm" : "";
  set(byId("bell"), words);
  byId("bell").className = errors ? "error" : under.length ? "warning" : "good";
  document.title = `${under.length ? `(${under.length}) ` : ""}${sight?.observation || "Ryle"}`;
}

/** Set text only when it is another: what is read aloud is not to be read again. */
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function show() {
  const name = location.hash.slice(1);
  const found = VIEWS.find((v) => v.name === name) || overview;
  if (found !== state.view || !built) {
    state.view = found;
    built = found.build(state);
    fill(byId("view"), built.element);
  }
  for (const tab of byId("tabs").children) {
    if (tab.hash === `#${found.name}`) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  dirty = true;
}

function frame() {
  if (dirty) {
    dirty = false;
    feed.want([...state.view.want(state), "sight"]);
    header();
    built.draw(state);
    document.body.dataset.drawn = String(++drawn);
  }
  requestAnimationFrame(frame);
}

function theme(next) {
  const root = document.documentElement;
  const now = next || (root.dataset.theme === "dark" ? "light" : "dark");
  root.dataset.theme = now;
  if (!next) localStorage.setItem("theme", now);
  built = null;
  show();
}

const KEYS = [
  ["1 … 9, 0, l, c", "views"], ["↑ ↓", "the first input"], ["← →", "the second input"],
  ["t", "dark or light"], ["?", "these keys"],
];

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const view = VIEWS.find((v) => v.key === event.key);
  const count = state.sight?.inputs.length || state.antennas * state.pols;
  const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (view) location.hash = view.name;
  else if (event.key === "t") theme();
  else if (event.key === "?") byId("keys").showModal();
  else if (move && state.view.chooses && count) {
    state.inputs = state.inputs.map((n, k) => (n + move[k] + count) % count);
    dirty = true;
    event.preventDefault();
  }
}

fill(byId("tabs"), VIEWS.map((v) => el("a", { href: `#${v.name}` }, el("kbd", {}, v.key), v.title)));
fill(byId("key-list"), KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)]));
byId("theme").addEventListener("click", () => theme());
byId("help").addEventListener("click", () => byId("keys").showModal());
addEventListener("keydown", pressed);
addEventListener("hashchange", show);
setInterval(() => { dirty = true; }, 1000); // so that it is seen when nothing comes
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => localStorage.getItem("theme") || theme(dark.matches ? "dark" : "light"));
theme(localStorage.getItem("theme") || (dark.matches ? "dark" : "light"));
requestAnimationFrame(frame);
