// The one place where a gate writes: what it owes, what it may take on, and what it let run without a receipt.
//
// Everything goes through `write`, in one order: a disk that failed is looked at again first, then come the drops that the
// log was not told of, the outcomes that are owed, and last what is new. Every call that was allowed and runs nowhere gets
// the outcome `unknown`: at a start, once the log was asked whether this is the newest copy of the outbox.
//
// Once the log has shown another history of the key nothing more is written, be it owed: every further receipt would be a
// second one with its number. What is owed then is lost with the process; the next start, on the right copy, says `unknown`.

import { agentOf, droppedBody, OUTCOME_UNKNOWN, outcomeBody } from "../decision.js";
import { OutboxError, ScopeError } from "../errors.js";
import type { Receipt } from "../receipts.js";
import type { OpenCall } from "./calls.js";
import { OpenCalls } from "./calls.js";
import type { NewBody, Outbox } from "./outbox.js";
import type { DropLine } from "./store.js";

/** Outcomes left by a crash are written so many at once. */
const OUTCOMES_AT_ONCE = 256;
/** Most drops that are remembered line by line while the disk takes none. */
const MAX_UNWRITTEN_DROPS = 65_536;

/** Who executes what was decided. */
type Executes = "gate" | "caller" | "none";

interface Owed {
  readonly decision: number;
  readonly text: string;
}

interface Untold {
  count: number;
  since: number;
  until: number;
}

export class Ledger {
  private open = new OpenCalls("gate");
  private callers: OpenCalls | undefined;
  /** Decisions whose scopes run in this process. */
  private readonly live = new Set<number>();
  private owed: Owed[] = [];
  /** So many more of them are on their way to the disk. */
  private writing = 0;
  /** Calls that an earlier process left, until the log was asked. */
  private left: OpenCall[] = [];
  private isCompared = false;
  /** So many choices of them are being ended, and when the last of these is. */
  private endings = 0;
  private ending: Promise<void> = Promise.resolve();
  /** Requests of which something is being written that there may be one of only. */
  private readonly busy = new Set<string>();
  /** Decisions that are being written: each promises an outcome. */
  private promised = 0;
  private failed = false;
  private mending: Promise<void> | undefined;
  /** By `why`. */
  private readonly untold = new Map<"full" | "disk", Untold>();
  private unwrittenDrops: DropLine[] = [];
  private dropped = 0;
  private told = 0;
  /** When something was last written, by the monotonic clock, in milliseconds. */
  writtenAt = performance.now();
  /** Throws where the gate takes on nothing new. */
  refuseToSign: () => void = () => undefined;
  /** Throws where the log has shown another history of the key. */
  refuseSecondHistory: () => void = () => undefined;

  private constructor(
    readonly outbox: Outbox,
    private readonly clock: () => number,
    private readonly whenFull: "fail_closed" | "fail_open",
    private readonly maxQueued: number,
    private readonly warn: (error: Error) => void,
  ) {}

  static async of(
    outbox: Outbox,
    clock: () => number,
    whenFull: "fail_closed" | "fail_open",
    maxQueued: number,
    warn: (error: Error) => void,
  ): Promise<Ledger> {
    const ledger = new Ledger(outbox, clock, whenFull, maxQueued, warn);
    await ledger.derive();
    if (!outbox.isClosedStream) ledger.left = ledger.open.all();
    return ledger;
  }

  /** Writes the outcome `unknown` of the calls that an earlier process left. To be called once the log was asked, whatever it answered. */
  async writeLeft(): Promise<void> {
    this.isCompared = true;
    while (this.left.length > 0) await this.endLeft((left) => left.slice(0, OUTCOMES_AT_ONCE));
  }

  /** Ends those of them that are chosen, one choice after the other. */
  private endLeft(choose: (left: readonly OpenCall[]) => readonly OpenCall[]): Promise<void> {
    this.endings += 1;
    const ended = this.ending
      .then(() => this.endChosen(choose(this.left)))
      .finally(() => {
        this.endings -= 1;
      });
    this.ending = ended.catch(() => undefined);
    return ended;
  }

  private async endChosen(calls: readonly OpenCall[]): Promise<void> {
    if (calls.length === 0) return;
    this.refuseSecondHistory();
    const owed = await Promise.all(calls.map((call) => this.unknownOutcome(call)));
    // A disk that failed meanwhile has had all of them owed.
    const still = new Set(this.left.map(({ seq }) => seq));
    this.owed.push(...owed.filter(({ decision }) => still.has(decision)));
    const chosen = new Set(calls.map(({ seq }) => seq));
    this.left = this.left.filter(({ seq }) => !chosen.has(seq));
    await this.write([]);
  }

  /** How many calls run, or wait for their outcome to be written. */
  get openCount(): number {
    return this.open.size;
  }
  /** Outcomes that are due and not written. */
  get owedCount(): number {
    return this.owed.length + this.writing + this.left.length;
  }
  /** Whether something waits for the log to be asked. */
  get isWaiting(): boolean {
    return this.left.length > 0 || this.endings > 0;
  }
  get dropCounts(): { readonly count: number; readonly told: number } {
    return { count: this.dropped, told: this.told };
  }

  /** Writes a decision. `undefined`: it was let through without a receipt, which is counted. */
  async decide(body: NewBody, requestId: string, executes: Executes): Promise<Receipt | undefined> {
    return this.alone(requestId, () => this.decideAlone(body, requestId, executes));
  }

  private async decideAlone(body: NewBody, requestId: string, executes: Executes): Promise<Receipt | undefined> {
    try {
      await this.mend();
      // Whoever asks again after a crash does not wait for the log either.
      if (this.isWaiting) await this.endLeft((left) => left.filter((call) => call.requestId === requestId));
      refuseInUse(this.open, requestId);
      // All receipts are read for them, which is spared a gate that executes everything itself.
      if (this.callers !== undefined || executes === "caller") refuseInUse(await this.waitingCallers(), requestId);
      this.needRoom(2);
      this.promised += 1;
      try {
        const [receipt] = await this.write([body], (receipts) => {
          const made = receipts[0];
          if (executes === "gate" && made !== undefined) this.live.add(Number(made.seq));
        });
        return receipt;
      } finally {
        this.promised -= 1;
      }
    } catch (error) {
      const why = dropReason(error);
      if (this.whenFull === "fail_closed" || why === undefined) throw error;
      await this.drop({ at: this.clock(), why, requestId }, error);
      return undefined;
    }
  }

  /** Writes the outcome of a scope. Where the disk refuses, it stays owed and comes before whatever is written next. */
  async end(seq: number, text: string): Promise<void> {
    this.live.delete(seq);
    this.owed.push({ decision: seq, text });
    await this.write([]);
  }

  /** Writes something that may be refused for want of room. */
  async append(body: NewBody, more = 2): Promise<Receipt> {
    await this.mend();
    this.needRoom(more);
    return this.appendPromised(body);
  }

  /** Writes something that an earlier decision made room for. */
  async appendPromised(body: NewBody): Promise<Receipt> {
    this.refuseToSign();
    const [receipt] = await this.write([body]);
    if (receipt === undefined) throw new OutboxError("outbox-stopped", "the outbox wrote nothing; open it again");
    return receipt;
  }

  /** Writes the caller's word on the allowed call that it executes. */
  reported(requestId: string, text: (call: OpenCall) => string): Promise<Receipt> {
    return this.alone(requestId, async () => this.appendPromised({ text: text(await this.callOfCaller(requestId)) }));
  }

  /** Sees to it that of two at the same time the second is refused. */
  private async alone<T>(requestId: string, work: () => Promise<T>): Promise<T> {
    if (this.busy.has(requestId)) {
      throw new ScopeError(
        "decision-claims",
        `something of the request ${JSON.stringify(requestId)} is being written at this moment: use each request id for one request only`,
      );
    }
    this.busy.add(requestId);
    try {
      return await work();
    } finally {
      this.busy.delete(requestId);
    }
  }

  /** The allowed call that its caller executes, without an outcome yet. */
  private async callOfCaller(requestId: string): Promise<OpenCall> {
    if (this.open.ofRequest(requestId) !== undefined) {
      throw new ScopeError("scope-only", "this gate executes that call itself: its scope writes the outcome");
    }
    await this.mend();
    const call = (await this.waitingCallers()).ofRequest(requestId);
    if (call === undefined) {
      throw new ScopeError(
        "no-such-decision",
        `no allowed call with the request id ${JSON.stringify(requestId)} waits for its caller's word: check the id; a word is taken once`,
      );
    }
    return call;
  }

  /** The calls whose callers have not reported yet. */
  private async waitingCallers(): Promise<OpenCalls> {
    if (this.callers === undefined) {
      const callers = new OpenCalls("caller");
      await this.outbox.follow(0, (receipt) => callers.follow(receipt));
      this.callers ??= callers;
    }
    return this.callers;
  }

  /** Writes what is owed, if that is possible now. */
  async catchUp(): Promise<void> {
    if (this.failed || this.owed.length > 0) await this.write([]).catch(this.warn);
  }

  /** Keeps which calls are open, for a quick start. */
  async save(): Promise<void> {
    if (!this.failed) await this.outbox.saveOpenCalls(this.open, 1);
  }

  private async write(bodies: readonly NewBody[], written: (receipts: readonly Receipt[]) => void = () => undefined): Promise<Receipt[]> {
    await this.mend();
    if (bodies.length === 0 && this.owed.length === 0) return [];
    this.refuseSecondHistory();
    const [owed, drops] = [this.owed, Array.from(this.untold)];
    this.owed = [];
    this.untold.clear();
    const first = [
      ...drops.map(([why, { count, since, until }]) => ({ text: droppedBody(count, since, until, why) })),
      ...owed.map(({ text }) => ({ text })),
    ];
    let receipts: Receipt[];
    this.writing += owed.length;
    try {
      receipts = await this.outbox.append([...first, ...bodies], this.clock);
    } catch (error) {
      this.owed.unshift(...owed);
      for (const [why, untold] of drops) this.tellOf(why, untold);
      this.failed ||= isOfTheDisk(error);
      if (first.length > 0 && bodies.length > 0 && !isOfTheDisk(error)) await this.write([]);
      throw error;
    } finally {
      this.writing -= owed.length;
    }
    for (const receipt of receipts) this.follow(receipt);
    for (const [, { count }] of drops) this.told += count;
    this.writtenAt = performance.now();
    const own = receipts.slice(first.length);
    written(own);
    await this.outbox.saveOpenCalls(this.open);
    return own;
  }

  private follow(receipt: Receipt): void {
    this.open.follow(receipt);
    this.callers?.follow(receipt);
  }

  /** Finds out what a failed write left on disk. */
  private async mend(): Promise<void> {
    if (this.failed || this.outbox.isStopped) {
      this.mending ??= this.reopen().finally(() => {
        this.mending = undefined;
      });
    }
    if (this.mending !== undefined) await this.mending;
    if (this.unwrittenDrops.length > 0) {
      const drops = this.unwrittenDrops;
      this.unwrittenDrops = [];
      try {
        await this.outbox.noteDrops(drops);
      } catch (error) {
        this.unwrittenDrops.unshift(...drops);
        this.failed ||= isOfTheDisk(error);
        throw error;
      }
    }
  }

  private async reopen(): Promise<void> {
    this.failed = true;
    await this.outbox.reopen();
    await this.derive();
    this.owed = this.owed.filter(({ decision }) => this.open.has(decision));
    // What the log was not asked about yet goes on waiting for that.
    this.left = this.isCompared ? [] : this.left.filter(({ seq }) => this.open.has(seq));
    const known = new Set([...this.live, ...this.left.map(({ seq }) => seq), ...this.owed.map(({ decision }) => decision)]);
    for (const call of this.open.all()) {
      if (!known.has(call.seq)) this.owed.push(await this.unknownOutcome(call));
    }
    this.failed = false;
  }

  /** Reads from the directory which calls are open, and which drops the log was not told of. */
  private async derive(): Promise<void> {
    this.open = await this.outbox.openCalls();
    this.callers = undefined;
    this.untold.clear();
    this.dropped = this.outbox.dropCount;
    this.told = 0;
    if (this.dropped > 0) {
      await this.outbox.follow(0, ({ type, body }) => {
        const count = body.get("count");
        if (type === "dropped" && typeof count === "number") this.told += count;
      });
    }
    for (const { at, why } of await this.outbox.dropsFrom(this.told)) this.tellOf(why, { count: 1, since: at, until: at });
    this.dropped += this.unwrittenDrops.length;
    for (const { at, why } of this.unwrittenDrops) this.tellOf(why, { count: 1, since: at, until: at });
  }

  private async drop(line: DropLine, cause: unknown): Promise<void> {
    this.dropped += 1;
    this.tellOf(line.why, { count: 1, since: line.at, until: line.at });
    if (this.unwrittenDrops.length < MAX_UNWRITTEN_DROPS) this.unwrittenDrops.push(line);
    this.warn(
      new OutboxError(
        line.why === "full" ? "outbox-full" : "outbox-disk",
        "an action runs without a receipt, which the next receipt will say; look after the outbox",
        { cause },
      ),
    );
    // Durable if the disk takes it; counted in memory always.
    await this.mend().catch(() => undefined);
  }

  private tellOf(why: "full" | "disk", more: Untold): void {
    const untold = this.untold.get(why);
    if (untold === undefined) {
      this.untold.set(why, { ...more });
      return;
    }
    untold.count += more.count;
    untold.since = Math.min(untold.since, more.since);
    untold.until = Math.max(untold.until, more.until);
  }

  /** An admitted decision promises an outcome, and that one an approval or a drop beside it. */
  private needRoom(more: number): void {
    const { backlog } = this.outbox;
    if (backlog + 2 * (this.open.size + this.promised) + more > this.maxQueued) {
      throw new OutboxError(
        "outbox-full",
        `the outbox ${this.outbox.dir} holds ${backlog} receipts that the log has not acknowledged, and takes ${this.maxQueued}: look why the log does not answer, or allow more`,
      );
    }
  }

  private async unknownOutcome({ seq, id, requestId }: OpenCall): Promise<Owed> {
    const decision = await this.outbox.receipt(seq);
    const agent = decision && agentOf(decision.body);
    return {
      decision: seq,
      text: outcomeBody({ requestId, decision: id, executed: false, unknown: true, executedBy: "gate", agent, error: OUTCOME_UNKNOWN }),
    };
  }
}

function refuseInUse(calls: OpenCalls, requestId: string): void {
  if (calls.ofRequest(requestId) === undefined) return;
  throw new ScopeError(
    "decision-claims",
    `the request id ${JSON.stringify(requestId)} belongs to a decision whose outcome is still to come: use each for one request only`,
  );
}

function isOfTheDisk(error: unknown): boolean {
  return error instanceof OutboxError && (error.code === "outbox-disk" || error.code === "outbox-stopped");
}

function dropReason(error: unknown): "full" | "disk" | undefined {
  if (error instanceof OutboxError && error.code === "outbox-full") return "full";
  return isOfTheDisk(error) ? "disk" : undefined;
}
