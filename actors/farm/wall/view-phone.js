// One phone: its screen with what was done and is planned, its times, its log, and a person's hands.

import * as api from "./api.js";
import { openControl } from "./control.js";
import { fill, h, setText } from "./dom.js";
import { ledgerTable } from "./ledger.js";
import { drawActions } from "./overlay.js";
import { action, badge, facts, heading, notify, sentence, table } from "./parts.js";
import { phoneState, phoneWhy } from "./phone-state.js";
import { number, t } from "./words.js";

export function openPhone(root, { live, go, me, may, isAdmin }, phone) {
  const canvas = h("canvas", { width: "360", height: "640" });
  const svg = h("svg", { class: "overlay", "aria-hidden": "true", preserveAspectRatio: "none" });
  const surface = h("div", { class: "surface", role: "img" }, canvas, svg);
  const off = h("p", { class: "empty" });
  const age = h("span", { class: "small age" });
  const control = openControl(phone, surface, me, may("operator"));
  const needs = h("div", { role: "alert" });
  const state = h("span");
  const about = h("div");
  const pauses = h("div");
  const tabs = { actions: h("div"), plan: h("div"), ledger: h("div"), log: h("div") };
  const section = (name) => h("section", { class: "panel" }, h("h2", {}, t(name)), tabs[name]);
  fill(root, heading(phone, state, h("div", { class: "tools" }, h("a", { href: "#/phones", class: "back" }, t("all_phones")))),
    h("div", { class: "phone" },
      h("div", { class: "left" }, needs, h("div", { class: "frame" }, surface, off), age, control.element),
      h("div", { class: "right" }, h("section", { class: "panel" }, about, pauses), section("plan"), section("actions"), section("ledger"), section("log"))));
  let last = { actions: [], plan: null };
  let seenAt = null;
  let asked = null;
  let paused = null;

  live.onScreen(phone, async (header, jpeg) => {
    const image = await createImageBitmap(jpeg);
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext("2d").drawImage(image, 0, 0);
    canvas.dataset.seq = header.seq;
    image.close();
    seenAt = performance.now() - header.captured_ms_ago;
    overlay();
    tellAge();
  });
  live.watch({ phones: [phone], screens: { fps: 4, side: 720 }, detail: phone });

  function tellAge() {
    setText(age, seenAt === null ? "" : t("screen_age", { seconds: number((performance.now() - seenAt) / 1000, 1) }));
  }
  const overlay = () => drawActions(svg, last.actions ?? [], last.plan?.actions ?? [], canvas.height / canvas.width);

  function render() {
    const found = live.detail;
    if (found === null || found.phone !== phone) {
      const row = live.phones.get(phone);
      if (row !== undefined) top(row);
      return;
    }
    top(found);
    last = found;
    overlay();
    tellAge();
    fill(tabs.actions, (found.actions ?? []).length === 0 ? sentence(t("nothing_yet")) : table([
      [t("action"), (one) => words(one)], [t("outcome"), (one) => (one.outcome ? t(`outcome.${one.outcome}`) : "")], [t("why"), (one) => one.why ?? "", "wide"],
    ], [...found.actions].reverse().slice(0, 8), t("actions")));
    fill(tabs.plan, plan(found.plan));
    fill(tabs.ledger, (found.ledger ?? []).length === 0 ? sentence(t("nothing_yet")) : ledgerTable(found.ledger));
    const log = tabs.log.querySelector("pre");
    const lines = (found.log ?? []).map((one) => `${one.level} ${one.tag}: ${one.text}`).join("\n");
    if (log === null) fill(tabs.log, lines === "" ? sentence(t("nothing_yet")) : h("pre", { class: "log", tabindex: "0", "aria-label": t("log") }, lines));
    else setText(log, lines);
    person(found);
  }

  function top(row) {
    const shown = phoneState(row);
    fill(state, badge(shown));
    const playing = row.live ?? null;
    surface.hidden = playing === null;
    setText(off, playing === null ? t("nothing_plays") : "");
    control.element.hidden = playing === null;
    control.set(row.taken_over_by ?? null);
    fill(about, facts([
      [t("pool"), [row.pool, ...(row.labels ?? [])].join(" · ")],
      playing && [t("app"), playing.app], playing && [t("score_word"), number(playing.score, 1)], playing && [t("steps"), number(playing.step)],
      playing && [t("stale"), number(playing.stale)], playing && [t("no_effect"), number(playing.no_effect)],
      playing?.model ? [t("model"), `${playing.model} · Android ${playing.android}`] : null,
      phoneWhy(row) ? [t("why"), phoneWhy(row)] : null,
      row.run ? [t("run"), h("a", { href: `#/runs/${encodeURIComponent(row.run)}` }, row.run)] : null,
    ]));
    if (isAdmin && row.paused !== paused) {
      paused = row.paused; // the button stays, with its focus, while nothing changes
      fill(pauses, pausing(row));
    }
  }

  function pausing(row) {
    const verb = row.paused ? "resume" : "pause";
    return h("div", { class: "row" }, action(t(`${verb}_phone`), () => api.post(api.path("phones", phone, verb))));
  }

  function person(found) {
    const text = found.needs_human ?? null;
    if (text === asked) return;
    asked = text;
    if (text === null) fill(needs);
    else fill(needs, h("div", { class: "needs" }, h("strong", {}, t("needs_you")), h("p", {}, text),
      may("operator") && found.run ? action(t("done_go_on"), async () => {
        await api.post(api.path("runs", found.run, "resume"), { phone });
        notify(t("it_goes_on"));
      }, { kind: "primary" }) : null));
  }

  const leave = (event) => {
    if (event.key === "Escape" && !["INPUT", "TEXTAREA"].includes(event.target.tagName) && !document.querySelector("dialog")) go("phones");
  };
  document.addEventListener("keydown", leave);
  const ends = [live.on("detail", render), live.on("phones", render)];
  render();
  return () => {
    ends.forEach((end) => end());
    document.removeEventListener("keydown", leave);
    live.onScreen(phone, null);
  };
}

function plan(found) {
  if (!found) return sentence(t("no_plan"));
  const list = h("ol", { class: "plan" }, (found.actions ?? []).map((one) => h("li", { class: one.state }, words(one), " ", h("span", { class: "small" }, t(`plan.${one.state}`)))));
  const head = found.thinking ? t("thinking", { seconds: number((found.asked_ms_ago ?? 0) / 1000, 1) }) : t("asked_ago", { seconds: number((found.asked_ms_ago ?? 0) / 1000, 1) });
  return h("div", {}, h("p", { class: "small" }, head), list);
}

/** `tap 0.42, 0.81`. */
function words(one) {
  const place = (x, y) => `${number(x, 2)}, ${number(y, 2)}`;
  const parts = [t(`kind.${one.kind}`)];
  if (typeof one.x === "number") parts.push(place(one.x, one.y));
  if (typeof one.x2 === "number") parts.push("→", place(one.x2, one.y2));
  if (one.text) parts.push(`“${one.text}”`);
  return parts.join(" ");
}
