// measure.mjs CHROMIUM FOLDER-OF-MODULES SCRATCH [SECONDS]: what the page and its gateway cost
// with 64 devices, as JSON. No verdict: browser_test.sh --measure runs it by hand.
import {once} from "node:events";
import {readFileSync, readdirSync} from "node:fs";
import {connect} from "node:net";
import {Browser, framesOf, show, stateIs} from "./browser.mjs";
import {pause} from "./harness.mjs";
import {bringUp, processNamed, run, startDashboard} from "./testbed.mjs";

const [chromium, modules, scratch, seconds = "4"] = process.argv.slice(2);
const SPAN_MS = Number(seconds) * 1000;
const ROUNDS = 3;
const DEVICES = 64;

const load = () => readFileSync("/proc/loadavg", "utf8").trim();

/** Nanoseconds that the threads of a process have run. */
function cpuTime(pid) {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) =>
    sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]), 0);
}

const memoryMiB = (pid) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;

/** Shares of a core, in percent, that processes take in one span. */
async function shares(pids) {
  const before = pids.map(cpuTime);
  const started = performance.now();
  await pause(SPAN_MS);
  const ns = (performance.now() - started) * 1e6;
  return pids.map((pid, i) => 100 * (cpuTime(pid) - before[i]) / ns);
}

/** When gpud's next process takes connections, by this clock. */
async function answersAgain() {
  const path = `${process.env.CARILLON_RUNTIME_DIR}/measured/control.sock`;
  for (;;) {
    const socket = connect(path);
    try {
      await once(socket, "connect");
      return performance.now();
    } catch {
      await pause(5);
    } finally {
      socket.destroy();
    }
  }
}

const sorted = (values) => [...values].sort((a, b) => a - b);
const median = (values) => sorted(values)[values.length >> 1];

/** Milliseconds until the page says that it is in `state`. */
async function until(page, state, act) {
  const started = performance.now();
  await act();
  await stateIs(page, state);
  return performance.now() - started;
}

const results = {load_before: load(), devices: DEVICES, span_ms: SPAN_MS};
bringUp(scratch, `
name: measured
gpu: {backend: cpu, memory: 512MiB, ekt_entries: 128, restart: on_failure}
devices:
  - {name: fpga, kind: fpga, count: ${DEVICES}, size: 64x64, fps: 1, restart: on_failure}
`);
const gpud = processNamed("gpud").pid;
const without = [];
for (let round = 0; round < ROUNDS; ++round) without.push((await shares([gpud]))[0]);
const dashboard = await startDashboard();
const gateway = dashboard.process.pid;
const link = dashboard.links.viewer;
const browser = await Browser.start(chromium, modules);
try {
  const first = [];
  for (let round = 0; round < ROUNDS; ++round) {
    const page = await browser.open(link);
    await stateIs(page, "live");
    await page.waitForSelector('[data-view="house"] td', {state: "attached"});
    // Since the navigation began.
    first.push(await page.evaluate(() => performance.now()));
    await page.context().close();
  }
  results.first_data_ms = first;

  // Without a page and with one, by turns; the two spans without one are each other's control.
  const costs = {gpud: {without_dashboard: without, closed: [], open: []}, gateway: {closed: [], open: []}};
  const span = async (name) => {
    const [of_gpud, of_gateway] = await shares([gpud, gateway]);
    costs.gpud[name].push(of_gpud);
    costs.gateway[name].push(of_gateway);
  };
  for (let round = 0; round < ROUNDS; ++round) {
    await span("closed");
    const page = await browser.open(link);
    await stateIs(page, "live");
    await span("open");
    await span("open");
    if (round === 0) results.house = await framesOf(page, SPAN_MS);
    await page.context().close();
    await span("closed");
  }
  results.percent_of_a_core = costs;
  results.medians = Object.fromEntries(Object.entries(costs).map(([name, {closed, open}]) =>
    [name, {closed: median(closed), open: median(open)}]));
  results.gateway_rss_mib = memoryMiB(gateway);

  // Chromium hides a page without a window for no one: the page is told that it is hidden.
  const page = await browser.open(link);
  await stateIs(page, "live");
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", {configurable: true, get: () => true});
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await pause(1000);
  results.gateway_hidden_percent = (await shares([gateway]))[0];
  await page.context().close();

  const watching = await browser.open(link);
  await show(watching, "house");
  results.gpud_killed = [];
  for (let round = 0; round < ROUNDS; ++round) {
    await stateIs(watching, "live");
    const {pid} = processNamed("gpud");
    let answering;
    const seen = await until(watching, "gone", () => {
      process.kill(pid, "SIGKILL");
      answering = pause(20).then(answersAgain);
    });
    const answers = await answering;
    await stateIs(watching, "live");
    results.gpud_killed.push({seen_ms: seen, live_after_it_answers_ms: performance.now() - answers});
  }
} finally {
  await browser.close();
  dashboard.process.kill();
  run("down", "--all");
}
results.load_after = load();
console.log(JSON.stringify(results, null, 2));
