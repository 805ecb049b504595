// The one process that writes to an outbox directory, among those of Node.
//
//   lock.node/<n>     {"pid":…,"token":…,"lease_ms":30000}      who took the lock as the n-th
//                     writing  0000000000000042                 how it does, and how often it has said so
//
// The highest number holds the lock. It is taken by giving the next number a file that was finished under another name: a
// link, which only one can make. So numbers never go back, nothing is ever free by mistake, and whoever was overtaken sees
// a higher number, however long it slept.
//
// The holder says every few seconds that it is there, by writing into its own file through a handle that it keeps: what it
// writes late touches nobody else's. Whoever wants the lock takes the next number
//
//   at once                where the holder let go, or where the system says that its process or the machine under it has ended
//   after a whole lease    where it cannot be asked (another container or machine) and its file has stood still for so long by
//                          the taker's own clock. A taker that slept itself has not watched: a long gap between two looks counts little
//   never                  where it is seen to be alive
//
// A holder that was overtaken may wake in the middle of anything (a container that was frozen, the lid of a laptop). So it
// looks before it signs, and again before anybody is told of what was written; and the files that it may still have open are
// left to it: the taker goes on in copies (`Store.detach`), which is why a lock says `opening` until that is done.

import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readdirSync, readFileSync, statSync, unlinkSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { OutboxError } from "../errors.js";
import { diskError, isMissing, isThere, syncDir } from "./disk.js";
import type { Known } from "./process.js";
import { myself, standing } from "./process.js";

/** A holder that cannot be asked and has been silent for so long is overtaken: longer than a garbage collection, shorter than patience. */
const LEASE_MS = 30_000;
/** The longest lease of others that is waited for. */
const LONGEST_LEASE_MS = 3_600_000;
/** So often in a lease a holder says that it is there. */
const BEATS = 6;
/** So often in a lease a taker looks, and at least every second. */
const LOOKS = 12;
const LONGEST_PAUSE_MS = 1000;
/** A holder that has not been able to say so for this part of its lease signs nothing until it has: a taker waits for all of it. */
const MARGIN = 0.5;
/** A takeover that meets others begins anew so often. */
const TRIES = 20;

/** How a holder does. Only after the last two its files are as it left them, and nobody's copies are half made. */
type State = "opening" | "left" | "writing" | "released";
const ENDED: readonly string[] = ["left", "released"];

/** For tests: another place, and times that do not take long. */
export interface LockOptions {
  readonly process?: Known;
  readonly leaseMs?: number;
  readonly beatMs?: number;
}

/** One number, as it was read. */
interface Turn {
  readonly number: number;
  readonly text: string;
}

interface Holder extends Known {
  readonly token: string;
  readonly lease_ms: number;
}

/** The lock of a directory that this process writes to. */
export class DirectoryLock {
  private state: State = "opening";
  private beats = 0;
  /** When the last beat that counts was begun, by the monotonic clock and by the system's, which goes on while a machine sleeps. */
  private saidAt = clocks();
  private readonly timer: NodeJS.Timeout;

  private constructor(
    private readonly folder: string,
    private readonly number: number,
    private readonly line: string,
    private handle: number | undefined,
    private readonly leaseMs: number,
    beatMs: number,
    /** Whether somebody may wake who believes that the directory is still its own. */
    readonly mayWake: boolean,
  ) {
    this.timer = setInterval(() => this.beatInTime(), beatMs);
    this.timer.unref();
  }

  /** Takes the lock. Waits for as long as a lease where the holder cannot be asked. Throws `outbox-busy` where there is a living one. */
  static async take(dir: string, options: LockOptions = {}): Promise<DirectoryLock> {
    const { process: known = myself(), leaseMs = LEASE_MS, beatMs = leaseMs / BEATS } = options;
    const folder = join(dir, "lock.node");
    await makeFolder(dir, folder);
    const line = JSON.stringify({ ...known, token: randomBytes(16).toString("hex"), lease_ms: leaseMs } satisfies Holder);
    const draft = join(folder, `draft-${randomBytes(16).toString("hex")}`);
    try {
      const handle = makeDraft(draft, `${line}\n${stateLine("opening", 0)}`);
      const taken = await takeTurn(folder, draft, known).catch((error: unknown) => {
        closeSync(handle);
        throw error;
      });
      const lock = new DirectoryLock(folder, taken.number, line, handle, leaseMs, beatMs, taken.mayWake);
      try {
        await syncDir(folder);
        tidy(folder, taken.number);
      } catch (error) {
        lock.release();
        throw error;
      }
      return lock;
    } catch (error) {
      throw diskError("lock", folder, error);
    } finally {
      remove(draft);
    }
  }

  /** Says that what others may write late cannot be seen here any more. */
  settle(): void {
    this.state = "writing";
    this.check(true);
  }

  /** Throws `outbox-busy` where somebody has overtaken this process, and `outbox-disk` where that cannot be found out. */
  check(isDue = this.isLate()): void {
    try {
      if (isDue) this.beat();
      else this.look();
    } catch (error) {
      throw diskError("look at the lock in", this.folder, error);
    }
  }

  /** Gives the lock up. */
  release(): void {
    clearInterval(this.timer);
    if (this.handle === undefined) return;
    this.state = this.state === "writing" ? "released" : "left";
    try {
      this.write();
    } catch {
      // It is found out by whoever comes next, at worst after a lease.
    }
    closeSync(this.handle);
    this.handle = undefined;
  }

  private beatInTime(): void {
    try {
      this.beat();
    } catch {
      // Whoever writes next finds out, and says so.
    }
  }

  /** Says that it is there, and looks whether it still counts: in this order, or a taker might miss the one and this the other. */
  private beat(): void {
    const saidAt = clocks();
    this.beats += 1;
    this.write();
    this.look();
    this.saidAt = saidAt;
  }

  private write(): void {
    if (this.handle === undefined) throw overtaken(this.folder);
    writeSync(this.handle, stateLine(this.state, this.beats), Buffer.byteLength(this.line) + 1);
  }

  /** The next number first: those that are used up go in their order. */
  private look(): void {
    if (statSync(join(this.folder, String(this.number + 1)), { throwIfNoEntry: false }) !== undefined) throw overtaken(this.folder);
    if (read(this.folder, this.number)?.split("\n")[0] !== this.line) throw overtaken(this.folder);
  }

  private isLate(): boolean {
    const [steady, wall] = clocks();
    const most = this.leaseMs * MARGIN;
    // A clock that was set back says nothing, and is no reason to trust it.
    return steady - this.saidAt[0] > most || Math.abs(wall - this.saidAt[1]) > most;
  }
}

/** Takes the next number, once nobody holds the newest. */
async function takeTurn(folder: string, draft: string, known: Known): Promise<{ number: number; mayWake: boolean }> {
  for (let tried = 0; tried < TRIES; tried += 1) {
    const before = newest(folder);
    // Where no number is (yet, or any more) nobody knows who has its files open.
    const left = before === undefined ? "unsure" : await outlast(folder, before, known);
    if (left === "moved") continue;
    const number = (before?.number ?? 0) + 1;
    const path = join(folder, String(number));
    if (!link(draft, path)) continue;
    if (newest(folder)?.number === number) return { number, mayWake: left === "unsure" };
    // A number that was used up long ago can be had again, and is worth nothing.
    remove(path);
  }
  throw busy(folder);
}

function clocks(): readonly [number, number] {
  return [performance.now(), Date.now()];
}

/** Always of one length, so that it is overwritten whole. */
function stateLine(state: State, beats: number): string {
  return `${state.padEnd(8)} ${String(beats).padStart(16, "0")}\n`;
}

function busy(folder: string, pid?: number): OutboxError {
  const who = pid === undefined ? "another process" : `process ${pid}`;
  return new OutboxError(
    "outbox-busy",
    `${who} is using the outbox ${dirname(folder)}; an outbox has one writer at a time: wait until it has ended, or use another directory`,
  );
}

function overtaken(folder: string): OutboxError {
  return new OutboxError(
    "outbox-busy",
    `the lock ${folder} was taken over by another process, as this one had been silent for a whole lease, or was removed; stop this one, and find out why both use one directory`,
  );
}

function unreadable(folder: string): OutboxError {
  return new OutboxError(
    "outbox-busy",
    `the lock ${folder} holds nothing that this version writes; if you are sure that no process uses the outbox, delete it`,
  );
}

async function makeFolder(dir: string, folder: string): Promise<void> {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (!isThere(error)) throw diskError("create", folder, error);
    if (!statSync(folder).isDirectory()) throw unreadable(folder);
    return;
  }
  await syncDir(dir);
}

/** A finished file under a name that nobody looks for, and the handle that its holder goes on writing through. */
function makeDraft(path: string, text: string): number {
  const handle = openSync(path, "wx", 0o600);
  try {
    writeSync(handle, text);
    fsyncSync(handle);
    return handle;
  } catch (error) {
    closeSync(handle);
    throw error;
  }
}

function link(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (isThere(error)) return false;
    throw error;
  }
}

/** Whether or not somebody else removes it, too. */
function remove(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

function read(folder: string, number: number): string | undefined {
  try {
    return readFileSync(join(folder, String(number)), "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function numbers(folder: string): number[] {
  const names = readdirSync(folder).filter((name) => /^[1-9][0-9]{0,14}$/.test(name));
  return names.map(Number).sort((left, right) => left - right);
}

function newest(folder: string): Turn | undefined {
  for (;;) {
    const number = numbers(folder).pop();
    if (number === undefined) return undefined;
    const text = read(folder, number);
    if (text !== undefined) return { number, text };
  }
}

/** Removes what is used up, but for the one before: whoever lists the directory meanwhile sees one of them. */
function tidy(folder: string, number: number): void {
  for (const used of numbers(folder)) {
    if (used < number - 1) remove(join(folder, String(used)));
  }
}

/**
 * Waits until the holder of the newest turn cannot write any more, or has lost the right to. `unsure`: it may yet try, or
 * somebody before it. `moved`: somebody else was faster. Throws `outbox-busy` where it lives.
 */
async function outlast(folder: string, turn: Turn, known: Known): Promise<"clean" | "unsure" | "moved"> {
  const { holder, state } = parsed(turn.text);
  if (holder === undefined) throw unreadable(folder);
  const left = state === "writing" || state === "released" ? "clean" : "unsure";
  if (ENDED.includes(state)) return left;
  const is = standing(holder, known);
  if (is === "alive") throw busy(folder, holder.pid);
  if (is === "gone") return left;
  // By a name of the machine that somebody may have copied with the rest of it.
  if (is === "rebooted") return "unsure";
  const pause = Math.min(holder.lease_ms / LOOKS, LONGEST_PAUSE_MS);
  for (let silent = 0, looked = performance.now(); silent < holder.lease_ms; ) {
    await sleep(pause);
    const now = performance.now();
    silent += watchedMs(now - looked, pause);
    looked = now;
    const seen = newest(folder);
    if (seen?.text === turn.text) continue;
    const isStillThere = seen?.number === turn.number && !ENDED.includes(parsed(seen.text).state);
    if (isStillThere) throw busy(folder, holder.pid);
    return "moved";
  }
  return "unsure";
}

/** How much of the time between two looks counts as watched: a taker that slept through it, and perhaps the holder with it, has seen nothing. */
export function watchedMs(gapMs: number, pauseMs: number): number {
  return Math.min(gapMs, 2 * pauseMs);
}

function parsed(text: string): { holder: Holder | undefined; state: string } {
  const [line = "", state = ""] = text.split("\n");
  return { holder: holderOf(line), state: state.slice(0, 8).trimEnd() };
}

function holderOf(line: string): Holder | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isHolder(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isHolder(value: unknown): value is Holder {
  if (typeof value !== "object" || value === null) return false;
  const member = (name: string): unknown => Reflect.get(value, name);
  const lease = member("lease_ms");
  const isLease = typeof lease === "number" && lease > 0 && lease <= LONGEST_LEASE_MS;
  const texts = ["boot_id", "machine_id", "pid_ns", "started", "token"];
  return Number.isInteger(member("pid")) && isLease && texts.every((name) => typeof member(name) === "string");
}
