// Elements are made here and nowhere else, of tags and texts: no text is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "circle", "line", "rect", "g", "polyline", "marker", "defs", "text"]);

/**
 * One element.
 *
 * @param {string} tag Its name.
 * @param {object} attributes `class`, `aria-…` and others as they are written; `on…` listens; false and null leave one out.
 * @param {...(Node|string|number|null|Array)} children Texts become text nodes; null is nothing.
 */
export function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

/** Put these in the place of everything that an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((one) => one !== null && one !== undefined && one !== false)
    .map((one) => (one instanceof Node ? one : String(one)));
}

/**
 * Children by key: what is there already stays in place, with its focus, and is only brought up to date.
 *
 * @param {Element} parent Holds nothing else.
 * @param {Array} items In order.
 * @param {(item) => string} keyOf Unique.
 * @param {(item) => Element} make A new child.
 * @param {(element, item) => void} update Bring one up to date.
 */
export function keyed(parent, items, keyOf, make, update) {
  const present = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let before = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = present.get(key);
    if (child === undefined) {
      child = make(item);
      child.dataset.key = key;
    }
    present.delete(key);
    update(child, item);
    if (child === before) before = before.nextElementSibling;
    else parent.insertBefore(child, before);
  }
  for (const gone of present.values()) gone.remove();
}

/** Set a text only where it differs: a screen reader is not told of what stays. */
export function setText(element, text) {
  const wanted = String(text ?? "");
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** Make things anew under an element; a button that had the focus has it again afterwards, known by its label. */
export function keepFocus(root, make) {
  const label = root.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  make();
  if (label !== null) [...root.querySelectorAll("button")].find((one) => one.getAttribute("aria-label") === label)?.focus();
}

/** Arrow keys, Home and End move between the children of a grid of elements; one of them is in the tab order. */
export function rove(parent) {
  const items = () => [...parent.querySelectorAll("[data-rove]")].filter((one) => one.offsetParent !== null);
  parent.addEventListener("focusin", (event) => {
    const chosen = event.target.closest("[data-rove]");
    if (chosen) for (const one of items()) one.tabIndex = one === chosen ? 0 : -1;
  });
  parent.addEventListener("keydown", (event) => {
    const all = items();
    const at = all.indexOf(event.target.closest("[data-rove]"));
    if (at < 0 || event.target !== all[at]) return;
    const to = target(all, at, event.key);
    if (to === null) return;
    event.preventDefault();
    all[to].focus();
  });
}

/** The nearest one in a row above or below is found by where it is: groups break the columns. */
function target(all, at, key) {
  const here = all[at].getBoundingClientRect();
  const row = (sign) => {
    let best = null;
    let least = Infinity;
    all.forEach((one, index) => {
      const there = one.getBoundingClientRect();
      const down = sign * (there.top - here.top);
      if (down < 4) return;
      const far = down * 10 + Math.abs(there.left - here.left);
      if (far < least) [best, least] = [index, far];
    });
    return best;
  };
  switch (key) {
    case "ArrowRight": return Math.min(at + 1, all.length - 1);
    case "ArrowLeft": return Math.max(at - 1, 0);
    case "ArrowDown": return row(1);
    case "ArrowUp": return row(-1);
    case "Home": return 0;
    case "End": return all.length - 1;
    default: return null;
  }
}
