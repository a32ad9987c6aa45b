// @ts-check
// The page: its connection to the gateway, what it remembers, and the view that is shown.

import {html, render, useEffect, useRef} from "./vendor/preact.js";
import {addChanges, linesUntil, remember, sightOf, stillSince, withGateways, withTimesOfDay} from "./past.js";
import {Lives, Peaks, Stillness, takenOf, withTaken} from "./rings.js";
import {clock, count, mebibytes, visible} from "./text.js";
import {EktView, FaultsView, HouseView, LogsView, RatesView, SmsView, StoryView, StuckView} from "./views.js";

const TOKEN = "carillon-token";
const LOG_MS = 2000;
const HISTORY = 600;  // pictures, one a second
const LATE_MS = 800;  // the gateway sends ten pictures a second, two while gpud is gone

/** @type {[string, string, any][]} */
const VIEWS = [
  ["house", "House", HouseView], ["stuck", "Stuck or slow", StuckView], ["rates", "Rates", RatesView],
  ["ekt", "Event kernels", EktView], ["faults", "Faults", FaultsView], ["story", "Story", StoryView],
  ["sms", "SMs", SmsView], ["logs", "Logs", LogsView],
];

/** The link's token goes into the tab's storage, and out of the address. */
function takeToken() {
  const found = /^#token=([0-9a-f]{32})$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(TOKEN, found[1]);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

let token = takeToken();

function viewOfAddress() {
  const name = location.hash.slice(1);
  return VIEWS.some(([each]) => each === name) ? name : "house";
}

const page = {
  view: viewOfAddress(),
  connection: "Connecting.",
  connected: false,
  role: "",
  notice: "",
  /** @type {any} */ newest: null,
  /** @type {any} All that the views show while paused: see sightOf(). */ held: null,
  /** @type {import("./past.js").Past[]} One a second: the gateway's, and then our own. */ history: [],
  /** @type {import("./past.js").Change[]} */ changes: [],
  peaks: new Map(),
  still: new Map(),
  /** @type {any[] | null} null: not read yet */ logs: null,
  /** @type {any[]} */ points: [],
  recordingSince: 0,
  switchedOn: false,  // tracing, by this page
};
const peaks = new Peaks();
const stillness = new Stillness();
const lives = new Lives();

/** @param {string} path @param {RequestInit} [options] */
function ask(path, options = {}) {
  return fetch(path, {...options, headers: {...options.headers, Authorization: `Bearer ${token}`}});
}

function say(/** @type {string} */ text) {
  page.notice = visible(text);
  show();
}

/** Whether it was done. @param {string} path @param {object} body */
async function post(path, body) {
  let done = false;
  try {
    const response = await ask(path, {method: "POST", body: JSON.stringify(body),
                                      headers: {"Content-Type": "application/json"}});
    const answer = await response.json();
    done = response.ok;
    say(done ? "Done." : answer.error.message);
  } catch (error) {
    say(`The dashboard does not answer: ${error instanceof Error ? error.message : error}`);
  }
  return done;
}

let heard = 0;
let offset = /** @type {number | null} */ (null);  // from the monotonic clock to the time of day

function take(/** @type {any} */ sent) {
  const timed = withTimesOfDay(sent, offset);
  const picture = timed.picture;
  offset = timed.offset;
  page.changes = addChanges(page.changes, page.newest, picture);
  page.newest = picture;
  page.connected = true;
  heard = performance.now();
  page.peaks = peaks.look(picture.rings, picture.time_ns);
  page.still = stillness.look(picture.rings, picture.time_ns);
  lives.look(picture.rings, picture.time_ns);
  const last = page.history.at(-1);
  if (!last || picture.time_ns - last.time_ns >= 1e9) {
    page.history = [...page.history.slice(1 - HISTORY), remember(picture, page.peaks)];
  }
  show();
}

/** What was before the page was opened, and while it was hidden. */
async function loadHistory(/** @type {AbortSignal} */ signal) {
  const response = await ask("api/v1/history", {signal});
  if (!response.ok) return;
  const {pictures} = await response.json();
  page.history = withGateways(page.history, pictures).slice(-HISTORY);
  if (page.history.length > 0) stillness.extend(stillSince(page.history, page.history.length - 1));
}

/** For who may put faults there. */
async function loadPoints(/** @type {AbortSignal} */ signal) {
  if (page.role !== "fault-injector" || page.points.length > 0) return;
  const response = await ask("api/v1/points", {signal});
  if (response.ok) page.points = (await response.json()).points;
}

/** Reads the stream to its end. */
async function follow(/** @type {AbortSignal} */ signal) {
  const response = await ask("api/v1/stream", {signal});
  if (response.status === 401) {
    disconnected("This page has no token that is right: open the dashboard's link again.");
    return;
  }
  if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}`);
  page.role = response.headers.get("Carillon-Role") ?? "";
  // Beside the stream: the page is of use without them.
  for (const one of [loadHistory(signal), loadPoints(signal)]) one.catch(() => {});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) throw new Error("the stream ended");
    text += value;
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    // Of several the last one is the newest.
    const last = events.filter((one) => /^data: /m.test(one)).pop();
    if (last) take(JSON.parse(last.slice(last.indexOf("data: ") + 6)));
  }
}

async function loadLogs(/** @type {AbortSignal} */ signal) {
  if (page.view !== "logs") return;
  const response = await ask("api/v1/logs?lines=200", {signal});
  if (!response.ok) return;
  const {lines} = await response.json();
  page.logs = lines;
  const {held} = page;
  if (held && !held.logs) held.logs = linesUntil(lines, held.picture.time_ns);
  show();
}

/** The stage of events that only the devices' recorders know. Long recorders are read seldom. */
async function loadTaken(/** @type {AbortSignal} */ signal) {
  if (page.view !== "rates" || page.held || !page.newest?.totals.tracing || !page.newest.recorded) return;
  const began = performance.now();
  const response = await ask("api/v1/story", {signal});
  if (!response.ok) return;
  lives.all = withTaken(lives.all, takenOf((await response.json()).steps));
  await wait(10 * (performance.now() - began));
}

function disconnected(/** @type {string} */ text) {
  page.connected = false;
  page.connection = text;
  show();
}

const wait = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

/** Again and again while the page is seen: a hidden one costs nothing. */
async function run(/** @type {(signal: AbortSignal) => Promise<void>} */ work,
                   /** @type {number} */ again, /** @type {string} */ lost) {
  for (;;) {
    if (document.hidden) {
      await new Promise((seen) => document.addEventListener("visibilitychange", seen, {once: true}));
      continue;
    }
    const ended = new AbortController();
    const hide = () => { if (document.hidden) ended.abort(); };
    document.addEventListener("visibilitychange", hide);
    try {
      await work(ended.signal);
    } catch (error) {
      if (lost && !ended.signal.aborted) {
        disconnected(`${lost} (${visible(error instanceof Error ? error.message : error)})`);
      }
    }
    document.removeEventListener("visibilitychange", hide);
    await wait(again);
  }
}

async function record() {
  if (!page.recordingSince) {
    if (!page.newest.recorded) {
      say("No trace can be saved: nothing is recorded. record: 4096 in the topology has all processes record.");
      return;
    }
    const off = !page.newest.totals.tracing;
    if (off && page.role === "operator") {
      page.switchedOn = await post("api/v1/tracing", {on: true});
      if (!page.switchedOn) return;
    }
    page.recordingSince = Date.now();
    say(off && !page.switchedOn ?
      "Recording without tracing: the trace will not say when events were seen and dispatched. " +
      "An operator's link switches tracing on." : "Recording.");
    return;
  }
  const seconds = Math.min(Math.ceil((Date.now() - page.recordingSince) / 1000) + 1, HISTORY);
  page.recordingSince = 0;
  /** @type {Blob} */ let trace;
  try {
    const response = await ask(`api/v1/trace.pftrace?last=${seconds}`);
    if (!response.ok) throw new Error((await response.json()).error.message);
    trace = await response.blob();
  } catch (error) {
    say(`No trace was saved: ${error instanceof Error ? error.message : error}`);
    return;
  } finally {
    if (page.switchedOn) {
      page.switchedOn = false;
      await ask("api/v1/tracing", {method: "POST", body: JSON.stringify({on: false}),
                                   headers: {"Content-Type": "application/json"}}).catch(() => {});
    }
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(trace);
  link.download = `${page.newest.testbed}.pftrace`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  say("The trace is with your downloads; ui.perfetto.dev, which is not this machine's, opens it.");
}

function State() {
  const {newest, held} = page;
  const gone = !page.connected || newest?.gpud.state !== "live";
  const state = held ? "paused" : gone ? "gone" : "live";
  const text = !page.connected ? page.connection :
    held?.picture.past ? `Looking back at ${clock(held.picture.time_ns)}. What no history keeps is left out.` :
    held ? `Paused at ${clock(held.picture.time_ns)}.` :
    newest.gpud.state === "live" ? "gpud is live." :
    `gpud is ${newest.gpud.state}: ${visible(newest.gpud.note)}. Its figures are the last ones.`;
  return html`<p role="status" data-state=${state} class=${state === "live" ? "good" : state === "gone" ? "bad" : "warn"}>
    ${text}</p>`;
}

function Controls() {
  const {history, held} = page;
  const last = history.length - 1;
  const found = held ? history.findIndex((one) => one.time_ns >= held.picture.time_ns) : last;
  const at = found < 0 ? last : found;
  const hold = (/** @type {any} */ sight) => { page.held = sight; show(); };
  const lookAt = (/** @type {number} */ i) => hold(history[i] ? sightOf({...page, lives: lives.all}, i) : sightNow());
  const slider = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    if (!slider.current) return;
    // In this order: a value above the bound that there was would be cut to it.
    slider.current.max = String(Math.max(last, 0));
    slider.current.value = String(at);
  });
  return html`<div class="controls">
    <button type="button" data-button="pause" aria-pressed=${held ? "true" : "false"}
      onClick=${() => hold(held ? null : sightNow())}>${held ? "Go on" : "Pause"}</button>
    <label>Look back <input type="range" min="0" ref=${slider}
      onInput=${(/** @type {any} */ event) => lookAt(Number(event.target.value))} /></label>
    <button type="button" data-button="record" aria-pressed=${page.recordingSince ? "true" : "false"}
      onClick=${record}>${page.recordingSince ? "Stop and save the trace" : "Record a trace"}</button>
  </div>`;
}

/** Later pictures make new ones of these, and leave them as they are. */
function sightNow() {
  const {newest, peaks, still, history, logs, changes} = page;
  return {picture: newest, peaks, still, history, lives: lives.all, logs, changes};
}

function Page() {
  const held = page.held ?? sightNow();
  const {picture} = held;
  const View = VIEWS.find(([name]) => name === page.view)?.[2];
  const events = picture?.totals.events;
  const sight = {...held, held: page.held !== null, role: page.role, points: page.points, get: ask, post};
  return html`
    <header>
      <h1>Carillon <span>${picture ? visible(picture.testbed) : ""}</span></h1>
      <${State} />
      ${events ? html`<p class="note">${count(events.rung)} rung = ${count(events.done)} done +
        ${" "}${count(events.failed)} failed + ${count(events.aborted)} aborted +
        ${" "}${count(Math.max(events.rung - events.done - events.failed - events.aborted, 0))} in
        flight${picture.past ? "" : `; policy ${visible(picture.totals.policy)}; tracing ${
          picture.totals.tracing ? "on" : "off"}; ${mebibytes(picture.totals.memory_used)} used`}</p><${Controls} />` : null}
      <p role="alert" class="warn">${page.notice}</p>
      <nav aria-label="Views"><ul>${VIEWS.map(([name, title]) => html`
        <li><a href=${`#${name}`} data-view-link=${name}
          aria-current=${name === page.view ? "page" : undefined}>${title}</a></li>`)}</ul></nav>
    </header>
    <main data-view=${page.view}>${picture && View ? html`<${View} key=${page.view} ...${sight} />` : null}</main>`;
}

let due = false;
/** Soon, and once for all that changed meanwhile. */
function show() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    if (page.newest) document.title = `${visible(page.newest.testbed)} - Carillon`;
    render(html`<${Page} />`, document.body);
  });
}

addEventListener("hashchange", () => {
  token = takeToken();
  page.view = viewOfAddress();
  page.notice = "";
  show();
  loadLogs(new AbortController().signal).catch(() => {});  // not only in two seconds
});
show();
setInterval(() => {
  if (page.connected && !document.hidden && performance.now() - heard > LATE_MS) {
    disconnected("The dashboard sends no pictures: it is stopped, or has no time.");
  }
}, 100);
run(follow, 500, "The dashboard's pictures do not come; this page tries again.");
run(loadLogs, LOG_MS, "");
run(loadTaken, LOG_MS, "");
