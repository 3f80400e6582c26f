// Actions drawn over a screen, in fractions of it: taps as rings, swipes as arrows, plans dashed.

import { fill, h } from "./dom.js";

const KEPT = 5; // older actions would hide the screen

/**
 * Draw into an svg whose viewBox is 0 0 100 (100 × height / width).
 *
 * @param {SVGElement} svg Lies over the picture.
 * @param {Array} actions What was done, the newest last.
 * @param {Array} planned What is planned.
 * @param {number} ratio Height by width.
 */
export function drawActions(svg, actions, planned, ratio) {
  svg.setAttribute("viewBox", `0 0 100 ${100 * ratio}`);
  const done = actions.filter(hasPlace).slice(-KEPT);
  const marks = done.map((one, index) => mark(one, ratio, "done", (index + 1) / done.length, null));
  const next = planned.filter(hasPlace);
  marks.push(...next.map((one, index) => mark(one, ratio, `plan ${safe(one.state)}`, 1, index + 1)));
  fill(svg, arrowHead(), marks);
}

const hasPlace = (one) => typeof one.x === "number" && typeof one.y === "number";
const safe = (state) => (["next", "committed", "skipped", "stale"].includes(state) ? state : "next");

function mark(one, ratio, kind, strength, index) {
  const [x, y] = [one.x * 100, one.y * 100 * ratio];
  const parts = [];
  if (typeof one.x2 === "number" && typeof one.y2 === "number" && one.kind === "swipe") {
    parts.push(h("line", { x1: x, y1: y, x2: one.x2 * 100, y2: one.y2 * 100 * ratio, "marker-end": "url(#arrow)" }));
    parts.push(h("circle", { cx: x, cy: y, r: 1.6 }));
  } else {
    parts.push(h("circle", { cx: x, cy: y, r: one.kind === "long_press" ? 5 : 3.2 }));
    parts.push(h("circle", { cx: x, cy: y, r: 0.8, class: "dot" }));
  }
  if (index !== null) parts.push(h("text", { x: x + 4, y: y - 2 }, index));
  return h("g", { class: `mark ${kind}`, opacity: 0.25 + 0.75 * strength }, parts);
}

function arrowHead() {
  return h("defs", {}, h("marker", { id: "arrow", viewBox: "0 0 6 6", refX: 4, refY: 3, markerWidth: 4, markerHeight: 4, orient: "auto-start-reverse" },
    h("path", { d: "M0 0 L6 3 L0 6 z", class: "arrow" })));
}
