// From the outbox to the log: in order, in batches, until the log has everything and has proved it.
//
//   compare    is the log's stream of this issuer a beginning of ours? if not: stop, loudly. At a start also where nothing is to be sent
//   send       the oldest unacknowledged -> a verdict each
//                ok, duplicate   check the proof against the log's key and the entry; keep it; go on
//                no answer, 503  wait, longer each time and never in step with others, and send the same again
//                gap             send again from the expected seq
//
// Sending twice is safe: the log answers a receipt that it has with its proof. A proof that does not verify, a log that lost
// what it proved and a log that contradicts itself are alarms: kept in the outbox before the sender stops.

import { setTimeout as sleep } from "node:timers/promises";
import { CounterfoilError, OutboxError, ProofError, SenderError } from "../errors.js";
import type { JsonInput } from "../ijson.js";
import type { VerifierKey } from "../keys.js";
import type { TlogProof } from "../proofs.js";
import type { Receipt } from "../receipts.js";
import type { LogClient } from "./log_client.js";
import { HttpRefusal } from "./log_client.js";
import type { Outbox } from "./outbox.js";
import { LogForkError } from "./outbox.js";

/** Receipts in one batch: as many as a bundle. */
const BATCH_RECEIPTS = 256;
/** Bytes in one batch: an eighth of what a log takes. */
const BATCH_BYTES = 1024 * 1024;
/** The first pause is at most this, each further one at most twice the one before, none longer than the last, in milliseconds. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** The longest that a server's `Retry-After` is obeyed. */
const LONGEST_RETRY_AFTER_MS = 120_000;
/** What ends a sender: trying again would make it worse, or hide it. */
const FATAL = ["streams-differ", "outbox-behind", "log-lost", "bad-proof", "log-fork", "outbox-other-log"];

/** How sending stands. */
export interface Sending {
  readonly state: "working" | "failing" | "stopped";
  /** The last error, for `failing` and `stopped`. */
  readonly code?: string;
  readonly sentence?: string;
}

export class Sender {
  sending: Sending = { state: "working" };
  private agrees = false;
  private isAttempted = false;
  private batchReceipts = BATCH_RECEIPTS;
  private readonly stopping = new AbortController();
  private running: Promise<void> | undefined;
  private wake: (() => void) | undefined;
  /** Attempts that have failed since the last that did not. */
  private failures = 0;

  constructor(
    private readonly outbox: Outbox,
    private readonly log: LogClient,
    private readonly logKey: VerifierKey,
    private readonly clock: () => number,
    /** Told of every change of {@link Sender.sending}. */
    private readonly told: (sending: Sending) => void,
    /** Called once, when the streams were compared for the first time, or that has failed. Must not throw. */
    private readonly compared: () => Promise<void> = () => Promise.resolve(),
  ) {}

  /** Sends whatever is appended, until {@link Sender.stop}. */
  start(): void {
    this.running ??= this.run();
  }

  /** Sends no more. Whatever was under way is sent again by the next sender. */
  async stop(): Promise<void> {
    this.stopping.abort();
    this.wake?.();
    await this.running;
  }

  /** Stops for good, and says why. */
  halt({ code, message }: SenderError): void {
    this.become({ state: "stopped", code, sentence: message });
    this.stopping.abort();
    this.wake?.();
  }

  private async run(): Promise<void> {
    const unwatch = this.outbox.watch(() => this.wake?.());
    try {
      while (!this.stopping.signal.aborted) {
        const isSent = this.outbox.acknowledgedCount >= this.outbox.count;
        if ((this.agrees && isSent) || this.outbox.isStopped) {
          await new Promise<void>((resolve) => {
            this.wake = resolve;
          });
          continue;
        }
        try {
          if (!this.agrees) await this.compare();
          await this.attempted();
          await this.sendBatch();
          this.failures = 0;
          this.become({ state: "working" });
        } catch (error) {
          if (this.stopping.signal.aborted) return;
          if (!(await this.goOnAfter(error))) return;
        }
      }
    } finally {
      unwatch();
      // Halted while the log was being asked: what it answers matters no more.
      if (this.sending.state === "stopped") await this.attempted();
    }
  }

  private become(sending: Sending): void {
    const { state, sentence } = this.sending;
    if (state === "stopped" || (state === sending.state && sentence === sending.sentence)) return;
    this.sending = sending;
    this.told(sending);
  }

  /** Waits, where waiting may help. */
  private async goOnAfter(error: unknown): Promise<boolean> {
    const code = error instanceof CounterfoilError ? error.code : "sender-failed";
    const sentence = error instanceof Error ? error.message : String(error);
    const isFatal = !(error instanceof CounterfoilError) || FATAL.includes(code);
    this.become({ state: isFatal ? "stopped" : "failing", code, sentence });
    await this.attempted();
    if (isFatal) return false;
    // Another log may answer here after the pause.
    this.agrees = false;
    const pause = pauseMs(this.failures, error instanceof HttpRefusal ? (error.retryAfterMs ?? 0) : 0, Math.random());
    this.failures += 1;
    await sleep(pause, undefined, { ref: false, signal: this.stopping.signal }).catch(() => undefined);
    return true;
  }

  private async attempted(): Promise<void> {
    if (this.isAttempted) return;
    this.isAttempted = true;
    await this.compared();
  }

  /** Compares the log's stream of this issuer with ours. */
  private async compare(): Promise<void> {
    const { outbox } = this;
    await outbox.bind(this.logKey, this.log.base);
    const known = await this.log.issuer(outbox.issuer, this.stopping.signal);
    if (known === undefined) throw this.unknownIssuer();
    const [ours, acknowledged, theirs] = [outbox.count, outbox.acknowledgedCount, known.nextSeq];
    if (theirs > ours) {
      throw new SenderError(
        "outbox-behind",
        `the log holds ${theirs} receipts of this issuer and the outbox ${outbox.dir} only ${ours}: it is an older copy, or new; signing from here makes a second history, so nothing was sent: use the newest copy of the outbox, or make a new issuer key under a new name`,
      );
    }
    if (theirs < acknowledged) throw await this.logLost(theirs, acknowledged);
    if (theirs > 0 && (await outbox.receipt(theirs - 1))?.id !== known.head)
      throw this.streamsDiffer(theirs - 1, `the log's head is ${known.head}`);
    this.agrees = true;
  }

  private async sendBatch(): Promise<void> {
    const batch = await this.unsentBatch();
    const last = batch[batch.length - 1];
    if (last === undefined) return;
    await this.outbox.markSent(Number(last.seq) + 1);
    let verdicts: Awaited<ReturnType<LogClient["submitBatch"]>>;
    try {
      verdicts = await this.log.submitBatch(
        batch.map(({ bytes }) => bytes),
        this.stopping.signal,
      );
    } catch (error) {
      if (!(error instanceof HttpRefusal) || error.status !== 413 || batch.length === 1) throw error;
      this.batchReceipts = Math.max(1, Math.floor(batch.length / 2));
      return;
    }
    const proven: { seq: number; proof: TlogProof }[] = [];
    for (const [place, receipt] of batch.entries()) {
      const verdict = verdicts[place];
      if (verdict === undefined) break;
      if (!("proof" in verdict)) {
        await this.acknowledge(proven);
        await this.refused(receipt, verdict.code, verdict.detail, verdict.expectedSeq, proven.length > 0);
        return;
      }
      try {
        await verdict.proof.check(receipt.bytes, this.logKey);
      } catch (error) {
        if (!(error instanceof ProofError)) throw error;
        // What was proved before it stays proved.
        await this.acknowledge(proven);
        throw await this.badProof(receipt, verdict.proof, error);
      }
      proven.push({ seq: Number(receipt.seq), proof: verdict.proof });
    }
    await this.acknowledge(proven);
  }

  /** Returns where the receipts from there on may be sent again at once; throws where the sender must wait or stop. */
  private async refused(receipt: Receipt, code: string, detail: string, expected: number | undefined, moved: boolean): Promise<void> {
    const [seq, acknowledged] = [Number(receipt.seq), this.outbox.acknowledgedCount];
    if (code === "gap" && expected !== undefined && expected < acknowledged) throw await this.logLost(expected, acknowledged);
    if (code === "fork") {
      const error = this.streamsDiffer(seq, detail);
      await this.alarm("fork", seq, error, { receipt: receipt.note.whole });
      throw error;
    }
    if (code === "unknown-issuer") throw this.unknownIssuer();
    if (moved) return;
    const again = ["overloaded", "stopping", "rate-limited", "no-room", "gap"].includes(code);
    throw new SenderError(
      code,
      `the log refuses the receipt at seq ${seq} (${code}): ${detail}; ${again ? "it is sent again" : advice(code)}`,
      again,
    );
  }

  private async acknowledge(proven: readonly { seq: number; proof: TlogProof }[]): Promise<void> {
    try {
      await this.outbox.acknowledge(proven);
    } catch (error) {
      if (error instanceof LogForkError)
        await this.alarm("log-fork", proven[0]?.seq ?? 0, error, { held: error.held, offered: error.offered });
      throw error;
    }
  }

  private async unsentBatch(): Promise<Receipt[]> {
    const batch: Receipt[] = [];
    let bytes = 0;
    for (let seq = this.outbox.acknowledgedCount; batch.length < this.batchReceipts && seq < this.outbox.count; seq += 1) {
      const receipt = await this.outbox.receipt(seq);
      if (receipt === undefined) break;
      bytes += 2 + receipt.bytes.length;
      if (bytes > BATCH_BYTES && batch.length > 0) break;
      batch.push(receipt);
    }
    return batch;
  }

  private unknownIssuer(): SenderError {
    return new SenderError(
      "unknown-issuer",
      `the log does not know ${this.outbox.issuer}; ask its operator to add the issuer (\`counterfoil-log issuer add\`) with this vkey: ${this.outbox.vkey}`,
      true,
    );
  }

  private streamsDiffer(seq: number, detail: string): SenderError {
    return new SenderError(
      "streams-differ",
      `the log holds another receipt than the outbox ${this.outbox.dir} at seq ${seq} (${detail}): this key signed two histories; stop the gate, find the other outbox that used this key, and make a new issuer key under a new name`,
    );
  }

  private async logLost(logHas: number, acknowledged: number): Promise<SenderError> {
    const error = new SenderError(
      "log-lost",
      `the log proved to hold the receipts before seq ${acknowledged} and now says that it holds those before seq ${logHas}: it lost or withholds receipts; keep the outbox ${this.outbox.dir}, its proofs are evidence, and tell the log's operator and auditors`,
    );
    await this.alarm("lost-receipts", logHas, error, { acknowledged });
    return error;
  }

  private async badProof(receipt: Receipt, proof: TlogProof, fault: ProofError): Promise<SenderError> {
    const error = new SenderError(
      "bad-proof",
      `the log's proof for the receipt at seq ${receipt.seq} does not hold: ${fault.message}; it is kept in ${this.outbox.dir}/alarms and the receipt stays unacknowledged: check the log's vkey, then tell its operator`,
    );
    await this.alarm("bad-proof", Number(receipt.seq), error, { receipt: receipt.note.whole, proof: proof.text });
    return error;
  }

  /** Keeps an alarm. Where even that fails, the error that is about to be told says it all. */
  private async alarm(what: string, seq: number, error: Error, documents: { readonly [name: string]: JsonInput }): Promise<void> {
    const alarm = { at: this.clock(), what, log: this.logKey.toString(), seq, detail: error.message, ...documents };
    await this.outbox.keepAlarm(alarm).catch((failed: unknown) => {
      if (!(failed instanceof OutboxError)) throw failed;
    });
  }
}

/**
 * How long to wait after so many attempts that failed before this one, where the log asks for `askedMs`, by a chance from 0 to
 * 1: from half the ceiling to all of it, so that gates that lost one log together do not come back together.
 */
export function pauseMs(failures: number, askedMs: number, chance: number): number {
  const ceiling = Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS);
  return Math.min(askedMs, LONGEST_RETRY_AFTER_MS) + ceiling * (0.5 + chance / 2);
}

function advice(code: string): string {
  switch (code) {
    case "closed":
      return "the stream has ended: go on under a new issuer name, with a new key and a new outbox";
    case "future-dated":
      return "set this machine's clock; nothing is lost";
    case "credential-shaped":
      return "a receipt cannot be taken out of its stream: go on under a new issuer name, with a new key and a new outbox";
    case "bad-open":
    case "bad-signature":
      return "check that the log has this issuer's first vkey registered, and run `counterfoil outbox verify`";
    default:
      return "run `counterfoil outbox verify`; if it finds nothing, log and gate are of versions that do not go together";
  }
}
