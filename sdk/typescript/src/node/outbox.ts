// The gate's durable outbox: a receipt is signed, chained and on disk before anybody learns of it.
//
// A gate that signs seq 41, sends it, crashes, and signs another seq 41 has signed two histories, and every log will say so
// for ever. Hence the order: append, fdatasync, return; only what was returned is ever sent. Appends that wait at the same
// time are written together, in the order in which they were asked for.

import { resolve } from "node:path";
import { admit } from "../admit.js";
import { toHex } from "../bytes.js";
import type { Disclosure } from "../commitments.js";
import type { AsOf } from "../decision.js";
import { refuseCredentials } from "../credentials.js";
import { CounterfoilError, HistoryError, OutboxError } from "../errors.js";
import type { JsonInput } from "../ijson.js";
import { parseJsonObject, printJson, toJson } from "../ijson.js";
import { IssuerState } from "../issuers.js";
import type { SigningKey, VerifierKey } from "../keys.js";
import type { TlogProof } from "../proofs.js";
import type { Receipt } from "../receipts.js";
import { signReceipt, signRotation } from "../receipts.js";
import type { LockOptions } from "./lock.js";
import { DirectoryLock } from "./lock.js";
import type { Acknowledged, DropLine, KeptHead, LogBinding } from "./store.js";
import { Store } from "./store.js";
import type { OpenCalls } from "./calls.js";
import { mentionOf } from "./history_index.js";
import type { OutboxStatus } from "./view.js";
import { statusOf } from "./view.js";
import { claimDirectory } from "./writer.js";

/** What a gate says about itself in its first receipt. */
export interface GateDescription {
  /** Software and version. */
  readonly gate?: string | undefined;
  /** The longest silence the gate allows itself, in milliseconds. */
  readonly heartbeatMs?: number | undefined;
  /** Digest of the policy the gate decides by. */
  readonly policyDigest?: string | undefined;
}

/** One body to sign: its exact text, and what opens its committed members. */
export interface NewBody {
  readonly text: string;
  readonly disclosures?: readonly Disclosure[] | undefined;
  /** The history it was judged by: refused (`history-moved`) where a later receipt here decides on one of its subjects. */
  readonly asOf?: AsOf | undefined;
}

interface Job {
  readonly bodies: readonly NewBody[];
  readonly now: () => number;
  /** The next key, for a rotation. */
  readonly rotateTo?: SigningKey;
  readonly resolve: (receipts: Receipt[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Most receipts of one write: as many as a batch to the log. */
const MAX_TOGETHER = 256;

/** An outbox, locked by this process until it is closed. */
export class Outbox {
  private readonly jobs: Job[] = [];
  private working = false;
  private stopped: OutboxError | undefined;
  private closed = false;
  private pending = 0;
  private idle: (() => void)[] = [];
  private readonly watchers = new Set<() => void>();
  /** Told of every receipt, in order, once it is durable. Must not throw. */
  onReceipt: (receipt: Receipt) => void = () => undefined;

  private constructor(
    /** Where it is. */
    readonly dir: string,
    private readonly lock: DirectoryLock,
    private store: Store,
    private key: SigningKey,
    private readonly gate: GateDescription,
  ) {}

  /**
   * Opens the outbox in `dir`, which is made if need be. Waits up to half a minute where a process of another container or
   * machine had it and cannot be asked. Throws an {@link OutboxError} (`outbox-busy`, `outbox-writer`, `outbox-other-key`,
   * `outbox-damaged`, `outbox-disk`). `locking` is for tests.
   */
  static async open(dir: string, key: SigningKey, gate: GateDescription = {}, locking: LockOptions = {}): Promise<Outbox> {
    if (key.verifier.kind !== "ed25519") {
      throw new OutboxError(
        "outbox-other-key",
        "the key given signs cosignatures, not receipts; make one with `counterfoil keygen --kind issuer`",
      );
    }
    const path = resolve(dir);
    await claimDirectory(path);
    const lock = await DirectoryLock.take(path, locking);
    let store: Store | undefined;
    try {
      if (lock.mayWake) await Store.detach(path);
      lock.settle();
      store = await Store.open(path, "write", () => lock.check());
      const outbox = new Outbox(path, lock, store, key, gate);
      outbox.checkKey();
      return outbox;
    } catch (error) {
      await store?.close();
      lock.release();
      throw error;
    }
  }

  /** Reads the directory again after the disk refused something. Calls that wait are let go first. */
  async reopen(): Promise<void> {
    await this.drained();
    if (this.closed) throw stopped();
    this.lock.check();
    const store = await Store.open(this.dir, "write", () => this.lock.check());
    await this.store.close();
    this.store = store;
    this.checkKey();
    this.stopped = undefined;
  }

  /** Signs, chains and makes durable: one write and one fdatasync for all bodies, or none of them. The first receipt is preceded by an `open`. A time before the last receipt's becomes the last receipt's. */
  append(bodies: readonly NewBody[], now: () => number): Promise<Receipt[]> {
    return this.enqueue({ bodies, now });
  }

  /** Hands the stream over from the key that signs now to `next`, of the same name. */
  async rotate(next: SigningKey, now: () => number): Promise<Receipt> {
    const [receipt] = await this.enqueue({ bodies: [], now, rotateTo: next });
    if (receipt === undefined) throw stopped();
    return receipt;
  }

  /** How many receipts there are. */
  get count(): number {
    return this.store.count;
  }
  /** The first seq that is not acknowledged. */
  get acknowledgedCount(): number {
    return this.store.acknowledgedCount;
  }
  /** Receipts without a proof, those included that are being written. */
  get backlog(): number {
    return this.store.count + this.pending - this.store.acknowledgedCount;
  }
  /** Whether a write failed, so that what is on disk is unknown. */
  get isStopped(): boolean {
    return this.stopped !== undefined;
  }
  /** Whose receipts these are. */
  get issuer(): string {
    return this.key.name;
  }
  /** The vkey that signs next. */
  get vkey(): VerifierKey {
    return this.key.verifier;
  }
  /** Whether the stream ends with `close`. */
  get isClosedStream(): boolean {
    return this.store.state?.isClosed ?? false;
  }
  /** The log these receipts go to, once one was named. */
  get log(): LogBinding | undefined {
    return this.store.log;
  }
  /** The head of the newest kept proof. */
  get newestHead(): KeptHead | undefined {
    return this.store.newestHead;
  }
  /** Milliseconds of the newest receipt; 0 before the first. */
  get lastIssuedAt(): number {
    return Number(this.store.state?.lastIssuedAt ?? 0n);
  }

  /** The receipt at `seq`; `undefined` where there is none. */
  receipt(seq: number): Promise<Receipt | undefined> {
    return this.store.receipt(seq);
  }

  /** The newest proof kept for `seq`. */
  proof(seq: number): Promise<Acknowledged | undefined> {
    return this.store.proof(seq);
  }

  /** The alarms that were kept, one JSON document each. */
  alarms(): ReturnType<Store["alarms"]> {
    return this.store.alarms();
  }

  /** What opens the committed members of the receipt at `seq`. */
  disclosures(seq: number): Promise<Disclosure[]> {
    return this.store.disclosures(seq);
  }

  /** The calls that the gate executes and that have no outcome. */
  openCalls(): Promise<OpenCalls> {
    return this.store.openCalls();
  }

  /** Keeps them, so that a start need not read all receipts. */
  saveOpenCalls(calls: OpenCalls, every?: number): Promise<void> {
    return this.store.saveOpen(calls, every);
  }

  /** Shows the receipts from `seq` on, in order. */
  follow(seq: number, take: (receipt: Receipt) => void): Promise<void> {
    return this.store.follow(seq, take);
  }

  /** How much ran without a receipt, by the file `drops`. */
  get dropCount(): number {
    return this.store.dropCount;
  }
  /** The lines of that file from `place` on. */
  dropsFrom(place: number): Promise<DropLine[]> {
    return this.store.dropsFrom(place);
  }
  /** Adds to them, durably. */
  async noteDrops(drops: readonly DropLine[]): Promise<void> {
    await this.write((store) => store.appendDrops(drops));
  }

  /** Names the log these receipts go to, for ever; only its address may change. */
  async bind(vkey: VerifierKey, url: string): Promise<void> {
    const held = this.store.log;
    if (held !== undefined && !held.vkey.equals(vkey)) {
      throw new OutboxError(
        "outbox-other-log",
        `the outbox ${this.dir} belongs to the log ${held.vkey}, and the log given is ${vkey}; use one outbox directory a log`,
      );
    }
    if (held?.url !== url) await this.write((store) => store.bind({ vkey, url }));
  }

  /** Keeps proofs, each for the next seq that has none or for one that has. Each is checked again here against the log's key and the receipt. Throws `log-fork` for a head that contradicts a kept one. */
  async acknowledge(proofs: readonly { readonly seq: number; readonly proof: TlogProof }[]): Promise<void> {
    const log = this.store.log;
    if (log === undefined) throw new OutboxError("outbox-other-log", `the outbox ${this.dir} was never given a log; bind it first`);
    let newest = this.store.newestHead;
    let next = this.acknowledgedCount;
    const lines: Acknowledged[] = [];
    for (const { seq, proof } of proofs) {
      const entry = await this.store.entry(seq);
      if (entry === undefined || seq > next)
        throw new OutboxError("outbox-damaged", `seq ${seq} cannot be acknowledged: an earlier receipt is not acknowledged yet`);
      await proof.check(entry, log.vkey);
      next = Math.max(next, seq + 1);
      const { size, root } = proof.checkpoint.head;
      const head = { size, root: toHex(root), checkpoint: proof.checkpoint.note.whole };
      if (newest?.size === size && newest.root !== head.root) throw new LogForkError(size, newest.checkpoint, head.checkpoint);
      newest = head;
      lines.push({ seq, index: proof.index, proof: proof.text });
    }
    if (lines.length > 0) await this.write((store) => store.appendAcknowledged(lines, newest));
    this.tell();
  }

  /** Remembers that everything before `seq` was sent. A count for people. */
  async markSent(seq: number): Promise<void> {
    if (seq > (await this.store.sent())) await this.store.setSent(seq);
  }

  /** Keeps, durably, what the log did that no honest log does. */
  async keepAlarm(alarm: JsonInput): Promise<void> {
    await this.write((store) => store.appendAlarm(alarm));
  }

  /** How it stands. */
  status(): Promise<OutboxStatus> {
    return statusOf(this.store);
  }

  /** Calls `changed` whenever receipts or acknowledgements were added. Answers how to stop that. */
  watch(changed: () => void): () => void {
    this.watchers.add(changed);
    return () => this.watchers.delete(changed);
  }

  /** Lets what waits be written, and gives the directory up. */
  async close(): Promise<void> {
    if (this.closed) return;
    await this.drained();
    this.closed = true;
    this.stopped ??= stopped();
    await this.store.saveState(1);
    await this.store.close();
    this.lock.release();
  }

  private checkKey(): void {
    const { state } = this.store;
    if (state !== undefined && !state.currentKey.equals(this.key.verifier)) {
      throw new OutboxError(
        "outbox-other-key",
        `the outbox ${this.dir} holds receipts signed by ${state.currentKey}, and the key given is ${this.key.verifier}; give that key, or another outbox directory`,
      );
    }
  }

  private enqueue(job: Pick<Job, "bodies" | "now" | "rotateTo">): Promise<Receipt[]> {
    if (this.stopped !== undefined) return Promise.reject(this.stopped);
    return new Promise((resolve, reject) => {
      this.pending += Math.max(1, job.bodies.length);
      this.jobs.push({ ...job, resolve, reject });
      if (!this.working) {
        this.working = true;
        void this.work();
      }
    });
  }

  private async work(): Promise<void> {
    while (this.jobs.length > 0) {
      const together: Job[] = [];
      for (let count = 0; count < MAX_TOGETHER && this.jobs.length > 0; ) {
        const job = this.jobs[0];
        // A rotation changes the key that signs: it goes alone.
        if (job === undefined || (job.rotateTo !== undefined && together.length > 0)) break;
        this.jobs.shift();
        together.push(job);
        count += job.bodies.length;
        if (job.rotateTo !== undefined) break;
      }
      await this.writeTogether(together);
      for (const { bodies } of together) this.pending -= Math.max(1, bodies.length);
      this.tell();
    }
    this.working = false;
    for (const resolve of this.idle.splice(0)) resolve();
  }

  private async writeTogether(jobs: readonly Job[]): Promise<void> {
    const answers: { job: Job; receipts: Receipt[] }[] = [];
    const all: Receipt[] = [];
    let state = this.store.state ?? IssuerState.registered(this.key.verifier);
    try {
      if (this.stopped !== undefined) throw this.stopped;
      this.lock.check();
      for (const job of jobs) {
        try {
          const signed = await this.sign(job, state, all);
          all.push(...signed.receipts);
          state = signed.state;
          answers.push({ job, receipts: signed.receipts.slice(signed.returnedFrom) });
        } catch (error) {
          // A body that is refused leaves no trace, and holds up nobody. A disk that refuses disclosures does.
          if (error instanceof OutboxError) throw error;
          job.reject(error);
        }
      }
      if (all.length > 0) await this.store.appendReceipts(all, state);
      for (const receipt of all) this.onReceipt(receipt);
      for (const { job, receipts } of answers) {
        if (job.rotateTo !== undefined) this.key = job.rotateTo;
        job.resolve(receipts);
      }
    } catch (error) {
      this.stopped ??= stopped();
      for (const job of jobs) job.reject(error);
    }
  }

  private async sign(
    job: Job,
    from: IssuerState,
    before: readonly Receipt[],
  ): Promise<{ receipts: Receipt[]; state: IssuerState; returnedFrom: number }> {
    let state = from;
    const receipts: Receipt[] = [];
    const count = this.store.count + before.length;
    const now = BigInt(Math.max(0, Math.trunc(job.now())));
    const next = (body: string) => ({
      issuer: state.name,
      seq: state.nextSeq,
      prev: state.head,
      issuedAt: now > state.lastIssuedAt ? now : state.lastIssuedAt,
      body,
    });
    // What the log would refuse is never written.
    const take = async (receipt: Receipt) => {
      state = (await admit(state, receipt)).state;
      receipts.push(receipt);
    };
    const isOpened = state.nextSeq > 0n || typeOf(job.bodies[0]?.text) === "open";
    if (!isOpened) await take(await signReceipt(next(this.openBody()), this.key));
    for (const { text, disclosures, asOf } of job.bodies) {
      // Here, where nothing comes in between: of two decisions at the same time the second is refused.
      if (asOf !== undefined) await this.refuseMoved(asOf, [...before, ...receipts]);
      refuseCredentials(parseJsonObject(text));
      const receipt = await signReceipt(next(text), this.key);
      if (disclosures !== undefined && disclosures.length > 0) await this.store.writeDisclosures(count + receipts.length, disclosures);
      await take(receipt);
    }
    if (job.rotateTo !== undefined) {
      const body = printJson(toJson({ type: "rotate", vkey: job.rotateTo.verifier.toString() }));
      await take(await signRotation(next(body), this.key, job.rotateTo));
    }
    return { receipts, state, returnedFrom: isOpened ? 0 : 1 };
  }

  /** `unwritten` are the receipts behind those on disk. */
  private async refuseMoved(asOf: AsOf, unwritten: readonly Receipt[]): Promise<void> {
    const { count } = this.store;
    for (let seq = asOf.nextSeq; seq < count + unwritten.length; seq += 1) {
      const receipt = seq < count ? await this.store.receipt(seq) : unwritten[seq - count];
      const touched = receipt && mentionOf(receipt, undefined)?.subjects;
      const subject = asOf.subjects.find((named) => touched?.includes(named));
      if (subject === undefined) continue;
      throw new HistoryError(
        "history-moved",
        `the gate has decided on ${JSON.stringify(subject)} since that history was read: nothing was signed and nothing may run; read it again, and judge by that`,
      );
    }
  }

  private openBody(): string {
    const { gate, heartbeatMs, policyDigest } = this.gate;
    return printJson(
      toJson({ type: "open", vkey: this.key.verifier.toString(), gate, heartbeat_ms: heartbeatMs, policy_digest: policyDigest }),
    );
  }

  /** Writes; after an error nothing more is written until the outbox is opened again. */
  private async write(write: (store: Store) => Promise<void>): Promise<void> {
    if (this.stopped !== undefined) throw this.stopped;
    try {
      this.lock.check();
      await write(this.store);
    } catch (error) {
      this.stopped ??= stopped();
      throw error;
    }
  }

  private drained(): Promise<void> {
    return this.working ? new Promise((resolve) => this.idle.push(resolve)) : Promise.resolve();
  }

  private tell(): void {
    for (const changed of this.watchers) changed();
  }
}

/** The log signed two roots for one tree size. */
export class LogForkError extends CounterfoilError {
  constructor(
    size: bigint,
    /** The checkpoint that was kept with an earlier proof. */
    readonly held: string,
    /** The other one. */
    readonly offered: string,
  ) {
    super(
      "log-fork",
      `the log signed two different trees of size ${size}; nothing was acknowledged: keep the outbox as evidence and tell the log's auditors`,
    );
  }
}

function stopped(): OutboxError {
  return new OutboxError(
    "outbox-stopped",
    "an earlier write to the outbox failed, or it was closed; open it again to find out what is on disk",
  );
}

function typeOf(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : parseJsonObject(text).get("type");
  } catch {
    return undefined;
  }
}
