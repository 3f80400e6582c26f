// One answer as it comes: its stages, SQL, rows, summary, chart and choices; and what can be done with it.

import * as api from "./api.js";
import { fill, h, setText } from "./dom.js";
import { action, badge, complain, notify, table } from "./parts.js";
import { number, t } from "./words.js";

const MOST_ROWS = 200; // are drawn; exports have all
const LAST = { answer: "done", clarification: "known", refusal: "ignored", failed: "failed", cancelled: "cancelled" };

export class Answer {
  sql = "";
  columns = [];
  rows = [];
  over = false;
  #truncated = false;

  /**
   * @param {object} question `{id, words}`.
   * @param {object} does What it asks for: cancel, choose, fix, explain, review, pin.
   */
  constructor(question, does) {
    this.question = question;
    this.does = does;
    this.stages = h("ol", { class: "stages" });
    this.state = h("span", {}, badge("running", t("thinking_about_it")));
    this.text = h("p", { class: "answer-text" });
    this.delta = h("pre", { class: "delta", hidden: true });
    this.code = h("div");
    this.grid = h("div");
    this.chart = h("div", { class: "chart" });
    this.choices = h("div", { class: "row choices" });
    this.tools = h("div", { class: "row tools" }, action(t("cancel"), async () => does.cancel(question.id)));
    this.element = h("article", { class: "answer panel", "aria-label": question.words, "data-question": question.id },
      h("div", { class: "row spread" }, h("h2", {}, question.words), this.state), this.stages, this.delta, this.text, this.choices, this.grid, this.chart, this.code, this.tools);
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
      case "chart": this.#draw(data.spec); break;
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
    this.sql = String(sql ?? "");
    this.delta.hidden = true;
    fill(this.code, h("details", {}, h("summary", {}, "SQL"), h("pre", { class: "log", tabindex: "0", "aria-label": "SQL" }, this.sql)));
  }

  #takeRows(data) {
    if (data.sql) this.#setSql(data.sql);
    this.columns = (data.columns ?? []).map(String);
    this.rows = data.offset ? [...this.rows, ...data.rows] : [...(data.rows ?? [])];
    this.#truncated = Boolean(data.truncated);
    this.#stage("rows", number(this.rows.length));
    if (data.more) return;
    const columns = this.columns.map((name, index) => [name, (row) => cell(row[index]), this.rows.some((row) => typeof row[index] === "number") ? "number" : ""]);
    const hidden = this.rows.length - MOST_ROWS;
    fill(this.grid, table(columns, this.rows.slice(0, MOST_ROWS), t("rows")),
      hidden > 0 || this.#truncated ? h("p", { class: "small" }, [hidden > 0 ? t("more_rows", { count: number(hidden) }) : "", this.#truncated ? t("may_be_more") : ""].join(" ")) : null);
  }

  async #draw(spec) {
    if (spec === null || typeof spec !== "object") return;
    try {
      const response = await api.raw("POST", "/api/v1/charts", { body: spec });
      const blob = await response.blob();
      const url = URL.createObjectURL(new Blob([blob], { type: "image/svg+xml" })); // as an image: nothing in it runs
      const image = h("img", { src: url, alt: t("chart_of", { question: this.question.words }) });
      image.addEventListener("load", () => URL.revokeObjectURL(url), { once: true });
      fill(this.chart, image);
    } catch (error) {
      fill(this.chart, h("p", { class: "small" }, error.isMissing ? t("no_charts") : error.message));
    }
  }

  #end(stage, data) {
    this.over = true;
    this.delta.hidden = true;
    fill(this.state, badge(LAST[stage] ?? "done", t(`end.${stage}`)));
    const about = String(data.text ?? data.code ?? "");
    if (stage !== "answer" || this.columns.length === 0) setText(this.text, data.retry_after ? `${about} ${t("again_in", { seconds: number(data.retry_after) })}` : about);
    if (stage === "clarification") {
      fill(this.choices, (data.choices ?? []).map((one) => h("button", { type: "button", onclick: () => this.does.choose(this.question, one) }, String(one.label))));
    }
    fill(this.tools, this.#tools(stage));
  }

  #tools(stage) {
    if (stage === "clarification" || stage === "cancelled") return [];
    const { does } = this;
    const hasRows = this.columns.length > 0;
    return [
      hasRows ? ["csv", "xlsx"].map((format) => action(format.toUpperCase(), () => this.#save(format), { label: t("save_as", { format: format.toUpperCase() }) })) : null,
      this.sql ? h("button", { type: "button", onclick: () => this.#fix() }, t("fix_sql")) : null,
      this.sql ? h("button", { type: "button", onclick: () => does.explain(this.question) }, t("explain")) : null,
      stage === "answer" ? h("button", { type: "button", onclick: () => this.#review() }, t("ask_review")) : null,
      stage === "answer" && does.pin ? h("button", { type: "button", onclick: () => does.pin(this) }, t("pin_answer")) : null,
    ];
  }

  async #save(format) {
    const response = await api.raw("POST", "/api/v1/tables", { body: { format, columns: this.columns, rows: this.rows, name: this.question.words.slice(0, 80) } });
    api.download(await response.blob(), `${this.question.words.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "answer"}.${format}`);
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
    const sql = h("textarea", { rows: "6", class: "code", value: this.sql, maxlength: "20000" });
    const text = h("textarea", { rows: "2", maxlength: "4000" });
    this.#form(t("fix_sql"), [h("label", {}, "SQL", sql), h("label", {}, t("what_is_wrong"), text)], () => this.does.fix(this.question, sql.value, text.value));
  }

  #review() {
    const text = h("textarea", { rows: "2", maxlength: "4000" });
    this.#form(t("ask_review"), h("label", {}, t("what_to_review"), text), () => this.does.review(this.question, text.value, this.sql));
  }
}

function cell(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "number" ? number(value, 6) : typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Ask for the words of a pin, then make it. */
export function pinDialog(answer, onPinned) {
  const title = h("input", { required: true, maxlength: "200", value: answer.question.words.slice(0, 200) });
  const every = h("select", {}, [["", t("pin.never")], ["60", t("pin.hourly")], ["1440", t("pin.daily")]].map(([value, text]) => h("option", { value }, text)));
  const column = h("select", {}, h("option", { value: "" }, t("pin.no_threshold")), answer.columns.map((name) => h("option", { value: name }, name)));
  const side = h("select", {}, h("option", { value: "above" }, t("pin.above")), h("option", { value: "below" }, t("pin.below")));
  const bound = h("input", { type: "number", step: "any" });
  const dialog = h("dialog", { "aria-label": t("pin_answer") }, h("form", { method: "dialog", onsubmit: async (event) => {
    if (event.submitter?.value === "no") return;
    event.preventDefault();
    const body = { question: answer.question.words, title: title.value, sql: answer.sql || undefined,
      schedule: every.value === "" ? null : { every_minutes: Number(every.value) },
      threshold: column.value === "" || bound.value === "" ? null : { column: column.value, [side.value]: Number(bound.value) } };
    try {
      await api.post("/api/v1/pins", body);
      notify(t("pinned_it"));
      dialog.close();
      onPinned();
    } catch (error) {
      complain(error);
    }
  } }, h("label", {}, t("title"), title), h("label", {}, t("pin.again"), every), h("label", {}, t("pin.tell_when"), column), h("div", { class: "row" }, side, bound),
  h("div", { class: "row" }, h("button", { value: "no", formnovalidate: true }, t("no")), h("button", { class: "primary", value: "yes" }, t("pin_answer")))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
