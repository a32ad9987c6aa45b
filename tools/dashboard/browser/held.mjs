// A page that is paused, and one that looks back.
import assert from "node:assert/strict";
import {VIEWS, show, stateIs, twin} from "./browser.mjs";
import {pixels} from "./drawn.mjs";
import {eventually, test} from "./harness.mjs";
import {ask, processNamed, run} from "./testbed.mjs";
import {unfold} from "./twins.mjs";

// The story is of when it is read, and says so.
const HELD = VIEWS.filter((view) => view !== "story");
const count = (value) => new Intl.NumberFormat("en-US", {maximumFractionDigits: 0}).format(value);
const clock = (time_ns) => new Date(time_ns / 1e6).toTimeString().slice(0, 8);

const pictures = (page) => page.$eval("input[type=range]", (range) => Number(range.max));
const lookAt = (page, i) => page.locator("input[type=range]").fill(`${i}`);

/** What each view says. */
async function textsOf(page) {
  const texts = {};
  for (const view of HELD) {
    await show(page, view);
    // The chart draws itself after the view.
    if (view === "rates") await page.waitForSelector("main .u-legend");
    texts[view] = await page.$eval("main", (main) => main.innerText);
  }
  return texts;
}

async function readLogs(page) {
  await show(page, "logs");
  await page.waitForSelector('[data-twin="logs"] tr:nth-child(4)');
}

async function moreEvents(page) {
  const seconds = await pictures(page);
  const done = ask("ekt").entries[0].counts.done;
  await eventually("more events", () => ask("ekt").entries[0].counts.done > done + 50);
  await eventually("two more seconds", async () => await pictures(page) >= seconds + 2);
}

async function testPaused(browser, link) {
  const page = await browser.open(link);
  await eventually("pictures", async () => await pictures(page) >= 3);
  await readLogs(page);
  const above = ".house canvas + canvas";
  const arePulses = async () => (await pixels(page, above, "good")).all > 10;
  await show(page, "house");
  await eventually("pulses", arePulses);
  await show(page, "rates");
  await page.waitForSelector('[data-twin="waterfall"] tr:nth-child(4)');
  await page.click('[data-button="pause"]');
  await stateIs(page, "paused");
  const before = await textsOf(page);
  await show(page, "house");
  await eventually("pulses, which stand", arePulses);
  const pulses = () => page.$eval(above, (canvas) => canvas.toDataURL());
  const drawn = await pulses();
  run("trace", "off");
  await moreEvents(page);
  run("trace", "on");
  assert.equal(await pulses(), drawn);
  assert.deepEqual(await textsOf(page), before);
  await page.click('[data-button="pause"]');
  await stateIs(page, "live");
  await show(page, "logs");
  await eventually("the change that came meanwhile", async () =>
    (await twin(page, "changes")).some(({Change}) => Change === "tracing is off"));
  await page.context().close();
}

async function testLooksBack(browser, link) {
  // What was before the page was opened is the gateway's history, second by second.
  const at = 3;
  let history;
  await eventually("a history", async () => {
    const {href, hash} = new URL("/api/v1/history" + new URL(link).hash, link);
    const answer = await fetch(href, {headers: {Authorization: `Bearer ${hash.slice("#token=".length)}`}});
    history = (await answer.json()).pictures;
    // Since gpud was killed, seconds may be alike.
    return history.length > at + 2 &&
      JSON.stringify(history.at(-1).rings) !== JSON.stringify(history[at].rings);
  });
  // And something that came later.
  const {pid} = processNamed("fpga1");
  process.kill(pid, "SIGKILL");
  await eventually("another fpga1", () =>
    processNamed("fpga1").pid !== pid && processNamed("fpga1").state === "ready");
  const page = await browser.open(link);
  const later = async () => (await twin(page, "logs")).some(({Line}) => Line?.includes("starts fpga1 again") ||
    Line?.includes("fpga1 is started again"));
  await readLogs(page);
  await eventually("what was logged", later);
  await show(page, "stuck");
  await eventually("the same history", async () => await pictures(page) >= history.length - 1);
  const then = history[at];
  await lookAt(page, at);
  await stateIs(page, "paused");
  assert.match(await page.textContent('[role="status"]'), new RegExp(`Looking back at ${clock(then.time_ns)}`));
  const said = (name) => twin(page, name);
  assert.deepEqual((await said("stuck")).map((row) =>
    [row.Device, row.Doorbell, row.Launched, row.Completed, row.Consumed]).sort(),
  then.rings.map((ring) => [ring[0], ring[2], ring[3], ring[4], ring[5]].map(String)).sort());
  assert.match(await page.textContent("header .note"), new RegExp(
    `^${count(then.events[0])} rung = `));

  await show(page, "rates");
  await unfold(page, "rates");
  assert.equal((await said("rates"))[0].Time, clock(then.time_ns));
  assert.equal((await said("rates")).length, at + 1);
  const earlier = history[at - 1];
  const rate = (of) => count((then.events[of] - earlier.events[of]) / ((then.time_ns - earlier.time_ns) / 1e9));
  const [newest] = await said("rates");
  assert.deepEqual([newest["Rung/s"], newest["Done/s"], newest["Failed/s"]], [rate(0), rate(1), rate(2)]);
  await show(page, "ekt");
  assert.deepEqual((await said("ekt")).map((row) => [row.Device, row.Peak.replace(" full", ""), row.Done]).sort(),
    then.rings.map((ring) => [ring[0], `${ring[6]}`, "-"]).sort());
  await show(page, "house");
  assert.match(await page.textContent('[aria-label="Processes"]'), /No history keeps this/);
  assert.match(await page.textContent('[aria-label="Devices"]'), /not kept/);
  await show(page, "sms");
  assert.match(await page.textContent("main"), /No history keeps what was on the SMs/);
  assert.equal((await said("sms"))[0].SM, "No history keeps this.");
  await show(page, "logs");
  assert.ok(!await later());
  // Nothing of what it says goes on.
  const before = await textsOf(page);
  await moreEvents(page);
  assert.deepEqual(await textsOf(page), before);
  // And another second has other figures.
  await show(page, "stuck");
  const figures = JSON.stringify(await said("stuck"));
  await lookAt(page, history.length - 1);
  await eventually("another second", async () => JSON.stringify(await said("stuck")) !== figures);
  await page.context().close();
}

export async function testHeld(browser, link) {
  await test("APausedPageHoldsWhatEveryViewShows", () => testPaused(browser, link));
  await test("LookingBackRestoresWhatTheHistoryHasAndNothingElse", () => testLooksBack(browser, link));
}
