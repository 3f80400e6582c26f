// Logging in: a token becomes a session, and is forgotten.

import { logIn } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { language, setLanguage, t } from "./words.js";

/** Ask for a token; `onDone` gets who it is. */
export function openLogin(root, onDone) {
  const wrong = h("p", { id: "login-error", role: "alert", class: "bad" });
  const field = h("input", {
    id: "token", type: "password", name: "token", autocomplete: "current-password", spellcheck: "false", required: true,
    maxlength: "256", "aria-describedby": "login-error",
  });
  const enter = h("button", { class: "primary" }, t("log_in"));
  const other = language() === "zh" ? ["en", "English"] : ["zh", "中文"];
  const word = h("button", { class: "quiet", type: "button", lang: other[0], onclick: () => {
    setLanguage(other[0]);
    openLogin(root, onDone);
  } }, other[1]);
  const form = h("form", { class: "login", onsubmit: async (event) => {
    event.preventDefault();
    enter.disabled = true;
    setText(wrong, "");
    try {
      const who = await logIn(field.value.trim());
      field.value = "";
      onDone(who);
    } catch (error) {
      setText(wrong, error.status === 401 ? t("wrong_token") : error.message);
      field.setAttribute("aria-invalid", "true");
      field.select();
    } finally {
      enter.disabled = false;
    }
  } },
  h("h1", {}, "Corral"), h("label", { for: "token" }, t("token")), field, wrong,
  h("div", { class: "row" }, enter, word), h("p", { class: "small" }, t("token_from")));
  fill(root, form);
  field.focus();
}
