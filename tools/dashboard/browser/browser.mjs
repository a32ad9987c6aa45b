// Debian's Chromium, which watches what the page must not do.
import {mkdirSync, readFileSync} from "node:fs";
import {createRequire} from "node:module";

export const VIEWS = ["house", "stuck", "rates", "ekt", "faults", "story", "sms", "logs"];
const SIZES = [{width: 1280, height: 800}, {width: 390, height: 844}];
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"];
export const OUTPUTS = process.env.TEST_UNDECLARED_OUTPUTS_DIR ?? process.env.TEST_TMPDIR;

export class Browser {
  /** What no page may have: requests elsewhere, errors, violations of its policy. */
  offences = [];
  #chromium;
  #axe;

  /** @param modules the folder of playwright-core and axe-core */
  static async start(chromium, modules) {
    const require = createRequire(`${modules}/`);
    const browser = new Browser();
    browser.#axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
    // Without its sandbox: tests may run as root, and in containers.
    browser.#chromium = await require("playwright-core").chromium.launch({
      executablePath: chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"]});
    return browser;
  }

  /** Opens a link of the dashboard in a browser that knows nothing yet. */
  async open(link, options = {}) {
    const context = await this.#chromium.newContext({viewport: SIZES[0], ...options});
    const page = await context.newPage();
    const origin = new URL(link).origin;
    const offend = (what) => this.offences.push(what);
    context.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(`${origin}/`) && !/^(data|blob):/.test(url)) offend(`request to ${url}`);
    });
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) offend(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => offend(`error: ${error.stack}`));
    page.on("dialog", (dialog) => { offend(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    await page.addInitScript(() => addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`)));
    await page.goto(link);
    return page;
  }

  async accessibilityViolations(page) {
    await page.evaluate(this.#axe);
    const {violations} = await page.evaluate((rules) => axe.run(document, {runOnly: rules}), RULES);
    return violations.map(({id, nodes}) => `${id}: ${nodes.map(({html}) => html).join(" ")}`);
  }

  /** Calls `look(page, name)` with each view, in both schemes and sizes. */
  async everywhere(link, look) {
    for (const viewport of SIZES) {
      for (const colorScheme of ["light", "dark"]) {
        const page = await this.open(link, {viewport, colorScheme});
        for (const view of VIEWS) {
          await show(page, view);
          await look(page, `${view}-${colorScheme}-${viewport.width}x${viewport.height}`);
        }
        await page.context().close();
      }
    }
  }

  close() { return this.#chromium.close(); }
}

/** Takes the page to a view whose own table has rows. */
export async function show(page, view) {
  await page.click(`[data-view-link="${view}"]`);
  const table = view === "rates" ? "ring-rates" : view;
  await page.waitForSelector(`[data-view="${view}"] [data-twin="${table}"] td`, {state: "attached"});
}

export const stateIs = (page, state) =>
  page.waitForSelector(`[data-state="${state}"]`, {timeout: 60000});

/** The rows of a table, as [{column: text}]. */
export function rowsOf(page, selector) {
  return page.$eval(`${selector} table`, (table) => {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    return [...table.tBodies[0].rows].map((row) =>
      Object.fromEntries([...row.cells].map((cell, i) => [names[i], cell.textContent])));
  });
}
export const twin = (page, name) => rowsOf(page, `[data-twin="${name}"]`);

export async function keepPicture(page, name) {
  mkdirSync(`${OUTPUTS}/screenshots`, {recursive: true});
  await page.screenshot({path: `${OUTPUTS}/screenshots/${name}.png`});
}

/** The frames that a page draws in a span, and its main thread's share. */
export async function framesOf(page, span_ms) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const busy = async () => (await session.send("Performance.getMetrics")).metrics
    .find(({name}) => name === "TaskDuration").value;
  const before = await busy();
  const gaps = await page.evaluate((span) => new Promise((done) => {
    const found = [];
    const end = performance.now() + span;
    let last = 0;
    const frame = (now) => {
      if (last) found.push(now - last);
      last = now;
      if (now < end) requestAnimationFrame(frame); else done(found);
    };
    requestAnimationFrame(frame);
  }), span_ms);
  return {mean_fps: 1000 * gaps.length / gaps.reduce((a, b) => a + b, 0),
          p99_frame_ms: [...gaps].sort((a, b) => a - b)[Math.floor(gaps.length * 0.99)],
          main_thread_percent: 100 * (await busy() - before) / (span_ms / 1000)};
}
