// Questions to the assistant: asked here, answered as their stages come.

import { Answer } from "./answer.js";
import { Assistant } from "./ask-socket.js";
import { fill, h, setText } from "./dom.js";
import { heading, notify, sentence } from "./parts.js";
import { pinDialog } from "./pin-dialog.js";
import { Pins } from "./pins.js";
import { moment, t } from "./words.js";

export function openAsk(root, { embedded = false } = {}) {
  const answers = new Map();
  const list = h("div", { class: "answers", "aria-live": "polite", "aria-relevant": "additions" });
  const past = h("div");
  const pins = new Pins(list, (text) => ask(text));
  const state = h("p", { class: "small", role: "status" });
  const field = h("textarea", { id: "question", rows: "2", maxlength: "4000", placeholder: t("ask_placeholder"), "aria-label": t("question"), required: true });
  const send = h("button", { class: "primary" }, t("ask"));
  const form = h("form", { class: "ask panel", onsubmit: (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (text === "") return;
    field.value = "";
    ask(text);
  } }, field, send);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return; // while Chinese is composed, Enter chooses a word
    event.preventDefault();
    form.requestSubmit();
  });
  const aside = embedded ? null : h("aside", { class: "asked" }, h("section", { class: "panel" }, h("h2", {}, t("pins")), pins.element), h("section", { class: "panel" }, h("h2", {}, t("asked_before")), past));
  fill(root, embedded ? null : heading(t("tab.ask")), h("div", { class: embedded ? "" : "asking" }, h("div", {}, form, state, list), aside));

  const assistant = new Assistant(
    (event) => answers.get(event.id)?.take(event),
    (reply) => {
      if (reply.type === "welcome" && !embedded) assistant.send({ type: "history", limit: 50 });
      else if (reply.type === "history") showPast(reply.entries);
      else if (reply.type === "reviewed") notify(t("review_asked"));
      else if (reply.type === "error") refused(reply);
    },
    (now, text) => {
      send.disabled = now === "over";
      setText(state, now === "open" ? "" : now === "absent" ? t("no_assistant") : now === "over" ? t(embedded ? "ticket_over" : "session_over") : t("line.waiting"));
      state.title = text;
    },
  );

  function begin(words, message) {
    const question = { id: assistant.id(), words };
    const answer = new Answer(question, does);
    answers.set(question.id, answer);
    list.prepend(answer.element);
    assistant.send({ ...message, id: question.id });
  }
  const ask = (text) => begin(text, { type: "ask", text });
  const does = {
    cancel: (id) => assistant.send({ type: "cancel", id }),
    choose: (question, choice) => begin(`${question.words} – ${choice.label}`, { type: "choose", of: question.id, choice: choice.id }),
    fix: (question, sql, text) => begin(t("fixing", { question: question.words }), { type: "fix", sql, ...(text.trim() === "" ? {} : { text }) }),
    explain: (question) => begin(t("explaining", { question: question.words }), { type: "explain", of: question.id }),
    review: (question, text, sql) => assistant.send({ type: "review", id: assistant.id(), of: question.id, ...(text.trim() === "" ? {} : { text }), ...(sql ? { sql } : {}) }),
    pin: embedded ? null : (answer) => pinDialog(answer.question.words, answer.result, (pin) => pins.add(pin)),
  };

  function refused(reply) {
    const answer = reply.id === undefined ? undefined : answers.get(reply.id);
    if (answer === undefined || answer.over) notify(reply.message, "bad");
    else answer.take({ stage: "failed", data: { text: reply.message, retry_after: reply.retry_after }, last: true });
  }

  function showPast(entries) {
    fill(past, entries.length === 0 ? sentence(t("nothing_yet")) : h("ul", { class: "past" }, entries.map((one) =>
      h("li", {}, h("button", { class: "quiet", type: "button", onclick: () => (one.verb === "ask" ? ask(one.text) : (field.value = one.text, field.focus())) }, one.text || one.sql || one.verb),
        h("span", { class: "small" }, ` ${moment(one.at)} · ${t(`end.${one.stage}`)}`)))));
  }

  if (!embedded) pins.load();
  field.focus();
  return () => {
    pins.close();
    assistant.close();
  };
}
