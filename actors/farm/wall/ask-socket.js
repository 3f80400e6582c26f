// The assistant's websocket (docs/assistant-protocol.md): a session that outlives its connections.

import { newTicket } from "./api.js";
import { waitFor } from "./events.js";

const PING_MS = 25_000;

export class Assistant {
  #socket = null;
  #session = "";
  #seq = 0;
  #failures = 0;
  #timer = null;
  #pinging = null;
  #stopped = false;
  #count = 0;
  #unsent = [];

  /**
   * @param {(event) => void} onEvent Gets each event of a question.
   * @param {(reply) => void} onReply Gets every other message.
   * @param {(state, text) => void} onState open, waiting, absent or over.
   */
  constructor(onEvent, onReply, onState) {
    this.onEvent = onEvent;
    this.onReply = onReply;
    this.onState = onState;
    this.#open();
  }

  /** A new id for a question. */
  id() {
    this.#count += 1;
    return `w${Date.now().toString(36)}-${this.#count}`;
  }

  /** Send a message; before the welcome it waits. */
  send(message) {
    if (this.#socket?.readyState === WebSocket.OPEN && this.#socket.welcomed) this.#socket.send(JSON.stringify(message));
    else this.#unsent.push(message);
  }

  close() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearInterval(this.#pinging);
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ type: "bye" }));
    this.#socket?.close(1000);
  }

  async #open() {
    let ticket;
    try {
      ticket = await newTicket();
    } catch (error) {
      this.#again(error.message);
      return;
    }
    if (this.#stopped) return;
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/assistant`);
    this.#socket = socket;
    socket.onopen = () => {
      const hello = { type: "hello", v: 1, token: ticket };
      if (this.#session !== "") Object.assign(hello, { session: this.#session, after: this.#seq });
      socket.send(JSON.stringify(hello));
    };
    socket.onmessage = (event) => this.#take(socket, event.data);
    socket.onclose = () => {
      clearInterval(this.#pinging);
      if (!this.#stopped && this.#socket === socket) this.#again("");
    };
  }

  #take(socket, data) {
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return;
    }
    if (message.type === "welcome") {
      socket.welcomed = true;
      if (!message.resumed) this.#seq = 0;
      this.#session = message.session;
      this.#failures = 0;
      this.onState("open", "");
      clearInterval(this.#pinging);
      this.#pinging = setInterval(() => this.send({ type: "ping", after: this.#seq }), Math.min(PING_MS, (message.limits?.ping_seconds ?? 25) * 1000));
      for (const waiting of this.#unsent.splice(0)) socket.send(JSON.stringify(waiting));
    } else if (message.type === "event") {
      this.#seq = message.seq;
      this.onEvent(message);
      return;
    } else if (message.type === "bye" && ["unauthenticated", "too_many_logins", "revoked", "version"].includes(message.code)) {
      this.#stopped = true;
      this.onState("over", message.message);
    }
    this.onReply(message);
  }

  #again(text) {
    this.onState(this.#session === "" ? "absent" : "waiting", text);
    this.#timer = setTimeout(() => this.#open(), waitFor(this.#failures++));
  }
}
