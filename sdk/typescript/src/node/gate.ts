// A gate: outbox, background sender, heartbeat and scopes in one object. The wiring; the rules are in `ledger.ts`,
// `scope.ts`, `outbox.ts` and `sender.ts`.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { DecisionMembers, DecisionText } from "../decision.js";
import { decisionBody, newRequestId, outcomeBody, reasonText } from "../decision.js";
import { refuseCredentials } from "../credentials.js";
import { CounterfoilError, FormatError, HistoryError, OutboxError, ScopeError } from "../errors.js";
import type { JsonInput } from "../ijson.js";
import { parseJsonObject, printJson, toJson } from "../ijson.js";
import { type SigningKey, VerifierKey } from "../keys.js";
import { Policy, PolicyError } from "../policy.js";
import type { Receipt } from "../receipts.js";
import { HONOUR_EVERY_MS, Honour } from "./honour.js";
import { readKeyFile } from "./keyfile.js";
import type { HistoryOptions, SubjectHistory } from "./history.js";
import { History } from "./history.js";
import { Ledger } from "./ledger.js";
import { LogClient } from "./log_client.js";
import { metricsText } from "./metrics.js";
import type { OutboxStatus } from "./view.js";
import { Outbox } from "./outbox.js";
import { Act } from "./scope.js";
import type { Sending } from "./sender.js";
import { Sender } from "./sender.js";

/** Receipts that may wait for the log's answer, unless configured. */
const MAX_QUEUED = 1_000_000;
/** So often it is looked whether the sender has got on, in milliseconds. */
const LOOK_MS = 50;

/** What a gate is opened with. */
export interface GateOptions {
  /** Directory of the outbox; one gate, one log. */
  readonly dir: string;
  /** The issuer's private key, or the file that holds it. */
  readonly key: SigningKey | string;
  /** Where the log is, and its vkey. */
  readonly log: { readonly url: string; readonly vkey: VerifierKey | string };
  /** Whose cosignatures {@link Gate.history} relies on: a policy, its text, or the file that holds it. */
  readonly policy?: Policy | string | undefined;
  /** No receipt, no action (the default); or act, count the drop, and tell the log with the next receipt. */
  readonly whenFull?: "fail_closed" | "fail_open" | undefined;
  /** Most receipts without an acknowledgement. */
  readonly maxQueued?: number | undefined;
  /** The longest silence, in milliseconds; a `heartbeat` is written in time. None unless given. */
  readonly heartbeatMs?: number | undefined;
  /** Software and version, for the first receipt. */
  readonly gate?: string | undefined;
  /** Digest of the policy the gate decides by, for the first receipt. */
  readonly policyDigest?: string | undefined;
  /** Milliseconds since the epoch; the system's clock unless given. */
  readonly clock?: (() => number) | undefined;
  /** Told of what must not go unnoticed: a sender that fails, an action that runs without a receipt. `process.emitWarning` unless given. */
  readonly warn?: ((error: Error) => void) | undefined;
  /** How often the log is held to what it proved, in milliseconds; a minute unless given. */
  readonly honourEveryMs?: number | undefined;
  /** Told of every receipt once it is durable, in order: for logs and traces. What it throws goes to `warn`. */
  readonly onWritten?: ((receipt: Receipt) => void) | undefined;
}

/** A policy from its text, or from its file: every policy ends in a newline, and the name of a file does not. */
async function readPolicy(given: string): Promise<Policy> {
  if (given === "" || given.includes("\n")) return Policy.parse(given);
  try {
    return Policy.parse(await readFile(given));
  } catch (cause) {
    if (cause instanceof PolicyError) throw cause;
    const sentence = `the policy file ${given} cannot be read; give a policy's text or the path of its file`;
    throw new FormatError("policy-file", sentence, undefined, { cause });
  }
}

/** How a gate stands. */
export interface GateStatus extends OutboxStatus {
  /** Actions that ran without a receipt, and how many of them the log was told of. */
  readonly drops: { readonly count: number; readonly told: number };
  /** Allowed calls without an outcome. */
  readonly open: number;
  /** Outcomes that are due and not written: the log was not asked for its stream yet, the disk refuses, or the log holds another history of the key, and they never will be. */
  readonly owed: number;
  readonly sender: Sending;
  /** Age of the oldest receipt without an acknowledgement, in milliseconds. */
  readonly oldestQueuedMs: number;
}

/** A gate, until it is closed. */
export class Gate implements AsyncDisposable {
  private heartbeat: NodeJS.Timeout | undefined;
  private closing: Promise<void> | undefined;
  private follower: History | undefined;

  private constructor(
    private readonly outbox: Outbox,
    private readonly ledger: Ledger,
    private readonly sender: Sender,
    private readonly honour: Honour,
    private readonly clock: () => number,
    private readonly heartbeatMs: number | undefined,
    private readonly log: LogClient,
    private readonly logKey: VerifierKey,
    private readonly policy: Policy | undefined,
    private readonly warn: (error: Error) => void,
  ) {}

  /**
   * Opens the outbox, starts sender and heartbeat. Never waits for the log: calls that a crash left open get the outcome
   * `unknown` once the log was compared with the outbox, or cannot be reached. Waits up to half a minute where a process of
   * another container or machine had the outbox, and may have it still.
   */
  static async open(options: GateOptions): Promise<Gate> {
    const { whenFull = "fail_closed", maxQueued = MAX_QUEUED, heartbeatMs, gate, policyDigest, clock = Date.now } = options;
    const warn = options.warn ?? ((error: Error) => process.emitWarning(error));
    const key = typeof options.key === "string" ? await readKeyFile(options.key) : options.key;
    const logKey = typeof options.log.vkey === "string" ? VerifierKey.parse(options.log.vkey) : options.log.vkey;
    const log = new LogClient(options.log.url);
    const policy = typeof options.policy === "string" ? await readPolicy(options.policy) : options.policy;
    const outbox = await Outbox.open(options.dir, key, { gate, heartbeatMs, policyDigest });
    try {
      await outbox.bind(logKey, log.base);
      outbox.onReceipt = (receipt) => {
        try {
          options.onWritten?.(receipt);
        } catch (error) {
          warn(asError(error));
        }
      };
      const ledger = await Ledger.of(outbox, clock, whenFull, maxQueued, warn);
      const told = ({ state, code = "", sentence = "" }: Sending) => {
        if (state !== "working") warn(new CounterfoilError(code, sentence));
      };
      const compared = () => opened.writeLeft();
      const sender = new Sender(outbox, log, logKey, clock, told, compared);
      const { honourEveryMs = HONOUR_EVERY_MS } = options;
      const honour = new Honour(outbox, log, logKey, honourEveryMs, clock, (error) => sender.halt(error), warn);
      const opened: Gate = new Gate(outbox, ledger, sender, honour, clock, heartbeatMs, log, logKey, policy, warn);
      ledger.refuseToSign = () => opened.refuseToSign();
      ledger.refuseSecondHistory = () => opened.refuseSecondHistory();
      sender.start();
      honour.start();
      const silentMs = outbox.count === 0 ? 0 : Math.max(0, clock() - outbox.lastIssuedAt);
      ledger.writtenAt -= silentMs;
      opened.beatInTime(silentMs);
      return opened;
    } catch (error) {
      await outbox.close();
      throw error;
    }
  }

  /** Whose receipts these are. */
  get issuer(): string {
    return this.outbox.issuer;
  }

  /** Allows an action, for `await using`: durable when this resolves. The outcome is decided by `act.call(…)`. Prefer {@link Gate.run}. */
  async decision(members: DecisionMembers): Promise<Act> {
    const { executes = "gate" } = members;
    const { made, requestId, receipt } = await this.decide("allow", members, executes);
    return new Act(this.ledger, this.clock, made, executes === "gate" ? receipt : undefined, requestId, receipt?.id, this.warn);
  }

  /** Allows an action and does it: `body` runs once the decision is durable, and the outcome says how it ended. Answers what `body` answers. */
  async run<T>(members: DecisionMembers, body: (act: Act) => T | Promise<T>): Promise<T> {
    const act = await this.decision(members);
    let answer: T;
    try {
      answer = await body(act);
    } catch (error) {
      await act.end({ how: "threw", error });
      throw error;
    }
    await act.end({ how: "returned" });
    return answer;
  }

  /** Denies an action. `null` where `fail_open` lets even that go without a receipt. */
  async deny(members: DecisionMembers): Promise<Receipt | null> {
    return (await this.decide("deny", members, "none")).receipt ?? null;
  }

  /** Writes a body of another type: `memory`, `approval`, `foreign`, or one of your own. */
  async append(body: JsonInput | string): Promise<Receipt> {
    const text = typeof body === "string" ? body : printJson(toJson(body));
    const type = parseJsonObject(text).get("type");
    if (type === "outcome" || type === "decision") {
      throw new ScopeError("scope-only", `only a scope writes a body of type ${type}: call run, decision, deny or reported`);
    }
    if (typeof type === "string" && ["open", "close", "rotate", "heartbeat", "dropped"].includes(type)) {
      throw new ScopeError("reserved-type", `the gate itself writes bodies of type ${type}: call end or rotate, or set heartbeatMs`);
    }
    return this.ledger.append({ text });
  }

  /** Writes the caller's word on a call that the caller executes. */
  async reported(requestId: string, word: { executed: boolean; error?: string; executedDigest?: string }): Promise<Receipt> {
    this.refuseToSign();
    // One by one: nothing else that an object may hold is the caller's to say.
    const { executed, error, executedDigest } = word;
    const told = { executed, executedDigest, error: error === undefined ? undefined : reasonText(error) };
    return this.ledger.reported(requestId, ({ id }) => outcomeBody({ requestId, decision: id, executedBy: "caller", ...told }));
  }

  /** Hands the stream over to `next`, a new key of the same name. Keep the old key until the log has the `rotate`; open the gate with the new one from then on. */
  async rotate(next: SigningKey | string): Promise<Receipt> {
    this.refuseToSign();
    await this.ledger.catchUp();
    this.refuseSecondHistory();
    return this.outbox.rotate(typeof next === "string" ? await readKeyFile(next) : next, this.clock);
  }

  /**
   * What the log shows of one subject, or of several, with this gate's own decisions that it does not show yet. Reads all of
   * the log, so that nothing can be left out. Ask anew for every decision, and hand the answer over as its `history`. Throws a
   * `HistoryError`: `history-unavailable`, `log-rolled-back`, `log-fork`, `history-too-large`. The decision is refused
   * (`history-moved`) where this gate has decided on one of the subjects since: of two requests at the same time, the second
   * is judged by the first.
   */
  history(subject: string | readonly string[], options: HistoryOptions = {}): Promise<SubjectHistory> {
    if (this.policy === undefined) {
      return Promise.reject(
        new HistoryError("history-unavailable", "the gate was opened without a policy, so no witness is known; give one to Gate.open"),
      );
    }
    this.follower ??= new History(join(this.outbox.dir, "history"), this.log, this.logKey, this.policy, this.outbox, this.clock);
    return this.follower.of(typeof subject === "string" ? [subject] : subject, options);
  }

  /** Waits until the log has acknowledged everything there is now, or that an earlier process left to be written. `false`: not within that time, or sending has stopped. */
  flush(timeoutMs: number): Promise<boolean> {
    let wanted: number | undefined;
    const isDone = () => {
      if (this.ledger.isWaiting) return false;
      wanted ??= this.outbox.count;
      return this.outbox.acknowledgedCount >= wanted;
    };
    if (isDone()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const finish = (done: boolean) => {
        clearTimeout(timer);
        clearInterval(look);
        unwatch();
        resolve(done);
      };
      const unwatch = this.outbox.watch(() => isDone() && finish(true));
      const timer = setTimeout(() => finish(isDone()), timeoutMs);
      const look = setInterval(() => (isDone() || this.sender.sending.state === "stopped") && finish(isDone()), LOOK_MS);
    });
  }

  /**
   * Ends the stream for ever with a `close` receipt, and waits for the log. `false` where its answer did not come in time. Where an
   * earlier process left calls, it first waits, within the same time, until the log was asked.
   */
  async end(timeoutMs: number): Promise<boolean> {
    const begun = performance.now();
    this.refuseToSign();
    // An older copy of an outbox would end the stream for the newest one too.
    const isAsked = () => !this.ledger.isWaiting || this.sender.sending.state === "stopped";
    while (!isAsked() && performance.now() - begun < timeoutMs) await sleep(LOOK_MS);
    this.refuseToSign();
    await this.ledger.writeLeft();
    await this.ledger.catchUp();
    if (this.ledger.openCount > 0) {
      throw new ScopeError("scope-only", `${this.ledger.openCount} scopes are still open: let them end first, then end the stream`);
    }
    await this.ledger.append({ text: '{"type":"close"}' }, 1);
    return this.flush(Math.max(0, timeoutMs - (performance.now() - begun)));
  }

  /** How it stands. */
  async status(): Promise<GateStatus> {
    const oldest = this.outbox.acknowledgedCount < this.outbox.count ? await this.outbox.receipt(this.outbox.acknowledgedCount) : undefined;
    return {
      ...(await this.outbox.status()),
      drops: this.ledger.dropCounts,
      open: this.ledger.openCount,
      owed: this.ledger.owedCount,
      sender: this.sender.sending,
      oldestQueuedMs: oldest === undefined ? 0 : Math.max(0, this.clock() - Number(oldest.issuedAt)),
    };
  }

  /** The same as metrics, in Prometheus' text format. */
  async metrics(): Promise<string> {
    return metricsText(this.issuer, await this.status());
  }

  /** The alarms that were kept: what the log did that no honest log does. */
  alarms(): ReturnType<Outbox["alarms"]> {
    return this.outbox.alarms();
  }

  /** The newest proof kept for the receipt at `seq`, its text; `undefined` before the log has answered. */
  async proof(seq: number | bigint): Promise<string | undefined> {
    return (await this.outbox.proof(Number(seq)))?.proof;
  }

  /** What opens the committed members of the receipt at `seq`. */
  disclosures(seq: number | bigint): ReturnType<Outbox["disclosures"]> {
    return this.outbox.disclosures(Number(seq));
  }

  /** Stops heartbeat and sender and gives the directory up. The stream goes on when it is opened again; {@link Gate.end} ends it. */
  close(): Promise<void> {
    this.closing ??= this.shut();
    return this.closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async shut(): Promise<void> {
    clearTimeout(this.heartbeat);
    await this.honour.stop();
    await this.sender.stop();
    await this.follower?.close();
    await this.ledger.catchUp();
    await this.ledger.save();
    await this.outbox.close();
  }

  private async decide(
    ruling: "allow" | "deny",
    members: DecisionMembers,
    executes: "gate" | "caller" | "none",
  ): Promise<{ made: DecisionText; requestId: string; receipt: Receipt | undefined }> {
    this.refuseToSign();
    const requestId = members.requestId ?? newRequestId();
    const made = decisionBody(ruling, members, requestId);
    refuseCredentials(made.body);
    const receipt = await this.ledger.decide(
      { text: made.text, disclosures: made.disclosures, asOf: members.history?.asOf },
      requestId,
      executes,
    );
    return { made, requestId, receipt };
  }

  /** Refuses what is new. */
  private refuseToSign(): void {
    if (this.closing !== undefined) throw new OutboxError("outbox-stopped", "the gate is closed; open it again");
    this.refuseSecondHistory();
  }

  /** Refuses everything. */
  private refuseSecondHistory(): void {
    const { code = "", sentence = "" } = this.sender.sending;
    if (this.isSecondHistory) throw new OutboxError(code, sentence);
  }

  private async writeLeft(): Promise<void> {
    if (this.isSecondHistory) return;
    await this.ledger.writeLeft().catch((error: unknown) => this.warn(asError(error)));
  }

  /** Whether the key has signed another history: every further receipt makes it worse. */
  private get isSecondHistory(): boolean {
    const { state, code } = this.sender.sending;
    return state === "stopped" && (code === "streams-differ" || code === "outbox-behind");
  }

  private beatInTime(silentMs: number): void {
    const { heartbeatMs } = this;
    if (heartbeatMs === undefined || this.isSecondHistory) return;
    // Half the time that is announced: a slow disk or a late timer must not make the gate look silent.
    const due = heartbeatMs / 2;
    this.heartbeat = setTimeout(() => void this.beat(due), Math.max(1, due - silentMs));
    this.heartbeat.unref();
  }

  private async beat(due: number): Promise<void> {
    let silent = performance.now() - this.ledger.writtenAt;
    if (!this.outbox.isClosedStream && !this.isSecondHistory && (silent >= due || this.outbox.count === 0)) {
      silent = 0;
      await this.ledger.append({ text: '{"type":"heartbeat"}' }, 1).catch((error: unknown) => {
        if (this.closing === undefined) this.warn(asError(error));
      });
    }
    if (this.closing === undefined) this.beatInTime(silent);
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
