// What a gate does when its disk takes no more.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import test from "node:test";
import { SigningKey } from "counterfoil";
import { Gate, OutboxView } from "counterfoil/node";
import { newDir, newKey } from "./stage.js";

const SCRIPT = new URL("./full_disk.js", import.meta.url).pathname;
const logKey = SigningKey.fromSeed("log.example/nobody", new Uint8Array(32).fill(3));

interface Seen {
  receipts: number;
  dropped: number;
  refused: string;
  ran: number;
  drops?: { count: number; told: number };
}

function onFullDisk(dir: string, key: SigningKey, whenFull: string): Seen {
  // Sixteen KiB for each file: some twenty receipts.
  const command = `ulimit -f 16; exec "$0" "$@"`;
  const args = ["-c", command, process.execPath, SCRIPT, dir, key.privateText(), logKey.verifier.toString(), whenFull];
  const { stdout, stderr, status } = spawnSync("bash", args, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout) as Seen;
}

function reopened(dir: string, key: SigningKey): Promise<Gate> {
  return Gate.open({ dir, key, log: { url: "http://127.0.0.1:9", vkey: logKey.verifier }, warn: () => undefined });
}

test("fail_closed: the disk refuses, nothing runs, and what was durable stays", async () => {
  const [dir, key] = [newDir(), newKey()];
  const { receipts, refused, ran } = onFullDisk(dir, key, "fail_closed");
  assert.equal(refused, "outbox-disk");
  assert.equal(ran, receipts, "nothing ran without a receipt");
  const gate = await reopened(dir, key);
  await gate.run({ authenticated: true, requestId: "after" }, () => undefined);
  await gate.close();
  const view = await OutboxView.open(dir);
  const decided = new Set<unknown>();
  const ended = new Set<unknown>();
  for (let seq = 0; seq < (await view.status()).receipts; seq += 1) {
    const receipt = await view.receipt(seq);
    if (receipt?.type === "decision") decided.add(receipt.body.get("request_id"));
    if (receipt?.type === "outcome") ended.add(receipt.body.get("request_id"));
  }
  await view.close();
  assert.equal(decided.size, receipts + 1);
  assert.deepEqual(ended, decided, "each has an outcome, be it unknown");
});

test("fail_open: what runs without a receipt is counted, and told by the next receipt", async () => {
  const [dir, key] = [newDir(), newKey()];
  const { receipts, dropped, refused, ran, drops } = onFullDisk(dir, key, "fail_open");
  assert.deepEqual([refused, ran], ["", 60]);
  assert.ok(receipts > 5 && dropped > 5, `${receipts} ${dropped}`);
  assert.deepEqual(drops, { count: dropped, told: 0 });
  const gate = await reopened(dir, key);
  assert.deepEqual((await gate.status()).drops.count, dropped);
  await gate.run({ authenticated: true }, () => undefined);
  assert.deepEqual((await gate.status()).drops, { count: dropped, told: dropped });
  await gate.close();
  const view = await OutboxView.open(dir);
  const { receipts: count } = await view.status();
  const told = (await Promise.all(Array.from({ length: count }, (_, seq) => view.receipt(seq)))).find((one) => one?.type === "dropped");
  assert.deepEqual([told?.body.get("count"), told?.body.get("why")], [dropped, "disk"]);
  await view.close();
});
