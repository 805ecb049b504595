// Servers that answer what no log answers: nothing is believed, nothing is lost, and what is an alarm is kept.

import assert from "node:assert/strict";
import type { IncomingMessage, ServerResponse } from "node:http";
import { cpSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import test from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as cf from "counterfoil";
import { Gate, type GateOptions, OutboxView } from "counterfoil/node";
import { pauseMs } from "../dist/node/sender.js";
import { ShownLog } from "./shown_log.js";
import { newDir, newKey } from "./stage.js";
import { PATIENCE_MS, until } from "./wait.js";

const logKey = cf.SigningKey.fromSeed("log.example/hostile", new Uint8Array(32).fill(7));

type Answer = (request: IncomingMessage, body: Uint8Array, response: ServerResponse) => void | Promise<void>;

/** A server that knows the issuer as new, unless the answer is its own, and answers batches as it is told. */
async function server(batch: Answer, issuer?: Answer): Promise<{ url: string; close: () => void }> {
  const http = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = new Uint8Array(Buffer.concat(parts));
      if (request.url?.startsWith("/v1/issuers/")) {
        const name = decodeURIComponent(request.url.slice("/v1/issuers/".length));
        if (issuer !== undefined) void issuer(request, body, response);
        else response.end(JSON.stringify({ name, vkey: "", next_seq: 0, head: "00".repeat(32), closed: false }));
      } else void batch(request, body, response);
    });
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const address = http.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { url: `http://127.0.0.1:${port}`, close: () => http.close() };
}

async function gateAt(url: string, key = newKey(), more: Partial<GateOptions> = {}): Promise<Gate> {
  const gate = await Gate.open({ dir: newDir(), key, log: { url, vkey: logKey.verifier }, warn: () => undefined, ...more });
  await gate.run({ authenticated: true, requestId: "r-1" }, () => undefined);
  return gate;
}

/** Verdicts of an honest log that holds exactly these entries. */
async function verdicts(
  entries: readonly Uint8Array[],
  size = entries.length,
): Promise<{ index: number; id: string; issuer: string; seq: number; status: string; proof: string }[]> {
  const tree = new cf.MerkleTree();
  for (const entry of entries) tree.push(cf.leafHash(entry));
  for (let more = entries.length; more < size; more += 1) tree.push(cf.leafHash(cf.utf8(String(more))));
  const head = await cf.signCheckpoint({ origin: logKey.name, size: BigInt(size), root: tree.root(), extensions: [] }, logKey);
  return entries.map((entry, index) => {
    const { issuer, seq, id } = cf.Receipt.parse(entry);
    const proof = cf.proofText(BigInt(index), cf.proveInclusion(tree, BigInt(index), BigInt(size)), head);
    return { status: "ok", index, issuer, seq: Number(seq), id, proof };
  });
}

function lines(values: readonly unknown[]): string {
  return values.map((value) => `${JSON.stringify(value)}\n`).join("");
}

/** Waits for what becomes of a gate's sender. */
async function sending(gate: Gate, state: "failing" | "stopped"): Promise<string> {
  const { sender } = await until(`the sender is ${state}`, async () => {
    const status = await gate.status();
    return status.sender.state === state ? status : undefined;
  });
  return sender.code ?? "";
}

/** A log that keeps what it gets, honest until it is told to show other trees. */
class KeepingLog {
  readonly held: Uint8Array[] = [];
  /** From now on proofs are under a tree of this size that has only the newest batch. */
  forkedSize: number | undefined;

  readonly batch: Answer = async (_, body, response) => {
    const entries = cf.decodeEntries(body);
    const first = this.held.length;
    this.held.push(...entries);
    const told = this.forkedSize === undefined ? (await verdicts(this.held)).slice(first) : await verdicts(entries, this.forkedSize);
    response.end(lines(told));
  };

  readonly issuer: Answer = (request, _, response) => {
    const last = this.held[this.held.length - 1];
    const name = decodeURIComponent(request.url?.slice("/v1/issuers/".length) ?? "");
    response.end(JSON.stringify({ name, next_seq: this.held.length, head: last === undefined ? "00".repeat(32) : cf.receiptId(last) }));
  };
}

test("an honest server's proofs are kept", async () => {
  const keeping = new KeepingLog();
  const log = await server(keeping.batch, keeping.issuer);
  const gate = await gateAt(log.url);
  assert.ok(await gate.flush(PATIENCE_MS));
  const proof = cf.TlogProof.parse((await gate.proof(2)) ?? "");
  assert.equal(proof.index, 2n);
  await gate.close();
  log.close();
});

const NONSENSE: [name: string, answer: Answer][] = [
  ["a page of a web site", (_, __, response) => void response.end("<html>")],
  ["too few verdicts", async (_, body, response) => void response.end(lines((await verdicts(cf.decodeEntries(body))).slice(1)))],
  ["verdicts in another order", async (_, body, response) => void response.end(lines((await verdicts(cf.decodeEntries(body))).reverse()))],
  ["a line that does not end", async (_, body, response) => void response.end(lines(await verdicts(cf.decodeEntries(body))).trimEnd())],
  [
    "a member twice",
    async (_, body, response) =>
      void response.end(lines(await verdicts(cf.decodeEntries(body))).replaceAll('"seq"', '"status":"ok","seq"')),
  ],
  [
    "a proof that is none",
    async (_, body, response) =>
      void response.end(lines((await verdicts(cf.decodeEntries(body))).map((one) => ({ ...one, proof: "yes" })))),
  ],
  [
    "another index than the proof's",
    async (_, body, response) => void response.end(lines((await verdicts(cf.decodeEntries(body))).map((one) => ({ ...one, index: 9 })))),
  ],
  [
    "an endless answer",
    (_, __, response) => {
      const more = () => {
        while (response.write("x".repeat(65_536)));
        response.once("drain", more);
      };
      more();
    },
  ],
  ["a redirect", (_, __, response) => void response.writeHead(307, { location: "http://127.0.0.1:9/" }).end()],
  ["a connection that ends", (_, __, response) => void response.destroy()],
  ["500", (_, __, response) => void response.writeHead(500).end("{}")],
  ["503 and a wait of a week", (_, __, response) => void response.writeHead(503, { "retry-after": "604800" }).end('{"code":"overloaded"}')],
  ["403", (_, __, response) => void response.writeHead(403).end('{"code":"unknown-issuer","detail":"who?"}')],
];

for (const [name, answer] of NONSENSE) {
  test(`${name} acknowledges nothing and stops nobody for good`, async () => {
    let calls = 0;
    const log = await server((request, body, response) => {
      calls += 1;
      return answer(request, body, response);
    });
    const gate = await gateAt(log.url);
    await until("the log is asked", () => calls >= 1);
    await sending(gate, "failing");
    const { acknowledged, alarms, receipts } = await gate.status();
    assert.deepEqual([acknowledged, alarms, receipts], [0, 0, 3]);
    await gate.close();
    log.close();
  });
}

test("a proof that does not hold is an alarm: it is kept, and the sender stops", async () => {
  for (const spoil of [
    // Of another tree, by another key, for the receipt beside it.
    async (entries: Uint8Array[]) =>
      (await verdicts(entries)).map((one) => ({
        ...one,
        proof: one.proof.replace(/\n[A-Za-z0-9+/]{43}=\n/, `\n${cf.toBase64(new Uint8Array(32))}\n`),
      })),
    async (entries: Uint8Array[]) =>
      (await verdicts(entries)).map((one) => ({ ...one, proof: one.proof.replaceAll(logKey.name, "log.example/other") })),
  ]) {
    const log = await server(async (_, body, response) => void response.end(lines(await spoil(cf.decodeEntries(body)))));
    const gate = await gateAt(log.url);
    assert.equal(await sending(gate, "stopped"), "bad-proof");
    const [alarm] = await gate.alarms();
    assert.equal(alarm?.get("what"), "bad-proof");
    assert.equal(typeof alarm?.get("proof"), "string");
    assert.equal((await gate.status()).acknowledged, 0);
    assert.match(await gate.metrics(), /counterfoil_gate_alarms_total\{[^}]*\} 1\n/);
    await gate.close();
    log.close();
  }
});

test("two trees of one size, a log that lost receipts, and another history are told apart, and stop the sender", async () => {
  const keeping = new KeepingLog();
  const forked = await server(keeping.batch, keeping.issuer);
  const key = newKey();
  const gate = await gateAt(forked.url, key);
  assert.ok(await gate.flush(PATIENCE_MS));
  keeping.forkedSize = keeping.held.length;
  await gate.run({ authenticated: true }, () => undefined);
  assert.equal(await sending(gate, "stopped"), "log-fork");
  const [alarm] = await gate.alarms();
  assert.equal(alarm?.get("what"), "log-fork");
  assert.notEqual(alarm?.get("held"), alarm?.get("offered"));
  await gate.close();
  forked.close();
});

/** A log that says where the issuer's stream stands once it may. */
async function silentLog(key: cf.SigningKey, nextSeq: number): Promise<{ url: string; speak: () => void; close: () => void }> {
  let speak: () => void = () => undefined;
  const mayAnswer = new Promise<void>((resolve) => {
    speak = resolve;
  });
  const head = nextSeq === 0 ? "00".repeat(32) : "ab".repeat(32);
  const log = await server(
    (_, __, response) => void response.writeHead(500).end(),
    async (_, __, response) => {
      await mayAnswer;
      response.end(JSON.stringify({ name: key.name, next_seq: nextSeq, head }));
    },
  );
  return { ...log, speak };
}

for (const [code, nextSeq] of [
  ["outbox-behind", 9],
  ["streams-differ", 2],
] as const) {
  test(`after ${code} nothing more is signed, not even what becomes of what runs: that is owed, and lost with the process`, async () => {
    const [dir, key] = [newDir(), newKey()];
    const log = await silentLog(key, nextSeq);
    const warned: string[] = [];
    const gate = await gateAt(log.url, key, {
      dir,
      whenFull: "fail_open",
      heartbeatMs: 200,
      warn: (error) => warned.push((error as cf.CounterfoilError).code),
    });
    await gate.decision({ authenticated: true, requestId: "theirs", executes: "caller" });
    const running = await gate.decision({ authenticated: true, requestId: "running" });
    log.speak();
    assert.equal(await sending(gate, "stopped"), code);
    // A heartbeat that was signed before may still be on its way to the disk.
    const receipts = await until("nothing more is written", async () => {
      const before = (await gate.status()).receipts;
      await sleep(500);
      return (await gate.status()).receipts === before ? before : undefined;
    });
    for (const sign of [
      () => gate.deny({ authenticated: false }),
      () => gate.run({ authenticated: true }, () => assert.fail("nothing may run")),
      () => gate.append({ type: "memory" }),
      () => gate.reported("theirs", { executed: true }),
      () => running.approvedBy("ops"),
      () => gate.rotate(cf.SigningKey.generate(key.name)),
      () => gate.end(0),
    ]) {
      await assert.rejects(sign, { code });
    }
    await running.call(() => "done");
    await running[Symbol.asyncDispose]();
    assert.ok(warned.includes(code));
    const status = await gate.status();
    assert.deepEqual([status.receipts, status.open, status.owed], [receipts, 1, 1]);
    assert.match(await gate.metrics(), /counterfoil_gate_owed\{[^}]*\} 1\n/);
    await gate.close();
    log.close();
    const view = await OutboxView.open(dir);
    assert.equal((await view.status()).receipts, receipts, "nothing as it closes either");
    await view.close();
  });
}

/** An outbox with a decision whose gate has stopped before the outcome. */
async function leftOpen(dir: string, key: cf.SigningKey, url: string): Promise<void> {
  const gate = await Gate.open({ dir, key, log: { url, vkey: logKey.verifier }, warn: () => undefined });
  await gate.decision({ authenticated: true, requestId: "left" });
  await gate.close();
}

async function types(dir: string): Promise<string[]> {
  const view = await OutboxView.open(dir);
  const { receipts } = await view.status();
  const all = await Promise.all(Array.from({ length: receipts }, (_, seq) => view.receipt(seq)));
  await view.close();
  return all.map((receipt) => `${receipt?.type} ${receipt?.body.get("request_id") ?? ""} ${receipt?.body.get("unknown") ?? ""}`.trim());
}

const WRITTEN = ["open", "decision left", "outcome left true"];

test("what a crash left is unknown once the log was asked for its stream, and opening does not wait for that", async () => {
  const [dir, key] = [newDir(), newKey()];
  const log = await silentLog(key, 0);
  await leftOpen(dir, key, log.url);
  const gate = await Gate.open({ dir, key, log: { url: log.url, vkey: logKey.verifier }, warn: () => undefined });
  const { open, owed } = await gate.status();
  assert.deepEqual([open, owed], [1, 1]);
  assert.deepEqual(await types(dir), WRITTEN.slice(0, 2));
  // What is new does not wait.
  await gate.deny({ authenticated: true, requestId: "new" });
  assert.deepEqual(await types(dir), [...WRITTEN.slice(0, 2), "decision new"]);
  log.speak();
  await until("it is written", async () => (await gate.status()).owed === 0);
  assert.deepEqual(await types(dir), [...WRITTEN.slice(0, 2), "decision new", "outcome left true"]);
  await gate.close();
  log.close();
});

test("an older copy of an outbox signs nothing of what a crash left", async () => {
  const [dir, key] = [newDir(), newKey()];
  const log = await silentLog(key, 2);
  await leftOpen(dir, key, log.url);
  const gate = await Gate.open({ dir, key, log: { url: log.url, vkey: logKey.verifier }, warn: () => undefined });
  log.speak();
  assert.equal(await sending(gate, "stopped"), "streams-differ");
  assert.equal(await gate.flush(PATIENCE_MS), false);
  assert.equal((await gate.status()).owed, 1);
  await gate.close();
  log.close();
  assert.deepEqual(await types(dir), WRITTEN.slice(0, 2));
});

test("an older copy of an outbox is not ended before the log was asked", async () => {
  const [dir, key] = [newDir(), newKey()];
  const log = await silentLog(key, 2);
  await leftOpen(dir, key, log.url);
  const gate = await Gate.open({ dir, key, log: { url: log.url, vkey: logKey.verifier }, warn: () => undefined });
  const ended = assert.rejects(gate.end(PATIENCE_MS), { code: "streams-differ" });
  log.speak();
  await ended;
  await gate.close();
  log.close();
  assert.deepEqual(await types(dir), WRITTEN.slice(0, 2));
});

test("where the log is convicted before it has told its stream, what a crash left waits no longer", async () => {
  const [dir, key, log] = [newDir(), newKey(), new ShownLog()];
  const url = await log.listen();
  const options = { key, log: { url, vkey: log.key.verifier }, warn: () => undefined };
  const first = await Gate.open({ dir, ...options });
  const copy = newDir();
  await first.run({ authenticated: true, requestId: "left" }, async () => {
    assert.ok(await first.flush(PATIENCE_MS));
    cpSync(dir, copy, { recursive: true });
  });
  await first.close();
  rmSync(join(copy, "lock.node"), { recursive: true });
  [log.isMute, log.claims] = [true, log.entries.map(() => cf.utf8("another history"))];
  const gate = await Gate.open({ dir: copy, ...options });
  assert.equal(await sending(gate, "stopped"), "log-fork");
  await until("it is written", async () => (await gate.status()).owed === 0);
  await gate.close();
  log.close();
  assert.deepEqual(await types(copy), WRITTEN);
});

test("where the log cannot be reached, what a crash left is unknown without its word", async () => {
  const [dir, key, url] = [newDir(), newKey(), "http://127.0.0.1:9"];
  await leftOpen(dir, key, url);
  const gate = await Gate.open({ dir, key, log: { url, vkey: logKey.verifier }, warn: () => undefined });
  await until("it is written", async () => (await gate.status()).owed === 0);
  await gate.close();
  assert.deepEqual(await types(dir), WRITTEN);
});

test("a disk that fails before the log was asked makes nobody sign earlier, or twice", async () => {
  const [dir, key] = [newDir(), newKey()];
  const log = await silentLog(key, 0);
  await leftOpen(dir, key, log.url);
  const gate = await Gate.open({ dir, key, log: { url: log.url, vkey: logKey.verifier }, warn: () => undefined });
  // Somebody seems to have overtaken it, which is no different from a disk that refuses.
  const numbers = readdirSync(join(dir, "lock.node")).map(Number);
  const next = join(dir, "lock.node", String(Math.max(...numbers) + 1));
  writeFileSync(next, "");
  await assert.rejects(gate.deny({ authenticated: true, requestId: "refused" }), { code: "outbox-busy" });
  rmSync(next);
  await gate.deny({ authenticated: true, requestId: "new" });
  assert.deepEqual(await types(dir), [...WRITTEN.slice(0, 2), "decision new"]);
  log.speak();
  await until("it is written", async () => (await gate.status()).owed === 0);
  assert.deepEqual(await types(dir), [...WRITTEN.slice(0, 2), "decision new", "outcome left true"]);
  await gate.close();
  log.close();
});

test("a request that comes again, and the end of the stream, wait for no log to settle what a crash left", async () => {
  const key = newKey();
  const log = await silentLog(key, 0);
  const options = { key, log: { url: log.url, vkey: logKey.verifier }, warn: () => undefined };
  const [again, ended] = [newDir(), newDir()];
  for (const dir of [again, ended]) await leftOpen(dir, key, log.url);
  let gate = await Gate.open({ dir: again, ...options });
  await gate.deny({ authenticated: true, requestId: "left" });
  await gate.close();
  assert.deepEqual(await types(again), [...WRITTEN, "decision left"]);
  gate = await Gate.open({ dir: ended, ...options });
  await gate.end(0);
  await gate.close();
  assert.deepEqual(await types(ended), [...WRITTEN, "close"]);
  log.close();
});

test("pauses grow to a limit, are never in step, and heed what the log asks for", () => {
  assert.deepEqual(
    [0, 1, 2, 6, 7, 1000].map((failures) => pauseMs(failures, 0, 1)),
    [100, 200, 400, 6400, 10_000, 10_000],
  );
  for (const failures of [0, 3, 50]) {
    assert.equal(pauseMs(failures, 0, 0), pauseMs(failures, 0, 1) / 2);
    assert.equal(pauseMs(failures, 0, 0.5), (pauseMs(failures, 0, 0) + pauseMs(failures, 0, 1)) / 2);
  }
  assert.equal(pauseMs(0, 5000, 1), 5100);
  assert.equal(pauseMs(0, 604_800_000, 1), 120_100, "a week is not heeded");
});

test("what is no log at all is told as that", async () => {
  const log = await server(
    (_, __, response) => void response.end(),
    (_, __, response) => void response.writeHead(404).end("no such page"),
  );
  const gate = await gateAt(log.url);
  assert.equal(await sending(gate, "failing"), "not-a-log");
  await gate.close();
  log.close();
  await assert.rejects(gateAt("http://user:pw@127.0.0.1/"), { code: "not-a-url" });
  await assert.rejects(gateAt("file:///etc/passwd"), { code: "not-a-url" });
});
