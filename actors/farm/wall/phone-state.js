// One state of a phone out of what the farm and the run on it say, the most urgent first.

/** free, paused, busy, or while something plays: taken, needs_human, lost, opening, preparing, playing, done. */
export function phoneState(row) {
  const playing = row.live;
  if (!playing) return row.state;
  if (row.taken_over_by) return "taken";
  return playing.state || row.state;
}

/** Why it is so: what the bot thinks, or what somebody has to do. */
export function phoneWhy(row) {
  const playing = row.live;
  if (!playing) return row.paused_by ?? "";
  return row.taken_over_by ?? (playing.remedy || playing.why || playing.action || "");
}
