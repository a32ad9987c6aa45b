// @ts-check
// Shows the gateway's pictures as tables. Whatever comes from a testbed may be
// hostile: it becomes text nodes only.

const TOKEN = "carillon-token";
const PEAK_MS = 15000;
const LOG_MS = 2000;

/** The link's token goes into the tab's storage, and out of the address. */
function takeToken() {
  const found = /^#token=([0-9a-f]{32})$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(TOKEN, found[1]);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

/** Control characters, and those that turn the direction of text, as codes. */
export function visible(/** @type {unknown} */ text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}

function element(/** @type {string} */ id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

function setText(/** @type {Element} */ at, /** @type {string} */ text) {
  if (at.textContent !== text) at.textContent = text;
}

/**
 * @typedef {{text: unknown, mark?: string}} Cell
 * @typedef {[string, "text" | "number"][]} Columns
 */
function showTable(/** @type {string} */ id, /** @type {Columns} */ columns,
                   /** @type {Cell[][]} */ rows, /** @type {string} */ none) {
  const table = /** @type {HTMLTableElement} */ (element(id));
  if (!table.tHead) {
    const head = table.createTHead().insertRow();
    for (const [name, kind] of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.className = kind;
      cell.textContent = name;
      head.append(cell);
    }
    table.createTBody();
  }
  const body = table.tBodies[0];
  const shown = rows.length > 0 ? rows : [[{text: none}]];
  while (body.rows.length > shown.length) body.deleteRow(-1);
  shown.forEach((cells, i) => {
    const row = body.rows[i] ?? body.insertRow();
    while (row.cells.length > cells.length) row.deleteCell(-1);
    cells.forEach(({text, mark}, j) => {
      const cell = row.cells[j] ?? row.insertCell();
      const kind = columns[j][1] + (mark ? " " + mark : "");
      if (cell.className !== kind) cell.className = kind;
      setText(cell, visible(text));
    });
  });
}

const count = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

function duration(/** @type {number | null} */ ns) {
  if (ns === null) return "-";
  for (const [unit, size] of /** @type {[string, number][]} */ (
    [["s", 1e9], ["ms", 1e6], ["us", 1e3]])) {
    if (ns >= size) return `${(ns / size).toPrecision(3)} ${unit}`;
  }
  return `${ns} ns`;
}

function bytes(/** @type {number} */ size) {
  return `${(size / 1048576).toFixed(1)} MiB`;
}

/** What a ring waits for, in words. */
function waits(/** @type {any} */ ring, /** @type {any} */ device) {
  if (device && device.silent_ns > 0) {
    return {text: `device is silent for ${duration(device.silent_ns)}`, mark: "bad"};
  }
  // The doorbell counts modulo 2^32.
  if ((ring.doorbell - Number(BigInt(ring.launched) % 4294967296n)) % 4294967296 !== 0) {
    return {text: "rung: gpud has not looked"};
  }
  if (ring.launched > ring.completed) return {text: "queued or running"};
  if (ring.completed > ring.consumed) return {text: "done: device has not taken"};
  return {text: "nothing"};
}

const GOOD = new Set(["ready", "running", "live", "up"]);
const BAD = new Set(["ended", "given up", "dead", "gone", "failed"]);
function mark(/** @type {string} */ word) {
  return GOOD.has(word) ? "good" : BAD.has(word) ? "bad" : "warn";
}

/** @type {Map<string, [number, number][]>} Times and peaks of each ring. */
const peaks = new Map();

const ringName = (/** @type {any} */ ring) => `${ring.device} ${ring.event_id}`;

function peakOf(/** @type {any} */ ring, /** @type {number} */ now) {
  const name = ringName(ring);
  const all = (peaks.get(name) ?? []).filter(([time]) => now - time < PEAK_MS);
  all.push([now, ring.peak]);
  peaks.set(name, all);
  return Math.max(...all.map(([, peak]) => peak));
}

function show(/** @type {any} */ picture) {
  const now = performance.now();
  const live = picture.gpud.state === "live";
  setText(element("testbed"), visible(picture.testbed));
  document.title = `${visible(picture.testbed)} - Carillon`;
  const state = element("state");
  setText(state, live ? "gpud is live." :
    `gpud is ${picture.gpud.state}: ${visible(picture.gpud.note)}. ` +
    "Its figures are the last ones.");
  state.className = mark(picture.gpud.state);
  const events = picture.totals.events;
  const ended = events.done + events.failed + events.aborted;
  setText(element("totals"),
    `${count.format(events.rung)} rung = ${count.format(events.done)} done + ` +
    `${count.format(events.failed)} failed + ${count.format(events.aborted)} aborted + ` +
    `${count.format(Math.max(events.rung - ended, 0))} in flight; ` +
    `policy ${visible(picture.totals.policy)}; tracing ` +
    `${picture.totals.tracing ? "on" : "off"}; ${bytes(picture.totals.memory_used)} used`);

  showTable("processes",
    [["Process", "text"], ["Kind", "text"], ["State", "text"], ["Pid", "number"],
     ["CPU", "number"], ["Memory", "number"], ["Restarts", "number"], ["Note", "text"]],
    picture.processes.map((/** @type {any} */ one) => [
      {text: one.name}, {text: one.kind},
      {text: one.exit ? `${one.state} (${one.exit})` : one.state, mark: mark(one.state)},
      {text: one.pid}, {text: duration(one.cpu_ns)}, {text: bytes(one.resident_bytes)},
      {text: one.last_exit ? `${one.restarts} (last: ${one.last_exit})` : one.restarts},
      {text: one.note}]),
    "No supervisor tells of any.");

  const names = new Set(picture.rings.map(ringName));
  for (const name of peaks.keys()) if (!names.has(name)) peaks.delete(name);
  const devices = new Map(picture.devices.map((/** @type {any} */ one) => [one.name, one]));
  showTable("rings",
    [["Device", "text"], ["Event", "text"], ["Kernel", "text"], ["Rate/s", "number"],
     ["Pending", "number"], ["Peak", "number"], ["Slots", "number"], ["Done", "number"],
     ["Failed", "number"], ["Aborted", "number"], ["p50", "number"], ["p99", "number"],
     ["Waits for", "text"]],
    picture.rings.map((/** @type {any} */ ring) => {
      const {rung, done, failed, aborted} = ring.counts;
      const peak = peakOf(ring, now);
      return [
        {text: ring.device},
        {text: ring.label ? `${ring.event_id} ${ring.label}` : ring.event_id},
        {text: ring.kernel}, {text: live && ring.rate !== null ? count.format(ring.rate) : "-"},
        {text: Math.max(rung - done - failed - aborted, 0)},
        {text: peak >= ring.entries ? `${peak} full` : peak,
         mark: peak >= ring.entries ? "warn" : ""},
        {text: ring.entries}, {text: count.format(done)},
        {text: count.format(failed), mark: failed > 0 ? "bad" : ""},
        {text: count.format(aborted), mark: aborted > 0 ? "warn" : ""},
        {text: duration(ring.p50_ns)}, {text: duration(ring.p99_ns)},
        waits(ring, devices.get(ring.device))];
    }),
    "No event kernel is registered.");

  showTable("devices",
    [["Device", "text"], ["Kind", "text"], ["State", "text"], ["Pid", "number"],
     ["Note", "text"], ["Counts", "text"]],
    picture.devices.map((/** @type {any} */ one) => [
      {text: one.name}, {text: one.kind},
      one.silent_ns > 0 ? {text: `silent for ${duration(one.silent_ns)}`, mark: "bad"} :
        {text: one.state, mark: mark(one.state)},
      {text: one.pid}, {text: one.note},
      {text: one.counters.filter((/** @type {any} */ each) => each.value > 0)
        .map((/** @type {any} */ each) => `${each.name} ${count.format(each.value)}`).join(", ")}]),
    "No device is attached.");

  setText(element("faults-note"), picture.board ?
    `${count.format(picture.struck)} strikes. Put faults there with carillon fault inject.` :
    "This testbed has no board of faults: faults: true in its topology gives it one.");
  showTable("faults",
    [["Fault", "text"], ["Does", "text"], ["Passages", "number"], ["Struck", "number"],
     ["State", "text"]],
    picture.faults.map((/** @type {any} */ one) => [
      {text: one.name}, {text: one.does}, {text: count.format(one.passages)},
      {text: count.format(one.struck), mark: one.struck > 0 ? "warn" : ""},
      {text: one.spent ? "spent" : "armed"}]),
    "None.");

}

let token = takeToken();
addEventListener("hashchange", () => { token = takeToken(); });

function ask(/** @type {string} */ path, /** @type {AbortSignal} */ signal) {
  return fetch(path, {headers: {Authorization: `Bearer ${token}`}, signal});
}

function disconnected(/** @type {string} */ text) {
  const state = element("state");
  setText(state, text);
  state.className = "bad";
}

const pause = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

/** Reads the stream to its end. */
async function follow(/** @type {AbortSignal} */ signal) {
  const response = await ask("api/v1/stream", signal);
  if (response.status === 401) {
    disconnected("This page has no token that is right: open the dashboard's link again.");
    return;
  }
  if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    // Of several the last one is the newest.
    const last = events.filter((one) => /^data: /m.test(one)).pop();
    if (last) show(JSON.parse(last.slice(last.indexOf("data: ") + 6)));
  }
}

async function showLogs(/** @type {AbortSignal} */ signal) {
  const response = await ask("api/v1/logs?lines=200", signal);
  if (!response.ok) return;
  const {lines} = await response.json();
  const frame = element("log-frame");
  const atEnd = frame.scrollTop + frame.clientHeight >= frame.scrollHeight - 4;
  showTable("logs", [["Process", "text"], ["Line", "text"]],
    lines.map((/** @type {any} */ one) => [
      {text: one.process},
      {text: one.line, mark: one.level === "error" || one.level === "critical" ? "bad" :
        one.level === "warning" ? "warn" : ""}]),
    "Nothing was logged.");
  if (atEnd) frame.scrollTop = frame.scrollHeight;
}

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
    await pause(again);
  }
}

run(follow, 500, "The dashboard's pictures do not come; this page tries again.");
run(showLogs, LOG_MS, "");
