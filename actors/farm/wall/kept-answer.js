// The answer that the farm keeps of a pinned question: what it found, how old it is, and what can be done with the pin.

import { fill, h, setText } from "./dom.js";
import { action, facts } from "./parts.js";
import { marks, nextWords, scheduleWords, thresholdWords } from "./pin-words.js";
import { Result } from "./result.js";
import { moment, number, t } from "./words.js";

export class KeptAnswer {
  #pin = "";
  #last = "";

  /**
   * @param {object} pin As the farm shows one.
   * @param {object} does What it asks for: run, ask, unpin, close.
   */
  constructor(pin, does) {
    this.result = new Result(pin.title);
    this.marks = h("span", { class: "row" });
    this.about = h("div");
    this.trouble = h("div");
    this.text = h("p", { class: "answer-text" });
    this.files = h("span", { class: "row" });
    this.heading = h("h2", { tabindex: "-1" }, pin.title);
    this.element = h("article", { class: "answer panel kept", "aria-label": pin.title, "data-pin": pin.id },
      h("div", { class: "row spread" }, this.heading, this.marks, h("button", { class: "quiet", type: "button", "aria-label": t("pin.close", { title: pin.title }), onclick: () => does.close() }, "×")),
      this.about, this.trouble, this.text, this.result.elements,
      h("div", { class: "row tools" }, this.files, action(t("pin.run"), () => does.run()), h("button", { type: "button", onclick: () => does.ask() }, t("pin.ask")), action(t("pin.remove"), () => does.unpin())));
  }

  /** Bring it up to date. What did not change stays in place: a screen reader is not told of it again. */
  take(pin) {
    const whole = JSON.stringify(pin);
    if (whole === this.#pin) return;
    this.#pin = whole;
    const { last } = pin;
    fill(this.marks, marks(pin));
    fill(this.about, facts([[t("question"), pin.question], [t("pin.answered"), moment(last?.at)],
      [t("pin.again"), [scheduleWords(pin.schedule), nextWords(pin)].filter(Boolean).join(" · ")],
      [t("pin.tell_when"), thresholdWords(pin.threshold)], [t("tenant"), `${pin.tenant} · ${pin.user}`]]));
    fill(this.trouble, troubles(pin).map((text) => h("p", { class: "warn" }, text)));
    const kept = JSON.stringify(last);
    if (kept === this.#last) return;
    this.#last = kept;
    this.#show(last);
  }

  #show(last) {
    const { result } = this;
    setText(this.text, last?.summary);
    result.columns = last?.columns ?? [];
    result.rows = last?.rows ?? [];
    const isCut = last?.row_count > result.rows.length;
    result.drawRows(isCut ? t("pin.kept_rows", { kept: number(result.rows.length), count: number(last.row_count) }) : last?.truncated ? t("may_be_more") : "");
    result.setSql(last?.sql);
    result.drawChart(last?.chart ?? null);
    fill(this.files, result.exports());
  }
}

/** Why what is shown is not as it should be. */
function troubles({ paused, last }) {
  const texts = paused === null ? [] : [t("pin.paused", { why: paused })];
  if (last?.state === "failed") {
    texts.push(t("pin.failed", { time: moment(last.failed_at), why: last.error }), last.at === null ? t("pin.never_answered") : t("pin.old_rows", { time: moment(last.at) }));
  } else if (last?.error) texts.push(last.error);
  return texts;
}
