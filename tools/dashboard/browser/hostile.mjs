// Texts of a testbed that would run something, were they taken for anything but text.
import assert from "node:assert/strict";
import {VIEWS, show} from "./browser.mjs";
import {eventually, test} from "./harness.mjs";

const HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>\u202e\u0007';
const SHOWN = '<img src=x onerror="alert(1)"><script>alert(2)</script>\\u202e\\u0007';
// These the page compares with words that it knows, or takes for a number.
const KEPT = new Set(["state", "level", "phase", "verdict", "actions", "point"]);

/** The same with every text of a testbed made hostile. */
function poisoned(value, key = "") {
  if (typeof value === "string") return KEPT.has(key) ? value : value + HOSTILE;
  if (Array.isArray(value)) return value.map((one) => poisoned(one, key));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, poisoned(one, name)]));
}

export async function testHostileTexts(browser, links) {
  await test("HostileTextsAreShownAndRunNothing", async () => {
    const page = await browser.open(links["fault-injector"]);
    const token = new URL(links["fault-injector"]).hash.slice("#token=".length);
    // Whatever the gateway let through: a device could not have such a name by itself.
    await page.route("**/api/v1/**", async (route) => {
      const path = new URL(route.request().url()).pathname;
      const asked = path.endsWith("/stream") ? route.request().url().replace("/stream", "/state") :
        route.request().url();
      const answer = await page.context().request.get(asked,
        {headers: {Authorization: `Bearer ${token}`}});
      const text = JSON.stringify(poisoned(await answer.json()));
      await route.fulfill({status: 200, headers: {"Carillon-Role": "fault-injector",
        "Content-Type": path.endsWith("/stream") ? "text/event-stream" : "application/json"},
        body: path.endsWith("/stream") ? `data: ${text}\n\n` : text});
    });
    await page.reload();
    for (const view of VIEWS) {
      await show(page, view);
      // Whether a text is there that only the planted ones have.
      if (view !== "sms") {
        await eventually(`a hostile text in ${view}`, async () =>
          (await page.textContent(`[data-view="${view}"]`)).includes(SHOWN));
      }
      assert.equal(await page.locator("img, body script, iframe, object").count(), 0, view);
    }
    await page.unrouteAll({behavior: "ignoreErrors"});
    await page.context().close();
  });
}
