// @ts-check
// Lines over time, by uPlot, with strikes of faults as marks.

import {html, useEffect, useRef, useState} from "./vendor/preact.js";

const SCHEME = matchMedia("(prefers-color-scheme: dark)");

/** What is drawn has the colours that there were: `draw` is called when they have changed.
 * @param {() => void} draw @returns {() => void} has it called no more */
export function onScheme(draw) {
  SCHEME.addEventListener("change", draw);
  return () => SCHEME.removeEventListener("change", draw);
}

export const colour = (/** @type {string} */ name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Marks at times, in seconds since 1970. */
function marksAt(/** @type {() => number[]} */ times) {
  return {hooks: {draw: [(/** @type {any} */ plot) => {
    const c = plot.ctx;
    c.save();
    c.strokeStyle = colour("bad");
    c.lineWidth = 1;
    for (const time of times()) {
      const x = Math.round(plot.valToPos(time, "x", true)) + 0.5;  // on whole pixels
      if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
      c.beginPath();
      c.moveTo(x, plot.bbox.top);
      c.lineTo(x, plot.bbox.top + plot.bbox.height);
      c.stroke();
    }
    c.restore();
  }]}};
}

/**
 * @param {{times: number[], lines: {name: string, colour: string, values: (number | null)[]}[],
 *   strikes: number[], label: string, unit: string}} properties
 */
export function Chart({times, lines, strikes, label, unit}) {
  const at = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const marks = useRef(strikes);
  marks.current = strikes;
  const [scheme, setScheme] = useState(0);
  useEffect(() => onScheme(() => setScheme((/** @type {number} */ before) => before + 1)), []);
  const names = lines.map((line) => line.name).join();
  useEffect(() => {
    const place = /** @type {HTMLElement} */ (at.current);
    const axis = {stroke: colour("faint"), grid: {stroke: colour("line"), width: 1},
                  ticks: {stroke: colour("line"), width: 1}};
    plot.current = new (/** @type {any} */ (window)).uPlot({
      width: place.clientWidth, height: 220, legend: {live: true}, plugins: [marksAt(() => marks.current)],
      axes: [{...axis, space: 100}, {...axis, label: unit, size: 70}],
      series: [{}, ...lines.map((line) => ({label: line.name, stroke: colour(line.colour), width: 1.5}))],
    }, [times, ...lines.map((line) => line.values)], place);
    const watch = new ResizeObserver(() =>
      plot.current.setSize({width: place.clientWidth, height: 220}));
    watch.observe(place);
    return () => { watch.disconnect(); plot.current.destroy(); };
  }, [names, unit, scheme]);
  useEffect(() => { plot.current?.setData([times, ...lines.map((line) => line.values)]); });
  return html`<div class="chart" role="img" aria-label=${label} ref=${at}></div>`;
}
