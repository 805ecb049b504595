// What a gate does when its disk takes no more, and what it takes for durable.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { SigningKey } from "counterfoil";
import { Gate, Outbox, OutboxView } from "counterfoil/node";
import { newDir, newKey } from "./stage.js";
import { until } from "./wait.js";

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

/** Has what asks the disk for durability do something else first, while `during` runs. */
async function withSlowDisk(instead: () => Promise<void>, during: () => Promise<void>): Promise<void> {
  const file = await open(newDir(), "r");
  const handles = Object.getPrototypeOf(file) as FileHandle;
  await file.close();
  const real = Object.getOwnPropertyDescriptor(handles, "datasync");
  assert.ok(typeof real?.value === "function");
  handles.datasync = async function datasync(this: FileHandle) {
    await instead();
    return real.value.call(this);
  };
  try {
    await during();
  } finally {
    Object.defineProperty(handles, "datasync", real);
  }
}

const NOTE = [{ text: '{"type":"note"}' }];

test("nobody is told of a receipt before the disk says that it is durable", async () => {
  const [dir, key] = [newDir(), newKey()];
  const outbox = await Outbox.open(dir, key);
  let asked = 0;
  let answer: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const told: string[] = [];
  outbox.onReceipt = ({ type }) => told.push(type);
  const slow = async () => {
    asked += statSync(join(dir, "receipts")).size;
    await answered;
  };
  await withSlowDisk(slow, async () => {
    let settled = false;
    const written = outbox.append(NOTE, Date.now).finally(() => {
      settled = true;
    });
    await until("the disk is asked", () => asked > 0);
    assert.equal(asked, statSync(join(dir, "receipts")).size, "once, and when all of it was written");
    // Whatever it would do without waiting it has done after this.
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual([settled, told, outbox.count], [false, [], 0]);
    answer();
    await written;
    assert.deepEqual([told, outbox.count], [["open", "note"], 2]);
  });
  await outbox.close();
});

test("what the disk does not make durable was not written, and nothing more is until the outbox was looked at", async () => {
  const outbox = await Outbox.open(newDir(), newKey());
  await withSlowDisk(
    () => Promise.reject(new Error("EIO: i/o error, fdatasync")),
    async () => {
      await assert.rejects(outbox.append(NOTE, Date.now), { code: "outbox-disk", message: /fdatasync/ });
    },
  );
  assert.equal(outbox.count, 0);
  await assert.rejects(outbox.append(NOTE, Date.now), { code: "outbox-stopped" });
  await outbox.reopen();
  // It was, for all that: what is there counts.
  assert.equal(outbox.count, 2);
  assert.equal((await outbox.append(NOTE, Date.now))[0]?.seq, 2n);
  await outbox.close();
});
