// What the page's tables say, held against `-o json` of the command line while no device rings.
import assert from "node:assert/strict";
import {show, twin} from "./browser.mjs";
import {eventually, test} from "./harness.mjs";
import {ask, processNamed, run} from "./testbed.mjs";

const count = (value) => new Intl.NumberFormat("en-US").format(value);
const eventName = ({event_id, label}) => label ? `${event_id} ${label}` : `${event_id}`;
const clock = (time_ns) => new Date(time_ns / 1e6).toTimeString().slice(0, 8);

const precise = (time_ns) =>
  `${clock(time_ns)}.${String(Math.floor(time_ns / 1e3) % 1e6).padStart(6, "0")}`;

/** Runs `body` while the devices ring nothing. */
export async function atRest(body) {
  const devices = ["fpga0", "fpga1"].map((name) => processNamed(name).pid);
  for (const pid of devices) process.kill(pid, "SIGSTOP");
  try {
    await eventually("no event in flight", () =>
      ask("ekt").entries.every(({counts}) => counts.in_flight === 0));
    await body();
  } finally {
    for (const pid of devices) process.kill(pid, "SIGCONT");
  }
}

/** Waits until a table says what `expected` returns; then tells the difference. */
export async function agrees(page, name, columns, expected) {
  let shown, wanted;
  const cut = (row) => Object.fromEntries(columns.map((column) => [column, row[column]]));
  await eventually(`the table ${name} agrees`, async () => {
    [shown, wanted] = [(await twin(page, name)).map(cut), expected().map(cut)];
    assert.deepEqual(shown, wanted);
    return true;
  });
  return wanted;
}

/** Opens what a summary hides. */
export const unfold = (page, view) => page.click(`[data-view="${view}"] summary`);

async function testRings(page) {
  await show(page, "ekt");
  const entries = await agrees(page, "ekt",
    ["Device", "Event", "Kernel", "Path", "Priority", "Pending", "Done", "Failed", "Aborted"],
    () => ask("ekt").entries.map(({counts, ...one}) => ({
      Device: one.device, Event: eventName(one), Kernel: one.kernel, Path: one.launch_path,
      Priority: `${one.priority}`, Pending: `${counts.in_flight}`, Done: count(counts.done),
      Failed: count(counts.failed), Aborted: count(counts.aborted)})));
  assert.equal(entries.length, 2);
  await show(page, "house");
  await unfold(page, "house");
  const rings = () => ask("rings").rings;
  const byDevice = (a, b) => a.Device.localeCompare(b.Device);
  await agrees(page, "house", ["Device", "Kind", "Event", "Kernel", "Slots"], () => rings()
    .map((one) => ({Device: one.device, Event: eventName(one), Kernel: one.kernel, Slots: `${one.entries}`,
      Kind: ask("devices").devices.find(({name}) => name === one.device).kind})).sort(byDevice));
  await show(page, "stuck");
  await eventually("the table of who waits agrees", async () => {
    const cells = (await twin(page, "stuck")).sort(byDevice)
      .map((row) => [row.Device, row.Event, row.Doorbell, row.Launched, row.Completed, row.Consumed]);
    assert.deepEqual(cells, rings().sort((a, b) => a.device.localeCompare(b.device)).map((ring) =>
      [ring.device, eventName(ring), ring.doorbell, ring.launched, ring.completed, ring.consumed].map(String)));
    return true;
  });
}

async function testRates(page) {
  await show(page, "rates");
  await agrees(page, "ring-rates", ["Device", "Event", "Rate/s"], () => ask("rings").rings.map((one) =>
    ({Device: one.device, Event: eventName(one), "Rate/s": count(Math.round(one.events_per_s))})));
  // Of a second in which nothing happened, and of all events before it.
  await unfold(page, "rates");
  await eventually("a second without events", async () => (await twin(page, "rates"))[0]["Rung/s"] === "0");
  const {events} = ask("status");
  assert.equal((await page.textContent("header .note")).split(";")[0].replace(/\s+/g, " "),
    `${count(events.rung)} rung = ${count(events.done)} done + ${count(events.failed)} failed + ` +
    `${count(events.aborted)} aborted + 0 in flight`);
}

/** What `postmortem` prints, which is a failure of it where records have been overwritten. */
function postmortem() {
  try {
    return ask("postmortem", "--last", "400");
  } catch (error) {
    return JSON.parse(error.stdout);
  }
}

async function testStory(page) {
  await show(page, "story");
  const told = postmortem();
  assert.equal(told.story.length, 400);
  await eventually("the story agrees", async () => {
    const said = await page.textContent('[data-view="story"] p');
    assert.ok(said.startsWith(`${told.verdict}:`), said);
    const counts = Object.entries(told.events).filter(([, value]) => typeof value === "number")
      .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ");
    assert.equal(await page.textContent('[data-story="events"]'), counts);
    assert.deepEqual((await twin(page, "violations")).map((row) => row.Violation), ["No violation."]);
    return true;
  });
  await agrees(page, "story", ["Time", "Process", "Step"], () => [...told.story].reverse().map((one) =>
    ({Time: precise(one.wall_time_ns), Process: one.process, Step: one.words})));
}

async function testSms(page) {
  await show(page, "sms");
  await agrees(page, "sms", ["SM", "Blocks"], () =>
    Array.from({length: ask("status").gpu.sms}, (_, i) => ({SM: `${i}`, Blocks: "0"})));
  assert.ok(ask("queues").queues.every(({kernels}) => kernels === 0));
  assert.deepEqual((await twin(page, "queues")).map(({Queue}) => Queue), ["All are empty."]);
}

async function testLogs(page) {
  await show(page, "logs");
  await agrees(page, "logs", ["Time", "Process", "Line"], () => ask("logs").lines.slice(-200).reverse()
    .map((one) => ({Time: clock(one.time_ns), Process: one.process, Line: one.line})));
}

async function testFaults(page) {
  await show(page, "faults");
  run("fault", "inject", "fpga0", "stop", "--at", "device.ring", "--nth", "1000000000");
  const faults = await agrees(page, "faults", ["Fault", "Struck"], () => ask("fault", "list").faults
    .map((one) => ({Fault: one.name, Struck: `${one.struck}`})));
  assert.equal(faults.length, 1);
  run("fault", "clear", "--all");
}

export async function testTwins(browser, link) {
  const cases = {testRings, testRates, testStory, testSms, testLogs, testFaults};
  for (const [name, body] of Object.entries(cases)) {
    await test(`AtRestTheTablesSayWhatTheCommandLineSays/${name.slice("test".length)}`, () => atRest(async () => {
      const page = await browser.open(link);
      await body(page);
      await page.context().close();
    }));
  }
}
