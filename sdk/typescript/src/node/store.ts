// The outbox's directory, byte for byte as the Rust side writes it, and what is known from it.
//
//   receipts       the signed receipts in order of seq, in the form of an entry bundle: the truth
//   acknowledged   {"seq":0,"index":17,"proof":"<tlog-proof>"} a line; a later line for a seq holds a better proof
//   log            {"vkey":"…","url":"…"}: the one log these receipts go to
//   dropped        {"at":1234,"bytes":"<hex>"}: torn tails of `receipts` that a start removed
//   alarms         what the log did that no honest log does, one JSON document a line
//   drops          {"at":ms,"why":"full"|"disk","request_id":"…"}: what `fail_open` let through
//   disclosures/   <seq>.jsonl: what opens the committed members of the receipt at that seq
//   state, open, sent    derived; may be lost or stale
//   writer, lock.node/   whose directory it is (see `writer.ts`), and which process writes (see `lock.ts`)
//
// A crash inside an append to `receipts` leaves a torn tail, whose receipt was never returned and never sent. A crash
// between `receipts` and `acknowledged` means that the log may hold more than is acknowledged: sent again, it says so.

import { constants } from "node:fs";
import { copyFile, open, readdir, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { admit, openedKey } from "../admit.js";
import { toHex } from "../bytes.js";
import type { Disclosure } from "../commitments.js";
import { parseDisclosure, printDisclosure } from "../commitments.js";
import { CounterfoilError } from "../errors.js";
import type { JsonInput, JsonObject } from "../ijson.js";
import { parseJsonObject, printJson, toJson } from "../ijson.js";
import { IssuerState } from "../issuers.js";
import { VerifierKey } from "../keys.js";
import { TlogProof } from "../proofs.js";
import { MAGIC, Receipt } from "../receipts.js";
import type { Access } from "./append_only.js";
import { AppendOnly } from "./append_only.js";
import { damaged, diskError, exists, isMissing, makeDir, readSmall, replaceSmall, syncDir, writeSynced } from "./disk.js";
import { OpenCalls } from "./calls.js";

/** A start checks every receipt that `state` does not cover. */
const STATE_EVERY = 4096;
const FILES = ["receipts", "acknowledged", "dropped", "alarms", "drops"] as const;
type FileName = (typeof FILES)[number];

/** The one log of an outbox. */
export interface LogBinding {
  readonly vkey: VerifierKey;
  readonly url: string;
}
/** A kept proof. */
export interface Acknowledged {
  readonly seq: number;
  readonly index: bigint;
  readonly proof: string;
}
/** What `fail_open` let through without a receipt. */
export interface DropLine {
  readonly at: number;
  readonly why: "full" | "disk";
  readonly requestId: string;
}
/** The head of the newest kept proof. */
export interface KeptHead {
  readonly size: bigint;
  readonly root: string;
  readonly checkpoint: string;
}

export class Store {
  state: IssuerState | undefined;
  log: LogBinding | undefined;
  newestHead: KeptHead | undefined;
  /** For each acknowledged seq, the line that holds its newest proof. */
  private proofs: number[] = [];
  private stateSavedAt = 0;
  private openSavedAt = 0;

  private constructor(
    readonly dir: string,
    private readonly access: Access,
    private readonly files: Readonly<Record<FileName, AppendOnly>>,
    private readonly mayChange: () => void,
  ) {}

  /**
   * Puts copies in the place of the files that only grow. Whoever has one of them open still, and writes to it late, then
   * writes to what nobody reads: a receipt of which nobody was told, at a place where another stands by now.
   */
  static async detach(dir: string): Promise<void> {
    for (const name of FILES) {
      const path = join(dir, name);
      if (!(await exists(path))) continue;
      try {
        await copyFile(path, `${path}.new`, constants.COPYFILE_FICLONE);
        const copy = await open(`${path}.new`, "r+");
        await copy.sync().finally(() => copy.close());
        await rename(`${path}.new`, path);
      } catch (error) {
        throw diskError("copy", path, error);
      }
    }
    await syncDir(dir);
  }

  /** Opens the directory, which for `write` is made, ours and locked already. `mayChange` throws once that is not so any more. */
  static async open(dir: string, access: Access, mayChange: () => void = () => undefined): Promise<Store> {
    const opened: Partial<Record<FileName, AppendOnly>> = {};
    try {
      // `acknowledged` before `receipts`: what is acknowledged now was in `receipts` earlier, also for a reader beside a writer.
      for (const name of ["acknowledged", "receipts", "dropped", "alarms", "drops"] as const) {
        opened[name] = await AppendOnly.open(join(dir, name), name === "receipts" ? "prefixed" : "lines", access);
      }
      const store = new Store(dir, access, opened as Record<FileName, AppendOnly>, mayChange);
      store.log = await readBinding(dir);
      // Everything is judged before anything is changed.
      await store.deriveAcknowledged();
      await store.deriveState();
      if (access === "write") {
        await store.refuseWhatWasLost();
        mayChange();
        await store.dropTorn();
        await store.removeUnsignedDisclosures();
        await syncDir(dir);
        await store.saveState(STATE_EVERY / 4);
      }
      return store;
    } catch (error) {
      await Promise.all(Object.values(opened).map((file) => file.close()));
      throw error;
    }
  }

  async close(): Promise<void> {
    await Promise.all(Object.values(this.files).map((file) => file.close()));
  }

  /** How many receipts there are; the next seq. */
  get count(): number {
    return this.files.receipts.count;
  }
  /** The first seq that is not acknowledged. */
  get acknowledgedCount(): number {
    return this.proofs.length;
  }
  get droppedCount(): number {
    return this.files.dropped.count;
  }
  get alarmCount(): number {
    return this.files.alarms.count;
  }
  get dropCount(): number {
    return this.files.drops.count;
  }

  async entry(seq: number): Promise<Uint8Array | undefined> {
    const entry = await this.files.receipts.read(seq);
    return entry && new Uint8Array(entry);
  }

  async receipt(seq: number): Promise<Receipt | undefined> {
    const entry = await this.entry(seq);
    if (entry === undefined) return undefined;
    try {
      return Receipt.parse(entry);
    } catch (error) {
      if (!(error instanceof CounterfoilError)) throw error;
      throw damaged(this.files.receipts.path, `at seq ${seq}`, error.message);
    }
  }

  /** The newest proof kept for `seq`. */
  async proof(seq: number): Promise<Acknowledged | undefined> {
    const line = this.proofs[seq];
    return line === undefined ? undefined : this.acknowledgedLine(line);
  }

  async alarms(): Promise<JsonObject[]> {
    return this.lines("alarms", 0);
  }

  async dropsFrom(place: number): Promise<DropLine[]> {
    const lines = await this.lines("drops", place);
    return lines.map((line) => ({
      at: Number(line.get("at") ?? 0),
      why: line.get("why") === "disk" ? "disk" : "full",
      requestId: String(line.get("request_id") ?? ""),
    }));
  }

  /** Appends receipts that were admitted one after the other; `state` is the state after the last. */
  async appendReceipts(receipts: readonly Receipt[], state: IssuerState): Promise<void> {
    await this.append(
      "receipts",
      receipts.map(({ bytes }) => bytes),
    );
    this.state = state;
    await this.saveState(STATE_EVERY);
  }

  /** Appends acknowledgements: for each the next seq that has none, or one that has. */
  async appendAcknowledged(lines: readonly Acknowledged[], newestHead: KeptHead | undefined): Promise<void> {
    const first = this.files.acknowledged.count;
    await this.append(
      "acknowledged",
      lines.map(({ seq, index, proof }) => Buffer.from(`{"seq":${seq},"index":${index},"proof":${JSON.stringify(proof)}}`)),
    );
    for (const [place, { seq }] of lines.entries()) this.proofs[seq] = first + place;
    this.newestHead = newestHead ?? this.newestHead;
  }

  async appendAlarm(alarm: JsonInput): Promise<void> {
    await this.append("alarms", [Buffer.from(printJson(toJson(alarm)))]);
  }

  async appendDrops(drops: readonly DropLine[]): Promise<void> {
    await this.append(
      "drops",
      drops.map(({ at, why, requestId }) => Buffer.from(printJson(toJson({ at, why, request_id: requestId })))),
    );
  }

  /** Writes what opens the committed members of the receipt at `seq`, before that is. */
  async writeDisclosures(seq: number, disclosures: readonly Disclosure[]): Promise<void> {
    const folder = join(this.dir, "disclosures");
    if (!(await exists(folder))) await makeDir(folder);
    this.mayChange();
    await writeSynced(join(folder, `${seq}.jsonl`), disclosures.map((disclosure) => `${printDisclosure(disclosure)}\n`).join(""));
    await syncDir(folder);
  }

  async disclosures(seq: number): Promise<Disclosure[]> {
    const text = await readSmall(join(this.dir, "disclosures", `${seq}.jsonl`));
    return text === undefined
      ? []
      : text
          .split("\n")
          .filter((line) => line !== "")
          .map(parseDisclosure);
  }

  async bind(binding: LogBinding): Promise<void> {
    await replaceSmall(this.dir, "log", printJson(toJson({ vkey: binding.vkey.toString(), url: binding.url })), true);
    this.log = binding;
  }

  /** The first seq that was never sent, as far as that is known. */
  async sent(): Promise<number> {
    return Math.min(Math.max(await this.notedAsSent(), this.acknowledgedCount), this.count);
  }

  /** Remembers that everything before `seq` was sent. A count for people: an error is of no consequence. */
  async setSent(seq: number): Promise<void> {
    await replaceSmall(this.dir, "sent", `${String(seq).padEnd(20)}\n`, false).catch(() => undefined);
  }

  /** The calls that the gate executes and that have no outcome. */
  async openCalls(): Promise<OpenCalls> {
    const calls = (await this.savedOpen()) ?? new OpenCalls("gate");
    await this.follow(calls.nextSeq, (receipt) => calls.follow(receipt));
    return calls;
  }

  /** Shows receipts from `seq` on, in order. */
  async follow(seq: number, take: (receipt: Receipt) => void): Promise<void> {
    for (let at = seq; at < this.count; at += 1) {
      const receipt = await this.receipt(at);
      if (receipt !== undefined) take(receipt);
    }
  }

  /** Keeps which calls are open, so that a start need not read all receipts. May fail: the next start reads more then. */
  async saveOpen(calls: OpenCalls, every = STATE_EVERY): Promise<void> {
    const { nextSeq } = calls;
    if (nextSeq - this.openSavedAt < every) return;
    const open = calls.all().map(({ seq }) => seq);
    await replaceSmall(this.dir, "open", printJson(toJson({ next_seq: nextSeq, open })), false).then(
      () => {
        this.openSavedAt = nextSeq;
      },
      () => undefined,
    );
  }

  async saveState(every: number): Promise<void> {
    const { state } = this;
    if (state === undefined || this.access === "read" || Number(state.nextSeq) - this.stateSavedAt < every) return;
    await replaceSmall(this.dir, "state", state.toJSONText(), false).then(
      () => {
        this.stateSavedAt = Number(state.nextSeq);
      },
      () => undefined,
    );
  }

  /** Whoever was asleep meanwhile, and overtaken, has written where nobody reads: that counts for nothing. */
  private append(name: FileName, records: readonly Uint8Array[]): Promise<void> {
    return this.files[name].append(records, this.mayChange);
  }

  private async savedOpen(): Promise<OpenCalls | undefined> {
    const text = await readSmall(join(this.dir, "open"));
    try {
      const members = parseJsonObject(text ?? "");
      const [nextSeq, open] = [members.get("next_seq"), members.get("open")];
      if (typeof nextSeq !== "number" || nextSeq > this.count || !Array.isArray(open)) return undefined;
      const calls = new OpenCalls("gate");
      for (const seq of open) {
        const receipt = typeof seq === "number" && seq < nextSeq ? await this.receipt(seq) : undefined;
        if (receipt === undefined) return undefined;
        calls.follow(receipt);
      }
      calls.nextSeq = nextSeq;
      return calls.size === open.length ? calls : undefined;
    } catch {
      return undefined;
    }
  }

  private async notedAsSent(): Promise<number> {
    const text = (await readSmall(join(this.dir, "sent")))?.trimEnd() ?? "";
    return /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : 0;
  }

  private async lines(name: "alarms" | "drops" | "dropped", from: number): Promise<JsonObject[]> {
    const lines: JsonObject[] = [];
    for (let place = from; place < this.files[name].count; place += 1) lines.push(await this.jsonLine(name, place));
    return lines;
  }

  private async jsonLine(name: FileName, place: number): Promise<JsonObject> {
    const line = await this.files[name].read(place);
    try {
      return parseJsonObject(line ?? "");
    } catch (error) {
      throw damaged(this.files[name].path, `on line ${place + 1}`, error instanceof Error ? error.message : "unreadable");
    }
  }

  private async acknowledgedLine(place: number): Promise<Acknowledged> {
    const line = await this.jsonLine("acknowledged", place);
    const [seq, index, proof] = [line.get("seq"), line.get("index"), line.get("proof")];
    if (
      !Number.isInteger(seq) ||
      !Number.isInteger(index) ||
      typeof seq !== "number" ||
      typeof index !== "number" ||
      typeof proof !== "string"
    ) {
      throw damaged(this.files.acknowledged.path, `on line ${place + 1}`, "it is no acknowledgement");
    }
    return { seq, index: BigInt(index), proof };
  }

  private async deriveAcknowledged(): Promise<void> {
    const { acknowledged, receipts } = this.files;
    let last: Acknowledged | undefined;
    for (let place = 0; place < acknowledged.count; place += 1) {
      last = await this.acknowledgedLine(place);
      if (last.seq > this.proofs.length || last.seq >= receipts.count || last.seq < 0) {
        throw damaged(
          acknowledged.path,
          `on line ${place + 1}`,
          "a receipt is acknowledged that is not in the outbox, or out of order: `receipts` is older than `acknowledged`",
        );
      }
      this.proofs[last.seq] = place;
    }
    this.newestHead = last && keptHead(last.proof);
  }

  /** Admits every receipt that `state` does not cover. */
  private async deriveState(): Promise<void> {
    const { receipts } = this.files;
    this.state = await this.savedState();
    this.stateSavedAt = Number(this.state?.nextSeq ?? 0n);
    for (let seq = this.stateSavedAt; seq < receipts.count; seq += 1) {
      const fault = (reason: string) => damaged(receipts.path, `at seq ${seq}`, reason);
      const receipt = await this.receipt(seq);
      const first = receipt && openedKey(receipt);
      const state: IssuerState | undefined = this.state ?? (first && IssuerState.registered(first));
      if (receipt === undefined || state === undefined) throw fault("the first receipt is no open with a vkey");
      try {
        this.state = (await admit(state, receipt)).state;
      } catch (error) {
        throw fault(error instanceof Error ? error.message : "it is refused");
      }
    }
  }

  /** The saved state, where it is that of the first so many receipts here. */
  private async savedState(): Promise<IssuerState | undefined> {
    const text = await readSmall(join(this.dir, "state"));
    try {
      const state = IssuerState.parse(text ?? "");
      if (state.nextSeq === 0n || state.nextSeq > BigInt(this.count)) return undefined;
      const [first, last] = [await this.receipt(0), await this.receipt(Number(state.nextSeq) - 1)];
      const key = first && openedKey(first);
      return last?.id === state.head && key?.equals(state.registeredKey) ? state : undefined;
    } catch {
      return undefined;
    }
  }

  /** Tells a torn tail, which nobody was told of, from receipts that were returned and cannot be read any more. */
  private async refuseWhatWasLost(): Promise<void> {
    const { receipts } = this.files;
    const sent = await this.notedAsSent();
    const fault = (reason: string) => damaged(receipts.path, `at byte ${receipts.end}`, reason);
    if (sent > receipts.count) throw fault(`${sent} receipts were sent and only ${receipts.count} are here`);
    const tail = receipts.torn.subarray(2);
    // A length that was changed makes whole receipts look like the beginning of a longer one.
    const begun = tail.toString("latin1").split(`${MAGIC}\n`).length - 1;
    const isWhole = await admit(this.state, new Uint8Array(tail)).then(
      () => true,
      () => isOpen(tail),
    );
    if (begun > 1 || isWhole) throw fault("the length does not fit the receipt behind it");
  }

  /** Moves a torn tail of `receipts` to `dropped` and cuts the others, whose last lines nobody was told of. */
  private async dropTorn(): Promise<void> {
    const { receipts, dropped } = this.files;
    for (const name of ["acknowledged", "dropped", "alarms", "drops"] as const) await this.files[name].cut();
    if (receipts.torn.length === 0) return;
    const [at, bytes] = [receipts.end, toHex(receipts.torn)];
    // A crash between the line and the cut would write it twice.
    const last = dropped.count === 0 ? undefined : await this.jsonLine("dropped", dropped.count - 1);
    if (last?.get("at") !== at || last.get("bytes") !== bytes)
      await this.append("dropped", [Buffer.from(printJson(toJson({ at, bytes })))]);
    await receipts.cut();
  }

  private async removeUnsignedDisclosures(): Promise<void> {
    const folder = join(this.dir, "disclosures");
    let names: string[];
    try {
      names = await readdir(folder);
    } catch (error) {
      if (isMissing(error)) return;
      throw diskError("list", folder, error);
    }
    for (const name of names) {
      const seq = /^(0|[1-9][0-9]*)\.jsonl$/.exec(name)?.[1];
      if (seq === undefined || Number(seq) < this.count) continue;
      this.mayChange();
      await unlink(join(folder, name));
    }
  }
}

/** The head of a kept proof. */
export function keptHead(proof: string): KeptHead | undefined {
  try {
    const { checkpoint } = TlogProof.parse(proof);
    return { size: checkpoint.head.size, root: toHex(checkpoint.head.root), checkpoint: checkpoint.note.whole };
  } catch {
    return undefined;
  }
}

function isOpen(tail: Uint8Array): boolean {
  try {
    return openedKey(Receipt.parse(new Uint8Array(tail))) !== undefined;
  } catch {
    return false;
  }
}

async function readBinding(dir: string): Promise<LogBinding | undefined> {
  const path = join(dir, "log");
  const text = await readSmall(path);
  if (text === undefined) return undefined;
  try {
    const members = parseJsonObject(text);
    const [vkey, url] = [members.get("vkey"), members.get("url")];
    if (members.size !== 2 || typeof vkey !== "string" || typeof url !== "string") throw damaged(path, "as a whole", "it names no log");
    return { vkey: VerifierKey.parse(vkey), url };
  } catch (error) {
    if (error instanceof CounterfoilError && error.code === "outbox-damaged") throw error;
    throw damaged(path, "as a whole", error instanceof Error ? error.message : "unreadable");
  }
}
