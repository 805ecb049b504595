// The README's example, run as it stands but for names and addresses.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { newDir, newKey, noExecutable, Stage } from "./stage.js";
import { PATIENCE_MS } from "./wait.js";

test("the README's example does what it says", { skip: noExecutable }, async () => {
  const key = newKey();
  const stage = await Stage.build([key]);
  const dir = newDir();
  writeFileSync(join(dir, "gate.key"), `${key.privateText()}\n`, { mode: 0o600 });
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const example = /```ts\n([^`]*(?:`[^`]+`[^`]*)*?)```/.exec(readme)?.[1] ?? "";
  const placed = example
    .replace('"outbox",\n', `${JSON.stringify(join(dir, "outbox"))},\n`)
    .replace('"gate.key"', JSON.stringify(join(dir, "gate.key")))
    .replace("http://127.0.0.1:8080", stage.url)
    .replace("log.example/agents+…", stage.vkey)
    .replace("flush(10_000)", `flush(${PATIENCE_MS})`);
  assert.match(placed, /Gate\.open/);
  assert.ok(placed.includes(`flush(${PATIENCE_MS})`), "ten seconds are enough for readers only");
  // The example has no types but inferred ones.
  const child = spawn(process.execPath, ["--input-type=module", "-e", placed], { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.on("data", (bytes) => {
    said += bytes;
  });
  const code = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(code, 0);
  assert.match(said, /^sent under [0-9a-f]{64}\n3 receipts are in the log\n$/);
  stage.stop();
});
