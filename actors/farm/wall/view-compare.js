// Two runs side by side: what differs by more than chance is marked.

import * as api from "./api.js";
import { fill, h } from "./dom.js";
import { heading, load, sentence, table } from "./parts.js";
import { number, t } from "./words.js";

export function openCompare(root, context, a = "", b = "") {
  const body = h("div", { class: "panel" });
  const link = (run) => h("a", { href: `#/runs/${encodeURIComponent(run)}` }, h("code", {}, run));
  fill(root, heading(t("compare")), h("p", {}, "A ", link(a), "  ·  B ", link(b)), body);
  if (a === "" || b === "") {
    fill(body, sentence(t("choose_two")));
    return;
  }
  load(body, () => api.offered("/api/v1/compare", { a, b }), (found) => fill(body, sides(found)), t("compare_missing"));
}

/** Any figures that have two sides, whatever they are called. */
function sides(found) {
  const rows = [];
  const walk = (value, name) => {
    if (value === null || typeof value !== "object" || Array.isArray(value)) return;
    if ("a" in value && "b" in value && name !== "") rows.push([name, value]);
    else for (const [key, inner] of Object.entries(value)) walk(inner, name === "" ? key : `${name} · ${key}`);
  };
  walk(found, "");
  for (const row of Array.isArray(found.rows) ? found.rows : []) rows.push([String(row.name ?? row.figure ?? ""), row]);
  if (rows.length === 0) return sentence(t("nothing_to_compare"));
  const figure = (name) => {
    const key = `figure.${name}`;
    const word = t(key);
    return word === key ? name.replaceAll("_", " ") : word;
  };
  return table([
    [t("figure"), ([name]) => figure(name)], ["A", ([, one]) => side(one.a, one.a_interval), "number"], ["B", ([, one]) => side(one.b, one.b_interval), "number"],
    [t("differs"), ([, one]) => (one.differs === true ? h("strong", { class: "warn" }, `≠ ${t("yes")}`) : one.differs === false ? t("no") : "–")],
  ], rows, t("compare"));
}

function side(value, interval) {
  if (value !== null && typeof value === "object") {
    return side(value.value ?? value.mean ?? value.share ?? null, value.interval ?? (value.low !== undefined ? [value.low, value.high] : null));
  }
  const text = typeof value === "number" ? number(value, 3) : value === null || value === undefined ? "–" : String(value);
  return Array.isArray(interval) ? [text, h("span", { class: "small" }, ` [${number(interval[0], 3)} … ${number(interval[1], 3)}]`)] : text;
}
