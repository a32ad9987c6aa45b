// frames.mjs CHROMIUM FOLDER-OF-MODULES SCRATCH SECONDS [PAGE-FOLDER...]: the frames that the house
// picture draws with 64 devices of 4 rings each, and its main thread's share, as JSON. No verdict:
// browser_test.sh --frames runs it by hand. With folders of pages (`--page`) it looks at each of
// them by turns, A B B A. With --trace gpud traces, with --profile it tells which functions took the
// time.
import {readFileSync} from "node:fs";
import {Browser, framesOf, show, stateIs} from "./browser.mjs";
import {pause} from "./harness.mjs";
import {bringUp, run, startDashboard} from "./testbed.mjs";

const [chromium, modules, scratch, seconds, ...rest] = process.argv.slice(2);
const profile = rest.includes("--profile");
const trace = rest.includes("--trace");
const folders = rest.filter((one) => !one.startsWith("--"));
const [DEVICES, RINGS, ROUNDS] = [64, 4, 2];

const WARM_MS = 16000;  // the page remembers peaks for 15 s

const load = () => readFileSync("/proc/loadavg", "utf8").trim();

/** The functions that took the most time themselves, in percent of the span. */
async function profileOf(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Profiler.enable");
  await session.send("Profiler.setSamplingInterval", {interval: 200});
  await session.send("Profiler.start");
  await pause(Number(seconds) * 1000);
  const {profile: found} = await session.send("Profiler.stop");
  const own = new Map();
  const names = new Map(found.nodes.map(({id, callFrame}) =>
    [id, `${callFrame.functionName || "(anonymous)"} ${callFrame.url.split("/").pop()}:${callFrame.lineNumber + 1}`]));
  found.samples.forEach((id, i) =>
    own.set(names.get(id), (own.get(names.get(id)) ?? 0) + found.timeDeltas[i]));
  const all = found.endTime - found.startTime;
  return Object.fromEntries([...own].sort((a, b) => b[1] - a[1]).slice(0, 25)
    .map(([what, us]) => [what, Number((100 * us / all).toFixed(2))]));
}

bringUp(scratch, `
name: framed
gpu: {backend: cpu, memory: 256MiB, ekt_entries: 512, trace: ${trace}}
devices:
  - {name: bell, kind: exec, count: ${DEVICES}, command: [${process.cwd()}/tools/dashboard/browser/rings_fixture, "${RINGS}"]}
`);
const pages = [];
const browser = await Browser.start(chromium, modules);
const results = {load_before: load(), devices: DEVICES, rings: DEVICES * RINGS, trace, spans: []};
try {
  for (const folder of folders.length > 0 ? folders : [""]) {
    pages.push({folder, dashboard: await startDashboard([], folder ? ["--page", folder] : [])});
  }
  const order = [...pages, ...[...pages].reverse()];
  for (let round = 0; round < ROUNDS; ++round) {
    for (const {folder, dashboard} of order) {
      const page = await browser.open(dashboard.links.viewer);
      await stateIs(page, "live");
      await show(page, "house");
      await pause(WARM_MS);
      results.spans.push({page: folder, load: load().split(" ")[0],
                          ...await framesOf(page, Number(seconds) * 1000)});
      if (profile && round === 0) {
        results.spans.at(-1).own_percent = await profileOf(page);
      }
      await page.context().close();
    }
  }
} finally {
  await browser.close();
  for (const {dashboard} of pages) dashboard.process.kill();
  run("down", "--all");
}
results.load_after = load();
console.log(JSON.stringify(results, null, 2));
