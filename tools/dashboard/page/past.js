// @ts-check
// What the page remembers: a small record a second, as the gateway's history has them, and what has
// changed. Nothing here knows of a browser.

import {ringKey, unseen} from "./rings.js";

const MOST_CHANGES = 300;

/**
 * @typedef {{time_ns: number, gpud: string, events: number[],
 *   rings: [string, number, number, number, number, number, number, number][], struck: number}} Past
 */

/** The record of a picture: whole pictures of ten minutes would fill a tab's memory.
 * @param {any} picture @param {Map<string, number>} peaks @returns {Past} */
export function remember(picture, peaks) {
  const {rung, done, failed, aborted} = picture.totals.events;
  return {
    time_ns: picture.time_ns, gpud: picture.gpud.state, events: [rung, done, failed, aborted],
    rings: picture.rings.map((/** @type {any} */ one) => [
      one.device, one.event_id, one.doorbell, one.launched, one.completed, one.consumed,
      peaks.get(ringKey(one)) ?? one.peak, one.generation]),
    struck: picture.struck,
  };
}

/** Of a ring that has gone since, or whose place another has taken, only its counts are known. */
const GONE = {kernel: "-", label: "", launch_path: "-", priority: "-", entries: null};

/**
 * A picture as of an earlier second. Totals, and each ring's counts and peak, are of then; the
 * names of a ring that is still there are of now, as they do not change. What the history does not keep is null or empty.
 * @param {any} now @param {Past} past @param {Past | undefined} before the record a second earlier
 */
export function pictureOf(now, past, before) {
  const known = new Map(now.rings.map((/** @type {any} */ one) => [one.generation, one]));
  const kinds = new Map(now.devices.map((/** @type {any} */ one) => [one.name, one.kind]));
  const earlier = new Map((before?.rings ?? []).map((one) => [`${one[0]}\u0000${one[1]}`, one]));
  const seconds = before ? (past.time_ns - before.time_ns) / 1e9 : 0;
  const rings = past.rings.map((one) => {
    const [device, event_id, doorbell, launched, completed, consumed, peak, generation] = one;
    const key = `${device}\u0000${event_id}`;
    const was = earlier.get(key);
    const rate = was && seconds > 0 && completed >= was[4] ? (completed - was[4]) / seconds : null;
    const figures = {...GONE, ...known.get(generation), device, event_id, generation, doorbell, launched, completed,
                     consumed, peak, rate, life: null, p50_ns: null, p99_ns: null};
    const rung = launched + unseen(figures);
    return {...figures, counts: {rung, ended: completed, done: null, failed: null, aborted: null}};
  });
  const [rung, done, failed, aborted] = past.events;
  return {
    past: true, testbed: now.testbed, time_ns: past.time_ns, board: now.board, recorded: now.recorded,
    gpud: {state: past.gpud, note: ""}, rings, struck: past.struck,
    totals: {events: {rung, done, failed, aborted}, policy: null, tracing: null, memory_used: null,
             resident_blocks: null, blocks_of_sm: []},
    devices: [...new Set(rings.map(({device}) => device))].map((name) =>
      ({name, kind: kinds.get(name) ?? "-", state: null, silent_ns: 0, pid: "-", note: "", counters: []})),
    processes: [], queues: [],
    faults: now.faults,
    strikes: now.strikes.filter((/** @type {any} */ one) =>
      one.time_ns !== null && one.time_ns <= past.time_ns),
  };
}

/** Since when each ring of a record has had the counts that it has there, as far as the history tells.
 * @param {Past[]} history @param {number} at
 * @returns {Map<string, {counts: string, since: number}>} */
export function stillSince(history, at) {
  const since = new Map();
  /** @type {Map<string, string> | null} */
  let left = null;
  for (let i = at; i >= 0 && left?.size !== 0; --i) {
    const same = new Map();
    for (const one of history[i].rings) {
      const key = `${one[0]}\u0000${one[1]}`;
      const counts = one.slice(2, 6).join();
      if (left && left.get(key) !== counts) continue;
      same.set(key, counts);
      since.set(key, {counts, since: history[i].time_ns});
    }
    left = same;
  }
  return since;
}

/** The page's own records, and the gateway's where there are none within a second: before the page
 * was opened, and while it was hidden.
 * @param {Past[]} own @param {Past[]} gateways @returns {Past[]} */
export function withGateways(own, gateways) {
  const missing = gateways.filter(({time_ns}) => !own.some((one) => Math.abs(one.time_ns - time_ns) < 1e9));
  return [...missing, ...own].sort((a, b) => a.time_ns - b.time_ns);
}

/** Those lines of logs, ordered by time, that were there then. Lines without a time belong to the
 * one before them.
 * @param {any[]} logs @param {number} time_ns @returns {any[]} */
export function linesUntil(logs, time_ns) {
  const later = logs.findIndex((one) => one.time_ns !== null && one.time_ns > time_ns);
  return later < 0 ? logs : logs.slice(0, later);
}

/** Newest first, each with the lines without a time that belong to it.
 * @param {any[]} logs @returns {any[]} */
export function newestFirst(logs) {
  const starts = logs.flatMap((one, i) => one.time_ns !== null || i === 0 ? [i] : []);
  return starts.map((from, i) => logs.slice(from, starts[i + 1])).reverse().flat();
}

/**
 * All that views show, as of the second `at` of the history.
 * @param {{newest: any, history: Past[], lives: any[], logs: any[] | null,
 *   changes: Change[]}} page
 * @param {number} at
 */
export function sightOf({newest, history, lives, logs, changes}, at) {
  const {time_ns, rings} = history[at];
  return {
    picture: pictureOf(newest, history[at], history[at - 1]),
    peaks: new Map(rings.map((one) => [`${one[0]}\u0000${one[1]}`, one[6]])),
    still: new Map([...stillSince(history, at)].map(([key, {since}]) => [key, time_ns - since])),
    history: history.slice(0, at + 1),
    lives: lives.filter((one) => one.time <= time_ns),
    logs: logs && linesUntil(logs, time_ns),
    changes: changes.filter((one) => one.time_ns <= time_ns),
  };
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
    // Of a fault that is no longer on the board nobody knows the name.
    ({...one, fault: one.fault || "(taken off)", time_ns: offset === null ? null : one.time_ns + offset}));
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
