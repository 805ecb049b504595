// A log read from its first entry on: the edge of the tree over it, the streams in it, and the decisions by subject.
//
// Nothing is left out: every entry goes into the tree, and whoever asks compares its root with one that the log signed. Of
// the entries only those count that the rule of admission (protocol, section 4) lets stand.

import { setImmediate as others } from "node:timers/promises";
import { admit, openedKey } from "../admit.js";
import { CounterfoilError } from "../errors.js";
import { IssuerState } from "../issuers.js";
import { Frontier, leafHash } from "../merkle.js";
import { Receipt } from "../receipts.js";
import type { Mention } from "./history_index.js";
import { HistoryIndex, mentionOf } from "./history_index.js";

/** Most keys of issuers that are remembered, rotated ones too: a few hundred bytes each. */
const MAX_KEYS = 200_000;
/** Receipts that are checked before other work has its turn: some milliseconds. */
const CHECKED_AT_ONCE = 32;

/** An entry and its leaf. */
export interface Leaf {
  readonly entry: Uint8Array;
  readonly hash: Uint8Array;
}

/** The leaf of an entry. */
export function leafOf(entry: Uint8Array): Leaf {
  return { entry, hash: leafHash(entry) };
}

export class Fold {
  private readonly states = new Map<string, IssuerState>();
  private keys = 0;

  private constructor(
    readonly frontier: Frontier,
    readonly index: HistoryIndex,
  ) {}

  static empty(): Fold {
    return new Fold(Frontier.empty(), new HistoryIndex());
  }

  /** A fold from its parts, as they were kept. */
  static resumed(frontier: Frontier, states: Iterable<IssuerState>, mentions: Iterable<Mention>): Fold {
    const fold = new Fold(frontier, new HistoryIndex());
    for (const state of states) fold.take(state);
    for (const mention of mentions) fold.index.add(mention);
    return fold;
  }

  /** How much was read. */
  get size(): bigint {
    return this.frontier.size;
  }

  /** Whether something was left out for want of room, so that nothing is known to be whole. */
  get isFull(): boolean {
    return this.index.isFull || this.keys > MAX_KEYS;
  }

  /** The streams. */
  get issuers(): readonly IssuerState[] {
    return Array.from(this.states.values());
  }

  /** Where the stream of an issuer stands. */
  state(issuer: string): IssuerState | undefined {
    return this.states.get(issuer);
  }

  /** Takes the entries that come next, whose root the caller has compared with what the log signed. */
  async add(leaves: readonly Leaf[]): Promise<void> {
    for (const [place, { entry, hash }] of leaves.entries()) {
      if (place % CHECKED_AT_ONCE === 0) await others();
      const admitted = await this.admitted(entry);
      // At once, so that whoever asks in between sees all of an entry or nothing.
      if (admitted !== undefined) {
        this.take(admitted.state);
        if (admitted.mention !== undefined) this.index.add(admitted.mention);
      }
      this.frontier.push(hash);
    }
  }

  /** What an entry changes; `undefined` for one that does not count: a log that took it has every auditor against it, and no say here. */
  private async admitted(entry: Uint8Array): Promise<{ state: IssuerState; mention: Mention | undefined } | undefined> {
    try {
      const receipt = Receipt.parse(entry);
      const key = openedKey(receipt);
      const state = this.states.get(receipt.issuer) ?? (key && IssuerState.registered(key));
      return { state: (await admit(state, receipt)).state, mention: mentionOf(receipt, this.size) };
    } catch (error) {
      if (!(error instanceof CounterfoilError)) throw error;
      return undefined;
    }
  }

  private take(state: IssuerState): void {
    const before = this.states.get(state.name);
    this.keys += state.keys.length - (before?.keys.length ?? 0);
    this.states.set(state.name, state);
  }
}
