// measure.mjs CHROMIUM FOLDER-OF-MODULES SCRATCH [DEVICES]: what the page and its gateway
// cost, one JSON line a figure. No verdict: browser_test.sh --measure runs it by hand.
import {readFileSync} from "node:fs";
import {loadavg} from "node:os";
import {Browser, show, stateIs} from "./browser.mjs";
import {eventually, pause} from "./harness.mjs";
import {bringUp, processNamed, run, startDashboard} from "./testbed.mjs";

const [chromium, modules, scratch, devices = "64"] = process.argv.slice(2);
const SECONDS = 10;
const tell = (figure, values) =>
  console.log(JSON.stringify({figure, ...values, load: loadavg()[0].toFixed(1)}));

/** CPU seconds that a process has used. */
function cpuOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
const residentMiB = (pid) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;

/** Percent of a core of each process in `pids`, over SECONDS. */
async function coreOf(pids) {
  const at = () => Object.entries(pids).map(([name, pid]) => [name, cpuOf(pid)]);
  const before = at(), started = performance.now();
  await pause(SECONDS * 1000);
  const seconds = (performance.now() - started) / 1000;
  return Object.fromEntries(at().map(([name, cpu], i) =>
    [name, Number((100 * (cpu - before[i][1]) / seconds).toFixed(2))]));
}

/** Frames of the page while it is looked at, and how busy its main thread is. */
async function framesOf(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const busy = async () => (await session.send("Performance.getMetrics")).metrics
    .find(({name}) => name === "TaskDuration").value;
  const before = await busy();
  const frames = await page.evaluate((ms) => new Promise((done) => {
    const times = [];
    const next = (time) => {
      times.push(time);
      if (time - times[0] < ms) requestAnimationFrame(next); else done(times);
    };
    requestAnimationFrame(next);
  }), SECONDS * 1000);
  const took = frames.slice(1).map((time, i) => time - frames[i]).sort((a, b) => a - b);
  const whole = frames.at(-1) - frames[0];
  return {fps: (1000 * took.length / whole).toFixed(1),
          p99_frame_ms: took[Math.floor(took.length * 0.99)].toFixed(1),
          main_thread_percent: (100000 * (await busy() - before) / whole).toFixed(1)};
}

/** Has the page note when its state changes; returns what asks for the time of a state. */
async function noteStates(page) {
  await page.evaluate(() => {
    window.noted = {};
    const look = () => {
      const {state} = document.querySelector("[data-state]").dataset;
      if (state === "gone") window.noted.gone ??= Date.now();
      if (state === "live" && window.noted.gone) window.noted.live ??= Date.now();
      requestAnimationFrame(look);
    };
    look();
  });
  return (state) => eventually(state, () => page.evaluate((one) => window.noted[one], state));
}

bringUp(scratch, `
name: measured
gpu: {backend: cpu, memory: 256MiB, ekt_entries: 256, restart: on_failure}
devices:
  - {name: fpga, kind: fpga, count: ${devices}, size: 8x8, fps: 1}
`);
const dashboard = await startDashboard();
const browser = await Browser.start(chromium, modules);
try {
  const pids = () => ({gpud: processNamed("gpud").pid, gateway: dashboard.process.pid});
  await pause(3000);
  tell("no page", {devices, core_percent: await coreOf(pids())});
  const opened = Date.now();
  const page = await browser.open(dashboard.links.viewer);
  await stateIs(page, "live");
  tell("first data after opening the link", {ms: Date.now() - opened});
  await show(page, "house");
  tell("one page", {devices, core_percent: await coreOf(pids()), gateway_MiB: residentMiB(dashboard.process.pid).toFixed(1)});
  tell("house picture", {devices, ...await framesOf(page)});
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", {configurable: true, get: () => true});
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await pause(2000);
  tell("hidden page", {devices, core_percent: await coreOf(pids())});
  await page.context().close();
  const seen = await browser.open(dashboard.links.viewer);
  await stateIs(seen, "live");
  const {pid} = processNamed("gpud");
  const timeOf = await noteStates(seen);
  const killed = Date.now();
  process.kill(pid, "SIGKILL");
  tell("gpud killed: seen", {ms: await timeOf("gone") - killed});
  const another = await eventually("another gpud", () => {
    const one = processNamed("gpud");
    return one.pid !== pid && {began: Date.now() - one.age_ns / 1e6};
  });
  tell("gpud's process is there again: live", {ms: Math.round(await timeOf("live") - another.began)});
} finally {
  await browser.close();
  dashboard.process.kill();
  run("down", "--all");
}
