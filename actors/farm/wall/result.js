// What an answer found: its SQL, its rows as a table and as files, its chart.

import * as api from "./api.js";
import { fill, h } from "./dom.js";
import { action, table } from "./parts.js";
import { number, t } from "./words.js";

const MOST_ROWS = 200; // are drawn; exports have all

export class Result {
  sql = "";
  columns = [];
  rows = [];
  grid = h("div");
  chart = h("div", { class: "chart" });
  code = h("div");
  #charts = 0;

  /** @param {string} words What was asked: names the chart and the files. */
  constructor(words) {
    this.words = words;
  }

  get elements() {
    return [this.grid, this.chart, this.code];
  }

  setSql(sql) {
    this.sql = String(sql ?? "");
    fill(this.code, this.sql === "" ? null : h("details", {}, h("summary", {}, "SQL"), h("pre", { class: "log", tabindex: "0", "aria-label": "SQL" }, this.sql)));
  }

  /** The rows as a table; `note` says what else there is to know of them. */
  drawRows(note = "") {
    const columns = this.columns.map((name, index) => [name, (row) => cell(row[index]), this.rows.some((row) => typeof row[index] === "number") ? "number" : ""]);
    const hidden = this.rows.length - MOST_ROWS;
    const notes = [hidden > 0 ? t("more_rows", { count: number(hidden) }) : "", note].filter(Boolean).join(" ");
    fill(this.grid, columns.length === 0 ? null : table(columns, this.rows.slice(0, MOST_ROWS), t("rows")), notes ? h("p", { class: "small" }, notes) : null);
  }

  /** What is no specification is no chart. */
  async drawChart(spec) {
    const turn = ++this.#charts;
    const put = (shown) => turn === this.#charts && fill(this.chart, shown); // a later one is newer, whichever comes first
    if (spec === null || typeof spec !== "object") {
      put(null);
      return;
    }
    try {
      const response = await api.raw("POST", "/api/v1/charts", { body: spec });
      const blob = await response.blob();
      const url = URL.createObjectURL(new Blob([blob], { type: "image/svg+xml" })); // as an image: nothing in it runs
      const image = h("img", { src: url, alt: t("chart_of", { question: this.words }) });
      image.addEventListener("load", () => URL.revokeObjectURL(url), { once: true });
      put(image);
    } catch (error) {
      put(h("p", { class: "small" }, error.isMissing ? t("no_charts") : error.message));
    }
  }

  /** Buttons that save the rows; none where there are none. */
  exports() {
    if (this.columns.length === 0) return [];
    return ["csv", "xlsx"].map((format) => action(format.toUpperCase(), () => this.#save(format), { label: t("save_as", { format: format.toUpperCase() }) }));
  }

  async #save(format) {
    const response = await api.raw("POST", "/api/v1/tables", { body: { format, columns: this.columns, rows: this.rows, name: this.words.slice(0, 80) } });
    api.download(await response.blob(), `${this.words.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "answer"}.${format}`);
  }
}

function cell(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "number" ? number(value, 6) : typeof value === "object" ? JSON.stringify(value) : String(value);
}
