// Gets what ./package-lock.json names into ./node_modules where there is no npm: Debian's
// takes 330 more packages, and the lock says all that two archives need.
import {execFileSync} from "node:child_process";
import {createHash} from "node:crypto";
import {mkdirSync, readFileSync} from "node:fs";

const registry = process.env.npm_config_registry;
if (!registry) throw new Error("install npm, or set npm_config_registry to the URL of a registry");
const {packages} = JSON.parse(readFileSync("package-lock.json", "utf8"));
for (const [path, {version, integrity}] of Object.entries(packages)) {
  if (path === "") continue;
  const name = path.slice("node_modules/".length);
  const resolved = `${registry.replace(/\/$/, "")}/${name}/-/${name}-${version}.tgz`;
  const response = await fetch(resolved);
  if (!response.ok) throw new Error(`${resolved}: HTTP ${response.status}`);
  const archive = Buffer.from(await response.arrayBuffer());
  const found = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  if (found !== integrity) throw new Error(`${resolved} is ${found}; the lock says ${integrity}`);
  mkdirSync(path, {recursive: true});
  execFileSync("tar", ["-xz", "--strip-components=1", "-C", path], {input: archive});
}
