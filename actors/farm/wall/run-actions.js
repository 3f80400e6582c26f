// What an operator may do with a run, as buttons.

import * as api from "./api.js";
import { h } from "./dom.js";
import { action, notify } from "./parts.js";
import { t } from "./words.js";

const OVER = new Set(["succeeded", "failed", "errored", "wrong", "cancelled"]);
export const isOver = (run) => OVER.has(run.state);

/** Buttons that fit its state; `changed` is called after each. */
export function runActions(run, may, changed) {
  if (!may("operator")) return null;
  const act = (verb, words, { method = "post", body, ...more } = {}) => action(t(words), async () => {
    const address = api.path("runs", run.run, verb);
    await (method === "post" ? api.post(address, body) : api.remove(address));
    notify(t("done"));
    await changed();
  }, { label: `${t(words)}: ${run.scenario}`, ...more });
  const buttons = [];
  if (!isOver(run)) {
    if (run.held) buttons.push(act("resume", "resume"));
    else {
      if (run.state === "running") buttons.push(act("pause", "hold", { body: { hold: true } }));
      buttons.push(act("pause", "pause"));
    }
    buttons.push(act("cancel", "cancel", { kind: "danger", confirm: t("cancel_sure", { run: run.scenario }) }));
  }
  buttons.push(run.pinned ? act("pin", "unpin", { method: "delete" }) : act("pin", "pin"));
  return h("div", { class: "row actions" }, buttons);
}
