// A log is held to what it proved, whether or not anybody asks for a history.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import * as cf from "counterfoil";
import { Gate } from "counterfoil/node";
import { ShownLog } from "./shown_log.js";
import { call, newDir, newKey, noExecutable } from "./stage.js";
import { PATIENCE_MS, until } from "./wait.js";

async function withProofs(log: ShownLog, honourEveryMs?: number): Promise<{ reopen: () => Promise<Gate>; gate: Gate }> {
  const [dir, key, url] = [newDir(), newKey(), await log.listen()];
  const reopen = () => Gate.open({ dir, key, log: { url, vkey: log.key.verifier }, honourEveryMs, warn: () => undefined });
  const gate = await reopen();
  await gate.run({ authenticated: true }, () => undefined);
  assert.ok(await gate.flush(PATIENCE_MS));
  return { reopen, gate };
}

/** Waits until the log's head was looked at so often more, and what came of it is known. */
async function looked(log: ShownLog, times = 3): Promise<void> {
  const heads = () => log.asked.filter((path) => path === "checkpoint").length;
  const before = heads();
  await until("the log was looked at", () => heads() >= before + times);
}

async function convicted(gate: Gate): Promise<void> {
  const { sender } = await until("the sender has stopped", async () => {
    const status = await gate.status();
    return status.sender.state === "stopped" ? status : undefined;
  });
  assert.equal(sender.code, "log-fork");
  const alarms = await gate.alarms();
  assert.deepEqual(
    alarms.map((alarm) => alarm.get("what")),
    ["log-fork"],
  );
  const evidence = alarms[0]?.get("evidence");
  assert.ok(evidence instanceof Map);
  assert.equal(evidence.get("kind"), "log-fork");
  if (noExecutable) return;
  const path = join(newDir(), "evidence");
  writeFileSync(path, cf.printJson(evidence));
  const judged = call("verify", "evidence", path);
  assert.equal(judged.code, 0, judged.out + judged.err);
}

test("a log that forks after it proved receipts is convicted while the gate runs, and nothing more is sent", async () => {
  const log = new ShownLog();
  const { gate } = await withProofs(log, 20);
  log.entries.push(cf.utf8("honest"));
  await looked(log);
  assert.equal((await gate.status()).sender.state, "working");
  assert.deepEqual(await gate.alarms(), []);

  log.claims = [cf.utf8("another history"), ...log.entries];
  await convicted(gate);
  const { acknowledged } = await gate.status();
  await gate.run({ authenticated: true }, () => undefined);
  assert.equal(await gate.flush(200), false);
  assert.equal((await gate.status()).acknowledged, acknowledged);
  await gate.close();
  log.close();
});

test("a log that forked while the gate was away is convicted when it starts, of the same size too", async () => {
  for (const more of [[], [cf.utf8("and one more")]]) {
    const log = new ShownLog();
    const { gate, reopen } = await withProofs(log);
    await gate.close();
    log.claims = [cf.utf8("another first entry"), ...log.entries.slice(1), ...more];
    const restarted = await reopen();
    await convicted(restarted);
    await restarted.close();
    log.close();
  }
});

test("a log that goes on proving receipts under its second history is held to the first", async () => {
  const log = new ShownLog();
  const { gate } = await withProofs(log, 20);
  await looked(log);
  log.entries = [cf.utf8("another history"), cf.utf8("of as many"), cf.utf8("entries"), cf.utf8("and one more")];
  await gate.run({ authenticated: true }, () => undefined);
  await convicted(gate);
  await gate.close();
  log.close();
});

test("tiles that are missing or wrong, and heads that are another's or older, accuse nobody", async () => {
  const log = new ShownLog();
  const { gate } = await withProofs(log, 20);
  const honest = [...log.entries, cf.utf8("more")];
  for (const show of [
    () => {
      log.tile = () => undefined;
    },
    () => {
      log.tile = (bytes) => bytes.map((byte) => byte ^ 1);
    },
    () => {
      log.tile = (bytes) => bytes.subarray(1);
    },
    // Its tiles are of another history than the head it signs.
    () => {
      log.tile = () => new Uint8Array(Buffer.concat(log.entries.map(() => cf.leafHash(cf.utf8("other")))));
    },
    () => {
      log.tile = (bytes) => bytes;
      log.entries = honest.slice(0, 1);
    },
  ]) {
    log.entries = honest;
    show();
    await looked(log);
    assert.equal((await gate.status()).sender.state, "working");
    assert.deepEqual(await gate.alarms(), []);
  }
  log.entries = honest;
  log.signer = cf.SigningKey.generate(log.key.name);
  log.claims = [cf.utf8("another history"), ...honest];
  await looked(log);
  assert.deepEqual(await gate.alarms(), []);
  await gate.close();
  log.close();
});
