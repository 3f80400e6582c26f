// All phones: a tile each, with its screen as it is now.

import { fill, h, keyed, rove, setText } from "./dom.js";
import { badge, heading, loading, option, sentence } from "./parts.js";
import { phoneState, phoneWhy } from "./phone-state.js";
import { number, stateWord, t } from "./words.js";

const THUMBNAIL = { fps: 1, side: 240 };
const KEY = "corral.phones";

export function openPhones(root, { live }) {
  const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
  const text = h("input", { type: "search", id: "filter", placeholder: t("filter_phones"), "aria-label": t("filter_phones"), value: kept.text ?? "" });
  const state = h("select", { id: "filter-state", "aria-label": t("state") });
  const group = h("select", { id: "group", "aria-label": t("group_by") },
    ["none", "pool", "app", "state"].map((one) => option(one, t(`group.${one}`), kept.group ?? "none")));
  const count = h("span", { class: "small", role: "status" });
  const grid = h("div", { class: "groups", id: "phones" });
  const empty = h("div");
  rove(grid);
  fill(root, heading(t("tab.phones"), h("div", { class: "tools" }, text, state, group, count)), empty, grid);

  let chosenState = kept.state ?? "";
  const visible = new Set();
  // pictures of tiles that cannot be seen are neither decoded nor drawn
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) visible.add(entry.target);
      else visible.delete(entry.target);
    }
  }, { rootMargin: "120px" });

  function make(row) {
    const canvas = h("canvas", { width: "135", height: "240", "aria-hidden": "true" });
    const tile = h("a", { class: "tile", href: `#/phones/${encodeURIComponent(row.phone)}`, "data-rove": true, tabindex: "-1" },
      h("div", { class: "screen" }, canvas, h("span", { class: "off" })),
      h("div", { class: "caption" }, h("span", { class: "title" }, row.phone), h("span", { class: "state" })),
      h("div", { class: "meta" }), h("div", { class: "why" }));
    seen.observe(tile);
    live.onScreen(row.phone, (header, jpeg) => (visible.has(tile) ? draw(canvas, header, jpeg) : null));
    return tile;
  }

  function update(tile, row) {
    const shown = phoneState(row);
    tile.dataset.state = shown;
    fill(tile.querySelector(".state"), badge(shown));
    const playing = row.live ?? null;
    tile.classList.toggle("dark-screen", playing === null);
    setText(tile.querySelector(".off"), playing === null ? stateWord(shown) : "");
    setText(tile.querySelector(".meta"), playing === null ? [row.pool, ...row.labels].join(" · ")
      : [playing.app, playing.score === null ? null : t("score", { score: number(playing.score, 1) }), t("step", { step: number(playing.step) })].filter(Boolean).join(" · "));
    const why = phoneWhy(row);
    setText(tile.querySelector(".why"), why);
    tile.querySelector(".why").title = why;
    tile.setAttribute("aria-label", [row.phone, stateWord(shown), playing?.app, why].filter(Boolean).join(", "));
  }

  function render() {
    const rows = [...live.phones.values()];
    const states = [...new Set(rows.map(phoneState))].sort();
    if (chosenState !== "" && !states.includes(chosenState)) states.push(chosenState);
    const options = ["", ...states];
    if (options.length !== state.options.length || options.join() !== [...state.options].map((one) => one.value).join()) {
      fill(state, options.map((one) => option(one, one === "" ? t("all_states") : stateWord(one), chosenState)));
      state.value = chosenState;
    }
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row) => (chosenState === "" || phoneState(row) === chosenState) && matches(row, words));
    setText(count, rows.length === 0 ? "" : t("of", { shown: number(shown.length), all: number(rows.length) }));
    fill(empty, !live.told.has("phones") ? loading() : rows.length === 0 ? sentence(t("no_phones")) : shown.length === 0 ? sentence(t("none_match")) : null);
    const groups = new Map();
    for (const row of shown) {
      const name = groupOf(row, group.value);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    const sorted = [...groups].sort(([one], [other]) => one.localeCompare(other, undefined, { numeric: true }));
    keyed(grid, sorted, ([name]) => name, () => h("section", {}, h("h2"), h("div", { class: "grid", role: "group" })), (section, [name, members]) => {
      const title = section.querySelector("h2");
      title.hidden = group.value === "none";
      setText(title, `${group.value === "state" ? stateWord(name) : name || t("none")} (${number(members.length)})`);
      keyed(section.querySelector(".grid"), members, (row) => row.phone, make, update);
    });
    const tiles = [...grid.querySelectorAll("[data-rove]")];
    if (tiles.length > 0 && !tiles.some((one) => one.tabIndex === 0)) tiles[0].tabIndex = 0;
    for (const tile of [...visible]) if (!tile.isConnected) visible.delete(tile);
  }

  function change() {
    chosenState = state.value;
    sessionStorage.setItem(KEY, JSON.stringify({ text: text.value, state: chosenState, group: group.value }));
    render();
  }
  text.addEventListener("input", change);
  state.addEventListener("change", change);
  group.addEventListener("change", change);
  root.addEventListener("keydown", slash);
  function slash(event) {
    if (event.key === "/" && event.target !== text) {
      event.preventDefault();
      text.focus();
    } else if (event.key === "Escape" && event.target === text) {
      text.value = "";
      change();
    }
  }
  live.watch({ phones: ["*"], screens: THUMBNAIL, detail: null });
  const ends = [live.on("phones", render)];
  render();
  return () => {
    ends.forEach((end) => end());
    root.removeEventListener("keydown", slash);
    seen.disconnect();
    for (const id of live.phones.keys()) live.onScreen(id, null);
  };
}

function matches(row, words) {
  const about = [row.phone, row.pool, row.state, phoneState(row), stateWord(phoneState(row)), ...row.labels, row.run, row.live?.app, row.live?.model, phoneWhy(row)]
    .filter(Boolean).join(" ").toLowerCase();
  return words.every((word) => about.includes(word));
}

function groupOf(row, by) {
  if (by === "pool") return row.pool;
  if (by === "app") return row.live?.app ?? "";
  return by === "state" ? phoneState(row) : "";
}

async function draw(canvas, header, jpeg) {
  const image = await createImageBitmap(jpeg);
  if (canvas.width !== image.width || canvas.height !== image.height) [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").drawImage(image, 0, 0);
  canvas.dataset.seq = header.seq;
  image.close();
}
