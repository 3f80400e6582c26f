// One run: its attempts, what it cost, its report, its episodes as strips of pictures, and its log.

import * as api from "./api.js";
import { fill, h, setText } from "./dom.js";
import { drawActions } from "./overlay.js";
import { badge, complain, costRows, facts, heading, load, picture, sentence, table } from "./parts.js";
import { isOver, runActions } from "./run-actions.js";
import { moment, number, t } from "./words.js";

const LOG_MS = 2000;
const MOST_LOG = 200_000; // characters that stay on the page

export function openRun(root, { live, may }, name) {
  const top = h("div");
  const attempts = h("div");
  const progress = h("div");
  const costs = h("div");
  const strip = h("div");
  const log = h("pre", { class: "log tall", tabindex: "0", "aria-label": t("log") });
  const panel = (title, ...parts) => h("section", { class: "panel" }, h("h2", {}, title), parts);
  fill(root, top, h("div", { class: "columns" }, panel(t("attempts"), attempts), panel(t("costs"), costs)), panel(t("its_phones"), progress),
    panel(t("filmstrip"), strip), panel(t("log"), log));
  let offset = null;
  let timer = null;
  let closed = false;
  let over = false;
  let drawn = "";

  async function look() {
    const run = await api.get(api.path("runs", name));
    if (closed) return;
    over = isOver(run);
    const now = JSON.stringify([run.state, run.held, run.pinned, run.reason]);
    if (now !== drawn) head(run);
    drawn = now;
    fill(attempts, run.attempts.length === 0 ? sentence(t("not_begun")) : attemptTable(run));
    fill(costs, costFacts(run));
    fill(progress, run.progress.length === 0 ? sentence(t("nothing_plays_now")) : table([
      [t("phone"), (one) => (live.phones.has(one.phone) ? h("a", { href: `#/phones/${encodeURIComponent(one.phone)}` }, one.phone) : one.phone)], [t("app"), (one) => one.app], [t("state"), (one) => badge(one.state)],
      [t("steps"), (one) => number(one.step), "number"], [t("score_word"), (one) => number(one.score, 1), "number"], [t("why"), (one) => one.why ?? "", "wide"],
    ], run.progress, t("its_phones")));
    return run;
  }

  function head(run) {
    const report = run.attempts.some((one) => one.outcome !== "running" && !one.removed)
      ? ["report.html", "junit.xml", "summary.json"].map((file) => h("a", { class: "button", href: api.path("runs", name, "results", file), target: "_blank", rel: "noopener" }, t(`result.${file}`))) : null;
    fill(top, heading(run.scenario, badge(run.held ? "held" : run.state), h("div", { class: "tools" }, report, runActions(run, may, look))),
      facts([[t("run"), h("code", {}, run.run)], [t("tenant"), `${run.tenant} · ${run.user}`], [t("submitted"), moment(run.submitted_at)], [t("ended"), moment(run.ended_at)],
        [t("phones"), number(run.phones)], run.reason ? [t("why"), run.reason] : null, run.flaky ? [t("flaky"), t("flaky_means")] : null]));
  }

  async function tail() {
    try {
      const response = await api.raw("GET", api.path("runs", name, "logs"), { query: { offset } });
      const text = await response.text();
      offset = response.headers.get("x-next-offset");
      const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      if (text !== "") setText(log, (log.textContent + text).slice(-MOST_LOG));
      if (atEnd) log.scrollTop = log.scrollHeight;
    } catch (error) {
      if (!error.isMissing) throw error;
      setText(log, t("no_log"));
    }
  }

  async function turn() {
    try {
      await look();
      await tail();
    } catch (error) {
      if (closed) return;
      if (error.isMissing) {
        fill(root, heading(t("run")), sentence(t("no_such_run")));
        return;
      }
      complain(error);
    }
    if (!over && !closed) timer = setTimeout(turn, LOG_MS);
  }

  load(strip, () => api.offered(api.path("runs", name, "filmstrip")), (found) => film(strip, name, found.episodes), t("no_filmstrip"));
  turn();
  const end = live.on("runs", () => {
    const run = live.runs.get(name);
    if (run !== undefined && isOver(run) && !over) look().catch(complain);
  });
  return () => {
    closed = true;
    clearTimeout(timer);
    end();
  };
}

function attemptTable(run) {
  return table([
    [t("attempt"), (one) => number(one.number), "number"], [t("outcome"), (one) => badge(one.outcome)], [t("why"), (one) => one.reason ?? "", "wide"],
    [t("started"), (one) => moment(one.started_at), "when"], [t("ended"), (one) => moment(one.ended_at), "when"],
    [t("episodes"), (one) => number(one.result?.episodes), "number"], [t("succeeded"), (one) => number(one.result?.succeeded), "number"],
    [t("phone_minutes"), (one) => number(one.phone_minutes, 1), "number"], [t("cost"), (one) => `${number(one.cost, 2)} ${one.currency}`, "number"],
    [t("phones"), (one) => one.phones.join(", "), "wide"],
  ], run.attempts, t("attempts"));
}

function costFacts(run) {
  const costs = run.costs ?? null;
  const sum = (key) => run.attempts.reduce((all, one) => all + (one[key] ?? 0), 0);
  if (costs === null) return facts([[t("phone_minutes"), number(sum("phone_minutes"), 1)], [t("cost"), `${number(sum("cost"), 2)} ${run.attempts[0]?.currency ?? ""}`]]);
  return facts(costRows(costs));
}

/** Strips of pictures with their actions, an episode each. */
function film(root, run, episodes) {
  if (episodes.length === 0) {
    fill(root, sentence(t("no_filmstrip")));
    return;
  }
  fill(root, episodes.map((one) => h("section", { class: "episode" },
    h("h3", {}, `${one.phone} `, badge(one.outcome), h("span", { class: "small" }, ` ${one.reason ?? ""} ${typeof one.score === "number" ? t("score", { score: number(one.score, 1) }) : ""}`)),
    h("div", { class: "strip", tabindex: "0", role: "list", "aria-label": t("filmstrip_of", { phone: one.phone }) }, one.frames.map((frame) => still(run, frame))))));
}

function still(run, frame) {
  const image = picture(api.path("runs", run, "frames", frame.sha), t("step", { step: number(frame.step) }));
  const svg = h("svg", { class: "overlay", "aria-hidden": "true", preserveAspectRatio: "none" });
  image.addEventListener("load", () => drawActions(svg, frame.action ? [frame.action] : [], [], image.naturalHeight / image.naturalWidth));
  return h("figure", { role: "listitem" }, h("div", { class: "still" }, image, svg),
    h("figcaption", {}, `${number(frame.at_seconds, 1)} s`, frame.action ? ` · ${t(`kind.${frame.action.kind}`)}` : ""));
}

