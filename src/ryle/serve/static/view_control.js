// Steering: what /api/control takes, with the token that `ryle serve --control` printed. It stays in this tab.

import { el, fill } from "./draw.js";

const KEPT = "ryle token";

async function ask(method, path, body) {
  const answer = await fetch(`/api/control/${path}`, {
    method,
    headers: { authorization: `Bearer ${sessionStorage.getItem(KEPT) || ""}`, ...(body ? { "content-type": "application/json" } : {}) },
    body,
  });
  if (answer.status === 404) throw new Error("this server steers nothing: start it with ryle serve --control");
  const text = await answer.text();
  const said = JSON.parse(text);
  // Time stamps have more digits than numbers of JavaScript: they stay text, from the field to the answer.
  const stamp = (name) => new RegExp(`"${name}":\\s*(\\d+)`).exec(text)?.[1];
  if (answer.ok) return { ...said, sample: stamp("sample"), end: stamp("end") };
  const { detail } = said;
  throw new Error(Array.isArray(detail) ? detail.map((d) => `${d.loc.slice(1).join(".")}: ${d.msg}`).join("; ") : String(detail));
}

/** Read a number that must be there, or may be absent. */
function number(field, fallback) {
  const text = field.value.trim();
  if (text === "" && fallback !== undefined) return fallback;
  const found = Number(text);
  if (text === "" || !Number.isFinite(found)) throw new Error(`${field.dataset.name}: "${text}" is no number`);
  return found;
}

/** Read degrees, or hours or degrees with minutes and seconds: 12h30m49.4s, -30d43m17.5s. */
function angle(field) {
  const text = field.value.trim();
  const parts = /^([+-]?)(\d+)([hd])(?:(\d+)m)?(?:(\d+(?:\.\d*)?)s)?$/.exec(text);
  if (!parts) return number(field);
  const [, sign, whole, unit, minutes = 0, seconds = 0] = parts;
  return (sign === "-" ? -1 : 1) * (unit === "h" ? 15 : 1) * (Number(whole) + minutes / 60 + seconds / 3600);
}

const TEXTS = ["inputs", "ra", "dec", "name", "file"];

/** Make a field: [key, label, first value or choices, hint]. */
function input([key, label, value, hint]) {
  if (Array.isArray(value)) return el("select", { "data-name": label }, value.map(([v, words]) => el("option", { value: v }, words)));
  return el("input", { value, "data-name": label, inputmode: TEXTS.includes(key) ? "text" : "decimal", placeholder: hint, autocomplete: "off" });
}

/** Make a form; `body` turns its fields into what is asked. */
function form(title, path, fields, body, verb = "set") {
  const made = Object.fromEntries(fields.map((field) => [field[0], input(field)]));
  const said = el("p", { class: "said", role: "status", "aria-live": "polite" }, "\u00a0");
  const button = el("button", {}, `${verb} ${title}`);
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    said.className = "said";
    fill(said, "asking");
    try {
      const asked = body(made);
      const inputs = made.inputs ? made.inputs.value.split(",").map((s) => s.trim()).filter(Boolean) : [];
      if (inputs.length) asked.inputs = inputs;
      if (made.file?.value.trim()) asked.file = made.file.value.trim();
      const from = made.sample.value.trim();
      if (!/^\d*$/.test(from)) throw new Error(`from sample: "${from}" is no time stamp`);
      const text = JSON.stringify(asked);
      const more = text === "{}" ? `{"sample":${from}}` : text.replace(/}$/, `,"sample":${from}}`);
      const { sample, end, utc, file } = await ask("PUT", path, from ? more : text);
      said.className = "said good";
      const then = file === undefined ? "" : file ? `: ${file}` : ": nothing is written";
      fill(said, end ? `✔ samples ${sample} to ${end}, from ${utc} on` : `✔ data have it from sample ${sample} on, ${utc}${then}`);
    } catch (error) {
      said.className = "said error";
      fill(said, `✖ ${error.message}`);
    }
    button.disabled = false;
  };
  return el("form", { class: "card", onsubmit: submit, "aria-label": title }, el("h2", {}, title),
    el("div", { class: "form" }, fields.map(([key, label]) => el("label", {}, el("span", {}, label), made[key])), button), said);
}

const WHEN = ["sample", "from sample", "", "as soon as can be"];
const WHICH = [["inputs", "inputs", "", "all; or A1 x, A2"], WHEN];
const FILE = ["file", "file", "", "the next free name"];

export const control = {
  name: "control", key: "c", title: "control",
  want: () => [],
  build() {
    const token = el("input", {
      type: "password", autocomplete: "off", value: sessionStorage.getItem(KEPT) || "",
      oninput: () => sessionStorage.setItem(KEPT, token.value.trim()),
    });
    const said = el("p", { class: "said", role: "status" }, "\u00a0");
    const check = async () => {
      try {
        const { observation, inputs, channels } = await ask("GET", "inputs");
        said.className = "said good";
        fill(said, `✔ ${observation}: ${inputs.length} inputs, ${channels} channels`);
      } catch (error) {
        said.className = "said error";
        fill(said, `✖ ${error.message}`);
      }
    };
    const access = el("section", { class: "card", "aria-label": "token" },
      el("div", { class: "tools" }, el("label", {}, el("span", {}, "token that ryle serve --control printed"), token), el("button", { type: "button", onclick: check }, "try it")), said);
    const gains = form("gains", "gains", [["re", "real part", "1", ""], ["im", "imaginary part", "0", ""], ...WHICH],
      (f) => ({ gains: { re: number(f.re), im: number(f.im, 0) } }));
    const delays = form("delays", "delays", [
      ["delay", "delay, ns", "0", ""], ["rate", "rate, ns/s", "0", ""], ["phase", "phase, °", "0", ""], ["phase_rate", "phase rate, °/s", "0", ""], ...WHICH,
    ], (f) => ({ models: {
      delay: number(f.delay) * 1e-9, rate: number(f.rate, 0) * 1e-9,
      phase: (number(f.phase, 0) * Math.PI) / 180, phase_rate: (number(f.phase_rate, 0) * Math.PI) / 180,
    } }));
    const centre = form("phase centre", "phase-centre", [
      ["ra", "right ascension", "", "12h30m49.4s, or degrees"], ["dec", "declination", "", "-30d43m17.5s, or degrees"], ["name", "name", "", "in the file"], FILE, WHEN,
    ], (f) => ({ ra: angle(f.ra), dec: angle(f.dec), ...(f.name.value.trim() ? { name: f.name.value.trim() } : {}) }));
    const scan = form("file", "scan", [
      ["write", "writing", [["", "as it is"], ["true", "start"], ["false", "stop"]]], ["integration", "integration, s", "", "as it is"], FILE, WHEN,
    ], (f) => ({
      ...(f.write.value ? { write: f.write.value === "true" } : {}),
      ...(f.integration.value.trim() ? { integration: number(f.integration) } : {}),
    }));
    const trigger = form("raw samples", "trigger", [["seconds", "seconds", "0.1", ""], ["name", "name", "", "in the files' names"], ...WHICH],
      (f) => ({ seconds: number(f.seconds), ...(f.name.value.trim() ? { name: f.name.value.trim() } : {}) }), "write");
    return {
      element: el("div", {}, access, gains, delays, centre, scan, trigger,
        el("p", { class: "said" }, "All of it, and from programs: ", el("a", { href: "/docs" }, "the interface"), ".")),
      draw() {},
    };
  },
};
