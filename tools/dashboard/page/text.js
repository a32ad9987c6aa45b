// @ts-check
// Figures and foreign text, as people read them.

/** Control characters, and those that turn the direction of text, as codes. */
export function visible(/** @type {unknown} */ text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}

const GOOD = new Set(["ready", "running", "live", "up"]);
const BAD = new Set(["ended", "given up", "dead", "gone", "failed"]);

/** Of a state of a process or a device. @returns {"good" | "warn" | "bad"} */
export const markOf = (/** @type {string} */ word) =>
  GOOD.has(word) ? "good" : BAD.has(word) ? "bad" : "warn";

const whole = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

export const count = (/** @type {number} */ value) => whole.format(value);

/** "12.3 us", "2 min 5 s", "3 h 7 min"; "-" for null. */
export function duration(/** @type {number | null} */ ns) {
  if (ns === null) return "-";
  if (ns >= 59.95e9) {
    const seconds = Math.round(ns / 1e9);
    const minutes = Math.floor(seconds / 60);
    return minutes < 60 ? `${minutes} min ${seconds % 60} s` :
      `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }
  for (const [unit, size] of /** @type {[string, number][]} */ (
    [["s", 1e9], ["ms", 1e6], ["us", 1e3]])) {
    if (ns >= 0.9995 * size) return `${(ns / size).toPrecision(3)} ${unit}`;
  }
  return `${ns} ns`;
}

export const mebibytes = (/** @type {number} */ size) => `${(size / 1048576).toFixed(1)} MiB`;

/** The time of day, in this browser's zone. */
export const clock = (/** @type {number} */ time_ns) =>
  new Date(time_ns / 1e6).toTimeString().slice(0, 8);

/** The same with microseconds. */
export const precise = (/** @type {number} */ time_ns) =>
  `${clock(time_ns)}.${String(Math.floor(time_ns / 1e3) % 1e6).padStart(6, "0")}`;
