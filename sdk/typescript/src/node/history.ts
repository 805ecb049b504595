// History with proof: what the log shows of a subject, so that a gate judges by that and not by its own memory. Own memory
// only adds what the log does not show yet, and never takes away.

import { setTimeout as sleep } from "node:timers/promises";
import { toBase64 } from "../bytes.js";
import { SignedCheckpoint } from "../checkpoints.js";
import type { AsOf, PriorHistory } from "../decision.js";
import { CounterfoilError, HistoryError, OutboxError } from "../errors.js";
import type { VerifierKey } from "../keys.js";
import type { Policy } from "../policy.js";
import { BrokenLogError, Follower } from "./follower.js";
import type { HistoryItem, Mention } from "./history_index.js";
import { mentionOf } from "./history_index.js";
import type { LogClient } from "./log_client.js";
import type { Outbox } from "./outbox.js";
import { witnessedAt } from "./witnessed.js";

/** How old a quorum's word may be, in milliseconds. */
export const DEFAULT_MAX_AGE_MS = 600_000;
/** How long to wait for the witnesses of a head that is new, and between two looks, in milliseconds. */
const QUORUM_WAIT_MS = 2000;
const LOOK_AGAIN_MS = 100;
/** Most subjects of one question: more are not judged together by auditors. */
const MAX_ASKED = 64;

/** How a history is asked for. */
export interface HistoryOptions {
  /** Where no fresh witnessed head can be had: an error (the default), or the best there is, and the receipt says so. */
  readonly mode?: "fail_closed" | "fail_open" | undefined;
  /** Whose decisions count: every issuer's (the default), or this gate's own. */
  readonly whose?: "all" | "own" | undefined;
  readonly maxAgeMs?: number | undefined;
}

/** What is known of some subjects. Goes into a decision as its `history`. */
export interface SubjectHistory extends PriorHistory {
  readonly subjects: readonly string[];
  /** Allowed actions with a class that the log shows under the head, in its order, each once. */
  readonly logged: readonly HistoryItem[];
  /** This gate's own that the log does not show under the head yet. */
  readonly pending: readonly HistoryItem[];
  readonly size: bigint;
  readonly heads: ReadonlyMap<string, string>;
  /** When a quorum vouched for the head, in milliseconds; `undefined` where none did, lately enough. */
  readonly witnessedAt: number | undefined;
  readonly asOf: AsOf;
  /** The proof (`tlog-proof`) that an item of `logged` is in the log, under the head this stands under. Throws a {@link HistoryError}. */
  proof(item: HistoryItem): Promise<string>;
}

interface Witnessed {
  readonly head: SignedCheckpoint;
  readonly at: number;
}

export class History {
  private readonly follower: Follower;
  private witnessed: Witnessed | undefined;
  private looking: Promise<void> | undefined;
  private alarmed = "";

  constructor(
    dir: string,
    log: LogClient,
    private readonly logKey: VerifierKey,
    private readonly policy: Policy,
    private readonly outbox: Outbox,
    private readonly clock: () => number,
  ) {
    this.follower = new Follower(dir, log, logKey);
  }

  /** What the log shows of these subjects, and what is pending in the outbox. */
  async of(subjects: readonly string[], options: HistoryOptions): Promise<SubjectHistory> {
    const { mode = "fail_closed", whose = "all", maxAgeMs = DEFAULT_MAX_AGE_MS } = options;
    if (subjects.length > MAX_ASKED) {
      throw new HistoryError(
        "history-too-large",
        `${subjects.length} subjects are asked for at once, and at most ${MAX_ASKED} can be told of together; ask for fewer`,
      );
    }
    try {
      await this.look(maxAgeMs);
      const fresh = this.fresh(maxAgeMs);
      if (fresh === undefined) throw this.notWitnessed("the last quorum's word is too old");
      return await this.answer(subjects, whose, fresh.head, fresh.at, undefined);
    } catch (error) {
      if (error instanceof BrokenLogError) await this.alarm(error);
      const isOfTheLog = error instanceof CounterfoilError && !(error instanceof OutboxError) && error.code !== "outbox-damaged";
      if (!isOfTheLog) throw error;
      // A look that failed takes nothing from a head that is fresh still, unless the log contradicts itself.
      const fresh = error.code === "log-fork" || error.code === "history-too-large" ? undefined : this.fresh(maxAgeMs);
      if (fresh !== undefined) return this.answer(subjects, whose, fresh.head, fresh.at, undefined);
      if (mode === "fail_open") {
        const head = this.follower.head?.head.size === this.follower.size ? this.follower.head : undefined;
        return this.answer(subjects, whose, head, undefined, error.message);
      }
      if (error instanceof HistoryError) throw error;
      throw new HistoryError("history-unavailable", `the log does not say what it holds: ${error.message}`, { cause: error });
    }
  }

  /** Looks no more, and keeps what was read for a quick start. */
  async close(): Promise<void> {
    this.follower.stop();
    await this.looking?.catch(() => undefined);
    await this.follower.close();
  }

  /** Looks at the log until a quorum vouches for its head, for as long as that may take. One look at a time. */
  private look(maxAgeMs: number): Promise<void> {
    this.looking ??= this.lookUntilWitnessed(maxAgeMs).finally(() => {
      this.looking = undefined;
    });
    return this.looking;
  }

  private async lookUntilWitnessed(maxAgeMs: number): Promise<void> {
    for (const end = performance.now() + QUORUM_WAIT_MS; ; await sleep(LOOK_AGAIN_MS)) {
      const kept = this.outbox.newestHead;
      const head = await this.follower.look(kept && SignedCheckpoint.parse(kept.checkpoint));
      const at = await witnessedAt(head, this.policy, this.clock());
      if (at !== undefined && (this.witnessed === undefined || this.witnessed.head.head.size <= head.head.size))
        this.witnessed = { head, at };
      if (this.fresh(maxAgeMs) !== undefined) return;
      if (performance.now() >= end)
        throw this.notWitnessed(
          at === undefined ? "too few of the policy's witnesses cosigned the log's head" : "the quorum's word on the log's head is too old",
        );
    }
  }

  private notWitnessed(why: string): HistoryError {
    return new HistoryError(
      "history-unavailable",
      `no head of the log can be believed now: ${why}; see whether the witnesses run, and ask again`,
    );
  }

  private fresh(maxAgeMs: number): Witnessed | undefined {
    const { witnessed } = this;
    const isFresh = witnessed !== undefined && this.clock() - witnessed.at <= maxAgeMs && witnessed.head.head.size <= this.follower.size;
    return isFresh ? witnessed : undefined;
  }

  private async answer(
    subjects: readonly string[],
    whose: "all" | "own",
    head: SignedCheckpoint | undefined,
    at: number | undefined,
    why: string | undefined,
  ): Promise<SubjectHistory> {
    const { follower } = this;
    const own = this.outbox.issuer;
    const nextSeq = this.outbox.count;
    const { size, root } = head?.head ?? { size: follower.size, root: follower.root() };
    const below = (item: HistoryItem) => (item.index ?? 0n) < size;
    const logged = follower.index.find(subjects, (item) => below(item) && (whose === "all" || item.issuer === own));
    const beyond = follower.index.find(subjects, (item) => !below(item) && item.issuer === own);
    const pending = [...beyond, ...(await this.pending(subjects, nextSeq))];
    // The newest says it: what is only here, else this gate's own behind the head, else what the log shows under it.
    const heads = new Map<string, string>();
    for (const { subjects: named, item } of [...logged, ...pending]) {
      for (const subject of named) if (subjects.includes(subject)) heads.set(subject, item.id);
    }
    const items = (mentions: readonly Mention[]) => mentions.filter(({ counts }) => counts).map(({ item }) => item);
    return {
      subjects,
      logged: items(logged),
      pending: items(pending),
      classes: items([...logged, ...pending]).map(({ actionClass }) => actionClass),
      heads,
      size,
      root: toBase64(root),
      witnessed: at !== undefined,
      witnessedAt: at,
      why,
      asOf: { subjects, nextSeq },
      proof: (item) => follower.proof(item, head),
    };
  }

  /** This outbox's own decisions that the log did not show yet, as far as it was read. */
  private async pending(subjects: readonly string[], before: number): Promise<Mention[]> {
    const state = this.follower.state(this.outbox.issuer);
    const shown = Number(state?.nextSeq ?? 0n);
    // A stream that is not the beginning of ours is no reason to forget one's own.
    const isOurs = state === undefined || (shown <= this.outbox.count && (await this.outbox.receipt(shown - 1))?.id === state.head);
    const found: Mention[] = [];
    await this.outbox.follow(isOurs ? shown : 0, (receipt) => {
      if (Number(receipt.seq) >= before) return;
      const mention = mentionOf(receipt, undefined);
      if (mention?.subjects.some((subject) => subjects.includes(subject))) found.push(mention);
    });
    return found;
  }

  /** Keeps an alarm, once for each pair of heads. */
  private async alarm(error: BrokenLogError): Promise<void> {
    const told = `${error.code} ${error.held} ${error.offered}`;
    if (told === this.alarmed) return;
    this.alarmed = told;
    const { code, message, held, offered, evidence } = error;
    const documents = evidence === undefined ? { held, offered } : { held, offered, evidence };
    await this.outbox.keepAlarm({ at: this.clock(), what: code, log: this.logKey.toString(), detail: message, ...documents });
  }
}
