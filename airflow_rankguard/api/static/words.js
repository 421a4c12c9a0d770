// Times, lengths and names in words.

import { h, timeFormat } from "./host.js";

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

/** A length in its two greatest units: `2 d 3 h`, `47 m 10 s`. */
export function length(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const first = UNITS.findIndex(([, size]) => whole >= size);
  if (first < 0) return "0 s";
  const [unit, size] = UNITS[first];
  const said = [`${Math.floor(whole / size)} ${unit}`];
  if (first + 1 < UNITS.length) {
    const [nextUnit, nextSize] = UNITS[first + 1];
    const rest = Math.floor((whole % size) / nextSize);
    if (rest) said.push(`${rest} ${nextUnit}`);
  }
  return said.join(" ");
}

export function between(from, to) {
  return (new Date(to) - new Date(from)) / 1000;
}

/** A moment as people read it; to the second and with its zone when it is pointed at. */
export function Moment({ at }) {
  const date = new Date(at);
  const full = timeFormat({ dateStyle: "medium", timeStyle: "long" }).format(date);
  const day = timeFormat({ year: "numeric", month: "2-digit", day: "2-digit" });
  const isToday = day.format(date) === day.format(new Date());
  const shown = isToday
    ? timeFormat({ timeStyle: "medium" })
    : timeFormat({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  return h("time", { dateTime: at, title: full }, shown.format(date));
}

/** A task as Airflow writes it: `group.work [2]`. */
export function taskName({ task_id: id, map_index: index }) {
  return index < 0 ? id : `${id} [${index}]`;
}

/** To the cent at least, and as exactly as it was counted. */
export function dollars(cost) {
  return Number(cost).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 6 });
}

/** Who did it and why. A forced run's reason ends with the name, which is said once. */
export function byWhom({ actor, reason }) {
  const name = ` (by ${actor})`;
  const why = actor && reason?.endsWith(name) ? reason.slice(0, -name.length) : reason;
  return [actor && `by ${actor}`, why].filter(Boolean).join(": ");
}

export function counted(number, limit) {
  if (number === undefined) return "–";
  return number > limit ? `${limit.toLocaleString("en")}+` : number.toLocaleString("en");
}
