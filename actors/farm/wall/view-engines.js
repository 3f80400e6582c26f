// The engines: how full, how fast, how many at a time, and for whom.

import * as api from "./api.js";
import { fill, h, keepFocus } from "./dom.js";
import { action, badge, facts, heading, load, notify, sentence, table } from "./parts.js";
import { number, percent, t } from "./words.js";

const KV_WARN = 0.9; // as the alert rules have it

export function openEngines(root, { live, isAdmin }) {
  const rollout = h("div");
  const body = h("div");
  let shown = "";
  fill(root, heading(t("tab.engines")), rollout, body);

  function render() {
    if (live.engines === null) return;
    const change = JSON.stringify([live.engines.rollout, live.engines.held]);
    if (change !== shown) { // a status that is made anew is read out anew
      shown = change;
      keepFocus(rollout, () => fill(rollout, rolling(live.engines.rollout ?? null, live.engines.held ?? [], isAdmin)));
    }
    const engines = live.engines.engines ?? [];
    keepFocus(body, () => fill(body, engines.length === 0 ? sentence(t("no_engines")) : h("div", { class: "cards" }, engines.map((one) => card(one, isAdmin)))));
  }

  const end = live.on("engines", render);
  if (live.engines !== null) render();
  else load(body, () => api.offered(api.path("engines")), (found) => live.take({ type: "engines", ...found }), t("engines_missing"));
  return end;
}

/** The latest change of engines, and what is not as the file says. */
function rolling(found, held, isAdmin) {
  const parts = [];
  if (found !== null) {
    const stop = found.state === "running" && isAdmin ? action(t("stop_rollout"), async () => {
      await api.remove(api.path("rollout"));
      notify(t("done"));
    }, { kind: "danger", confirm: t("stop_rollout_sure"), label: t("stop_rollout") }) : null;
    const words = [t(`rollout.${found.state}`), t("rollout_of", { done: number(found.done), all: number(found.steps.length) }), found.why].filter(Boolean).join(" · ");
    parts.push(h("div", { class: "banner", role: "status" }, h("strong", {}, t("rollout")), ` ${words} `, stop));
  }
  if (held.length > 0) parts.push(h("p", { class: "banner", role: "status" }, t("held_back", { changes: held.join(", ") })));
  return parts;
}

function card(one, isAdmin) {
  const isOut = one.state === "draining" || one.state === "drained";
  const drain = isAdmin ? action(isOut ? t("undrain") : t("drain"), async () => {
    const address = api.path("engines", one.engine, "drain");
    await (isOut ? api.remove(address) : api.post(address));
    notify(t("done"));
  }, { label: `${isOut ? t("undrain") : t("drain")} ${one.engine}` }) : null;
  return h("article", { class: "card", "aria-label": one.engine },
    h("div", { class: "row spread" }, h("h2", {}, one.engine), badge(one.state), drain),
    h("p", { class: "small" }, [one.model, one.version].filter(Boolean).join(" · ")),
    h("div", { class: "meters" }, meter(t("kv_usage"), one.kv_usage, KV_WARN),
      running(one),
      meter(t("cached_share"), one.cached_share, 2)),
    facts([
      [t("tpot"), `${number(one.tpot_ms, 1)} ms`], [t("ttft"), `${number(one.ttft_ms)} ms`], [t("queued"), number(one.queued)],
      [t("admits"), number(one.concurrency)], [t("homes"), number(one.homes)], [t("circuit"), one.circuit ? t(`circuit.${one.circuit}`) : "–"],
    ]), tokens(one.tokens ?? null));
}

/** A bar with its words: `high` is where it becomes a warning. */
function meter(label, share, high) {
  const known = typeof share === "number";
  const width = `${Math.min(100, Math.max(0, known ? share * 100 : 0))}%`;
  return h("div", { class: "meter", role: "img", "aria-label": `${label}: ${percent(known ? share : null)}` }, h("span", {}, label), h("span", { class: "number" }, percent(known ? share : null)),
    h("i", { class: known && share >= high ? "track high" : "track" }, h("i", { style: { width } })));
}

function running(one) {
  const words = typeof one.knee === "number" ? t("concurrency_of", { now: number(one.running), knee: number(one.knee, 1) })
    : t("running_of", { now: number(one.running), most: number(one.concurrency) });
  return meter(words, one.concurrency ? one.running / one.concurrency : null, 1.01);
}

function tokens(found) {
  if (found === null) return null;
  const rows = found.tenants ? Object.entries(found.tenants) : [[t("yours"), found]];
  const column = (name) => [t(`tokens.${name}`), ([, one]) => number(one[name]), "number"];
  return table([[t("tenant"), ([name]) => name], column("input"), column("output"), column("cached")], rows, t("tokens_by_tenant"));
}
