// Parts that several views use: states, tables, actions with their errors, notices.

import { ApiError } from "./api.js";
import { fill, h } from "./dom.js";
import { duration, number, stateWord, t } from "./words.js";

// how a state looks: a sign and a colour, beside its word
const LOOKS = {
  free: ["○", "idle"], busy: ["●", "good"], playing: ["▶", "good"], running: ["▶", "good"], up: ["●", "good"],
  queued: ["…", "idle"], scheduled: ["◷", "idle"], waiting: ["…", "idle"], starting: ["…", "busy"], opening: ["…", "busy"],
  preparing: ["…", "busy"], draining: ["▽", "busy"], paused: ["‖", "busy"], taken: ["☝", "busy"], needs_human: ["!", "warn"],
  succeeded: ["✓", "good"], done: ["✓", "good"], fixed: ["✓", "good"], failed: ["✕", "bad"], errored: ["✕", "bad"],
  wrong: ["✕", "bad"], lost: ["✕", "bad"], down: ["✕", "bad"], cancelled: ["–", "idle"], interrupted: ["↯", "warn"],
  new: ["●", "bad"], known: ["◆", "busy"], ignored: ["–", "idle"], held: ["‖", "busy"],
  quarantined: ["✕", "bad"], unauthorized: ["!", "warn"], installing: ["…", "busy"], restarting: ["…", "busy"], rebooting: ["…", "busy"],
  "putting away": ["…", "busy"], "waiting for an account": ["…", "idle"], drained: ["▽", "idle"], unfit: ["✕", "bad"],
  asking: ["…", "busy"], above: ["▲", "warn"], below: ["▼", "warn"],
};

/** A state by sign, colour and word. */
export function badge(state, text = stateWord(state)) {
  const [sign, look] = LOOKS[state] ?? ["·", "idle"];
  return h("span", { class: `badge ${look}`, "data-state": state }, h("span", { "aria-hidden": "true" }, sign), ` ${text}`);
}

export function heading(text, ...beside) {
  return h("div", { class: "head" }, h("h1", {}, text), ...beside);
}

/** A plain sentence where there is nothing to see. */
export const sentence = (text) => h("p", { class: "empty" }, text);

/** Where it is not known yet whether there is something to see. */
export const loading = () => h("p", { class: "empty", "aria-busy": "true" }, t("loading"));

/**
 * A table.
 *
 * @param {Array<[string, (row) => any, string?]>} columns Heading, cell, class.
 * @param {Array} rows Any values.
 * @param {string} label For those who cannot see it.
 */
export function table(columns, rows, label) {
  const head = h("tr", {}, columns.map(([title, , kind]) => h("th", { scope: "col", class: kind }, title)));
  const body = rows.map((row) =>
    h("tr", {}, columns.map(([, cell, kind]) => h("td", { class: kind }, cell(row)))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
}

/** Names and values, one under the other. */
export const facts = (pairs) =>
  h("dl", { class: "facts" }, pairs.filter((pair) => pair !== null).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

/** What something has cost, as pairs for `facts`. */
export function costRows(costs) {
  const tokens = Object.entries(costs.tokens).map(([name, count]) => [t(`tokens.${name}`), number(count)]);
  return [[t("money"), `${number(costs.money, 2)} ${costs.currency}`], [t("phone_minutes"), number(costs.phone_minutes, 1)], [t("gpu_time"), duration(costs.gpu_seconds)], ...tokens];
}

/** Tell something in a corner, and to screen readers. */
export function notify(text, kind = "good") {
  const notice = h("p", { class: `notice ${kind}` }, text,
    h("button", { class: "quiet", "aria-label": t("close"), onclick: () => notice.remove() }, "×"));
  document.getElementById("notices").append(notice);
  setTimeout(() => notice.remove(), kind === "bad" ? 12_000 : 5000);
}

/** Say what was refused, with every mistake of it. */
export function complain(error) {
  if (error.name === "AbortError") return;
  const problems = error instanceof ApiError ? error.problems : [];
  notify(problems.length > 1 ? problems.join("\n") : error.message, "bad");
}

/** A button that does something of the farm; while it does, it cannot be pressed again. */
export function action(text, act, { kind = "", confirm = null, label = null } = {}) {
  const button = h("button", { class: kind, type: "button", "aria-label": label }, text);
  button.addEventListener("click", async () => {
    if (confirm !== null && !(await ask(confirm))) return;
    const hadFocus = document.activeElement === button;
    button.disabled = true;
    try {
      await act();
    } catch (error) {
      complain(error);
    } finally {
      button.disabled = false;
      if (hadFocus && document.activeElement === document.body) button.focus(); // what is disabled loses it
    }
  });
  return button;
}

/** Ask before something that cannot be taken back. */
export function ask(text) {
  return new Promise((resolve) => {
    const yes = h("button", { class: "danger", value: "yes" }, t("yes"));
    const dialog = h("dialog", { "aria-label": text }, h("form", { method: "dialog" }, h("p", {}, text),
      h("div", { class: "row" }, h("button", { value: "no" }, t("no")), yes)));
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "yes");
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Fill an element with what is loaded, or with a sentence that says why not. */
export async function load(element, fetching, show, missing = t("not_offered")) {
  fill(element, loading());
  try {
    const found = await fetching();
    if (found === null) fill(element, sentence(missing));
    else await show(found);
  } catch (error) {
    if (error.isMissing) fill(element, sentence(missing));
    else if (error.name !== "AbortError") fill(element, h("p", { class: "empty bad", role: "alert" }, error.message));
  }
}

/** A picture that comes from the API, and where there is none, its words. */
export function picture(address, words) {
  const image = h("img", { src: address, alt: words, loading: "lazy" });
  image.addEventListener("error", () => image.replaceWith(h("span", { class: "no-picture" }, t("no_picture"))));
  return image;
}

export const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);
