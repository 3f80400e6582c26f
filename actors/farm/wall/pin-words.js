// What is said of a pinned question in few words: how its last answer went, when it is asked next, what it tells.

import { badge } from "./parts.js";
import { moment, number, t } from "./words.js";

/** It is time to ask it, by the clock of this machine. */
export const isDue = (pin) => pin.state === "waiting" && pin.due_at !== null && Date.parse(pin.due_at) <= Date.now();

/** Its marks, each a sign with a word: what the last answer was, where wanted with its time, and what is the case now. */
export function marks(pin, { dated = false } = {}) {
  const side = pin.threshold && "below" in pin.threshold ? "below" : "above";
  return [
    lastMark(pin, dated),
    pin.beyond ? badge(side, t(`pin.beyond_${side}`)) : null,
    pin.state === "waiting" ? null : badge(pin.state),
  ];
}

function lastMark({ last, state }, dated) {
  if (last === null) return state === "asking" ? null : badge("waiting", t("pin.no_answer"));
  const hasFailed = last.state === "failed";
  const time = dated ? ` ${moment(hasFailed ? last.failed_at : last.at, { short: true })}` : "";
  return badge(last.state, t(hasFailed ? "end.failed" : "end.answer") + time);
}

/** When it is asked next; an empty text where that is not known. */
export function nextWords(pin) {
  if (pin.state !== "waiting" || pin.due_at === null) return "";
  return isDue(pin) ? t("pin.due") : t("pin.next", { time: moment(pin.due_at, { short: true }) });
}

export function scheduleWords(schedule) {
  if (schedule === null) return t("pin.never");
  if (schedule.at !== undefined) return t("pin.at", { at: schedule.at, zone: schedule.zone });
  const minutes = schedule.every_minutes;
  if (minutes === 60) return t("pin.hourly");
  if (minutes === 1440) return t("pin.daily");
  return minutes % 60 === 0 ? t("pin.every_hours", { count: number(minutes / 60) }) : t("pin.every_minutes", { count: number(minutes) });
}

export function thresholdWords(threshold) {
  if (threshold === null) return t("pin.no_threshold");
  const side = "below" in threshold ? "below" : "above";
  return `${threshold.column} ${t(`pin.${side}`)} ${number(threshold[side], 12)}`;
}
