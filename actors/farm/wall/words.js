// Every text that the page shows, in the language that was chosen. What phones, models and people wrote stays as it is.

import { CHINESE } from "./chinese.js";
import { ENGLISH } from "./english.js";

const TEXTS = { en: ENGLISH, zh: CHINESE };
const KEY = "corral.language";

function remembered() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a browser that keeps nothing
  }
}

let chosen = remembered() ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
if (!(chosen in TEXTS)) chosen = "en";
document.documentElement.lang = chosen === "zh" ? "zh-CN" : "en";

export const language = () => chosen;

export function setLanguage(name) {
  chosen = name in TEXTS ? name : "en";
  document.documentElement.lang = chosen === "zh" ? "zh-CN" : "en";
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // it holds until the page is left
  }
}

/** A text; `{name}` in it is replaced by values. */
export function t(key, values = {}) {
  const text = TEXTS[chosen][key] ?? ENGLISH[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** The word for a state, or the state itself where we have none. */
export const stateWord = (state) => {
  const key = `state.${String(state).replaceAll(" ", "_")}`;
  return key in ENGLISH ? t(key) : String(state ?? "");
};

const locale = () => (chosen === "zh" ? "zh-CN" : "en-GB");

export function number(value, digits = 0) {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return "–";
  return new Intl.NumberFormat(locale(), { maximumFractionDigits: digits, minimumFractionDigits: 0 }).format(value);
}

export const percent = (share, digits = 0) => (share === null || share === undefined ? "–" : `${number(share * 100, digits)} %`);

/** A time in this place, with its day where that is another one; a short one has no seconds. */
export function moment(iso, { short = false } = {}) {
  if (!iso) return "–";
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return String(iso);
  const today = new Date().toDateString() === at.toDateString();
  const options = { hour: "2-digit", minute: "2-digit", ...(short ? {} : { second: "2-digit" }) };
  return new Intl.DateTimeFormat(locale(), today ? options : { month: "short", day: "numeric", ...options }).format(at);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || seconds < 0) return "–";
  if (seconds < 60) return `${number(seconds, 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

/** The zone of this browser's clock, as the IANA database names it. */
export const ownZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
