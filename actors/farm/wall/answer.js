// One answer as it comes: its stages, SQL, rows, summary, chart and choices; and what can be done with it.

import { fill, h, setText } from "./dom.js";
import { action, badge } from "./parts.js";
import { Result } from "./result.js";
import { number, t } from "./words.js";

const LAST = { answer: "done", clarification: "known", refusal: "ignored", failed: "failed", cancelled: "cancelled" };

export class Answer {
  over = false;

  /**
   * @param {object} question `{id, words}`.
   * @param {object} does What it asks for: cancel, choose, fix, explain, review, pin.
   */
  constructor(question, does) {
    this.question = question;
    this.does = does;
    this.result = new Result(question.words);
    this.stages = h("ol", { class: "stages" });
    this.state = h("span", {}, badge("running", t("thinking_about_it")));
    this.text = h("p", { class: "answer-text" });
    this.delta = h("pre", { class: "delta", hidden: true });
    this.choices = h("div", { class: "row choices" });
    this.tools = h("div", { class: "row tools" }, action(t("cancel"), async () => does.cancel(question.id)));
    this.element = h("article", { class: "answer panel", "aria-label": question.words, "data-question": question.id },
      h("div", { class: "row spread" }, h("h2", {}, question.words), this.state), this.stages, this.delta, this.text, this.choices, this.result.elements, this.tools);
  }

  take({ stage, data, last }) {
    switch (stage) {
      case "resolved": this.#stage(stage, data.text); break;
      case "intent": this.#stage(stage, [data.route, data.why].filter(Boolean).join(" – ")); break;
      case "scope": this.#stage(stage, (data.tables ?? []).map((one) => one.name ?? one).join(", ")); break;
      case "retrieved": this.#stage(stage, ""); break;
      case "delta":
        this.delta.hidden = false;
        this.delta.append(String(data.text ?? ""));
        break;
      case "sql":
        this.#setSql(data.sql);
        this.#stage(stage, "");
        break;
      case "check": this.#stage(stage, data.verdict === "pass" ? t("passed") : [data.code, data.hint].filter(Boolean).join(": ")); break;
      case "rows": this.#takeRows(data); break;
      case "summary": setText(this.text, data.text); break;
      case "chart": this.result.drawChart(data.spec); break;
      default:
    }
    if (last) this.#end(stage, data);
  }

  #stage(name, text) {
    const known = [...this.stages.children].find((one) => one.dataset.stage === name);
    const line = h("li", { "data-stage": name }, h("strong", {}, t(`stage.${name}`)), text ? ` ${text}` : "");
    if (known) known.replaceWith(line);
    else this.stages.append(line);
  }

  #setSql(sql) {
    this.delta.hidden = true;
    this.result.setSql(sql);
  }

  #takeRows(data) {
    const { result } = this;
    if (data.sql) this.#setSql(data.sql);
    result.columns = (data.columns ?? []).map(String);
    result.rows = data.offset ? [...result.rows, ...data.rows] : [...(data.rows ?? [])];
    this.#stage("rows", number(result.rows.length));
    if (!data.more) result.drawRows(data.truncated ? t("may_be_more") : "");
  }

  #end(stage, data) {
    this.over = true;
    this.delta.hidden = true;
    fill(this.state, badge(LAST[stage] ?? "done", t(`end.${stage}`)));
    const about = String(data.text ?? data.code ?? "");
    if (stage !== "answer" || this.result.columns.length === 0) setText(this.text, data.retry_after ? `${about} ${t("again_in", { seconds: number(data.retry_after) })}` : about);
    if (stage === "clarification") {
      fill(this.choices, (data.choices ?? []).map((one) => h("button", { type: "button", onclick: () => this.does.choose(this.question, one) }, String(one.label))));
    }
    fill(this.tools, this.#tools(stage));
  }

  #tools(stage) {
    if (stage === "clarification" || stage === "cancelled") return [];
    const { does, result } = this;
    return [
      result.exports(),
      result.sql ? h("button", { type: "button", onclick: () => this.#fix() }, t("fix_sql")) : null,
      result.sql ? h("button", { type: "button", onclick: () => does.explain(this.question) }, t("explain")) : null,
      stage === "answer" ? h("button", { type: "button", onclick: () => this.#review() }, t("ask_review")) : null,
      stage === "answer" && does.pin ? h("button", { type: "button", onclick: () => does.pin(this) }, t("pin_answer")) : null,
    ];
  }

  /** A form under the answer: one at a time. */
  #form(title, fields, send) {
    this.element.querySelector("form")?.remove();
    const form = h("form", { class: "under", "aria-label": title, onsubmit: (event) => {
      event.preventDefault();
      send();
      form.remove();
    } }, fields, h("div", { class: "row" }, h("button", { class: "primary" }, t("send")), h("button", { type: "button", onclick: () => form.remove() }, t("no"))));
    this.element.append(form);
    form.querySelector("textarea").focus();
  }

  #fix() {
    const sql = h("textarea", { rows: "6", class: "code", value: this.result.sql, maxlength: "20000" });
    const text = h("textarea", { rows: "2", maxlength: "4000" });
    this.#form(t("fix_sql"), [h("label", {}, "SQL", sql), h("label", {}, t("what_is_wrong"), text)], () => this.does.fix(this.question, sql.value, text.value));
  }

  #review() {
    const text = h("textarea", { rows: "2", maxlength: "4000" });
    this.#form(t("ask_review"), h("label", {}, t("what_to_review"), text), () => this.does.review(this.question, text.value, this.result.sql));
  }
}
