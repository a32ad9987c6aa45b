// A testbed of real processes, and its dashboard.
import {execFileSync, spawn} from "node:child_process";
import {writeFileSync} from "node:fs";
import {createInterface} from "node:readline";

const CARILLON = "tools/cli/carillon";

export const run = (...words) => execFileSync(CARILLON, words, {encoding: "utf8"});
export const ask = (...words) => JSON.parse(run(...words, "-o", "json"));

/** Brings up `topology`, a text. */
export function bringUp(folder, topology) {
  writeFileSync(`${folder}/topology.yaml`, topology);
  run("up", "-d", "-f", `${folder}/topology.yaml`);
}

export const processes = () => ask("ps").testbeds[0].processes;
export const processNamed = (name) => processes().find((one) => one.name === name);

/** A dashboard with a link for each role: {links: {viewer, ...}, process}. */
export async function startDashboard(roles = [], options = []) {
  const process = spawn(CARILLON,
                        ["dashboard", ...roles.flatMap((role) => ["--role", role]), ...options],
                        {stdio: ["ignore", "pipe", "inherit"]});
  const links = {};
  for await (const line of createInterface({input: process.stdout})) {
    const found = /^(\S+) +(http:\S+)$/.exec(line);
    if (found) links[found[1]] = found[2];
    if (Object.keys(links).length === roles.length + 1) break;
  }
  return {links, process};
}
