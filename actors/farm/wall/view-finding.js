// One finding: its picture, its examples, the smallest run that shows it, and what people say of it.

import * as api from "./api.js";
import { fill, h } from "./dom.js";
import { action, badge, complain, costRows, facts, heading, load, notify, option, picture, sentence, table } from "./parts.js";
import { STATES, kindWord } from "./view-findings.js";
import { moment, number, stateWord, t } from "./words.js";

export function openFinding(root, { go, may }, id) {
  const address = api.path("findings", id);
  const look = () => load(root, () => api.offered(address), (found) => show(found), t("no_such_finding"));

  function show(found) {
    fill(root, heading(found.title, badge(found.state), found.flaky ? h("span", { class: "tag" }, t("flaky")) : null,
      h("div", { class: "tools" }, h("a", { href: "#/findings", class: "back" }, t("all_findings")))),
    h("div", { class: "finding" },
      h("div", { class: "still" }, picture(`${address}/picture`, t("picture_of", { title: found.title }))),
      h("div", {},
        h("section", { class: "panel" }, facts([
          [t("finding_kind"), kindWord(found.kind)], [t("count"), number(found.count)], [t("first_seen"), moment(found.first_seen)], [t("last_seen"), moment(found.last_seen)],
          ...costRows(found.costs),
        ])),
        may("operator") ? judging(found) : found.note ? h("section", { class: "panel" }, h("h2", {}, t("note")), h("p", {}, found.note)) : null,
        h("section", { class: "panel" }, h("h2", {}, t("repro")), repro(found)))),
    h("section", { class: "panel" }, h("h2", {}, t("examples")), examples(found.examples ?? [])));
  }

  function judging(found) {
    const state = h("select", { id: "judge" }, STATES.map((one) => option(one, stateWord(one), found.state)));
    state.value = found.state;
    const note = h("textarea", { id: "note", rows: "2", maxlength: "2000", value: found.note ?? "" });
    return h("section", { class: "panel" }, h("div", { class: "row" }, h("label", { for: "judge" }, t("state"), state), h("label", { for: "note", class: "grow" }, t("note"), note),
      action(t("save"), async () => {
        await api.post(address, { state: state.value, note: note.value });
        notify(t("saved"));
        await look();
      }, { kind: "primary" })));
  }

  function repro(found) {
    if (!found.repro) return sentence(t("no_repro"));
    const command = String(found.repro.command ?? "");
    return h("div", {}, facts([[t("scenario"), found.repro.scenario], [t("seed"), String(found.repro.seed ?? "–")], [t("episode"), found.repro.episode]]),
      h("pre", { class: "log", tabindex: "0", "aria-label": t("command") }, command),
      h("div", { class: "row" }, action(t("download_repro"), async () => {
        const response = await api.raw("GET", `${address}/repro`);
        api.download(await response.blob(), `${id}.zip`);
      }, { kind: "primary" }), action(t("copy"), async () => {
        await navigator.clipboard.writeText(command);
        notify(t("copied"));
      })));
  }

  const leave = (event) => {
    if (event.key === "Escape" && !["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName)) go("findings");
  };
  document.addEventListener("keydown", leave);
  look().catch(complain);
  return () => document.removeEventListener("keydown", leave);
}

const label = (name) => {
  const word = t(name);
  return word === name ? name.replaceAll("_", " ") : word;
};

function examples(found) {
  if (found.length === 0) return sentence(t("nothing_yet"));
  const keys = [...new Set(found.flatMap((one) => Object.keys(one)))].filter((key) => found.some((one) => one[key] !== null && typeof one[key] !== "object"));
  return table(keys.map((key) => [label(key), (one) => (key === "run" ? h("a", { href: `#/runs/${encodeURIComponent(one.run)}` }, one.run) : String(one[key] ?? "")), key === "text" || key === "why" ? "wide" : ""]), found, t("examples"));
}
