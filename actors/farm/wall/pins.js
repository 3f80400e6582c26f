// Pinned questions: the list of them, and those that are open among the answers.

import * as api from "./api.js";
import { fill, h, keyed } from "./dom.js";
import { action, complain, sentence } from "./parts.js";
import { KeptAnswer } from "./kept-answer.js";
import { isDue, marks, nextWords } from "./pin-words.js";
import { t } from "./words.js";

const LOOK_MS = 2000;
const MOST_LOOKS = 60; // two minutes: what takes longer is seen when it is opened again

export class Pins {
  element = h("div");
  #answers;
  #ask;
  #list = h("ul", { class: "past pins" });
  #pins = new Map(); // id → as it was last seen
  #open = new Map(); // id → its answer on the page
  #following = new Map(); // id → what ends it
  #closed = false;

  /**
   * @param {Element} answers Where those that are opened go.
   * @param {(question: string) => void} ask Ask it as a question.
   */
  constructor(answers, ask) {
    this.#answers = answers;
    this.#ask = ask;
  }

  async load() {
    try {
      const found = await api.offered(api.path("pins"));
      if (found === null) {
        fill(this.element, sentence(t("no_pins_here")));
        return;
      }
      this.#pins = new Map(found.pins.map((pin) => [pin.id, pin]));
      this.#draw();
    } catch (error) {
      complain(error);
    }
  }

  /** One that was just made: it is being asked. */
  add(pin) {
    this.#take(pin);
    this.#follow(pin, null);
  }

  close() {
    this.#closed = true;
    for (const id of [...this.#following.keys()]) this.#leave(id);
  }

  #draw() {
    if (this.#pins.size === 0) {
      fill(this.element, sentence(t("no_pins")));
      return;
    }
    if (!this.element.contains(this.#list)) fill(this.element, this.#list);
    keyed(this.#list, [...this.#pins.values()], (pin) => pin.id, (pin) => this.#row(pin), (row, pin) => {
      fill(row.querySelector(".marks"), marks(pin, { dated: true }));
      fill(row.querySelector(".next"), pin.paused ?? nextWords(pin));
    });
  }

  #row({ id, title }) {
    return h("li", {}, action(title, () => this.#show(id), { kind: "quiet" }),
      action("×", () => this.#remove(id), { kind: "quiet", label: t("unpin_answer", { title }) }),
      h("div", { class: "row marks" }), h("div", { class: "small next" }));
  }

  #take(pin) {
    this.#pins.set(pin.id, pin);
    this.#draw();
    this.#open.get(pin.id)?.take(pin);
  }

  async #show(id) {
    const pin = await api.get(api.path("pins", id));
    if (this.#closed) return;
    const shown = this.#open.get(id) ?? new KeptAnswer(pin, {
      run: () => this.#run(id), ask: () => this.#ask(pin.question), unpin: () => this.#remove(id), close: () => this.#shut(id),
    });
    this.#open.set(id, shown);
    this.#take(pin);
    this.#answers.prepend(shown.element);
    shown.heading.focus();
    if (isDue(pin) || pin.state === "asking") this.#follow(pin, stamp(pin));
  }

  async #run(id) {
    const before = stamp(this.#pins.get(id));
    const pin = await api.post(api.path("pins", id, "run"));
    if (this.#closed) return;
    this.#take(pin);
    this.#follow(pin, before);
  }

  async #remove(id) {
    await api.remove(api.path("pins", id));
    this.#forget(id);
    this.element.querySelector("button")?.focus(); // what had the focus is gone
  }

  #forget(id) {
    this.#hide(id);
    this.#pins.delete(id);
    this.#draw();
  }

  #hide(id) {
    this.#leave(id);
    this.#open.get(id)?.element.remove();
    this.#open.delete(id);
  }

  #shut(id) {
    this.#hide(id);
    this.#list.querySelector(`[data-key="${CSS.escape(id)}"] button`)?.focus();
  }

  #leave(id) {
    this.#following.get(id)?.abort();
    this.#following.delete(id);
  }

  /** Look at it now and then until it was asked: it is due no more, and not being asked. A hidden page looks at nothing. */
  async #follow(pin, before) {
    this.#leave(pin.id);
    const end = new AbortController();
    this.#following.set(pin.id, end);
    const due = pin.state === "waiting" ? pin.due_at : null; // the farm's own word for it: clocks differ
    const isPending = (one) => one.state === "asking" || (one.state === "waiting" && due !== null && one.due_at === due && stamp(one) === before);
    try {
      for (let looks = 0; looks < MOST_LOOKS && isPending(this.#pins.get(pin.id));) {
        await pause(LOOK_MS, end.signal);
        if (end.signal.aborted) return;
        if (document.hidden) continue;
        looks += 1;
        const found = await api.get(api.path("pins", pin.id), {}, end.signal);
        if (end.signal.aborted) return;
        this.#take(found);
      }
    } catch (error) {
      if (end.signal.aborted) return;
      if (error.isMissing) this.#forget(pin.id);
      complain(error);
    } finally {
      if (this.#following.get(pin.id) === end) this.#following.delete(pin.id);
    }
  }
}

/** Which answer it keeps, or which failure. */
const stamp = ({ last }) => (last === null ? null : `${last.at} ${last.failed_at}`);

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
