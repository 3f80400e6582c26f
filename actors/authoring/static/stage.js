// The screen: shows a frame, the rectangle that a person marks on it, and what a test found.

const MARK = "#ffd400";
const SEARCH = "#4aa8ff";
const HIT = "#35e06f";
const MISS = "#ff6a5e";

/** Fires `mark` whenever the rectangle changes. Boxes are [left, top, right, bottom] in pixels of the frame. */
export class Stage extends EventTarget {
  #canvas;
  #context;
  #preview;
  #image = null;
  #drag = null;
  box = null;
  search = null;
  result = null;
  mask = null;

  constructor(canvas, preview) {
    super();
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d");
    this.#preview = preview.getContext("2d");
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", () => { this.#drag = null; });
    canvas.addEventListener("pointercancel", () => { this.#drag = null; });
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  get size() {
    return this.#image ? [this.#image.width, this.#image.height] : [0, 0];
  }

  show(image) {
    this.#image = image;
    this.#canvas.width = image.width;
    this.#canvas.height = image.height;
    this.draw();
  }

  /** Set the rectangle, clipped to the frame; null clears it. */
  setBox(box) {
    const [width, height] = this.size;
    const within = (value, most) => Math.max(0, Math.min(most, Math.round(value)));
    this.box = box && [within(box[0], width), within(box[1], height), within(box[2], width), within(box[3], height)];
    this.draw();
    this.dispatchEvent(new Event("mark"));
  }

  #at(event) {
    const bounds = this.#canvas.getBoundingClientRect();
    return [
      ((event.clientX - bounds.left) * this.#canvas.width) / bounds.width,
      ((event.clientY - bounds.top) * this.#canvas.height) / bounds.height,
    ];
  }

  #down(event) {
    if (event.button !== 0 || !this.#image) return;
    this.#canvas.setPointerCapture(event.pointerId);
    this.#drag = this.#at(event);
  }

  #move(event) {
    if (!this.#drag) return;
    const [x, y] = this.#at(event);
    const [left, top] = this.#drag;
    this.setBox([Math.min(left, x), Math.min(top, y), Math.max(left, x), Math.max(top, y)]);
  }

  #key(event) {
    const step = event.ctrlKey ? 10 : 1;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.key === "Escape") {
      this.setBox(null);
    } else if (moves[event.key] && this.#image) {
      event.preventDefault();
      const [x, y] = moves[event.key];
      const [width, height] = this.size;
      const middle = [width / 2 - 40, height / 2 - 40, width / 2 + 40, height / 2 + 40];
      const [left, top, right, bottom] = this.box ?? middle;
      if (event.shiftKey) this.setBox([left, top, Math.max(left + 1, right + x), Math.max(top + 1, bottom + y)]);
      else if (left + x >= 0 && top + y >= 0 && right + x <= width && bottom + y <= height)
        this.setBox([left + x, top + y, right + x, bottom + y]);
    }
  }

  draw() {
    if (!this.#image) return;
    const context = this.#context;
    const line = Math.max(2, Math.round(Math.min(...this.size) / 300));
    context.drawImage(this.#image, 0, 0);
    if (this.mask) context.drawImage(this.mask.image, this.mask.box[0], this.mask.box[1]);
    if (this.search) this.#outline(this.search, SEARCH, line, [line * 4, line * 3]);
    if (this.result) this.#drawResult(line);
    if (this.box) this.#outline(this.box, MARK, line, []);
    this.#drawPreview();
  }

  #drawResult(line) {
    const color = this.result.hit ? HIT : MISS;
    this.#outline(this.result.region, color, line, [line * 2, line * 2]);
    if (this.result.matched) this.#outline(this.result.matched, color, line * 2, []);
    if (this.result.at) {
      const [x, y] = this.result.at;
      const context = this.#context;
      context.strokeStyle = color;
      context.lineWidth = line * 1.5;
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(x - line * 6, y);
      context.lineTo(x + line * 6, y);
      context.moveTo(x, y - line * 6);
      context.lineTo(x, y + line * 6);
      context.stroke();
    }
  }

  #outline([left, top, right, bottom], color, line, dash) {
    const context = this.#context;
    context.lineWidth = line;
    context.setLineDash(dash);
    context.strokeStyle = "#000a";
    context.strokeRect(left - line, top - line, right - left + 2 * line, bottom - top + 2 * line);
    context.strokeStyle = color;
    context.strokeRect(left, top, right - left, bottom - top);
  }

  #drawPreview() {
    const context = this.#preview;
    const { width, height } = context.canvas;
    context.clearRect(0, 0, width, height);
    if (!this.box) return;
    const [left, top, right, bottom] = this.box;
    if (right <= left || bottom <= top) return;
    const scale = Math.min(width / (right - left), height / (bottom - top), 8);
    const [across, down] = [(right - left) * scale, (bottom - top) * scale];
    context.imageSmoothingEnabled = false;
    context.drawImage(
      this.#image, left, top, right - left, bottom - top, (width - across) / 2, (height - down) / 2, across, down,
    );
  }
}

/** The edge that a rectangle lies near to: by thirds of the screen; what spans it is tied to the middle. */
export function anchorFor([left, top, right, bottom], [width, height]) {
  const third = (low, high, all) => {
    const middle = (low + high) / 2 / all;
    return middle < 1 / 3 ? 0 : middle > 2 / 3 ? 2 : 1;
  };
  const across = ["left", "", "right"][third(left, right, width)];
  const down = ["top", "", "bottom"][third(top, bottom, height)];
  return [down, across].filter(Boolean).join("_") || "center";
}
