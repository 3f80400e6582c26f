// The page: who is logged in, which view is shown, the bar on top.

import * as api from "./api.js";
import { fill, h, setText } from "./dom.js";
import { Live } from "./live.js";
import { openLogin } from "./login.js";
import { complain, notify } from "./parts.js";
import { applyTheme, nextTheme, theme } from "./theme.js";
import { openAsk } from "./view-ask.js";
import { openCompare } from "./view-compare.js";
import { openEngines } from "./view-engines.js";
import { openFinding } from "./view-finding.js";
import { openFindings } from "./view-findings.js";
import { openPhone } from "./view-phone.js";
import { openPhones } from "./view-phones.js";
import { openQueue } from "./view-queue.js";
import { openRun } from "./view-run.js";
import { openRuns } from "./view-runs.js";
import { language, number, setLanguage, t } from "./words.js";

const TABS = ["phones", "engines", "queue", "runs", "findings", "ask"];
const VIEWS = {
  phones: [openPhones, openPhone], engines: [openEngines], queue: [openQueue], runs: [openRuns, openRun],
  compare: [openCompare, openCompare], findings: [openFindings, openFinding], ask: [openAsk],
};

const main = document.getElementById("main");
const bar = document.getElementById("bar");
let me = null;
let live = null;
let close = () => {};

/** `#/phones/ID` as ["phones", "ID"]. */
function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return []; // no address of ours
  }
}

export const go = (...parts) => {
  location.hash = `#/${parts.map(encodeURIComponent).join("/")}`;
};

function show({ focus = true } = {}) {
  close();
  const [name, ...rest] = route();
  const known = name in VIEWS ? name : "phones";
  const views = VIEWS[known];
  const open = views[Math.min(rest.length, views.length - 1)];
  document.title = `${t(`tab.${known}`)} · Corral`;
  for (const tab of bar.querySelectorAll("nav a")) {
    tab.toggleAttribute("aria-current", tab.dataset.tab === (known === "compare" ? "runs" : known));
    if (tab.hasAttribute("aria-current")) tab.setAttribute("aria-current", "page");
  }
  live.watch({ phones: [], screens: null, detail: null });
  fill(main);
  main.dataset.view = known;
  const may = (role) => me.roles.includes("admin") || me.roles.includes(role);
  close = open(main, { me, live, go, may, isAdmin: me.roles.includes("admin") }, ...rest) ?? (() => {});
  if (focus) main.focus({ preventScroll: true });
}

function drawBar() {
  setText(document.getElementById("skip"), t("skip"));
  const tabs = TABS.map((name) => h("a", { href: `#/${name}`, "data-tab": name }, t(`tab.${name}`)));
  const state = h("span", { id: "line", role: "status" });
  const counts = h("span", { id: "counts" });
  const other = language() === "zh" ? ["en", "English"] : ["zh", "中文"];
  const word = h("button", { class: "quiet", type: "button", lang: other[0], onclick: () => {
    setLanguage(other[0]);
    drawBar();
    show({ focus: false });
  } }, other[1]);
  const shade = h("button", { class: "quiet", type: "button", "aria-label": t(`theme.${theme()}`), title: t(`theme.${theme()}`), onclick: () => {
    applyTheme(nextTheme());
    drawBar();
    bar.querySelector("#shade").focus();
  }, id: "shade" }, { system: "◐", light: "☀", dark: "☾" }[theme()]);
  const leave = h("button", { class: "quiet", type: "button", id: "leave", onclick: () => api.logOut().catch(complain).finally(loggedOut) }, t("log_out"));
  const who = h("span", { class: "who", title: me.roles.map((role) => t(`role.${role}`)).join(", ") }, `${me.user} · ${me.tenant}`);
  fill(bar, h("span", { class: "name", "aria-hidden": "true" }, "Corral"), h("nav", { "aria-label": t("pages") }, tabs), counts, state, who, word, shade, leave);
  bar.hidden = false;
  drawCounts();
  drawLine();
}

function drawCounts() {
  const farm = live?.farm;
  const counts = document.getElementById("counts");
  if (!farm || !counts) return;
  const drained = farm.drained ? ` · ${t("drained")}` : "";
  setText(counts, t("counts", { busy: number(farm.busy_phones), phones: number(farm.phones), playing: number(farm.playing), queued: number(farm.queued) }) + drained);
}

function drawLine() {
  const state = document.getElementById("line");
  if (!state) return;
  state.className = `line ${live.state}`;
  setText(state, live.state === "open" ? "" : live.state === "absent" ? t("line.absent") : t("line.waiting"));
}

function loggedIn(who) {
  me = who;
  live = new Live();
  live.on("farm", drawCounts);
  live.on("state", drawLine);
  drawBar();
  show();
}

function loggedOut() {
  if (me === null) return;
  close();
  close = () => {};
  live.close();
  me = live = null;
  bar.hidden = true;
  askToLogIn();
}

function askToLogIn() {
  document.title = "Corral";
  main.dataset.view = "login";
  openLogin(main, loggedIn);
}

async function begin() {
  applyTheme(theme());
  api.whenLoggedOut(() => {
    if (me !== null) notify(t("session_over"), "bad");
    loggedOut();
  });
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) history.replaceState(null, "", `${location.pathname}#/phones`); // not in the bar, not in the history
  try {
    loggedIn(token === null ? await api.session() : await api.logIn(token));
  } catch (error) {
    askToLogIn();
    if (token !== null || error.status !== 401) complain(error);
  }
  window.addEventListener("hashchange", () => me !== null && show());
  document.body.dataset.ready = "true";
}

begin();
