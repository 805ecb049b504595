// What a log holds of each subject: its decisions in the order of the log. Pure.
//
// A decision counts where an auditor counts it: in the clear, with its subjects named. Allowed ones with a class are the
// subject's history; whatever names a subject, denials too, advances its head.

import type { Receipt } from "../receipts.js";

/** What an index may grow to. */
export interface IndexLimits {
  /** Entries of subjects' lists. */
  readonly mentions: number;
  /** Characters of different names: subjects, classes, issuers, sessions. */
  readonly nameChars: number;
}

/** A mention takes some 300 bytes, a character at most two: half a gigabyte in all, a quarter of what Node's heap may take. */
export const INDEX_LIMITS: IndexLimits = { mentions: 1_000_000, nameChars: 1 << 27 };

/** One allowed action in a subject's history. */
export interface HistoryItem {
  readonly actionClass: string;
  /** Leaf index in the log; `undefined` for what is only in the outbox yet. */
  readonly index: bigint | undefined;
  readonly issuer: string;
  readonly seq: bigint;
  /** The id of the decision's receipt. */
  readonly id: string;
  readonly session: string | undefined;
}

/** A decision that names subjects. */
export interface Mention {
  /** Each once. */
  readonly subjects: readonly string[];
  readonly item: HistoryItem;
  /** Whether it is part of the history, or only advances the head. */
  readonly counts: boolean;
}

/** What a receipt says of subjects; `undefined` where it names none in the clear. */
export function mentionOf(receipt: Receipt, index: bigint | undefined): Mention | undefined {
  const { body } = receipt;
  const subjects = body.get("subjects");
  if (receipt.type !== "decision" || !Array.isArray(subjects) || subjects.length === 0) return undefined;
  const [actionClass, session] = [body.get("action_class"), body.get("session")];
  const counts = body.get("decision") === "allow" && typeof actionClass === "string";
  return {
    subjects: Array.from(new Set(subjects.filter((subject) => typeof subject === "string"))),
    item: {
      actionClass: typeof actionClass === "string" ? actionClass : "",
      index,
      issuer: receipt.issuer,
      seq: receipt.seq,
      id: receipt.id,
      session: typeof session === "string" ? session : undefined,
    },
    counts,
  };
}

/** The decisions of a log, by subject. */
export class HistoryIndex {
  private readonly bySubject = new Map<string, Mention[]>();
  private readonly inOrder: Mention[] = [];
  private readonly names = new Map<string, string>();
  private listed = 0;
  private chars = 0;
  private overflows = false;

  constructor(private readonly limits: IndexLimits = INDEX_LIMITS) {}

  /** Whether something was left out, so that no answer is known to be whole. */
  get isFull(): boolean {
    return this.overflows;
  }

  /** All decisions, in the log's order. */
  get mentions(): readonly Mention[] {
    return this.inOrder;
  }

  /** Adds the decision that stands behind all that were added before. */
  add({ subjects, item, counts }: Mention): void {
    this.overflows ||= this.listed + subjects.length > this.limits.mentions || this.chars > this.limits.nameChars;
    if (this.overflows) return;
    const [actionClass, issuer] = [this.name(item.actionClass), this.name(item.issuer)];
    const session = item.session === undefined ? undefined : this.name(item.session);
    const mention = { subjects: subjects.map((subject) => this.name(subject)), item: { ...item, actionClass, issuer, session }, counts };
    this.inOrder.push(mention);
    this.listed += subjects.length;
    for (const subject of mention.subjects) {
      const listed = this.bySubject.get(subject);
      if (listed === undefined) this.bySubject.set(subject, [mention]);
      else listed.push(mention);
    }
  }

  /** The decisions on these subjects that `isAsked` holds for, in the log's order, each once. */
  find(subjects: readonly string[], isAsked: (item: HistoryItem) => boolean): Mention[] {
    const found = new Set(subjects.flatMap((subject) => this.bySubject.get(subject) ?? []));
    const asked = Array.from(found).filter(({ item }) => isAsked(item));
    return asked.sort((left, right) => ((left.item.index ?? 0n) < (right.item.index ?? 0n) ? -1 : 1));
  }

  /** The same name, once for all, and as a copy: what was cut from a receipt's text would keep all of that in memory. */
  private name(name: string): string {
    const held = this.names.get(name);
    if (held !== undefined) return held;
    const copy = Buffer.from(name, "utf8").toString("utf8");
    this.names.set(copy, copy);
    this.chars += copy.length;
    return copy;
  }
}
