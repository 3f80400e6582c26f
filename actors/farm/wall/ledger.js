// Where the time of each step went: a bar of its parts, and the numbers beside it.

import { h } from "./dom.js";
import { number, t } from "./words.js";

const PARTS = ["capture", "queue", "prefill", "decode", "act"];

/** A table, the newest step first; all bars have one scale. */
export function ledgerTable(steps) {
  const sums = steps.map((step) => PARTS.reduce((sum, part) => sum + (step[`${part}_ms`] ?? 0), 0));
  const most = Math.max(1, ...sums);
  const rows = steps.map((step, index) => ({ step, sum: sums[index] })).reverse();
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("ledger") },
    h("table", { class: "ledger" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("where_time_went")), PARTS.map((part) => h("th", { scope: "col", class: "number" }, h("i", { class: `key ${part}`, "aria-hidden": "true" }), t(`part.${part}`))),
        h("th", { scope: "col", class: "number" }, t("sum")), h("th", { scope: "col" }, t("why")))),
      h("tbody", {}, rows.map(({ step, sum }) => h("tr", { class: step.stale ? "stale" : null },
        h("td", {}, bar(step, most)),
        PARTS.map((part) => h("td", { class: "number" }, number(step[`${part}_ms`]))),
        h("td", { class: "number" }, number(sum)),
        h("td", { class: "wide" }, step.stale ? `${t("stale")} · ${step.why ?? ""}` : step.why ?? ""))))));
}

function bar(step, most) {
  const parts = PARTS.map((part) => h("i", { class: part, style: { width: `${(100 * (step[`${part}_ms`] ?? 0)) / most}%` } }));
  return h("div", { class: "stack", "aria-hidden": "true" }, parts);
}
