// One writer at a time, among processes of Node.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { SigningKey } from "counterfoil";
import { Outbox } from "counterfoil/node";
import { standing } from "../dist/node/lock.js";
import { newDir, newKey } from "./stage.js";

/** Opens the outbox in another process, says how that went, and keeps it for so long. */
const OPENER = `
  import { SigningKey } from "counterfoil";
  import { Outbox } from "counterfoil/node";
  const [dir, key, ms] = process.argv.slice(1);
  try {
    const outbox = await Outbox.open(dir, SigningKey.parse(key));
    const [receipt] = await outbox.append([{ text: '{"type":"note"}' }], Date.now);
    console.log("seq", String(receipt.seq));
    setTimeout(() => process.kill(process.pid, "SIGKILL"), Number(ms));
  } catch (error) {
    console.log(error.code);
  }`;

function opener(dir: string, key: SigningKey, ms: number): Promise<string> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", OPENER, dir, key.privateText(), String(ms)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  child.stdout.on("data", (bytes) => {
    said += bytes;
  });
  return new Promise((resolve) => child.on("close", () => resolve(said.trim())));
}

test("a second process is refused while the first one writes, and takes over when that was killed", async () => {
  const [dir, key] = [newDir(), newKey()];
  const outbox = await Outbox.open(dir, key);
  await outbox.append([{ text: '{"type":"note"}' }], Date.now);
  assert.equal(await opener(dir, key, 0), "outbox-busy");
  await assert.rejects(Outbox.open(dir, key), { code: "outbox-busy" });
  await outbox.close();
  assert.equal(await opener(dir, key, 0), "seq 2");
  assert.ok(existsSync(join(dir, "lock.node")), "a killed process leaves its lock");
  const after = await Outbox.open(dir, key);
  assert.equal(after.count, 3);
  await after.close();
  assert.ok(!existsSync(join(dir, "lock.node")));
});

test("of many that take over a stale lock at once exactly one writes", async () => {
  for (let round = 0; round < 5; round += 1) {
    const [dir, key] = [newDir(), newKey()];
    assert.equal(await opener(dir, key, 0), "seq 1");
    const said = await Promise.all(Array.from({ length: 6 }, () => opener(dir, key, 1500)));
    const wrote = said.filter((line) => line.startsWith("seq"));
    assert.equal(said.length, wrote.length + said.filter((line) => line === "outbox-busy").length, said.join());
    // One that comes after the first was killed may write too, but never the same seq.
    assert.equal(new Set(wrote).size, wrote.length, said.join());
    assert.ok(wrote.includes("seq 2"), said.join());
  }
});

/** The lock of a process of this machine, boot and namespace, but for what is given. */
function lockOf(more: Record<string, unknown>): string {
  const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  const ours = { pid: process.pid, boot_id: boot, machine_id: machineId(), pid_ns: readlinkSync("/proc/self/ns/pid") };
  return JSON.stringify({ ...ours, started: "1", token: "t", ...more });
}

function machineId(): string {
  const text = existsSync("/etc/machine-id") ? readFileSync("/etc/machine-id", "utf8").trim() : "";
  return /^[0-9a-f]{32}$/.test(text) ? text : "";
}

test("a lock of a process of the same number that started later, or that is no more, is stale", async () => {
  const [dir, key] = [newDir(), newKey()];
  await (await Outbox.open(dir, key)).close();
  const stat = readFileSync("/proc/self/stat", "utf8");
  const started = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  const locks = [lockOf({}), lockOf({ pid: spawnSync("true").pid })];
  if (machineId() !== "") locks.push(lockOf({ boot_id: "of another boot", started }));
  for (const lock of locks) {
    writeFileSync(join(dir, "lock.node"), lock);
    await (await Outbox.open(dir, key)).close();
  }
  for (const text of ["", "nonsense", "{}", lockOf({ pid: 1, started: "" })]) {
    writeFileSync(join(dir, "lock.node"), text);
    await assert.rejects(Outbox.open(dir, key), { code: "outbox-busy" }, text);
  }
});

test("a lock of a container or machine that cannot be asked is busy, and says what to do", async () => {
  const [dir, key] = [newDir(), newKey()];
  await (await Outbox.open(dir, key)).close();
  const elsewhere = [
    { pid_ns: "pid:[1]" },
    { pid: spawnSync("true").pid, pid_ns: "pid:[1]" },
    { boot_id: "of another boot", machine_id: "ab".repeat(16) },
    { boot_id: "of another boot", machine_id: "" },
  ];
  for (const more of elsewhere) {
    writeFileSync(join(dir, "lock.node"), lockOf(more));
    await assert.rejects(Outbox.open(dir, key), { code: "outbox-busy", message: /delete .*lock\.node/ }, JSON.stringify(more));
    assert.equal(readFileSync(join(dir, "lock.node"), "utf8"), lockOf(more));
  }
});

test("a machine that was started again takes over what it had locked before, whatever its containers are called now", () => {
  const now = { boot_id: "b2", machine_id: "ab".repeat(16), pid_ns: "pid:[2]" };
  const before = { ...now, boot_id: "b1", pid_ns: "pid:[1]", pid: 1, started: "1", token: "t" };
  assert.equal(standing(before, now), "gone");
  assert.equal(standing({ ...before, machine_id: "" }, { ...now, machine_id: "" }), "elsewhere");
  assert.equal(standing({ ...before, machine_id: "cd".repeat(16) }, now), "elsewhere");
  assert.equal(standing({ ...before, boot_id: "b2" }, now), "elsewhere");
});

test("whoever finds the lock gone or another's stops before it writes", async () => {
  const [dir, key] = [newDir(), newKey()];
  const outbox = await Outbox.open(dir, key);
  await outbox.append([{ text: '{"type":"note"}' }], Date.now);
  const before = readFileSync(join(dir, "receipts"));
  writeFileSync(join(dir, "lock.node"), JSON.stringify({ pid: 1, boot_id: "", started: "", token: "another" }));
  await assert.rejects(outbox.append([{ text: '{"type":"note"}' }], Date.now), { code: "outbox-busy" });
  await assert.rejects(outbox.append([{ text: '{"type":"note"}' }], Date.now), { code: "outbox-stopped" });
  assert.deepEqual(readFileSync(join(dir, "receipts")), before);
  await outbox.close();
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
