// Whether the log still honours what it proved: its present head must contain the newest head that it gave a proof under.

import { SignedCheckpoint } from "../checkpoints.js";
import { CounterfoilError, SenderError } from "../errors.js";
import type { VerifierKey } from "../keys.js";
import type { ForkEvidence } from "./heads.js";
import { compareHeads } from "./heads.js";
import type { LogClient } from "./log_client.js";
import type { Outbox } from "./outbox.js";

/** How often the log is held to what it proved, in milliseconds, unless configured. */
export const HONOUR_EVERY_MS = 60_000;

export class Honour {
  private timer: NodeJS.Timeout | undefined;
  private looking: Promise<void> | undefined;
  private readonly stopping = new AbortController();
  /** The largest head that was found to contain all earlier ones: the newest kept one may be of another history already. */
  private anchor: SignedCheckpoint | undefined;

  constructor(
    private readonly outbox: Outbox,
    private readonly log: LogClient,
    private readonly logKey: VerifierKey,
    private readonly everyMs: number,
    private readonly clock: () => number,
    /** Told once of a log that signed two histories, when the alarm is kept. */
    private readonly broken: (error: SenderError) => void,
    private readonly warn: (error: Error) => void,
  ) {}

  /** Looks now and every so often, until {@link Honour.stop} or until the log is convicted. Keeps no process alive. */
  start(): void {
    this.looking = this.look();
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    clearTimeout(this.timer);
    await this.looking;
  }

  private async look(): Promise<void> {
    try {
      if (await this.isBroken()) return;
    } catch (error) {
      // A log that does not answer is what the sender tells of.
      if (!(error instanceof CounterfoilError)) this.warn(error instanceof Error ? error : new Error(String(error)));
    }
    if (this.stopping.signal.aborted) return;
    this.timer = setTimeout(() => this.start(), this.everyMs);
    this.timer.unref();
  }

  private async isBroken(): Promise<boolean> {
    const kept = this.outbox.newestHead && (await this.verified(this.outbox.newestHead.checkpoint));
    const held = [kept, this.anchor].filter((head) => head !== undefined);
    if (held.length === 0) return false;
    const present = await this.verified(await this.log.checkpoint(this.stopping.signal));
    if (present === undefined) return false;
    for (const head of held) {
      const compared = await compareHeads(this.log, this.logKey, head, present, this.stopping.signal);
      if (compared.is === "unproven") return false;
      if (compared.is === "fork") {
        await this.accuse(head, present, compared.evidence);
        return true;
      }
    }
    this.anchor = [...held, present].reduce((largest, head) => (head.head.size > largest.head.size ? head : largest));
    return false;
  }

  /** A head of the log; `undefined` for what its key did not sign. */
  private async verified(text: Uint8Array | string): Promise<SignedCheckpoint | undefined> {
    try {
      const head = SignedCheckpoint.parse(text);
      return (await head.faultOf(this.logKey)) === undefined ? head : undefined;
    } catch (error) {
      if (error instanceof CounterfoilError) return undefined;
      throw error;
    }
  }

  private async accuse(held: SignedCheckpoint, present: SignedCheckpoint, evidence: ForkEvidence): Promise<void> {
    const error = new SenderError(
      "log-fork",
      `the log proved receipts under a head of ${held.head.size} entries, and its head of ${present.head.size} does not contain it: it signed two histories; the proof of that is in the alarms of ${this.outbox.dir}: give it to the log's auditors, and trust the log no more`,
    );
    const documents = { held: held.note.whole, offered: present.note.whole, evidence };
    const alarm = { at: this.clock(), what: "log-fork", log: this.logKey.toString(), detail: error.message, ...documents };
    await this.outbox.keepAlarm(alarm).catch(this.warn);
    this.broken(error);
  }
}
