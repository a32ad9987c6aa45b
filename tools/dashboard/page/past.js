// @ts-check
// What the page remembers: a small record a second, as the gateway's history has them, and what has
// changed. Nothing here knows of a browser.

import {ringKey, unseen} from "./rings.js";

const MOST_CHANGES = 300;

/**
 * @typedef {{time_ns: number, gpud: string, events: number[],
 *   rings: [string, number, number, number, number, number, number][], struck: number}} Past
 */

/** The record of a picture: whole pictures of ten minutes would fill a tab's memory.
 * @param {any} picture @param {Map<string, number>} peaks @returns {Past} */
export function remember(picture, peaks) {
  const {rung, done, failed, aborted} = picture.totals.events;
  return {
    time_ns: picture.time_ns, gpud: picture.gpud.state, events: [rung, done, failed, aborted],
    rings: picture.rings.map((/** @type {any} */ one) => [
      one.device, one.event_id, one.doorbell, one.launched, one.completed, one.consumed,
      peaks.get(ringKey(one)) ?? one.peak]),
    struck: picture.struck,
  };
}

/**
 * A picture as of an earlier second. Of a ring its four figures and its peak are of then; names,
 * devices and processes are as they are now. How many events had failed is not known: null.
 * @param {any} now @param {Past} past @param {Past | undefined} before the record a second earlier
 */
export function pictureOf(now, past, before) {
  const known = new Map(now.rings.map((/** @type {any} */ one) => [ringKey(one), one]));
  const earlier = new Map((before?.rings ?? []).map((one) => [`${one[0]}\u0000${one[1]}`, one]));
  const seconds = before ? (past.time_ns - before.time_ns) / 1e9 : 0;
  const rings = past.rings.flatMap((one) => {
    const [device, event_id, doorbell, launched, completed, consumed, peak] = one;
    const key = `${device}\u0000${event_id}`;
    const ring = known.get(key);
    if (!ring) return [];  // it is gone: nothing but its counts is known
    const was = earlier.get(key);
    const rate = was && seconds > 0 && completed >= was[4] ? (completed - was[4]) / seconds : null;
    const figures = {...ring, doorbell, launched, completed, consumed, peak, rate, life: null,
                     p50_ns: null, p99_ns: null};
    const rung = launched + unseen(figures);
    return [{...figures, counts: {rung, done: completed, failed: null, aborted: null}}];
  });
  const [rung, done, failed, aborted] = past.events;
  return {...now, past: true, time_ns: past.time_ns, gpud: {state: past.gpud, note: "as it was then"},
          totals: {...now.totals, events: {...now.totals.events, rung, done, failed, aborted}},
          rings, struck: past.struck};
}

/**
 * The picture with its strikes at times of day: the board has the monotonic clock's. How far that
 * is from the time of day only a picture of a living gpud says; until one came, times are null.
 * @param {any} picture @param {number | null} before what an earlier picture said
 * @returns {{picture: any, offset: number | null}}
 */
export function withTimesOfDay(picture, before) {
  const known = picture.gpud.state === "live" && picture.monotonic_ns > 0;
  const offset = known ? picture.time_ns - picture.monotonic_ns : before;
  const strikes = picture.strikes.map((/** @type {any} */ one) =>
    ({...one, time_ns: offset === null ? null : one.time_ns + offset}));
  return {picture: {...picture, strikes}, offset};
}

/** @typedef {{time_ns: number, text: string, mark: "" | "good" | "warn" | "bad"}} Change */

/** What differs between two pictures that follow each other.
 * @param {any} before @param {any} after @returns {Change[]} */
export function changesOf(before, after) {
  /** @type {Change[]} */
  const changes = [];
  const say = (/** @type {string} */ text, /** @type {Change["mark"]} */ mark = "") =>
    changes.push({time_ns: after.time_ns, text, mark});
  if (before.gpud.state !== after.gpud.state) {
    say(`gpud is ${after.gpud.state}`, after.gpud.state === "live" ? "good" : "bad");
  }
  if (before.totals.policy !== after.totals.policy) say(`policy is ${after.totals.policy}`);
  if (before.totals.tracing !== after.totals.tracing) {
    say(`tracing is ${after.totals.tracing ? "on" : "off"}`);
  }
  compare(before.devices, after.devices, "device", say);
  compare(before.processes, after.processes, "process", say);
  const struck = after.struck - before.struck;
  if (struck > 0) say(struck === 1 ? "a fault struck" : `faults struck ${struck} times`, "bad");
  return changes;
}

/** @param {any[]} before @param {any[]} after @param {string} what
 *  @param {(text: string, mark?: Change["mark"]) => void} say */
function compare(before, after, what, say) {
  const old = new Map(before.map((one) => [one.name, one]));
  for (const one of after) {
    const was = old.get(one.name);
    old.delete(one.name);
    if (!was) say(`${what} ${one.name} came (pid ${one.pid})`, "good");
    else if (was.pid !== one.pid) say(`${what} ${one.name} came anew (pid ${one.pid})`, "warn");
    else if (was.state !== one.state) say(`${what} ${one.name} is ${one.state}`, "warn");
    if (was && (was.silent_ns > 5e8) !== (one.silent_ns > 5e8)) {
      say(`${what} ${one.name} ${one.silent_ns > 5e8 ? "is silent" : "gives signs of life again"}`,
          one.silent_ns > 5e8 ? "bad" : "good");
    }
  }
  for (const name of old.keys()) say(`${what} ${name} went`, "bad");
}

/** @param {Change[]} changes @param {any} before @param {any} after @returns {Change[]} */
export const addChanges = (changes, before, after) =>
  before ? [...changes, ...changesOf(before, after)].slice(-MOST_CHANGES) : changes;
