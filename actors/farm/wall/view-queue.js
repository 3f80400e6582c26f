// The queue: what plays, what waits and for what; and submitting a run.

import * as api from "./api.js";
import { fill, h, keepFocus } from "./dom.js";
import { action, badge, complain, heading, loading, notify, option, sentence, table } from "./parts.js";
import { runActions } from "./run-actions.js";
import { moment, number, ownZone, t } from "./words.js";

const SECTIONS = [["running", "plays"], ["queued", "waits"], ["scheduled", "daily_ones"]];

export function openQueue(root, { live, may, isAdmin }) {
  const body = h("div");
  const farm = h("div", { class: "tools" });
  fill(root, heading(t("tab.queue"), farm), may("operator") ? submitForm() : null, body);
  let shown = "";

  function render() {
    const runs = [...live.runs.values()];
    const now = JSON.stringify([runs, live.farm?.drained, live.told.has("runs")]);
    if (now === shown) return; // what nobody changed keeps its focus
    shown = now;
    if (isAdmin && live.farm !== null) {
      fill(farm, live.farm.drained ? action(t("undrain_farm"), () => api.remove(api.path("drain")))
        : action(t("drain_farm"), () => api.post(api.path("drain")), { confirm: t("drain_sure") }));
    }
    const parts = SECTIONS.map(([state, title]) => {
      const mine = runs.filter((run) => run.state === state).sort(order(state));
      if (mine.length === 0 && state === "scheduled") return null;
      return h("section", { class: "panel" }, h("h2", {}, `${t(title)} (${number(mine.length)})`), !live.told.has("runs") ? loading() : mine.length === 0 ? sentence(t("no_runs")) : list(mine, state, t(title)));
    });
    keepFocus(body, () => fill(body, parts));
  }

  function list(runs, state, label) {
    return table([
      [t("scenario"), (run) => h("a", { href: `#/runs/${encodeURIComponent(run.run)}` }, run.scenario)],
      [t("state"), (run) => badge(run.held ? "held" : run.state)],
      [state === "queued" ? t("waits_for") : t("why"), (run) => run.reason ?? "", "wide"],
      [t("phones"), (run) => number(run.phones), "number"], [t("priority"), (run) => number(run.priority), "number"],
      [t("labels"), (run) => run.labels.join(", ")], [t("tenant"), (run) => `${run.tenant} · ${run.user}`],
      [state === "scheduled" ? t("every_day") : t("submitted"), (run) => (run.daily ? `${run.daily.at} ${run.daily.zone}` : moment(run.submitted_at)), "when"],
      ["", (run) => runActions(run, may, async () => {})],
    ], runs, label);
  }

  const ends = [live.on("runs", render), live.on("farm", render)];
  render();
  return () => ends.forEach((end) => end());
}

const order = (state) => (one, other) => (state === "queued" ? other.priority - one.priority || one.number - other.number : other.number - one.number);

function submitForm() {
  const scenario = h("select", { id: "scenario", required: true }, option("", t("loading"), ""));
  api.get(api.path("scenarios")).then((found) => fill(scenario, found.scenarios.map((name) => option(name, name, "")))).catch(complain);
  const field = (id, words, input) => h("label", { for: id }, words, input);
  const labels = h("input", { id: "labels", placeholder: "lab, pixel" });
  const priority = h("input", { id: "priority", type: "number", min: "0", max: "9", value: "5" });
  const repeats = h("input", { id: "repeats", type: "number", min: "0", max: "10", value: "0" });
  const later = h("input", { id: "later", type: "datetime-local" });
  const daily = h("input", { id: "daily", type: "time" });
  const send = h("button", { class: "primary" }, t("submit"));
  return h("form", { class: "panel submit", "aria-label": t("submit_run"), onsubmit: async (event) => {
    event.preventDefault();
    send.disabled = true;
    const body = { scenario: scenario.value, priority: Number(priority.value), repeats: Number(repeats.value) };
    const wanted = labels.value.split(/[\s,]+/).filter(Boolean);
    if (wanted.length > 0) body.labels = wanted;
    if (daily.value !== "") body.daily = { at: daily.value, zone: ownZone() };
    else if (later.value !== "") body.not_before = new Date(later.value).toISOString();
    try {
      const run = await api.post(api.path("runs"), body);
      notify(t("submitted_run", { run: run.run }));
    } catch (error) {
      complain(error);
    } finally {
      send.disabled = false;
    }
  } },
  field("scenario", t("scenario"), scenario), field("labels", t("labels"), labels), field("priority", t("priority"), priority),
  field("repeats", t("repeats"), repeats), field("later", t("not_before"), later), field("daily", t("every_day"), daily), send);
}
