// Asks for the words of a pin: its title, when it is asked again, and what is worth telling; then makes it.

import * as api from "./api.js";
import { h } from "./dom.js";
import { complain, notify, option } from "./parts.js";
import { ownZone, t } from "./words.js";

const DAILY = "daily";

/**
 * @param {string} question What is asked again.
 * @param {Result} result What it found this time.
 * @param {(pin) => void} onPinned Called with the new pin.
 */
export function pinDialog(question, result, onPinned) {
  const zone = ownZone();
  const title = h("input", { required: true, maxlength: "200", value: question.slice(0, 200) });
  const at = h("input", { type: "time", value: "09:00", required: true, disabled: true });
  const time = h("label", { hidden: true }, t("pin.time", { zone }), at);
  const again = h("select", { onchange: () => {
    time.hidden = at.disabled = again.value !== DAILY; // what is disabled is not checked
  } }, [["", t("pin.never")], ["60", t("pin.hourly")], [DAILY, t("pin.daily_at")]].map(([value, text]) => option(value, text, "")));
  const column = h("select", { onchange: () => { bound.required = column.value !== ""; } }, option("", t("pin.no_threshold"), ""), result.columns.map((name) => option(name, name, "")));
  const side = h("select", { "aria-label": t("pin.side") }, option("above", t("pin.above"), "above"), option("below", t("pin.below"), "above"));
  const bound = h("input", { type: "number", step: "any", "aria-label": t("pin.bound") });

  let making = false;

  function schedule() {
    if (again.value === DAILY) return { at: at.value, zone };
    return again.value === "" ? null : { every_minutes: Number(again.value) };
  }
  const dialog = h("dialog", { "aria-label": t("pin_answer") }, h("form", { method: "dialog", onsubmit: async (event) => {
    if (event.submitter?.value === "no") return;
    event.preventDefault();
    if (making) return; // a second click is no second pin
    making = true;
    const body = { question, title: title.value, sql: result.sql || undefined, schedule: schedule(),
      threshold: column.value === "" || bound.value === "" ? null : { column: column.value, [side.value]: Number(bound.value) } };
    try {
      const pin = await api.post("/api/v1/pins", body);
      notify(t("pinned_it"));
      dialog.close();
      onPinned(pin);
    } catch (error) {
      complain(error);
    } finally {
      making = false;
    }
  } }, h("label", {}, t("title"), title), h("label", {}, t("pin.again"), again), time, h("label", {}, t("pin.tell_when"), column), h("div", { class: "row" }, side, bound),
  h("div", { class: "row" }, h("button", { value: "no", formnovalidate: true }, t("no")), h("button", { class: "primary", value: "yes" }, t("pin_answer")))));
  const leave = () => dialog.close();
  window.addEventListener("hashchange", leave);
  dialog.addEventListener("close", () => {
    window.removeEventListener("hashchange", leave);
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
}
