// What went wrong in runs, grouped: the newest first.

import * as api from "./api.js";
import { fill, h, setText } from "./dom.js";
import { badge, heading, load, option, sentence, table } from "./parts.js";
import { moment, number, stateWord, t } from "./words.js";

export const STATES = ["new", "known", "fixed", "ignored"];
const KINDS = ["crash", "native_crash", "anr", "away", "stuck", "no_effect", "black", "missed"];

export function openFindings(root) {
  const state = h("select", { id: "finding-state", "aria-label": t("state") }, ["", ...STATES].map((one) => option(one, one === "" ? t("all_states") : stateWord(one), "")));
  const kind = h("select", { id: "finding-kind", "aria-label": t("finding_kind") }, option("", t("all_kinds"), ""));
  const text = h("input", { type: "search", id: "finding-filter", placeholder: t("filter"), "aria-label": t("filter") });
  const body = h("div");
  const bounds = h("p", { class: "small", hidden: true });
  fill(root, heading(t("tab.findings"), h("div", { class: "tools" }, text, state, kind)), body, bounds);
  let rows = [];

  function render() {
    const kinds = [...new Set([...KINDS.filter((one) => rows.some((row) => row.kind === one)), ...rows.map((one) => one.kind)])];
    for (const one of kinds) if (![...kind.options].some((known) => known.value === one)) kind.append(option(one, kindWord(one), ""));
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((one) => words.every((word) => `${one.title} ${one.kind} ${one.state}`.toLowerCase().includes(word)));
    fill(body, shown.length === 0 ? sentence(t("no_findings")) : table([
      [t("finding_kind"), (one) => h("span", { class: "tag" }, kindWord(one.kind))],
      [t("title"), (one) => h("a", { href: `#/findings/${encodeURIComponent(one.id)}` }, one.title), "wide"],
      [t("state"), (one) => [badge(one.state), one.flaky ? h("span", { class: "tag" }, t("flaky")) : null]],
      [t("count"), (one) => number(one.count), "number"], [t("in_runs"), (one) => number(Array.isArray(one.runs) ? one.runs.length : one.runs), "number"],
      [t("first_seen"), (one) => moment(one.first_seen), "when"], [t("last_seen"), (one) => moment(one.last_seen), "when"],
    ], shown, t("tab.findings")));
  }

  const look = () => load(body, () => api.offered("/api/v1/findings", { state: state.value, kind: kind.value, limit: 200 }), (found) => {
    rows = found.findings;
    const { forgotten, most } = found.screens ?? { forgotten: 0 };
    bounds.hidden = forgotten === 0;
    if (forgotten > 0) setText(bounds, t("screens_forgotten", { forgotten: number(forgotten), most: number(most) }));
    render();
  }, t("findings_missing"));
  state.addEventListener("change", look);
  kind.addEventListener("change", look);
  text.addEventListener("input", render);
  look();
}

export function kindWord(kind) {
  const key = `finding.${kind}`;
  const word = t(key);
  return word === key ? String(kind).replaceAll("_", " ") : word;
}
