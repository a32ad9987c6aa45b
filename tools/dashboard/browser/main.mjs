// main.mjs CHROMIUM FOLDER-OF-MODULES SCRATCH [--page FOLDER]: tests the page, in the runfiles'
// root, or the page in another folder.
import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import {readFileSync} from "node:fs";
import {Browser, VIEWS, keepPicture, rowsOf, show, stateIs, twin} from "./browser.mjs";
import {testDrawn} from "./drawn.mjs";
import {eventually, finish, test} from "./harness.mjs";
import {testHeld} from "./held.mjs";
import {testHostileTexts} from "./hostile.mjs";
import {testModules} from "./modules.mjs";
import {ask, bringUp, processNamed, run, startDashboard} from "./testbed.mjs";
import {testTwins} from "./twins.mjs";

const [chromium, modules, scratch, ...options] = process.argv.slice(2);

bringUp(scratch, `
name: looked-at
gpu: {backend: cpu, memory: 64MiB, trace: true, restart: on_failure}
faults: true
record: 4096
devices:
  - {name: fpga0, kind: fpga, size: 64x64, fps: 100, restart: on_failure}
  - {name: fpga1, kind: fpga, size: 64x64, fps: 50, priority: 3, restart: on_failure}
`);
const dashboard = await startDashboard(["operator", "fault-injector"], options);
const {links} = dashboard;
const browser = await Browser.start(chromium, modules);

try {
  await test("EveryViewOpensWithData", async () => {
    const page = await browser.open(links.viewer);
    await stateIs(page, "live");
    for (const view of VIEWS) {
      await show(page, view);
      assert.equal(await page.getAttribute(`[data-view-link="${view}"]`, "aria-current"), "page");
    }
    await page.context().close();
  });

  await testTwins(browser, links.viewer);

  await test("AGpudThatIsKilledIsSeenAndSoIsItsReturn", async () => {
    const page = await browser.open(links.viewer);
    await stateIs(page, "live");
    const {pid} = processNamed("gpud");
    // The page may be live again before anybody asks it: it notes what it was.
    await page.evaluate(() => {
      window.states = [];
      new MutationObserver(() => {
        const {state} = document.querySelector("[data-state]").dataset;
        if (window.states.at(-1) !== state) window.states.push(state);
      }).observe(document.body, {subtree: true, childList: true, attributes: true});
    });
    process.kill(pid, "SIGKILL");
    await page.waitForFunction(() => window.states.includes("gone"), null, {timeout: 60000});
    await page.waitForFunction(() => window.states.at(-1) === "live", null, {timeout: 60000});
    await eventually("another gpud", () => processNamed("gpud").pid !== pid);
    await show(page, "ekt");
    await eventually("rings", async () => (await twin(page, "ekt")).length === 2);
    await page.context().close();
  });

  await testHeld(browser, links.viewer);
  await testDrawn(browser, links);

  await test("AFaultThatThePagePutsThereStrikes", async () => {
    const page = await browser.open(links["fault-injector"]);
    await show(page, "faults");
    await page.fill('[data-form="inject"] [name="name"]', "dies");
    await page.selectOption('[data-form="inject"] [name="process"]', "fpga0");
    await page.selectOption('[data-form="inject"] [name="point"]', "device.ring");
    await page.selectOption('[data-form="inject"] [name="action"]', "kill");
    const restarts = processNamed("fpga0").restarts;
    const before = Date.now();
    await page.click('[data-form="inject"] button:not([type="button"])');
    await page.waitForFunction(() => document.querySelector('[role="alert"]').textContent !== "");
    assert.equal((await page.textContent('[role="alert"]')).trim(), "Done.");
    await eventually("a strike on the page", async () =>
      (await twin(page, "faults")).some((row) => row.Fault === "dies" && Number(row.Struck) > 0));
    const [strike] = await rowsOf(page, '[aria-label="Strikes"]');
    const clock = (ms) => new Date(ms).toTimeString().slice(0, 8);
    assert.ok([before, Date.now()].some((ms) => clock(ms) === strike.Time.slice(0, 8)) ||
      (clock(before) <= strike.Time && strike.Time <= clock(Date.now())),
    `struck at ${strike.Time}, between ${clock(before)} and ${clock(Date.now())}`);
    await keepPicture(page, "fault-strikes");
    await eventually("a restart", () => processNamed("fpga0").restarts > restarts);
    await page.click('[data-form="clear"] button');
    await eventually("an empty board", () => ask("fault", "list").faults.length === 0);
    await page.context().close();
  });

  await test("AViewersPageOffersNothingToDo", async () => {
    const page = await browser.open(links.viewer);
    await show(page, "faults");
    await eventually("the injector's form, elsewhere", async () => {
      const other = await browser.open(links["fault-injector"]);
      await show(other, "faults");
      const forms = await other.locator("form").count();
      await other.context().close();
      return forms > 0;
    });
    assert.equal(await page.locator("form").count(), 0);
    await page.context().close();
  });

  await test("AHiddenPageClosesItsStream", async () => {
    const page = await browser.open(links.viewer);
    const asked = [];
    page.on("request", (request) => asked.push(request.url()));
    await stateIs(page, "live");
    const closed = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/stream"));
    // Headless pages are never hidden by themselves.
    const hide = (hidden) => page.evaluate((value) => {
      Object.defineProperty(document, "hidden", {configurable: true, get: () => value});
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
    await hide(true);
    await closed;
    const done = ask("ekt").entries[0].counts.done;
    asked.length = 0;
    await eventually("a hundred events", () => ask("ekt").entries[0].counts.done > done + 100);
    assert.deepEqual(asked, []);
    await hide(false);
    await eventually("another stream", () => asked.some((url) => url.endsWith("/stream")));
    await stateIs(page, "live");
    await page.context().close();
  });

  run("fault", "inject", "fpga1", "delay", "--at", "device.ring", "--for", "1ms", "--nth", "10");
  await testHostileTexts(browser, links);
  run("fault", "clear", "--all");

  await test("EveryViewIsAccessibleAndShown", async () => {
    const violations = [];
    await browser.everywhere(links["fault-injector"], async (page, name) => {
      for (const one of await browser.accessibilityViolations(page)) violations.push(`${name}: ${one}`);
      const wider = await page.evaluate(() =>
        document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wider > 0) violations.push(`${name} is ${wider} pixels wider than its window`);
      await keepPicture(page, name);
    });
    assert.deepEqual(violations, []);
  });

  await test("ARecordedTraceDecodesPacketByPacket", async () => {
    const page = await browser.open(links.operator);
    await show(page, "house");
    await page.click('[data-button="record"]');
    await page.waitForSelector('[data-button="record"][aria-pressed="true"]');
    const done = ask("ekt").entries[0].counts.done;
    await eventually("events", () => ask("ekt").entries[0].counts.done > done + 20);
    const download = page.waitForEvent("download", {timeout: 60000});
    await page.click('[data-button="record"]');
    const bytes = readFileSync(await (await download).path());
    assert.ok(bytes.length > 1000, `${bytes.length} bytes`);
    const decoded = execFileSync("protoc", ["--decode_raw"],
                                 {input: bytes, encoding: "utf8", maxBuffer: 1 << 28});
    assert.ok(decoded.match(/^1 \{$/gm).length > 20, "packets of a Trace");
    assert.ok(bytes.includes("fpga0"));
    await page.context().close();
  });

  await test("ThePageIsSmall", async () => {
    const sizes = {plain: 0, sent: 0};
    const page = await browser.open(links.viewer);
    await show(page, "house");
    const urls = await page.evaluate(() => [location.pathname,
      ...performance.getEntriesByType("resource").map(({name}) => name)
        .filter((name) => !name.includes("/api/") && name.startsWith("http"))]);
    for (const entry of await page.evaluate((all) => Promise.all(all.map(async (url) => {
      await (await fetch(url, {cache: "reload"})).arrayBuffer();
      const {decodedBodySize, encodedBodySize} =
        performance.getEntriesByName(new URL(url, location.href).href, "resource").at(-1);
      return [decodedBodySize, encodedBodySize];
    })), urls)) {
      sizes.plain += entry[0];
      sizes.sent += entry[1];
    }
    console.log(`${urls.length} files: ${sizes.plain} bytes, ${sizes.sent} gzipped`);
    assert.ok(urls.length >= 4 && sizes.plain <= 160e3 && sizes.sent <= 60e3, JSON.stringify(sizes));
    await page.context().close();
  });

  await testModules(scratch);

  await test("NoPageAskedElsewhereOrBrokeItsPolicyOrFailed", () => {
    assert.deepEqual([...new Set(browser.offences)], []);
  });
} finally {
  await browser.close();
  dashboard.process.kill();
  run("down", "--all");
}
process.exit(finish());
