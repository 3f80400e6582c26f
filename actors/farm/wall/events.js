// What the farm tells while it goes on: one websocket (docs/farm-events.md), taken up again when it is lost.
// A hidden tab asks for nothing, and nothing is captured, encoded or sent for it then.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
const NOTHING = { phones: [], screens: null, detail: null };

/** Backoff with jitter: half of it is drawn, so that many walls do not come back at once. */
export function waitFor(failures, draw = Math.random()) {
  const most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(failures, 10));
  return most / 2 + (most / 2) * draw;
}

/** Header and picture of a binary message: 4 bytes length, JSON, JPEG. Throws on anything else. */
function parseScreen(buffer) {
  const length = new DataView(buffer).getUint32(0);
  if (length > buffer.byteLength - 4) throw new RangeError("the header is longer than the message");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return { header, jpeg: new Blob([new Uint8Array(buffer, 4 + length)], { type: "image/jpeg" }) };
}

export class Events {
  #socket = null;
  #wanted = NOTHING;
  #failures = 0;
  #timer = null;
  #drawn = 0;
  #stopped = false;
  #greeted = false;

  /**
   * @param {(message) => void} onMessage Gets each message.
   * @param {(header, blob) => Promise} onScreen Draws a picture; its end is acknowledged.
   * @param {(state) => void} onState "open", "waiting" or "absent": it has never answered so far.
   */
  constructor(onMessage, onScreen, onState) {
    this.onMessage = onMessage;
    this.onScreen = onScreen;
    this.onState = onState;
    this.visibility = () => (document.hidden ? this.#tell() : this.#wake());
    document.addEventListener("visibilitychange", this.visibility);
    this.#open();
  }

  /** Replace what is watched: `{phones, screens, detail}` of the protocol. */
  watch(wanted) {
    this.#wanted = wanted;
    this.#tell();
  }

  close() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.visibility);
    this.#socket?.close(1000);
  }

  #wake() {
    if (this.#socket === null) {
      clearTimeout(this.#timer);
      this.#open();
    } else this.#tell();
  }

  #open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/api/v1/events`);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    let over = false;
    socket.onmessage = (event) => this.#take(event.data);
    socket.onclose = () => {
      if (over || this.#socket !== socket) return;
      over = true;
      this.#socket = null;
      if (this.#stopped) return;
      this.onState(this.#greeted ? "waiting" : "absent");
      this.#timer = setTimeout(() => this.#open(), waitFor(this.#failures++));
    };
  }

  #take(data) {
    if (data instanceof ArrayBuffer) {
      this.#takeScreen(data);
      return;
    }
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return; // a message of a later version
    }
    if (message.type === "hello") {
      this.#greeted = true;
      this.#failures = 0;
      this.onState("open");
      this.#tell();
    }
    this.onMessage(message);
  }

  async #takeScreen(buffer) {
    try {
      const { header, jpeg } = parseScreen(buffer);
      await this.onScreen(header, jpeg);
    } catch {
      // a picture that cannot be shown is gone; the next one comes
    } finally {
      this.#drawn += 1;
      // acknowledged at once: what is not is held back by the farm
      const count = this.#drawn;
      this.#drawn = 0;
      this.#send({ type: "seen", count });
    }
  }

  #tell() {
    this.#send({ type: "watch", ...(document.hidden ? NOTHING : this.#wanted) });
  }

  #send(message) {
    if (this.#socket?.readyState === WebSocket.OPEN && this.#greeted) this.#socket.send(JSON.stringify(message));
  }
}
