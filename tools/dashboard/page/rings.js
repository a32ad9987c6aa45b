// @ts-check
// What the figures of rings and devices mean. Nothing here knows of a browser.

/**
 * @typedef {{device: string, event_id: number, label: string, kernel: string, entries: number | null,
 *   doorbell: number, launched: number, completed: number, consumed: number, peak: number,
 *   counts: {rung: number, ended?: number, done: number, failed: number, aborted: number}, rate: number | null,
 *   p50_ns: number | null, p99_ns: number | null, life: Life | null}} Ring
 * @typedef {{sequence: number, rung_ns: number, seen_ns: number, queued_ns: number,
 *   dispatched_ns: number, finished_ns: number, taken_ns?: number}} Life
 */

const DOORBELLS = 4294967296;  // a doorbell counts modulo 2^32

/** @param {Ring} ring */
export const ringName = (ring) => ring.label ? `${ring.event_id} ${ring.label}` : `${ring.event_id}`;

/** @param {Ring} ring */
export const ringKey = (ring) => `${ring.device}\u0000${ring.event_id}`;

/** Events that were rung and that gpud has not looked at.
 * @param {Ring} ring */
export function unseen(ring) {
  const launched = Number(BigInt(ring.launched) % BigInt(DOORBELLS));
  return (ring.doorbell - launched + DOORBELLS) % DOORBELLS;
}

/** Rung, and not ended.
 * @param {Ring} ring */
export const pending = ({counts}) =>
  Math.max(counts.rung - (counts.ended ?? counts.done + counts.failed + counts.aborted), 0);

/**
 * Whom a ring waits for, and for what. `who` is a party, "" for nobody.
 * @param {Ring} ring
 * @param {number} silent_ns of its device
 * @returns {{who: "device" | "gpud" | "GPU" | "", what: string, events: number}}
 */
export function waitsFor(ring, silent_ns) {
  const events = unseen(ring);
  if (silent_ns > 5e8) return {who: "device", what: "it gives no sign of life", events};
  if (events > 0) return {who: "gpud", what: "rung, and gpud has not looked", events};
  if (ring.launched > ring.completed) {
    return {who: "GPU", what: "queued or running", events: ring.launched - ring.completed};
  }
  if (ring.completed > ring.consumed) {
    return {who: "device", what: "ended, and the device has not taken it",
            events: ring.completed - ring.consumed};
  }
  return {who: "", what: "nothing", events: 0};
}

/**
 * Remembers since when each ring has waited without any of its four counts moving: what has not
 * moved for a second is stuck, the rest is slow at most.
 */
export class Stillness {
  /** @type {Map<string, {counts: string, since: number}>} */
  #rings = new Map();

  /** What is known of the time before the first look: counts, and since when they were so, by
   * ringKey().
   * @param {Map<string, {counts: string, since: number}>} earlier */
  extend(earlier) {
    for (const [key, ring] of this.#rings) {
      const before = earlier.get(key);
      if (before?.counts === ring.counts) ring.since = Math.min(ring.since, before.since);
    }
  }

  /** Nanoseconds without movement, by ringKey().
   * @param {Ring[]} rings @param {number} now_ns @returns {Map<string, number>} */
  look(rings, now_ns) {
    const next = new Map();
    const still = new Map();
    for (const ring of rings) {
      const counts = [ring.doorbell, ring.launched, ring.completed, ring.consumed].join();
      const before = this.#rings.get(ringKey(ring));
      const since = before && before.counts === counts ? before.since : now_ns;
      next.set(ringKey(ring), {counts, since});
      still.set(ringKey(ring), now_ns - since);
    }
    this.#rings = next;
    return still;
  }
}

/** The highest peak of each ring in the last 15 s. */
export class Peaks {
  /** Later ones are lower: what is not higher than a later one no longer counts.
   * @type {Map<string, [number, number][]>} */
  #rings = new Map();

  /** @param {Ring[]} rings @param {number} now_ns @returns {Map<string, number>} */
  look(rings, now_ns) {
    const next = new Map();
    const peaks = new Map();
    for (const ring of rings) {
      const key = ringKey(ring);
      const seen = this.#rings.get(key) ?? [];
      while (seen.length > 0 && seen[seen.length - 1][1] <= ring.peak) seen.pop();
      seen.push([now_ns, ring.peak]);
      while (now_ns - seen[0][0] >= 15e9) seen.shift();
      next.set(key, seen);
      peaks.set(key, seen[0][1]);
    }
    this.#rings = next;
    return peaks;
  }
}

export const STAGES = /** @type {const} */ (["rung", "seen", "queued", "dispatched", "finished", "taken"]);

/** The parts of a life that are known: [stage it ends with, ns since it was rung, ns it took].
 * @param {Life} life @returns {[string, number, number][]} */
export function partsOf(life) {
  /** @type {[string, number, number][]} */
  const parts = [];
  let before = life.rung_ns;
  for (const stage of STAGES.slice(1)) {
    const at = life[/** @type {"seen_ns"} */ (`${stage}_ns`)];
    if (!before || !at || at < before) continue;
    parts.push([stage, before - life.rung_ns, at - before]);
    before = at;
  }
  return parts;
}

const LIVES_NS = 10e9;
const MOST_AT_ONCE = 25;

/** The events of the last ten seconds that were seen whole. Of many rings not each picture's are
 * kept, but some rings' by turns: ten times a second, of all rings, a page has no time to show. */
export class Lives {
  /** @type {{ring: string, time: number, life: Life}[]} */ all = [];
  /** @type {Map<string, number>} */ #last = new Map();  // sequences
  #turn = 0;

  /** @param {Ring[]} rings @param {number} now_ns */
  look(rings, now_ns) {
    this.all = this.all.filter(({time}) => now_ns - time < LIVES_NS);
    const every = Math.ceil(rings.length / MOST_AT_ONCE);
    ++this.#turn;
    rings.forEach((one, i) => {
      if ((i + this.#turn) % every !== 0 || !one.life) return;
      const ring = ringKey(one);
      if (this.#last.get(ring) === one.life.sequence) return;
      this.#last.set(ring, one.life.sequence);
      this.all.push({ring, time: now_ns, life: one.life});
    });
  }
}

/** When devices took the ends of their events, by `ring` and sequence: gpud does not see it, and the
 * devices' flight recorders do. @param {any[]} steps @returns {Map<string, number>} */
export function takenOf(steps) {
  return new Map(steps.filter(({step, ring}) => step === "taken" && ring)
    .map(({ring, event_id, sequence, time_ns}) => [`${ringKey({...ring, event_id})}\u0000${sequence}`, time_ns]));
}

/** @template {{ring: string, life: Life}} T
 * @param {T[]} lives @param {Map<string, number>} taken */
export const withTaken = (lives, taken) => lives.map((one) => {
  const taken_ns = taken.get(`${one.ring}\u0000${one.life.sequence}`);
  return taken_ns === undefined ? one : {...one, life: {...one.life, taken_ns}};
});

/** @param {number[]} values not empty @param {number} part 0 to 1 */
export function quantile(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(Math.floor(part * sorted.length), sorted.length - 1)];
}
