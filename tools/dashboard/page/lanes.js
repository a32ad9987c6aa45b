// @ts-check
// The recorders' last steps: a lane for each process, a tick for each step, a line for each strike.

import {html, useEffect, useRef} from "./vendor/preact.js";
import {colour, onScheme} from "./charts.js";
import {visible} from "./text.js";

const ROW = 26;
const NAME = 120;
const MOST_LANES = 66;

/** Lanes, and where in time each step is, from 0 to 1.
 * @param {any[]} steps @returns {{name: string, at: {part: number, step: string}[]}[]} */
export function lanesOf(steps) {
  const times = steps.map((one) => one.time_ns);
  const first = Math.min(...times), span = Math.max(Math.max(...times) - first, 1);
  /** @type {Map<string, {part: number, step: string}[]>} */
  const lanes = new Map();
  for (const one of steps) {
    const name = one.process || `pid ${one.pid}`;
    if (!lanes.has(name)) lanes.set(name, []);
    lanes.get(name)?.push({part: (one.time_ns - first) / span, step: one.step});
  }
  return [...lanes].map(([name, at]) => ({name, at})).slice(0, MOST_LANES);
}

/** Where among the steps in time each strike is, from 0 to 1.
 * @param {any[]} steps @param {any[]} strikes @returns {number[]} */
export function strikesOf(steps, strikes) {
  const times = steps.map((one) => one.time_ns);
  const first = Math.min(...times), last = Math.max(...times);
  return strikes.filter(({time_ns}) => time_ns >= first && time_ns <= last)
    .map(({time_ns}) => (time_ns - first) / Math.max(last - first, 1));
}

/** @param {HTMLCanvasElement} canvas @param {any[]} steps @param {any[]} strikes */
function draw(canvas, steps, strikes) {
  const width = canvas.parentElement?.clientWidth ?? 0;
  if (width === 0 || steps.length === 0) return;
  const lanes = lanesOf(steps);
  const height = lanes.length * ROW + 4;
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  canvas.style.height = `${height}px`;
  const c = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  c.scale(devicePixelRatio, devicePixelRatio);
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  const length = width - NAME - 8;
  lanes.forEach(({name, at}, i) => {
    const y = i * ROW + ROW / 2;
    c.fillStyle = colour("text");
    c.fillText(visible(name), 0, y, NAME - 8);
    c.fillStyle = colour("line");
    c.fillRect(NAME, y, length, 1);
    c.fillStyle = colour("accent");
    for (const {part, step} of at) {
      if (step !== "struck") c.fillRect(NAME + part * length, y - 6, 1, 13);
    }
  });
  // A strike goes through all lanes: what happened before and after it is then seen at once.
  c.fillStyle = colour("bad");
  for (const part of strikesOf(steps, strikes)) c.fillRect(NAME + part * length, 0, 2, height);
}

/** @param {{steps: any[], strikes: any[]}} properties */
export function Lanes({steps, strikes}) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  useEffect(() => {
    const at = /** @type {HTMLCanvasElement} */ (canvas.current);
    const again = () => draw(at, steps, strikes);
    const watch = new ResizeObserver(again);
    watch.observe(/** @type {Element} */ (at.parentElement));
    const forget = onScheme(again);
    return () => { watch.disconnect(); forget(); };
  }, [steps, strikes]);
  return html`<div><canvas ref=${canvas} role="img"
    aria-label="The last steps of each process; the table below says the same"></canvas></div>`;
}
