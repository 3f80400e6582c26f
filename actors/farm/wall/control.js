// A person at a phone: takes it over, and what is done on the picture is done on the phone.

import * as api from "./api.js";
import { h } from "./dom.js";
import { action, complain } from "./parts.js";
import { t } from "./words.js";

const LONG_MS = 450;
const SHORTEST_DRAG = 0.02; // of the screen: below it a finger only trembled

/**
 * Controls for one phone.
 *
 * @param {string} phone Its id.
 * @param {HTMLElement} surface The picture that is touched.
 * @param {{user: string}} me Who asks.
 * @param {boolean} may Whether this person may.
 */
export function openControl(phone, surface, me, may) {
  let mine = false;
  let pressed = null;
  const send = async (input) => {
    surface.classList.add("sending");
    try {
      await api.post(api.path("phones", phone, "input"), input);
    } catch (error) {
      if (error.status === 409) set(null);
      complain(error);
    } finally {
      surface.classList.remove("sending");
    }
  };
  const take = action(t("take_over"), async () => {
    await api.post(api.path("phones", phone, "take-over"));
    set(me.user);
    surface.focus();
  }, { kind: "primary" });
  const give = action(t("hand_back"), async () => {
    await api.remove(api.path("phones", phone, "take-over"));
    set(null);
  }, { kind: "primary" });
  const key = (name) => action(t(`key.${name}`), () => send({ kind: "key", key: name }));
  const keys = h("div", { class: "row" }, key("back"), key("home"), key("recents"), key("enter"));
  const text = h("input", { type: "text", id: "phone-text", "aria-label": t("type_text"), placeholder: t("type_text"), maxlength: "500", autocomplete: "off" });
  const typing = h("form", { class: "row", onsubmit: async (event) => {
    event.preventDefault();
    if (text.value === "") return;
    const typed = text.value;
    text.value = "";
    await send({ kind: "text", text: typed });
  } }, text, h("button", {}, t("send")));
  const told = h("p", { class: "small", role: "status" });
  const inputs = h("div", { class: "inputs" }, h("p", { class: "small" }, t("touch_help")), keys, typing);
  const element = may ? h("div", { class: "control" }, h("div", { class: "row" }, take, give, told), inputs) : h("div", { class: "control" }, told);

  /** Who has it; null: the bot. */
  function set(user) {
    mine = user !== null && user === me.user;
    take.hidden = user !== null;
    give.hidden = !mine;
    inputs.hidden = !mine;
    told.textContent = user === null ? "" : mine ? t("you_have_it") : t("taken_by", { user });
    surface.classList.toggle("touchable", mine);
    surface.tabIndex = mine ? 0 : -1;
    surface.setAttribute("aria-label", mine ? t("screen_touchable") : t("screen_of", { phone }));
  }

  const at = (event) => {
    const box = surface.getBoundingClientRect();
    const share = (value, start, length) => Math.min(1, Math.max(0, (value - start) / length));
    return { x: share(event.clientX, box.left, box.width), y: share(event.clientY, box.top, box.height) };
  };
  surface.addEventListener("pointerdown", (event) => {
    if (!mine || event.button !== 0) return;
    event.preventDefault();
    surface.setPointerCapture(event.pointerId);
    pressed = { ...at(event), since: performance.now() };
  });
  surface.addEventListener("pointercancel", () => { pressed = null; });
  surface.addEventListener("pointerup", (event) => {
    if (pressed === null) return;
    const from = pressed;
    pressed = null;
    const to = at(event);
    const ms = Math.round(Math.min(5000, performance.now() - from.since));
    if (Math.hypot(to.x - from.x, to.y - from.y) >= SHORTEST_DRAG) {
      send({ kind: "swipe", x: from.x, y: from.y, x2: to.x, y2: to.y, ms: Math.max(80, ms) });
    } else if (ms >= LONG_MS) send({ kind: "long_press", x: from.x, y: from.y, ms });
    else send({ kind: "tap", x: from.x, y: from.y });
  });
  surface.addEventListener("keydown", (event) => {
    if (!mine) return;
    const name = { Backspace: "back", Home: "home", Enter: "enter" }[event.key];
    if (name === undefined) return;
    event.preventDefault();
    send({ kind: "key", key: name });
  });
  set(null);
  return { element, set };
}
