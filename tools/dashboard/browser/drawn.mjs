// What the page draws, by the colours of its canvases.
import assert from "node:assert/strict";
import {show, stateIs, twin} from "./browser.mjs";
import {eventually, test} from "./harness.mjs";
import {ask, run} from "./testbed.mjs";

/** How many pixels of a canvas have the colour of a variable of the style, and how many of them
 * stand in the column that has most. */
export const pixels = (page, selector, name) => page.$eval(selector, (canvas, variable) => {
  const style = getComputedStyle(document.documentElement).getPropertyValue(`--${variable}`).trim();
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(style.slice(at, at + 2), 16));
  const {width, height} = canvas;
  const copy = new OffscreenCanvas(width, height).getContext("2d", {willReadFrequently: true});
  copy.drawImage(canvas, 0, 0);
  const {data} = copy.getImageData(0, 0, width, height);
  const columns = new Array(width).fill(0);
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) {
      ++columns[(i / 4) % width];
    }
  }
  return {all: columns.reduce((a, b) => a + b, 0), column: Math.max(...columns)};
}, name);

async function testPicture(browser, link) {
  const page = await browser.open(link);
  await stateIs(page, "live");
  const [below, above] = [".house canvas", ".house canvas + canvas"];
  await eventually("boxes, text and lines", async () =>
    (await pixels(page, below, "text")).all > 20 && (await pixels(page, below, "line")).all > 200);
  const frame = () => page.$eval(above, (canvas) => canvas.toDataURL());
  const first = await frame();
  await eventually("pulses that move", async () =>
    (await pixels(page, above, "good")).all > 10 && await frame() !== first);
  await page.context().close();
}

async function testScheme(browser, link) {
  const page = await browser.open(link, {colorScheme: "light"});
  const canvases = {house: ".house canvas", rates: ".chart canvas", story: 'main canvas'};
  for (const [view, canvas] of Object.entries(canvases)) {
    await page.emulateMedia({colorScheme: "light"});
    await show(page, view);
    const light = () => pixels(page, canvas, "line");
    await eventually(`lines of a light ${view}`, async () => (await light()).all > 50);
    await page.emulateMedia({colorScheme: "dark"});
    await eventually(`lines of a dark ${view}`, async () => (await pixels(page, canvas, "line")).all > 50);
  }
  await page.context().close();
}

async function testStrikes(browser, link) {
  const page = await browser.open(link);
  await show(page, "rates");
  const before = (await pixels(page, ".chart canvas", "bad")).column;
  run("fault", "inject", "fpga1", "delay", "--at", "device.ring", "--for", "1ms", "--nth", "3",
      "--as", "late");
  await eventually("a strike", () => ask("fault", "list").struck > 0);
  await page.click('[data-view="rates"] summary');
  await eventually("a strike in the table", async () =>
    (await twin(page, "rates")).some(({Struck}) => Struck === "late"));
  await eventually("a line through the chart", async () =>
    (await pixels(page, ".chart canvas", "bad")).column > before + 100);
  run("fault", "clear", "--all");
  await page.context().close();
}

async function testStages(browser, link) {
  const page = await browser.open(link);
  await show(page, "rates");
  await eventually("each stage of events", async () => {
    const rows = await twin(page, "waterfall");
    assert.deepEqual(rows.map(({Stage}) => Stage), ["seen", "queued", "dispatched", "finished", "taken"]
      .map((one) => `until ${one}`));
    return rows.every(({Events, p50}) => Number(Events) > 0 && p50 !== "-");
  });
  await eventually("bars that are taken", () => page.locator(".waterfall .stage-taken").count());
  await page.context().close();
}

async function testStoryThatDoesNotCome(browser, link) {
  const page = await browser.open(link);
  await show(page, "house");
  const offences = browser.offences.length;
  await page.route("**/api/v1/story", (route) => route.abort());
  await page.click('[data-view-link="story"]');
  const said = await page.waitForSelector('[data-story="error"]');
  assert.match(await said.textContent(), /^The story does not come: .*carillon postmortem tells the same/);
  // Chromium says it, too: that is no offence of the page.
  await eventually("Chromium's words", () => browser.offences.length > offences);
  assert.deepEqual(browser.offences.splice(offences).filter((one) => !/net::ERR_FAILED/.test(one)), []);
  await page.unroute("**/api/v1/story");
  await page.click('[data-button="story"]');
  await eventually("the story", async () => (await twin(page, "story")).length > 10);
  await page.context().close();
}

export async function testDrawn(browser, links) {
  await test("TheHousePictureIsDrawnAndMoves", () => testPicture(browser, links.viewer));
  await test("AnotherSchemeRecoloursWhatIsDrawn", () => testScheme(browser, links.viewer));
  await test("StrikesMarkTheRates", () => testStrikes(browser, links.viewer));
  await test("EachStageOfAnEventIsShown", () => testStages(browser, links.viewer));
  await test("AStoryThatDoesNotComeSaysWhatToDo", () => testStoryThatDoesNotCome(browser, links.viewer));
}
