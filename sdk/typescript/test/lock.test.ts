// One writer at a time, among processes of Node.
//
// Leases here are short where somebody is to be overtaken, and endless where nobody is: then no machine is too slow.

import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, fstatSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { SigningKey } from "counterfoil";
import { OutboxView } from "counterfoil/node";
import type { LockOptions } from "../dist/node/lock.js";
import { DirectoryLock, watchedMs } from "../dist/node/lock.js";
import { Outbox } from "../dist/node/outbox.js";
import { myself, standing } from "../dist/node/process.js";
import { newDir, newKey } from "./stage.js";
import { until } from "./wait.js";

const SCRIPT = new URL("./locking.js", import.meta.url).pathname;
const NOTE = [{ text: '{"type":"note"}' }];
/** Silence that is soon over, and one that is never. */
const SHORT_MS = 300;
const ENDLESS_MS = 3_600_000;

/** A process in a container of its own, of which nobody else can ask anything. */
function container(number: number, leaseMs: number): LockOptions {
  return { process: { ...myself(), pid: 1, started: "1", pid_ns: `pid:[${number}]` }, leaseMs, beatMs: 20 };
}

const children: ChildProcess[] = [];
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** A process that has opened an outbox, or was refused: what it said. */
class Writer {
  private readonly lines: AsyncIterator<string>;

  private constructor(readonly child: ChildProcess) {
    assert.ok(child.stdout);
    this.lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  static async start(dir: string, key: SigningKey, options?: LockOptions): Promise<[Writer, string]> {
    const args = [SCRIPT, dir, key.privateText(), JSON.stringify(options ?? {})];
    const writer = new Writer(spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] }));
    children.push(writer.child);
    return [writer, await writer.said()];
  }

  async said(): Promise<string> {
    return (await this.lines.next()).value ?? "";
  }

  append(): Promise<string> {
    this.child.stdin?.write("append\n");
    return this.said();
  }

  /** Stops it for good, or for the time being. */
  async send(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): Promise<void> {
    this.child.kill(signal);
    if (signal === "SIGKILL") await until("it is gone", () => this.child.exitCode !== null || this.child.signalCode !== null);
    if (signal === "SIGSTOP") await until("it stands still", () => /\) T /.test(readFileSync(`/proc/${this.child.pid}/stat`, "utf8")));
  }

  async end(): Promise<void> {
    this.child.stdin?.end();
    await until("it has ended", () => this.child.exitCode !== null || this.child.signalCode !== null);
  }
}

/** The seqs in an outbox, each read and in its place. */
async function seqs(dir: string): Promise<number[]> {
  const view = await OutboxView.open(dir);
  const { receipts } = await view.status();
  const found = await Promise.all(Array.from({ length: receipts }, async (_, seq) => Number((await view.receipt(seq))?.seq)));
  await view.close();
  return found;
}

test("a second process is refused while the first one writes, and takes over when that was killed", async () => {
  const [dir, key] = [newDir(), newKey()];
  const outbox = await Outbox.open(dir, key);
  await outbox.append(NOTE, Date.now);
  assert.equal((await Writer.start(dir, key))[1], "outbox-busy");
  await assert.rejects(Outbox.open(dir, key), { code: "outbox-busy" });
  await outbox.close();
  const [second, said] = await Writer.start(dir, key);
  assert.equal(said, "open");
  assert.equal(await second.append(), "seq 2");
  await second.send("SIGKILL");
  const after = await Outbox.open(dir, key);
  assert.equal(after.count, 3);
  await after.close();
});

test("of many that take over at once exactly one writes, whether or not they can ask whether the holder lives", async () => {
  for (let round = 0; round < 4; round += 1) {
    const [dir, key] = [newDir(), newKey()];
    const isElsewhere = round % 2 === 1;
    const [killed] = await Writer.start(dir, key, isElsewhere ? container(1, SHORT_MS) : undefined);
    assert.equal(await killed.append(), "seq 1");
    await killed.send("SIGKILL");
    const takers = Array.from({ length: 5 }, (_, place) =>
      Writer.start(dir, key, isElsewhere ? container(2 + place, ENDLESS_MS) : { leaseMs: ENDLESS_MS, beatMs: 20 }),
    );
    const started = await Promise.all(takers);
    assert.deepEqual(started.map(([, said]) => said).sort(), ["open", ...Array.from({ length: 4 }, () => "outbox-busy")]);
    const winner = started.find(([, said]) => said === "open")?.[0];
    assert.equal(await winner?.append(), "seq 2");
    await Promise.all(started.map(([writer]) => writer.end()));
    assert.deepEqual(await seqs(dir), [0, 1, 2]);
  }
});

test("a process that was killed in another container is taken over after a whole lease, and not before", async () => {
  const [dir, key] = [newDir(), newKey()];
  const [killed] = await Writer.start(dir, key, container(1, SHORT_MS));
  assert.equal(await killed.append(), "seq 1");
  await killed.send("SIGKILL");
  const began = performance.now();
  const outbox = await Outbox.open(dir, key);
  assert.ok(performance.now() - began >= SHORT_MS);
  assert.equal((await outbox.append(NOTE, Date.now))[0]?.seq, 2n);
  await outbox.close();
  assert.deepEqual(await seqs(dir), [0, 1, 2]);
});

test("a living process in another container is never taken over", async () => {
  const [dir, key] = [newDir(), newKey()];
  const [holder] = await Writer.start(dir, key, container(1, ENDLESS_MS));
  for (let taker = 2; taker < 5; taker += 1) {
    await assert.rejects(Outbox.open(dir, key, {}, container(taker, SHORT_MS)), { code: "outbox-busy" });
    assert.equal(await holder.append(), `seq ${taker - 1}`);
  }
  await holder.end();
  const after = await Outbox.open(dir, key, {}, container(9, SHORT_MS));
  assert.equal(after.count, 4);
  await after.close();
});

const noProc = !existsSync("/proc/self/stat") && "there is no /proc to see by whether a process stands still";

test("a process that stood still and was overtaken signs nothing when it goes on", { skip: noProc }, async () => {
  const [dir, key] = [newDir(), newKey()];
  const [holder] = await Writer.start(dir, key, container(1, SHORT_MS));
  assert.equal(await holder.append(), "seq 1");
  await holder.send("SIGSTOP");
  const taker = await Outbox.open(dir, key);
  await taker.append(NOTE, Date.now);
  const bytes = readFileSync(join(dir, "receipts"));
  await holder.send("SIGCONT");
  for (let tried = 0; tried < 3; tried += 1) assert.match(await holder.append(), tried === 0 ? /^outbox-busy$/ : /^outbox-stopped$/);
  assert.deepEqual(readFileSync(join(dir, "receipts")), bytes);
  await taker.append(NOTE, Date.now);
  await taker.close();
  await holder.end();
  assert.deepEqual(await seqs(dir), [0, 1, 2, 3]);
});

test("a process that stood still and was not overtaken goes on", { skip: noProc }, async () => {
  const [dir, key] = [newDir(), newKey()];
  const [holder] = await Writer.start(dir, key, container(1, SHORT_MS));
  assert.equal(await holder.append(), "seq 1");
  await holder.send("SIGSTOP");
  await sleep(2 * SHORT_MS);
  await holder.send("SIGCONT");
  assert.equal(await holder.append(), "seq 2");
  await holder.end();
});

test("whoever falls asleep between looking and writing, and is overtaken, writes where nobody reads and tells nobody", async () => {
  const [dir, key] = [newDir(), newKey()];
  const asleep = await Outbox.open(dir, key, {}, container(1, SHORT_MS));
  await asleep.append(NOTE, Date.now);
  const path = join(dir, "receipts");
  const before = openSync(path, "r");
  const sizeBefore = statSync(path).size;
  let taken: ReturnType<typeof spawnSync> | undefined;
  let bytes = Buffer.alloc(0);
  const late = asleep.append(NOTE, () => {
    // After it has looked, and before it signs: nothing of this process runs until the other one is done.
    taken ??= spawnSync(process.execPath, [SCRIPT, dir, key.privateText(), "{}"], { input: "append\n", encoding: "utf8" });
    bytes = readFileSync(path);
    return Date.now();
  });
  await assert.rejects(late, { code: "outbox-busy" });
  assert.equal(taken?.stdout, "open\nseq 2\n");
  assert.ok(fstatSync(before).size > sizeBefore, "it has written, into a file that has no name any more");
  closeSync(before);
  assert.deepEqual(readFileSync(path), bytes);
  assert.deepEqual([asleep.count, await asleep.receipt(2)], [2, undefined]);
  const overtaken = { code: "outbox-busy" };
  await assert.rejects(asleep.reopen(), overtaken);
  await asleep.close();
  assert.deepEqual(await seqs(dir), [0, 1, 2]);
  const next = await Outbox.open(dir, key);
  await next.append(NOTE, Date.now);
  await next.close();
  assert.deepEqual(await seqs(dir), [0, 1, 2, 3]);
});

test("a taker that slept has not watched", () => {
  assert.deepEqual([watchedMs(30, 25), watchedMs(50, 25), watchedMs(3_600_000, 25)], [30, 50, 50]);
});

test("a holder that could not say in time that it is there says so before it signs", async () => {
  const [dir, key] = [newDir(), newKey()];
  const outbox = await Outbox.open(dir, key, {}, { leaseMs: 1, beatMs: ENDLESS_MS });
  const said = () => readFileSync(join(dir, "lock.node", "1"), "utf8");
  const before = said();
  await sleep(2);
  await outbox.append(NOTE, Date.now);
  assert.notEqual(said(), before);
  await outbox.close();
});

/** The lock of a process of this machine, boot and namespace, but for what is given. */
function lockOf(more: Record<string, unknown>, state = "writing"): string {
  return `${JSON.stringify({ ...myself(), started: "1", token: "t", lease_ms: SHORT_MS, ...more })}\n${state.padEnd(8)} ${"0".repeat(16)}\n`;
}

test("a lock of a process of the same number that started later, or that is no more, is taken over at once", async () => {
  const [dir, key] = [newDir(), newKey()];
  await (await Outbox.open(dir, key)).close();
  const { started, machine_id, pid_ns } = myself();
  const locks = [lockOf({}), lockOf({ pid: spawnSync("true").pid })];
  if (machine_id !== "" && pid_ns === "pid:[4026531836]") locks.push(lockOf({ boot_id: "of another boot", started }));
  for (const [place, lock] of locks.entries()) {
    writeFileSync(join(dir, "lock.node", String(1000 + 10 * place)), lock.replaceAll(String(SHORT_MS), String(ENDLESS_MS)));
    await (await Outbox.open(dir, key)).close();
  }
  for (const [place, text] of ["", "nonsense", "{}", lockOf({ lease_ms: 1e9 }), lockOf({ pid: 1, started: "" })].entries()) {
    writeFileSync(join(dir, "lock.node", String(2000 + place)), text);
    await assert.rejects(Outbox.open(dir, key), { code: "outbox-busy" }, text);
  }
  rmSync(join(dir, "lock.node"), { recursive: true });
  await (await Outbox.open(dir, key)).close();
  rmSync(join(dir, "lock.node"), { recursive: true });
  writeFileSync(join(dir, "lock.node"), lockOf({}));
  await assert.rejects(Outbox.open(dir, key), { code: "outbox-busy", message: /delete/ });
});

test("whoever cannot be asked is waited for, and what it may have left open is left to it", async () => {
  const elsewhere = [
    { pid_ns: "pid:[1]" },
    { pid: spawnSync("true").pid, pid_ns: "pid:[1]" },
    { boot_id: "of another boot", machine_id: "ab".repeat(16) },
    { boot_id: "of another boot", machine_id: "" },
  ];
  for (const more of elsewhere) {
    const [dir, key] = [newDir(), newKey()];
    const first = await Outbox.open(dir, key);
    await first.append(NOTE, Date.now);
    await first.close();
    writeFileSync(join(dir, "lock.node", "7"), lockOf(more));
    const before = statSync(join(dir, "receipts")).ino;
    const began = performance.now();
    const outbox = await Outbox.open(dir, key);
    assert.ok(performance.now() - began >= SHORT_MS, JSON.stringify(more));
    assert.notEqual(statSync(join(dir, "receipts")).ino, before);
    assert.equal(outbox.count, 2);
    await outbox.close();
    assert.deepEqual(readdirSync(join(dir, "lock.node")).sort(), ["7", "8"], "what is used up is removed");
  }
});

test("files are left to whoever may wake until they were, however often a takeover failed in between", async () => {
  const dir = newDir();
  mkdirSync(join(dir, "lock.node"));
  const take = async (text: string): Promise<boolean> => {
    rmSync(join(dir, "lock.node"), { recursive: true });
    mkdirSync(join(dir, "lock.node"));
    writeFileSync(join(dir, "lock.node", "1"), text);
    const lock = await DirectoryLock.take(dir);
    lock.release();
    return lock.mayWake;
  };
  const gone = { pid: spawnSync("true").pid };
  assert.deepEqual([await take(lockOf(gone, "opening")), await take(lockOf(gone, "left"))], [true, true]);
  assert.deepEqual([await take(lockOf(gone, "writing")), await take(lockOf(gone, "released"))], [false, false]);
  rmSync(join(dir, "lock.node"), { recursive: true });
  const bare = await DirectoryLock.take(dir);
  assert.equal(bare.mayWake, true, "whoever removed it has not ended who held it");
  bare.release();
  // Whoever released it before it was done has not done it either.
  const again = await DirectoryLock.take(dir);
  assert.equal(again.mayWake, true);
  again.settle();
  again.release();
  const last = await DirectoryLock.take(dir);
  assert.equal(last.mayWake, false);
  last.release();
});

test("a machine that was started again takes over what it had locked before, but for what ran in its containers", () => {
  const now = { boot_id: "b2", machine_id: "ab".repeat(16), pid_ns: "pid:[4026531836]" };
  const before = { ...now, boot_id: "b1", pid: 1, started: "1" };
  assert.equal(standing(before, now), "rebooted");
  assert.equal(standing({ ...before, machine_id: "" }, { ...now, machine_id: "" }), "elsewhere");
  assert.equal(standing({ ...before, machine_id: "cd".repeat(16) }, now), "elsewhere");
  // Containers of one image may have one machine's name on many machines.
  for (const [theirs, ours] of [
    ["pid:[2]", now.pid_ns],
    [now.pid_ns, "pid:[2]"],
    ["pid:[2]", "pid:[3]"],
    ["pid:[2]", "pid:[2]"],
    ["", ""],
  ])
    assert.equal(standing({ ...before, pid_ns: theirs ?? "" }, { ...now, pid_ns: ours ?? "" }), "elsewhere");
  assert.equal(standing({ ...before, boot_id: "b2", pid_ns: "pid:[1]" }, now), "elsewhere");
});

test("where the system does not tell where a number means a process, the number tells nothing", () => {
  const ended = { ...myself(), pid: spawnSync("true").pid, started: "" };
  for (const untold of [{ boot_id: "" }, { pid_ns: "" }, { boot_id: "", pid_ns: "" }])
    assert.equal(standing({ ...ended, ...untold }, { ...myself(), ...untold }), "elsewhere", JSON.stringify(untold));
});

test("a living process of another machine is never taken over, whatever both call themselves", async () => {
  const at = (boot: string, pid_ns: string, leaseMs: number): LockOptions => ({
    process: { ...myself(), pid: 1, started: "1", boot_id: boot, machine_id: "ab".repeat(16), pid_ns },
    leaseMs,
    beatMs: 20,
  });
  const [dir, key] = [newDir(), newKey()];
  const [holder] = await Writer.start(dir, key, at("b1", "pid:[2]", ENDLESS_MS));
  await assert.rejects(Outbox.open(dir, key, {}, at("b2", "pid:[2]", SHORT_MS)), { code: "outbox-busy" });
  assert.equal(await holder.append(), "seq 1");
  await holder.end();
});

test("whoever finds the lock gone, another's or overtaken stops before it writes", async () => {
  for (const spoil of [
    (folder: string) => rmSync(folder, { recursive: true }),
    (folder: string) => writeFileSync(join(folder, "1"), lockOf({ token: "another" })),
    (folder: string) => writeFileSync(join(folder, "2"), lockOf({})),
  ]) {
    const [dir, key] = [newDir(), newKey()];
    const outbox = await Outbox.open(dir, key);
    await outbox.append(NOTE, Date.now);
    const before = readFileSync(join(dir, "receipts"));
    spoil(join(dir, "lock.node"));
    await assert.rejects(outbox.append(NOTE, Date.now), { code: "outbox-busy" });
    await assert.rejects(outbox.append(NOTE, Date.now), { code: "outbox-stopped" });
    assert.deepEqual(readFileSync(join(dir, "receipts")), before);
    await outbox.close();
  }
});

test("a directory that other software made is left alone", async () => {
  const key = newKey();
  for (const name of ["lock", "receipts"]) {
    const dir = newDir();
    writeFileSync(join(dir, name), "");
    await assert.rejects(Outbox.open(dir, key), { code: "outbox-writer" });
    assert.ok(!existsSync(join(dir, "writer")) && !existsSync(join(dir, "lock.node")));
  }
  const dir = join(newDir(), "deep", "er");
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "writer"), '{"writer":"other"}');
  await assert.rejects(Outbox.open(dir, SigningKey.generate("a")), { code: "outbox-writer" });
});
