// The form: reads what a person wants, asks the server, and says what came of it.

import * as api from "./api.js";
import { Stage, anchorFor } from "./stage.js";

const byId = (id) => document.getElementById(id);
const stage = new Stage(byId("screen"), byId("preview"));
const HIT_AT = { template: 0.9, color: 0.5, bar: 0.5, digits: 0.85 };
const COLORS = ["low-h", "low-s", "low-v", "high-h", "high-s", "high-v"];
const FIELDS = {
  name: "name", hit_at: "hit-at", box: "box-x", search: "search", low: "low-h", high: "high-h", text: "text",
  when: "when", taps: "taps", frame: "frame", anchor: "anchor",
};

let labels = [];
let markedOn = 0;
let anchorChosen = false;
let busy = 0;

const kind = () => byId("form").elements.kind.value;
const shown = () => Number(byId("frame").value);
const number = (id) => (byId(id).value === "" ? null : Number(byId(id).value));

function draft() {
  if (!stage.box) throw new api.ApiError("mark a rectangle on the screen first", "box");
  const color = COLORS.map((id) => number(id) ?? 0);
  const made = {
    kind: kind(),
    name: byId("name").value.trim(),
    frame: shown(),
    marked_on: markedOn,
    box: stage.box,
    anchor: byId("anchor").value,
    low: color.slice(0, 3),
    high: color.slice(3),
    direction: byId("direction").value,
    text: byId("text").value,
    reads: byId("reads").value,
    when: byId("when").value,
    taps: byId("taps").checked && isShown(byId("taps")),
  };
  if (number("hit-at") !== null) made.hit_at = number("hit-at");
  if (stage.search && made.kind === "template") made.search = stage.search;
  return made;
}

const isShown = (element) => !element.closest("[data-kinds]")?.hidden;

/** Do something for a button; what is refused is shown beside it. */
async function act(work) {
  clearError();
  busy += 1;
  document.body.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    if (!(error instanceof api.ApiError)) throw error;
    showError(error);
  } finally {
    busy -= 1;
    if (!busy) document.body.removeAttribute("aria-busy");
  }
}

function clearError() {
  byId("error").hidden = true;
  for (const element of document.querySelectorAll("[aria-invalid]")) element.removeAttribute("aria-invalid");
}

function showError(error) {
  byId("error").textContent = error.message;
  byId("error").hidden = false;
  say("");
  const field = FIELDS[error.field] && byId(FIELDS[error.field]);
  if (field) field.setAttribute("aria-invalid", "true");
}

function say(text, hit = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("hit", hit);
}

async function showFrame(index) {
  const image = await api.frame(index);
  if (index !== shown()) return; // the slider has moved on meanwhile
  byId("frame-label").textContent = labels[index] ?? "";
  byId("frame-label").title = labels[index] ?? "";
  stage.result = null;
  stage.mask = null;
  stage.show(image);
}

async function load() {
  const source = await api.source();
  labels = source.frames;
  byId("title").textContent = source.title + (source.file ? `, saves to ${source.file}` : "");
  byId("refresh").hidden = !source.live;
  byId("frame").max = Math.max(0, labels.length - 1);
  for (const id of ["frame", "previous", "next"]) byId(id).disabled = labels.length < 2;
  byId("save").disabled = !source.file;
  byId("save").title = source.file ? "" : "Start with --file RULES.toml to save";
  listProbes(source.probes);
}

function listProbes(probes) {
  byId("when").replaceChildren(...probes.map((name) => new Option(name, name)));
}

function changeKind() {
  const now = kind();
  for (const element of document.querySelectorAll("[data-kinds]"))
    element.hidden = !element.dataset.kinds.split(" ").includes(now);
  byId("hit-at").value = HIT_AT[now] ?? "";
  byId("text-label").textContent = now === "ocr" ? "Pattern (empty: any)" : "The rectangle shows the number";
  stage.result = null;
  stage.mask = null;
  stage.draw();
  clearError();
}

function showResult(tested) {
  stage.result = tested;
  stage.draw();
  const value = tested.value === null ? "no number" : `${Math.round(tested.value * 10000) / 10000}`;
  const text = tested.text ? `, reads "${tested.text}"` : "";
  say(`${tested.hit ? "Hit" : "Miss"}: ${value}${text} (${tested.milliseconds} ms)`, tested.hit);
}

async function showMask() {
  stage.mask = await api.mask(draft());
  stage.draw();
}

function showToml(text) {
  byId("toml").value = text;
  byId("toml-holder").hidden = !text;
}

async function pick() {
  const color = await api.pick(draft());
  [...color.low, ...color.high].forEach((value, index) => { byId(COLORS[index]).value = value; });
  await showMask();
}

async function test() {
  if (kind() === "color" || kind() === "bar") await showMask();
  showResult(await api.test(draft()));
}

async function save() {
  const saved = await api.save(draft());
  showToml(saved.toml);
  listProbes(saved.probes);
  const missing = saved.missing_digits;
  say(
    missing.length
      ? `Kept; the probe is written when ${missing.join(", ")} are there too: mark a number that shows them.`
      : `Saved: ${saved.files.join(", ")}`,
    !missing.length,
  );
}

function boxTyped() {
  const [x, y, width, height] = ["box-x", "box-y", "box-width", "box-height"].map((id) => number(id) ?? 0);
  stage.setBox([x, y, x + width, y + height]);
}

stage.addEventListener("mark", () => {
  markedOn = shown();
  stage.result = null;
  stage.mask = null;
  const [left, top, right, bottom] = stage.box ?? [];
  const values = stage.box ? [left, top, right - left, bottom - top] : ["", "", "", ""];
  ["box-x", "box-y", "box-width", "box-height"].forEach((id, index) => {
    if (document.activeElement !== byId(id)) byId(id).value = values[index];
  });
  if (stage.box && !anchorChosen) byId("anchor").value = anchorFor(stage.box, stage.size);
  stage.draw();
});

for (const id of ["box-x", "box-y", "box-width", "box-height"]) byId(id).addEventListener("input", boxTyped);
for (const input of document.querySelectorAll('input[name="kind"]')) input.addEventListener("change", changeKind);
byId("anchor").addEventListener("change", () => { anchorChosen = true; });
byId("frame").addEventListener("input", () => act(() => showFrame(shown())));
const moveBy = (step) => act(async () => {
  byId("frame").value = shown() + step;
  await showFrame(shown());
});
byId("previous").addEventListener("click", () => moveBy(-1));
byId("next").addEventListener("click", () => moveBy(1));
byId("refresh").addEventListener("click", () => act(async () => {
  const { frame } = await api.refresh();
  await load();
  byId("frame").value = frame;
  await showFrame(frame);
}));
byId("search").addEventListener("click", () => {
  stage.search = stage.box;
  byId("search-label").textContent = stage.search ? `searched in ${stage.search.join(", ")}` : "searched round its place";
  if (stage.search) say("Now mark the template inside of it.");
  stage.draw();
});
byId("pick").addEventListener("click", () => act(pick));
byId("test").addEventListener("click", () => act(test));
byId("show").addEventListener("click", () => act(async () => showToml((await api.toml(draft())).toml)));
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!byId("save").disabled) act(save);
});

changeKind();
act(async () => {
  await load();
  await showFrame(0);
  document.body.dataset.ready = "true";
});
