// What is known of the farm at the moment, from its events; where it sends none, from asking every few seconds.

import { get, offered, path } from "./api.js";
import { Events } from "./events.js";

const ASK_MS = 3000;

export class Live {
  farm = null;
  phones = new Map();
  runs = new Map();
  engines = null;
  detail = null;
  state = "waiting";
  /** Kinds that were told at least once: before that, an empty map says nothing. */
  told = new Set();
  #listeners = new Map();
  #screens = new Map();
  #timer = null;
  #events;
  #wanted = { phones: [], screens: null, detail: null };

  constructor() {
    this.#events = new Events(
      (message) => this.take(message),
      (header, jpeg) => this.#draw(header, jpeg),
      (state) => this.#setState(state),
    );
  }

  /** Call back when something of a kind changes: farm, phones, runs, engines, detail, state. Returns what ends it. */
  on(kind, call) {
    if (!this.#listeners.has(kind)) this.#listeners.set(kind, new Set());
    this.#listeners.get(kind).add(call);
    return () => this.#listeners.get(kind).delete(call);
  }

  /** Draw pictures of a phone with this; null: no more. */
  onScreen(phone, draw) {
    if (draw === null) this.#screens.delete(phone);
    else this.#screens.set(phone, draw);
  }

  watch(wanted) {
    this.#wanted = wanted;
    this.detail = null;
    this.#events.watch(wanted);
    if (this.state === "absent") this.#ask();
  }

  close() {
    clearTimeout(this.#timer);
    this.state = "closed";
    this.#events.close();
  }

  take(message) {
    switch (message.type) {
      case "farm": this.farm = message; break;
      case "phones": merge(this.phones, message, message.phones, "phone"); break;
      case "runs": merge(this.runs, message, message.runs, "run"); break;
      case "engines": this.engines = message; break;
      case "detail": this.detail = message; break;
      case "error": case "bye": break;
      default: return;
    }
    this.told.add(message.type);
    this.#call(message.type);
  }

  async #draw(header, jpeg) {
    const draw = this.#screens.get(header.phone);
    if (draw !== undefined) await draw(header, jpeg);
  }

  #call(kind) {
    for (const call of [...(this.#listeners.get(kind) ?? [])]) call();
  }

  #setState(state) {
    if (this.state === "closed") return;
    const began = state === "absent" && this.state !== "absent";
    this.state = state;
    this.#call("state");
    if (state === "open") clearTimeout(this.#timer);
    if (began) this.#ask();
  }

  /** Instead of events. */
  async #ask() {
    clearTimeout(this.#timer);
    if (!document.hidden) {
      try {
        const [farm, phones, runs] = await Promise.all([
          get(path("farm")), get(path("phones")), get(path("runs"), { limit: 100 }),
        ]);
        this.take({ type: "farm", ...farm });
        this.take({ type: "phones", whole: true, phones: phones.phones });
        this.take({ type: "runs", whole: true, runs: runs.runs });
        const engines = await offered(path("engines"));
        if (engines !== null) this.take({ type: "engines", ...engines });
        const phone = this.#wanted.detail;
        const detail = phone === null ? null : await offered(path("phones", phone));
        if (detail !== null) this.take({ type: "detail", phone, ...detail });
      } catch {
        // told by `state`; the next time may do
      }
    }
    if (this.state === "absent") this.#timer = setTimeout(() => this.#ask(), ASK_MS);
  }
}

function merge(held, message, rows, key) {
  if (message.whole) held.clear();
  for (const row of rows) held.set(row[key], row);
  for (const gone of message.gone ?? []) held.delete(gone);
}
