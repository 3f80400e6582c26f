// Runs of the tenant, the newest first; two of them can be compared.

import * as api from "./api.js";
import { fill, h } from "./dom.js";
import { badge, complain, heading, option, sentence, table } from "./parts.js";
import { moment, number, stateWord, t } from "./words.js";

const STATES = ["", "running", "queued", "scheduled", "succeeded", "failed", "errored", "wrong", "cancelled"];

export function openRuns(root, { live, go }) {
  const state = h("select", { id: "run-state", "aria-label": t("state") }, STATES.map((one) => option(one, one === "" ? t("all_states") : stateWord(one), "")));
  const text = h("input", { type: "search", id: "run-filter", placeholder: t("filter_runs"), "aria-label": t("filter_runs") });
  const compare = h("button", { type: "button", id: "compare", disabled: true, onclick: () => go("compare", ...chosen) }, t("compare_two"));
  const body = h("div");
  const more = h("button", { type: "button", hidden: true, onclick: () => load(before) }, t("more"));
  fill(root, heading(t("tab.runs"), h("div", { class: "tools" }, text, state, compare)), body, more);
  const chosen = [];
  let rows = [];
  let before = null;

  async function load(from = null) {
    try {
      const found = await api.get(api.path("runs"), { limit: 100, state: state.value, before: from });
      rows = from === null ? found.runs : [...rows, ...found.runs];
      before = found.before;
      more.hidden = before === null;
      render();
    } catch (error) {
      complain(error);
    }
  }

  function choose(run, box) {
    if (box.checked) chosen.push(run);
    else chosen.splice(chosen.indexOf(run), 1);
    while (chosen.length > 2) {
      const gone = chosen.shift();
      const other = [...body.querySelectorAll("input[type=checkbox]")].find((one) => one.dataset.run === gone);
      if (other) other.checked = false;
    }
    compare.disabled = chosen.length !== 2;
  }

  function render() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((run) => {
      const about = [run.run, run.scenario, run.tenant, run.user, run.state, run.reason, ...run.labels].join(" ").toLowerCase();
      return words.every((word) => about.includes(word));
    });
    fill(body, shown.length === 0 ? sentence(t("no_runs")) : table([
      ["", (run) => box(run)],
      [t("scenario"), (run) => h("a", { href: `#/runs/${encodeURIComponent(run.run)}` }, run.scenario)],
      [t("state"), (run) => [badge(run.state), run.flaky ? h("span", { class: "tag" }, t("flaky")) : null, run.pinned ? h("span", { class: "tag" }, t("pinned")) : null]],
      [t("why"), (run) => run.reason ?? "", "wide"], [t("phones"), (run) => number(run.phones), "number"],
      [t("tenant"), (run) => `${run.tenant} · ${run.user}`], [t("submitted"), (run) => moment(run.submitted_at), "when"], [t("ended"), (run) => moment(run.ended_at), "when"],
      [t("run"), (run) => h("code", {}, run.run)],
    ], shown, t("tab.runs")));
  }

  function box(run) {
    const made = h("input", { type: "checkbox", "aria-label": t("compare_this", { run: run.run }), "data-run": run.run, onchange: () => choose(run.run, made) });
    made.checked = chosen.includes(run.run);
    return made;
  }

  state.addEventListener("change", () => load());
  text.addEventListener("input", render);
  // what the farm tells of runs is shown where it is on the page; new ones come on top
  const end = live.on("runs", () => {
    if (body.contains(document.activeElement) && document.activeElement.matches("input")) return;
    const known = new Map(rows.map((run) => [run.run, run]));
    for (const run of live.runs.values()) if (state.value === "" || run.state === state.value || known.has(run.run)) known.set(run.run, run);
    rows = [...known.values()].sort((one, other) => other.number - one.number);
    render();
  });
  load();
  return end;
}
