// Gets what ./package-lock.json names into ./node_modules where there is no npm: Debian's
// takes 330 more packages, and the lock says all that two archives need.
import {execFileSync} from "node:child_process";
import {createHash} from "node:crypto";
import {mkdirSync, readFileSync} from "node:fs";

const {packages} = JSON.parse(readFileSync("package-lock.json", "utf8"));
for (const [path, {resolved, integrity}] of Object.entries(packages)) {
  if (path === "") continue;
  const response = await fetch(resolved);
  if (!response.ok) throw new Error(`${resolved}: HTTP ${response.status}`);
  const archive = Buffer.from(await response.arrayBuffer());
  const found = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  if (found !== integrity) throw new Error(`${resolved} is ${found}; the lock says ${integrity}`);
  mkdirSync(path, {recursive: true});
  execFileSync("tar", ["-xz", "--strip-components=1", "-C", path], {input: archive});
}
