// The script that gets the modules where there is no npm.
import assert from "node:assert/strict";
import {execFileSync, spawn} from "node:child_process";
import {createHash} from "node:crypto";
import {existsSync, mkdirSync, readFileSync, writeFileSync} from "node:fs";
import {createServer} from "node:http";
import {once} from "node:events";
import {test} from "./harness.mjs";

export async function testModules(scratch) {
  await test("ModulesAreFetchedAsTheirLockSaysOrNotAtAll", async () => {
    const folder = `${scratch}/modules`;
    mkdirSync(`${folder}/package`, {recursive: true});
    writeFileSync(`${folder}/package/package.json`, '{"version": "1.2.3"}');
    execFileSync("tar", ["-czf", "one.tgz", "package"], {cwd: folder});
    const archive = readFileSync(`${folder}/one.tgz`);
    const server = createServer((request, answer) => answer.end(archive)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const fetched = async (integrity) => {
      writeFileSync(`${folder}/package-lock.json`, JSON.stringify({packages: {"": {}, "node_modules/one": {
        version: "1.2.3", integrity}}}));
      const script = new URL("fetch_modules.mjs", import.meta.url).pathname;
      const child = spawn(process.execPath, [script], {
        cwd: folder, stdio: ["ignore", "ignore", "pipe"],
        env: {...process.env, npm_config_registry: `http://127.0.0.1:${server.address().port}/`}});
      let said = "";
      child.stderr.on("data", (text) => { said += text; });
      const [code] = await once(child, "close");
      return {code, said};
    };
    try {
      const other = await fetched("sha512-AAAA");
      assert.equal(other.code, 1);
      assert.match(other.said, /one-1\.2\.3\.tgz is sha512-.*; the lock says sha512-AAAA/);
      assert.equal(existsSync(`${folder}/node_modules`), false);
      const right = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
      assert.deepEqual(await fetched(right), {code: 0, said: ""});
      assert.equal(JSON.parse(readFileSync(`${folder}/node_modules/one/package.json`)).version, "1.2.3");
    } finally {
      server.close();
    }
  });
}
