// The one writer of an outbox directory.
//
// Rust and Python lock a directory with `flock`, which Node does not have. So a directory is one or the other's: the file
// `writer` says `{"writer":"node"}` for ours, and nobody else writes there; we write nowhere else. Among ourselves the file
// `lock.node` names the process that writes. It appears whole (a link to a finished file), and is taken over from a process
// that is no more: no such process, another one of the same number, or one of this machine before it was started again.
//
// Containers have the boot of their host, and each numbers its processes from 1. So a number says something only within one
// pid namespace, and a lock of another one is believed: nobody here can ask whether its process runs.

import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { link, readFile, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { OutboxError } from "../errors.js";
import { diskError, exists, isMissing, isThere, makeDir, readSmall, replaceSmall, writeSynced } from "./disk.js";

/** A takeover that meets others tries again so often. */
const TRIES = 20;
/** While somebody else's failed takeover puts our lock back, it is away for a moment: so often and so long in milliseconds we look again. */
const LOOKS = 5;
const LOOK_PAUSE_MS = 20;

/** Where a number means a process; empty is what the system does not tell. */
export interface Place {
  readonly boot_id: string;
  readonly machine_id: string;
  readonly pid_ns: string;
}

/** What a lock says of the process that writes. */
export interface Holder extends Place {
  readonly pid: number;
  readonly started: string;
  readonly token: string;
}

/** Makes the directory if need be and sees to it that it is Node's. Throws `outbox-writer` for one that another SDK made. */
export async function claimDirectory(dir: string): Promise<void> {
  await makeDir(dir);
  const writer = await readSmall(join(dir, "writer"));
  if (writer !== undefined) {
    if (writer.trimEnd() === '{"writer":"node"}') return;
    throw new OutboxError(
      "outbox-writer",
      `the outbox ${dir} is written by other software (${writer.trimEnd().slice(0, 100)}); use that, or another directory`,
    );
  }
  if ((await exists(join(dir, "receipts"))) || (await exists(join(dir, "lock")))) throw notOurs(dir);
  await replaceSmall(dir, "writer", '{"writer":"node"}', true);
  if (await exists(join(dir, "lock"))) {
    await unlink(join(dir, "writer"));
    throw notOurs(dir);
  }
}

function notOurs(dir: string): OutboxError {
  return new OutboxError(
    "outbox-writer",
    `the outbox ${dir} was made by the Rust or Python software, which locks it in another way; go on with that, or use another directory`,
  );
}

/** The lock of a directory that this process writes to. */
export class DirectoryLock {
  private constructor(
    private readonly dir: string,
    private readonly token: string,
  ) {}

  /** Takes the lock. Throws `outbox-busy` where another process has it. */
  static async take(dir: string): Promise<DirectoryLock> {
    const token = randomBytes(16).toString("hex");
    const holder: Holder = { pid: process.pid, ...here(), started: startOf(process.pid) ?? "", token };
    const draft = join(dir, `lock.node.${token}`);
    await writeSynced(draft, JSON.stringify(holder));
    try {
      for (let tried = 0; tried < TRIES; tried += 1) {
        if (await linked(draft, join(dir, "lock.node"))) return new DirectoryLock(dir, token);
        await removeStale(dir, token);
      }
    } finally {
      await unlink(draft).catch(() => undefined);
    }
    throw busy(dir);
  }

  /** Throws `outbox-busy` unless the lock is still ours. */
  async check(): Promise<void> {
    for (let looked = 0; looked < LOOKS; looked += 1) {
      const held = await readLock(this.dir);
      if (held?.holder?.token === this.token) return;
      if (held !== undefined) break;
      await sleep(LOOK_PAUSE_MS);
    }
    throw new OutboxError(
      "outbox-busy",
      `the outbox ${this.dir} was taken over by another process; stop this one, and find out why both use one directory`,
    );
  }

  /** Gives the lock up. */
  async release(): Promise<void> {
    const held = await readLock(this.dir);
    if (held?.holder?.token === this.token) await unlink(join(this.dir, "lock.node")).catch(() => undefined);
  }
}

function busy(dir: string, pid?: number): OutboxError {
  const who = pid === undefined ? "another process" : `process ${pid}`;
  return new OutboxError(
    "outbox-busy",
    `${who} is using the outbox ${dir}; an outbox has one writer at a time: wait until it has ended, or use another directory`,
  );
}

function elsewhere(dir: string, holder: Holder | undefined): OutboxError {
  const who = holder === undefined ? "an unknown process that" : `process ${holder.pid} of another container, or of another machine, that`;
  return new OutboxError(
    "outbox-busy",
    `${who} locked the outbox ${dir} cannot be asked from here whether it still runs; stop it if it does, and if you are sure that nobody writes there, delete ${join(dir, "lock.node")}`,
  );
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if (isThere(error)) return false;
    throw diskError("lock", to, error);
  }
}

/** Removes a lock whose process is no more. Throws `outbox-busy` for any other. */
async function removeStale(dir: string, token: string): Promise<void> {
  const held = await readLock(dir);
  if (held === undefined) return;
  const is = held.holder === undefined ? "elsewhere" : standing(held.holder, here());
  if (is === "elsewhere") throw elsewhere(dir, held.holder);
  if (is === "alive") throw busy(dir, held.holder?.pid);
  const [path, aside] = [join(dir, "lock.node"), join(dir, `lock.node.stale.${token}`)];
  try {
    await rename(path, aside);
  } catch (error) {
    // Another taker was faster.
    if (isMissing(error)) return;
    throw diskError("take over", path, error);
  }
  const taken = await readFile(aside, "utf8").catch(() => "");
  if (taken !== held.text) {
    // Another taker was so fast that this is its lock already.
    await linked(aside, path);
    await unlink(aside).catch(() => undefined);
    throw busy(dir);
  }
  await unlink(aside).catch(() => undefined);
}

/** What stands in the lock; `holder` is `undefined` where that is nothing a lock holds. */
async function readLock(dir: string): Promise<{ text: string; holder: Holder | undefined } | undefined> {
  const text = await readSmall(join(dir, "lock.node"));
  if (text === undefined) return undefined;
  try {
    const read: unknown = JSON.parse(text);
    const isHolder = (value: unknown): value is Holder =>
      typeof value === "object" &&
      value !== null &&
      "pid" in value &&
      Number.isInteger(value.pid) &&
      ["boot_id", "machine_id", "pid_ns", "started", "token"].every((name) => typeof Reflect.get(value, name) === "string");
    return { text, holder: isHolder(read) ? read : undefined };
  } catch {
    return { text, holder: undefined };
  }
}

/** How the process of a lock does, as far as that can be told from `place`. */
export function standing(holder: Holder, place: Place): "alive" | "gone" | "elsewhere" {
  if (holder.boot_id !== place.boot_id) {
    // Nothing runs on from before a start of the same machine.
    const isTold = holder.boot_id !== "" && place.boot_id !== "" && holder.machine_id !== "";
    return isTold && holder.machine_id === place.machine_id ? "gone" : "elsewhere";
  }
  if (holder.pid_ns !== place.pid_ns) return "elsewhere";
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    // EPERM: there is one, and it is somebody else's.
    return error instanceof Error && "code" in error && error.code === "ESRCH" ? "gone" : "alive";
  }
  const now = startOf(holder.pid);
  return now !== undefined && holder.started !== "" && now !== holder.started ? "gone" : "alive";
}

function here(): Place {
  const machine = told(() => readFileSync("/etc/machine-id", "utf8").trim());
  return {
    boot_id: told(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    // Images hold other words until a machine is made of them.
    machine_id: /^[0-9a-f]{32}$/.test(machine) ? machine : "",
    pid_ns: told(() => readlinkSync("/proc/self/ns/pid")),
  };
}

function told(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}

/** When a process started, in the kernel's ticks; `undefined` where there is no such process or no `/proc`. A zombie has ended. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is a name in parentheses that may hold anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? "ended" : fields[19];
  } catch {
    return undefined;
  }
}
