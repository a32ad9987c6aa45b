// Cases by name, and a test.xml as GoogleTest writes it, so that `carillon test` tells of each.
import {writeFileSync} from "node:fs";

const BOUND_MS = 60000;
const SUITE = "DashboardPage";
const escapes = {"<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;", "\n": "&#10;"};
const escaped = (text) => text.replace(/[<>&"\n]/g, (one) => escapes[one]).replace(/[\0-\x1f]/g, "?");

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until `state` returns without an error and something true, and returns that. */
export async function eventually(what, state) {
  const end = Date.now() + BOUND_MS;
  for (;;) {
    let error = null;
    try {
      const found = await state();
      if (found) return found;
    } catch (thrown) {
      error = thrown;
    }
    if (Date.now() > end) {
      throw new Error(`not within ${BOUND_MS / 1000} s: ${what}${error ? `: ${error.message}` : ""}`);
    }
    await pause(100);
  }
}

const cases = [];

/** A case, unless Bazel's --test_filter wants others: those whose name has its text. */
export async function test(name, body) {
  if (!name.includes(process.env.TESTBRIDGE_TEST_ONLY ?? "")) return;
  process.stdout.write(`[ RUN      ] ${SUITE}.${name}\n`);
  const started = Date.now();
  let failure = "";
  try {
    await body();
  } catch (error) {
    failure = error.stack;
    process.stdout.write(`${failure}\n`);
  }
  const ms = Date.now() - started;
  process.stdout.write(`[ ${failure ? " FAILED " : "      OK"} ] ${SUITE}.${name} (${ms} ms)\n`);
  cases.push({name, failure, ms});
}

/** Writes test.xml and returns the exit code. */
export function finish() {
  const failures = cases.filter(({failure}) => failure).length;
  const lines = cases.map(({name, failure, ms}) =>
    `    <testcase name="${name}" classname="${SUITE}" status="run" time="${ms / 1000}">` +
    `${failure ? `<failure message="${escaped(failure)}"></failure>` : ""}</testcase>`);
  if (process.env.XML_OUTPUT_FILE) {
    writeFileSync(process.env.XML_OUTPUT_FILE, `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="${cases.length}" failures="${failures}" errors="0" name="AllTests">
  <testsuite name="${SUITE}" tests="${cases.length}" failures="${failures}" errors="0">
${lines.join("\n")}
  </testsuite>
</testsuites>
`);
  }
  process.stdout.write(`${cases.length - failures} of ${cases.length} cases passed\n`);
  return failures ? 1 : 0;
}
