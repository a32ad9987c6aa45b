// @ts-check
// The testbed as a picture: the GPU between its devices, and each ring as a bar from its device to
// it. Places are fixed by the devices' names, so nothing jumps when one dies.

import {colour} from "./charts.js";
import {pending, ringKey, ringName, waitsFor} from "./rings.js";
import {markOf, visible} from "./text.js";

const NARROW = 700;  // pixels: devices then stand on one side only
const BOX = 150;
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

/** @typedef {import("./rings.js").Ring} Ring */
/**
 * @typedef {{name: string, kind: string, state: string | null, silent_ns: number, rings: Ring[],
 *   y: number, height: number, right: boolean}} Place
 */

/** nic2 before nic10. */
const names = new Intl.Collator("en", {numeric: true});
const byName = (/** @type {any} */ a, /** @type {any} */ b) => names.compare(a.name, b.name);

/** The rings of each device. @param {any} picture @returns {Map<string, Ring[]>} */
function ringsOf(picture) {
  const rings = new Map();
  for (const ring of picture.rings) {
    if (!rings.has(ring.device)) rings.set(ring.device, []);
    rings.get(ring.device).push(ring);
  }
  return rings;
}

/** A shape beside each word, for who does not see colours. */
const SHAPES = {good: "\u25cf", warn: "\u25a0", bad: "\u25b2", faint: "\u25cb"};

/** @param {{state: string | null, silent_ns: number}} device null: of then nobody knows it
 *  @returns {["good" | "warn" | "bad" | "faint", string]} */
export function health(device) {
  if (device.state === null) return ["faint", "not kept"];
  if (device.silent_ns > 5e8) return ["bad", "silent"];
  return [markOf(device.state), device.state];
}

/** Where each device stands. Exported for tests: it draws nothing.
 * @param {any} picture @param {number} width @returns {{places: Place[], height: number}} */
export function arrange(picture, width) {
  const sides = width < NARROW ? 1 : 2;
  const devices = [...picture.devices].sort(byName);
  const rings = ringsOf(picture);
  const rows = Math.max(Math.ceil(devices.length / sides), 1);
  const most = Math.max(1, ...devices.map(({name}) => rings.get(name)?.length ?? 0));
  const row = Math.max(rows > 12 ? 22 : 44, most * 5 + 6);
  const places = devices.map((device, i) => ({
    name: device.name, kind: device.kind, state: device.state, silent_ns: device.silent_ns,
    rings: rings.get(device.name) ?? [],
    y: 8 + (i % rows) * row, height: row - 6, right: i >= rows,
  }));
  return {places, height: Math.max(rows * row + 12, 200)};
}

/**
 * Two canvases, one above the other: what a picture says is drawn when one comes, and only the
 * pulses, in the upper one, at each frame.
 */
export class House {
  /** @type {any} */ #picture = null;
  /** @type {Map<string, number>} */ #peaks = new Map();
  #held = false;
  #width = 0;
  #frame = 0;
  /** @type {{key: string, speed: number, from: number, to: number, y: number}[]} */ #moving = [];
  /** @type {Map<string, number>} */ #phase = new Map();  // 0 to 1, of each ring's pulses
  #before = 0;
  #colours = /** @type {Record<string, string>} */ ({});
  #watch;

  /** @param {HTMLCanvasElement} canvas @param {HTMLCanvasElement} pulses */
  constructor(canvas, pulses) {
    this.canvas = canvas;
    this.pulses = pulses;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.above = /** @type {CanvasRenderingContext2D} */ (pulses.getContext("2d"));
    this.#watch = new ResizeObserver(() => this.#draw());
    this.#watch.observe(/** @type {Element} */ (canvas.parentElement));
  }

  close() {
    this.#watch.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  /** @param {any} picture @param {Map<string, number>} peaks @param {boolean} held stands still */
  show(picture, peaks, held) {
    this.#picture = picture;
    this.#held = held;
    this.#peaks = peaks;
    this.#draw();
  }

  #draw() {
    const width = /** @type {Element} */ (this.canvas.parentElement).clientWidth;
    if (!this.#picture || width === 0) return;
    const {places, height} = arrange(this.#picture, width);
    const scale = devicePixelRatio;
    if (this.#width !== width || this.canvas.height !== Math.round(height * scale)) {
      this.#width = width;
      for (const canvas of [this.canvas, this.pulses]) {
        canvas.width = Math.round(width * scale);
        canvas.height = Math.round(height * scale);
        canvas.style.height = `${height}px`;
      }
    }
    for (const name of ["text", "faint", "line", "good", "warn", "bad", "accent"]) {
      this.#colours[name] = colour(name);
    }
    this.#moving = [];
    this.#drawAll(places, height);
    if (!this.#frame) this.#frame = requestAnimationFrame((now) => this.#animate(now));
  }

  #animate(/** @type {number} */ now) {
    this.#frame = 0;
    const seconds = this.#held ? 0 : Math.min((now - this.#before) / 1000, 0.1);
    this.#before = now;
    const c = this.above;
    c.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    c.clearRect(0, 0, this.pulses.width, this.pulses.height);
    c.fillStyle = this.#colours.good;
    c.beginPath();
    for (const {key, speed, from, to, y} of this.#moving) {
      const phase = ((this.#phase.get(key) ?? 0) + speed * seconds) % 1;
      this.#phase.set(key, phase);
      for (let i = 0; i < 3; ++i) {
        c.rect(from + ((phase + i / 3) % 1) * (to - from) - 1.5, y - 1, 3, 3);
      }
    }
    c.fill();
    if (this.#moving.length > 0 && !this.#held) this.#frame = requestAnimationFrame((next) => this.#animate(next));
  }

  /** @param {Place[]} places @param {number} height */
  #drawAll(places, height) {
    const c = this.context, colours = this.#colours;
    const narrow = this.#width < NARROW;
    const box = narrow ? 96 : BOX;
    const gpuWidth = narrow ? 96 : Math.min(260, this.#width - 2 * box - 200);
    const gpuLeft = narrow ? this.#width - gpuWidth - 2 : (this.#width - gpuWidth) / 2;
    c.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    c.clearRect(0, 0, this.#width, height);
    c.textBaseline = "middle";
    this.#drawGpu(gpuLeft, gpuWidth, height);
    for (const place of places) {
      const left = place.right ? this.#width - box - 2 : 2;
      const [mark, word] = health(place);
      c.strokeStyle = colours[mark];
      c.lineWidth = mark === "good" || mark === "faint" ? 1 : 2;
      c.strokeRect(left + 0.5, place.y + 0.5, box, place.height);
      const middle = place.y + place.height / 2;
      c.font = "11px system-ui, sans-serif";
      c.fillStyle = colours[mark];
      c.fillText(SHAPES[mark], left + 5, middle);
      c.fillStyle = colours.text;
      const text = visible(place.name) + (place.height > 30 ? "" : mark === "good" || mark === "faint" ? "" : ` ${word}`);
      c.fillText(text, left + 18, place.height > 30 ? middle - 7 : middle, box - 22);
      if (place.height > 30) {
        c.fillStyle = colours.faint;
        c.fillText(`${visible(place.kind)}, ${visible(word)}`, left + 18, middle + 8, box - 22);
      }
      const from = place.right ? left : left + box;
      const to = place.right ? gpuLeft + gpuWidth : gpuLeft;
      place.rings.forEach((ring, i) => {
        const y = Math.round(place.y + (place.height * (i + 1)) / (place.rings.length + 1));
        this.#drawRing(ring, from, to, y, place.silent_ns);
      });
    }
  }

  /** @param {Ring} ring @param {number} from @param {number} to @param {number} y
   *  @param {number} silent_ns */
  #drawRing(ring, from, to, y, silent_ns) {
    const c = this.context, colours = this.#colours;
    const length = to - from;
    const entries = ring.entries ?? Infinity;
    const part = (/** @type {number} */ events) => Math.min(events / entries, 1) * length;
    c.lineWidth = 1;
    c.strokeStyle = colours.line;
    c.beginPath();
    c.moveTo(from, y + 0.5);
    c.lineTo(to, y + 0.5);
    c.stroke();
    const full = pending(ring) >= entries;
    const {who} = waitsFor(ring, silent_ns);
    c.fillStyle = full || (who === "device" && silent_ns > 5e8) ? colours.bad : colours.accent;
    c.fillRect(from, y - 2, part(pending(ring)), 5);
    const peak = from + part(this.#peaks.get(ringKey(ring)) ?? 0);
    c.fillStyle = colours.text;
    c.fillRect(peak - (length < 0 ? -1 : 1), y - 4, 2, 9);
    if (STILL.matches || this.#picture.gpud.state !== "live" || !ring.rate) return;
    // A pulse is no event: ten times as many events are twice as fast.
    const speed = 0.2 * Math.pow(2, Math.log10(1 + ring.rate));
    this.#moving.push({key: ringKey(ring), speed, from, to, y});
  }

  #drawGpu(/** @type {number} */ left, /** @type {number} */ width, /** @type {number} */ height) {
    const c = this.context, colours = this.#colours, {gpud, totals} = this.#picture;
    const mark = gpud.state === "live" ? "good" : "bad";
    c.strokeStyle = colours[mark];
    c.lineWidth = mark === "good" ? 1 : 3;
    c.strokeRect(left + 0.5, 8.5, width, height - 20);
    c.font = "600 13px system-ui, sans-serif";
    c.fillStyle = colours.text;
    c.fillText("GPU", left + 8, 24, width - 16);
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = colours[mark];
    c.fillText(`${SHAPES[mark]} gpud is ${gpud.state}`, left + 8, 42, width - 16);
    c.fillStyle = colours.faint;
    if (totals.resident_blocks !== null) {
      c.fillText(`${totals.resident_blocks} blocks on it`, left + 8, 58, width - 16);
    }
    const sms = totals.blocks_of_sm ?? [];
    const across = Math.max(Math.floor((width - 16) / 18), 1);
    const most = Math.max(1, ...sms);
    sms.forEach((/** @type {number} */ blocks, /** @type {number} */ i) => {
      const x = left + 8 + (i % across) * 18, y = 72 + Math.floor(i / across) * 18;
      if (y > height - 30) return;
      c.strokeStyle = colours.line;
      c.lineWidth = 1;
      c.strokeRect(x + 0.5, y + 0.5, 14, 14);
      const filled = (14 * blocks) / most;
      c.fillStyle = colours.accent;
      c.fillRect(x + 1, y + 15 - filled, 13, filled);
    });
  }
}

/** The same as a table: device, its state, event, kernel, pending, peak, slots. */
export function houseRows(/** @type {any} */ picture, /** @type {Map<string, number>} */ peaks) {
  const all = ringsOf(picture);
  return [...picture.devices].sort(byName).flatMap((device) => {
    const rings = all.get(device.name) ?? [];
    const [mark, word] = health(device);
    const head = [{text: device.name}, {text: device.kind}, {text: word, mark}];
    if (rings.length === 0) return [[...head, {text: "none"}, {text: ""}, {text: ""}, {text: ""}, {text: ""}]];
    return rings.map((/** @type {Ring} */ ring) => [
      ...head, {text: ringName(ring)}, {text: ring.kernel}, {text: pending(ring)},
      {text: peaks.get(ringKey(ring)) ?? 0}, {text: ring.entries ?? "-"}]);
  });
}
