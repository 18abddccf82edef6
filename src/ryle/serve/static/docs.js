// Lists what /openapi.json describes. FastAPI's own page loads its scripts from elsewhere, which observatories may not reach.

import { el, fill } from "./draw.js";

/** Write a schema in words; those that have names are looked up. */
function words(schema, all, depth = 0) {
  if (!schema || depth > 6) return "anything";
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return words({ title: name, ...all[name] }, all, depth + 1);
  }
  if (schema.anyOf) return schema.anyOf.map((s) => words(s, all, depth + 1)).filter((w) => w !== "null").join(" or ");
  if (schema.type === "array") return `list of (${words(schema.items, all, depth + 1)})`;
  if (schema.properties) {
    return `{ ${Object.entries(schema.properties).map(([name, s]) => {
      const needed = (schema.required || []).includes(name) ? "" : "?";
      return `${name}${needed}: ${words(s, all, depth + 1)}`;
    }).join(", ")} }`;
  }
  return schema.type || "anything";
}

function body(content, all) {
  const schema = content?.["application/json"]?.schema;
  return schema && Object.keys(schema).length ? words(schema, all) : null;
}

const room = document.getElementById("routes");
if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.dataset.theme = "dark";
try {
  const found = await (await fetch("/openapi.json")).json();
  const all = found.components?.schemas || {};
  fill(room, Object.entries(found.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, route]) => {
    const asked = body(route.requestBody?.content, all);
    const answers = Object.entries(route.responses).map(([code, answer]) => {
      const what = body(answer.content, all);
      return el("p", {}, `${code}: ${answer.description}`, what && code === "200" ? el("pre", {}, what) : "");
    });
    return el("section", { class: "card" }, el("h2", {}, `${method.toUpperCase()} ${path}`), el("p", {}, route.description || route.summary || ""),
      route.security ? el("p", { class: "faint" }, "needs Authorization: Bearer TOKEN") : "",
      asked ? [el("p", { class: "faint" }, "asked, in JSON:"), el("pre", {}, asked)] : "", answers);
  })), el("section", { class: "card" }, el("h2", {}, "websocket /api/live"),
    el("p", {}, 'Say {"want": ["sight", "bandpass"]}; parts come as binary messages, as the documentation page "Watch in a browser" says.')));
} catch (error) {
  fill(room, el("p", { class: "error" }, `✖ /openapi.json could not be read: ${error.message}`));
}
