// @ts-check
// The page's views. Whatever comes from a testbed may be hostile: Preact makes text nodes of it.

import {html, useEffect, useRef, useState} from "./vendor/preact.js";
import {Chart} from "./charts.js";
import {House, health, houseRows} from "./house.js";
import {Lanes} from "./lanes.js";
import {newestFirst} from "./past.js";
import {STAGES, partsOf, pending, quantile, ringKey, ringName, waitsFor} from "./rings.js";
import {Table} from "./table.js";
import {clock, count, duration, markOf, mebibytes, precise, visible} from "./text.js";

/** @typedef {import("./rings.js").Ring} Ring */
/**
 * What the views show. `picture` is the one that is looked at: the newest, one that is held, or
 * one of the past, of which less is known.
 * @typedef {{picture: any, held: boolean, peaks: Map<string, number>, still: Map<string, number>, history: any[],
 *   lives: {ring: string, time: number, life: import("./rings.js").Life}[], role: string,
 *   logs: any[] | null, changes: import("./past.js").Change[], points: any[],
 *   get: (path: string) => Promise<Response>,
 *   post: (path: string, body: object) => Promise<boolean>}} Sight
 */

const silenceOf = (/** @type {any} */ picture, /** @type {string} */ name) =>
  picture.devices.find((/** @type {any} */ one) => one.name === name)?.silent_ns ?? 0;

/** What stands where nothing is, which is not the same in a picture of the past. */
const none = (/** @type {any} */ picture, /** @type {string} */ words) =>
  picture.past ? "No history keeps this." : words;

/** A table that is made anew with each picture only while it is open, else once a second.
 * @param {{children: () => any}} properties */
function Twin({children}) {
  const [open, setOpen] = useState(false);
  const made = useRef({time: -Infinity, table: /** @type {any} */ (null)});
  const now = performance.now();
  if (open || now - made.current.time >= 1000) made.current = {time: now, table: children()};
  return html`<details onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary>The same as a table</summary>${made.current.table}</details>`;
}

/** @param {Sight} sight */
export function HouseView({picture, peaks, held, role, post}) {
  const canvas = useRef(/** @type {any} */ (null));
  const pulses = useRef(/** @type {any} */ (null));
  const house = useRef(/** @type {House | null} */ (null));
  useEffect(() => {
    house.current = new House(canvas.current, pulses.current);
    return () => house.current?.close();
  }, []);
  useEffect(() => house.current?.show(picture, peaks, held));
  return html`
    <p class="note">A bar is a ring: filled by what is rung and has not ended, its tick the most of
      the last 15 seconds. Dots go by its rate, ten times as many events twice as fast.</p>
    <div class="house"><canvas ref=${canvas} role="img"
      aria-label="The GPU between its devices; the table below says the same"></canvas>
      <canvas ref=${pulses} aria-hidden="true"></canvas></div>
    <${Twin}>${() => html`
      <${Table} label="House picture as a table" twin="house" none="No device is attached."
        columns=${[["Device", "text"], ["Kind", "text"], ["State", "text"], ["Event", "text"],
                   ["Kernel", "text"], ["Pending", "number"], ["Peak", "number"], ["Slots", "number"]]}
        rows=${houseRows(picture, peaks)} />`}<//>
    <h2>Processes</h2>
    ${role === "operator" && !picture.past ? html`<${Operate} picture=${picture} post=${post} />` : null}
    <${Table} label="Processes" none=${none(picture, "No supervisor tells of any.")} sortable
      columns=${[["Process", "text"], ["Kind", "text"], ["State", "text"], ["Pid", "number"],
                 ["CPU", "number"], ["Memory", "number"], ["Restarts", "number"], ["Note", "text"]]}
      rows=${picture.processes.map((/** @type {any} */ one) => [
        {text: one.name}, {text: one.kind},
        {text: one.exit ? `${one.state} (${one.exit})` : one.state, mark: markOf(one.state)},
        {text: one.pid}, {text: duration(one.cpu_ns), sort: one.cpu_ns},
        {text: mebibytes(one.resident_bytes), sort: one.resident_bytes},
        {text: one.last_exit ? `${one.restarts} (last: ${one.last_exit})` : one.restarts,
         sort: one.restarts}, {text: one.note}])} />
    <h2>Devices</h2>
    <${Table} label="Devices" none="No device is attached." sortable
      columns=${[["Device", "text"], ["Kind", "text"], ["State", "text"], ["Pid", "number"],
                 ["Note", "text"], ["Counts", "text"]]}
      rows=${picture.devices.map((/** @type {any} */ one) => [
        {text: one.name}, {text: one.kind},
        {text: one.silent_ns > 5e8 ? `silent for ${duration(one.silent_ns)}` : health(one)[1],
         mark: health(one)[0]},
        {text: one.pid}, {text: one.note},
        {text: one.counters.filter((/** @type {any} */ each) => each.value > 0)
          .map((/** @type {any} */ each) => `${each.name} ${count(each.value)}`).join(", ")}])} />`;
}

/** What an operator's link may do. @param {{picture: any, post: Sight["post"]}} properties */
function Operate({picture, post}) {
  const fields = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    return Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target)));
  };
  return html`
    <form data-form="restart"
      onSubmit=${(/** @type {SubmitEvent} */ event) => post("api/v1/restart", fields(event))}>
      <label>Process <select name="process">${picture.processes.map((/** @type {any} */ one) =>
        html`<option value=${one.name}>${visible(one.name)}</option>`)}</select></label>
      <button>Restart</button>
    </form>
    <form data-form="policy"
      onSubmit=${(/** @type {SubmitEvent} */ event) => post("api/v1/policy", fields(event))}>
      <label>Policy <input name="policy" required maxlength="40"
        placeholder=${visible(picture.totals.policy)} /></label>
      <button>Set</button>
    </form>`;
}

const STUCK_NS = 1e9;
const VERDICT_ORDER = ["stopped", "stuck", "moving", "idle"];
const isBad = (/** @type {string} */ verdict) => verdict === "stopped" || verdict === "stuck";

/** @param {Sight} sight */
export function StuckView({picture, still, history}) {
  const looked = history.length > 0 && picture.time_ns - history[0].time_ns >= STUCK_NS;
  const rows = picture.rings.map((/** @type {Ring} */ ring) => {
    const wait = waitsFor(ring, silenceOf(picture, ring.device));
    const unmoved = still.get(ringKey(ring)) ?? 0;
    const verdict = silenceOf(picture, ring.device) > 5e8 ? "stopped" :
      wait.who === "" ? "idle" : unmoved > STUCK_NS ? "stuck" : "moving";
    return {ring, wait, unmoved, verdict};
  }).sort((/** @type {any} */ a, /** @type {any} */ b) =>
    VERDICT_ORDER.indexOf(a.verdict) - VERDICT_ORDER.indexOf(b.verdict));
  const bad = rows.filter((/** @type {any} */ row) => isBad(row.verdict)).length;
  return html`
    <p class=${bad > 0 ? "bad" : looked ? "good" : "warn"}>${bad > 0 ?
      `${bad} of ${rows.length} rings are stuck: their device is stopped, or nothing has moved for a second.` :
      looked ? "No ring is stuck: each that waits has moved within the last second." :
      "Nobody has looked for a second yet."}${picture.past ?
      " Whether a device was stopped then no history keeps." : ""}</p>
    <${Table} label="Who waits for whom" twin="stuck" none="No event kernel is registered." sortable
      columns=${[["Device", "text"], ["Event", "text"], ["Verdict", "text"], ["Waits for", "text"],
                 ["Because", "text"], ["Events", "number"], ["Unmoved for", "number"],
                 ["Doorbell", "number"], ["Launched", "number"], ["Completed", "number"],
                 ["Consumed", "number"]]}
      rows=${rows.map((/** @type {any} */ {ring, wait, unmoved, verdict}) => [
        {text: ring.device}, {text: ringName(ring)},
        {text: verdict, mark: isBad(verdict) ? "bad" : verdict === "idle" ? "" : "good"},
        {text: wait.who || "nobody"}, {text: wait.what}, {text: wait.events},
        {text: wait.who ? duration(unmoved) : "-", sort: unmoved}, {text: ring.doorbell},
        {text: ring.launched}, {text: ring.completed}, {text: ring.consumed}])} />`;
}

/** Differences of a count from second to second. */
function ratesOf(/** @type {any[]} */ history, /** @type {number} */ place) {
  return history.map((one, i) => {
    const before = history[i - 1];
    if (!before || one.gpud !== "live") return null;
    const rate = (one.events[place] - before.events[place]) / ((one.time_ns - before.time_ns) / 1e9);
    return rate < 0 ? null : rate;  // gpud was started anew
  });
}

/** @param {Sight} sight */
export function RatesView({picture, history, lives}) {
  const times = history.map((one) => one.time_ns / 1e9);
  const strikes = picture.strikes.filter((/** @type {any} */ one) => one.time_ns !== null)
    .map((/** @type {any} */ one) => one.time_ns / 1e9);
  const rung = ratesOf(history, 0), done = ratesOf(history, 1);
  const failed = ratesOf(history, 2);
  // The strikes of the second that ends with a record.
  const struck = (/** @type {number} */ i) => picture.strikes.filter((/** @type {any} */ one) =>
    i > 0 && one.time_ns > history[i - 1].time_ns && one.time_ns <= history[i].time_ns)
    .map((/** @type {any} */ one) => one.fault).join(", ");
  const newest = history.length - 1;
  return html`
    <h2>Events a second</h2>
    <${Chart} label="Events rung, done and failed a second, of the last ten minutes" unit="events/s"
      times=${times} strikes=${strikes} lines=${[
        {name: "rung", colour: "accent", values: rung}, {name: "done", colour: "good", values: done},
        {name: "failed", colour: "bad", values: failed}]} />
    <${Twin}>${() => html`
      <${Table} label="Events a second as a table" twin="rates" none="Nothing yet."
        columns=${[["Time", "text"], ["Rung/s", "number"], ["Done/s", "number"], ["Failed/s", "number"],
                   ["Struck", "text"]]}
        rows=${history.map((one, i) => i).slice(-60).reverse().map((i) => [
          {text: clock(history[i].time_ns)},
          ...[rung, done, failed].map((rates) => ({text: rates[i] === null ? "-" : count(rates[i] ?? 0)})),
          {text: struck(i), mark: "bad"}])} />
    `}<//>
    <p class="note">Vertical lines: a fault struck. Newest second: ${
      newest < 0 || rung[newest] === null ? "-" : count(rung[newest] ?? 0)} rung.</p>
    <h2>What an event waits for</h2>
    ${picture.totals.tracing || lives.length > 0 ?
      html`<${Waterfall} lives=${lives} recorded=${picture.recorded} />` :
      picture.past ? html`<p class="note">No history keeps the stages of events.</p>` :
      html`<p class="note">Tracing is off: an operator's link or <code>carillon trace on</code> has
        gpud note when each stage of an event happened.</p>`}
    <h2>Rings</h2>
    <${Table} label="Rings" none="No event kernel is registered." sortable twin="ring-rates"
      columns=${[["Device", "text"], ["Event", "text"], ["Rate/s", "number"], ["Pending", "number"],
                 ["p50", "number"], ["p99", "number"]]}
      rows=${picture.rings.map((/** @type {Ring} */ ring) => [
        {text: ring.device}, {text: ringName(ring)},
        {text: ring.rate === null ? "-" : count(ring.rate), sort: ring.rate ?? 0},
        {text: pending(ring)}, {text: duration(ring.p50_ns), sort: ring.p50_ns ?? 0},
        {text: duration(ring.p99_ns), sort: ring.p99_ns ?? 0}])} />`;
}

/** Events that were seen whole in the last ten seconds, one bar each, and the stages' quantiles.
 * @param {{lives: Sight["lives"], recorded: boolean}} properties */
function Waterfall({lives, recorded}) {
  // Those that are known to the end say the most.
  const whole = lives.filter(({life}) => life.taken_ns);
  const shown = (whole.length > 0 ? whole : lives).slice(-12).map(({ring, life}) => ({ring, life, parts: partsOf(life)}));
  const longest = Math.max(1, ...shown.map(({parts}) =>
    parts.reduce((most, [, from, took]) => Math.max(most, from + took), 0)));
  /** @type {Map<string, number[]>} */
  const took = new Map();
  for (const {life} of lives) {
    for (const [stage, , ns] of partsOf(life)) took.set(stage, [...(took.get(stage) ?? []), ns]);
  }
  return html`
    <p class="legend">${STAGES.slice(1).map((stage) => html`<span><i class=${`stage-${stage}`}></i>until
      ${" "}${stage}</span>`)}</p>
    <p class="note">A bar is an event, from its doorbell. ${recorded ?
      "When a device took an event's end its flight recorder tells, of few: those among the last steps." :
      "When a device took an event's end only its flight recorder tells: record: 4096 in the topology."}</p>
    <svg class="waterfall" role="img" viewBox=${`0 0 600 ${Math.max(shown.length, 1) * 14}`}
      aria-label="Stages of the last events; the table below says the same">
      ${shown.map(({parts}, row) => parts.map(([stage, from, ns]) => html`
        <rect x=${(600 * from) / longest} y=${row * 14 + 2} height="10"
          width=${Math.max((600 * ns) / longest, 0.5)}
          class=${`stage-${stage}`}></rect>`))}
    </svg>
    <${Table} label="Stages of events" twin="waterfall" none="No event ended whole in the last ten seconds."
      columns=${[["Stage", "text"], ["Events", "number"], ["p50", "number"], ["p99", "number"]]}
      rows=${lives.length === 0 ? [] : STAGES.slice(1).map((stage) => {
        const all = took.get(stage) ?? [];
        const part = (/** @type {number} */ of) => all.length > 0 ? duration(quantile(all, of)) : "-";
        return [{text: `until ${stage}`}, {text: all.length}, {text: part(0.5)}, {text: part(0.99)}];
      })} />`;
}

/** Of an earlier second some counts are not known. */
const known = (/** @type {number | null} */ value) => value === null ? "-" : count(value);

/** @param {Sight} sight */
export function EktView({picture, peaks}) {
  const [filter, setFilter] = useState("");
  const rings = picture.rings.filter((/** @type {Ring} */ ring) =>
    `${ring.device} ${ringName(ring)} ${ring.kernel}`.includes(filter));
  return html`
    <p><label>Only with <input value=${filter} maxlength="60"
      onInput=${(/** @type {any} */ event) => setFilter(event.target.value)} /></label>
      ${` ${rings.length} of ${picture.rings.length}`}</p>
    <${Table} label="Event kernel table" none="No event kernel is registered." sortable twin="ekt"
      columns=${[["Device", "text"], ["Event", "text"], ["Kernel", "text"], ["Path", "text"],
                 ["Priority", "number"], ["Rate/s", "number"], ["Pending", "number"], ["Peak", "number"],
                 ["Slots", "number"], ["Done", "number"], ["Failed", "number"], ["Aborted", "number"]]}
      rows=${rings.map((/** @type {any} */ ring) => {
        const peak = peaks.get(ringKey(ring)) ?? 0;
        const full = ring.entries !== null && peak >= ring.entries;
        return [
          {text: ring.device}, {text: ringName(ring)}, {text: ring.kernel}, {text: ring.launch_path},
          {text: ring.priority}, {text: ring.rate === null ? "-" : count(ring.rate), sort: ring.rate ?? 0},
          {text: pending(ring)},
          {text: full ? `${peak} full` : peak, sort: peak, mark: full ? "warn" : ""},
          {text: ring.entries ?? "-"},
          {text: known(ring.counts.done), sort: ring.counts.done ?? 0},
          {text: known(ring.counts.failed), sort: ring.counts.failed ?? 0, mark: ring.counts.failed ? "bad" : ""},
          {text: known(ring.counts.aborted), sort: ring.counts.aborted ?? 0,
           mark: ring.counts.aborted ? "warn" : ""}];
      })} />`;
}

/** @param {Sight} sight */
export function FaultsView({picture, role, points, post}) {
  return html`
    <p class="note">${!picture.board ?
      "This testbed has no board of faults: faults: true in its topology gives it one." :
      picture.struck === 1 ? "1 strike." : `${count(picture.struck)} strikes.`} ${role === "fault-injector" ? "" :
      "To put faults here: carillon dashboard --role fault-injector, or carillon fault inject."}
      ${picture.past ? " The board is as it is now; strikes are those until then." : ""}</p>
    <${Table} label="Faults on the board" none="None." twin="faults"
      columns=${[["Fault", "text"], ["Does", "text"], ["Passages", "number"], ["Struck", "number"],
                 ["State", "text"]]}
      rows=${picture.faults.map((/** @type {any} */ one) => [
        {text: one.name}, {text: one.does}, {text: count(one.passages)},
        {text: count(one.struck), mark: one.struck > 0 ? "warn" : ""},
        {text: one.spent ? "spent" : "armed"}])} />
    ${role === "fault-injector" && picture.board && !picture.past ?
      html`<${InjectForm} picture=${picture} points=${points} post=${post} />` : null}
    <h2>Strikes</h2>
    <${Table} label="Strikes" none="Nothing has struck." twin="strikes"
      columns=${[["Time", "text"], ["Fault", "text"], ["Pid", "number"], ["Passage", "number"]]}
      rows=${[...picture.strikes].reverse().map((/** @type {any} */ one) => [
        {text: one.time_ns === null ? "-" : clock(one.time_ns)}, {text: one.fault}, {text: one.pid}, {text: one.passage}])} />`;
}

/** @param {{picture: any, points: any[], post: Sight["post"]}} properties */
function InjectForm({picture, points, post}) {
  const [point, setPoint] = useState("");
  const actions = points.find((one) => one.point === point)?.actions ?? ["kill", "stop"];
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const fields = Object.fromEntries(
      [...new FormData(/** @type {HTMLFormElement} */ (event.target))].filter(([, value]) => value !== ""));
    post("api/v1/faults", fields);
  };
  const clear = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const name = new FormData(/** @type {HTMLFormElement} */ (event.target)).get("fault");
    post("api/v1/faults/clear", name ? {name} : {});
  };
  return html`
    <h2>Put a fault there</h2>
    <form onSubmit=${submit} data-form="inject">
      <label>Name <input name="name" required maxlength="40" /></label>
      <label>Process <select name="process" required>
        ${picture.processes.map((/** @type {any} */ one) => html`<option value=${one.name}>${visible(one.name)}</option>`)}</select></label>
      <label>Point <select name="point" onChange=${(/** @type {any} */ event) => setPoint(event.target.value)}>
        <option value="">none: at once</option>
        ${points.map((one) => html`<option value=${one.point}>${one.point}: ${one.summary}</option>`)}</select></label>
      <label>Action <select name="action">
        ${actions.map((/** @type {string} */ one) => html`<option value=${one}>${one}</option>`)}</select></label>
      <label>At passage <input name="nth" inputmode="numeric" pattern="[0-9]*" /></label>
      <label>For <input name="for" placeholder="500ms" /></label>
      <button>Inject</button>
    </form>
    <form onSubmit=${clear} data-form="clear">
      <label>Take off <select name="fault"><option value="">all</option>
        ${picture.faults.map((/** @type {any} */ one) =>
          html`<option value=${one.name}>${visible(one.name)}</option>`)}</select></label>
      <button>Clear</button>
    </form>`;
}

/** @type {Record<string, [string, string]>} */
const VERDICTS = {
  ok: ["good", "ok: by the flight recorders, each event ended once, as it should."],
  violated: ["bad", "violated: the flight recorders contradict what must hold."],
  indeterminate: ["warn", "indeterminate: records are lost or cannot be read."],
};

/** @param {Sight} sight */
export function StoryView({get}) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const look = async () => {
    try {
      const response = await get("api/v1/story");
      const answer = await response.json();
      setTold({...answer, read: Date.now() * 1e6});
    } catch (error) {
      setTold({error: {message: `The story does not come: ${error instanceof Error ? error.message : error}. ` +
        "If the dashboard still runs, read it again; carillon postmortem tells the same."}});
    }
  };
  useEffect(() => { look(); }, []);
  const again = html`<button type="button" data-button="story" onClick=${look}>Read them again</button>`;
  if (!told) return html`<p class="note">The recorders are read.</p>`;
  if (told.error) return html`<p class="bad" data-story="error">${visible(told.error.message)}</p><p>${again}</p>`;
  return html`
    <p><span class=${VERDICTS[told.verdict]?.[0] ?? "warn"}>${VERDICTS[told.verdict]?.[1] ??
      told.verdict}</span></p>
    <p>${again} <span class="note">Read at ${clock(told.read)}, whatever is held or looked back at.</span></p>
    <p class="note" data-story="events">${Object.entries(told.events).filter(([, value]) => typeof value === "number")
      .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ")}</p>
    ${told.unreadable.map((/** @type {string} */ one) => html`<p class="bad">${visible(one)}</p>`)}
    <${Table} label="Violations" none="No violation." twin="violations" columns=${[["Violation", "text"]]}
      rows=${told.violations.map((/** @type {any} */ one) => [{text: one.sentence, mark: "bad"}])} />
    <h2>Last steps</h2>
    ${told.earlier_steps > 0 ? html`<p class="note" data-story="cut">${told.earlier_steps} earlier steps are judged, but
      not shown: <code>carillon postmortem --last N</code> has them.</p>` : null}
    ${told.steps.length > 0 ? html`<${Lanes} steps=${told.steps} strikes=${told.strikes} />` : null}
    <${Table} label="Last steps" none="Nothing was recorded." twin="story"
      columns=${[["Time", "text"], ["Process", "text"], ["Step", "text"]]}
      rows=${[...told.steps].reverse().map((/** @type {any} */ one) => [
        {text: precise(one.wall_time_ns)}, {text: one.process},
        {text: one.words, mark: one.step === "struck" ? "bad" : ""}])} />`;
}

/** @param {Sight} sight */
export function SmsView({picture}) {
  const blocks = picture.totals.blocks_of_sm ?? [];
  return html`
    <p class="note">${picture.past ? "No history keeps what was on the SMs." : blocks.length === 0 ?
      "On this back-end no KMU of gpud's places blocks, so nobody knows which SM has them." :
      `${picture.totals.resident_blocks} thread blocks are on the GPU.`}</p>
    <${Table} label="Thread blocks of each SM" none=${none(picture, "None.")} twin="sms" sortable
      columns=${[["SM", "number"], ["Blocks", "number"]]}
      rows=${blocks.map((/** @type {number} */ one, /** @type {number} */ i) => [{text: i}, {text: one}])} />
    <h2>Warps</h2>
    <p class="note">Which warps are in an SM's slots is not told by this back-end. <code>carillon sim
      trace</code> tells it of runs on the simulated GPU, slot by slot.</p>
    <h2>Queues</h2>
    <${Table} label="Queues of the KMU" none=${none(picture, "All are empty.")} twin="queues"
      columns=${[["Queue", "text"], ["Priority", "number"], ["Kernels", "number"]]}
      rows=${picture.queues.map((/** @type {any} */ one) => [
        {text: one.name}, {text: one.priority}, {text: one.kernels}])} />
    <p class="note"><code>carillon queues</code> tells of each launch that waits or runs, here or on a
      back-end that has no KMU of gpud's.</p>`;
}

/** @param {Sight} sight */
export function LogsView({picture, logs, changes}) {
  return html`
    <h2>Changes since the page was opened</h2>
    <${Table} label="Changes" none="None." twin="changes"
      columns=${[["Time", "text"], ["Change", "text"]]}
      rows=${changes.slice(-50).reverse().map(({time_ns, text, mark}) =>
        [{text: clock(time_ns)}, {text, mark}])} />
    <h2>Logs</h2>
    <${Table} label="Logs of all processes" none=${!logs ? "The logs are read." : picture.past ?
      "The newest lines, which the page has, are all later." : "Nothing was logged."} twin="logs"
      columns=${[["Time", "text"], ["Process", "text"], ["Line", "text"]]}
      rows=${newestFirst(logs ?? []).map((one) => [
        {text: one.time_ns === null ? "" : clock(one.time_ns)}, {text: one.process},
        {text: one.line, mark: one.level === "error" || one.level === "critical" ? "bad" :
          one.level === "warning" ? "warn" : ""}])} />`;
}
