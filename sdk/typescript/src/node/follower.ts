// Following a log: reading all its entries, and believing no more than what the root it signed vouches for. So no entry can
// be hidden, and a log that shows two histories is caught by the tiles it serves.
//
// Kept in `history/` of the outbox's directory: `head`, the largest head ever believed, durable before anything is said
// under it; `snapshot`, what was read so far (see `snapshot.ts`); and `fork-<N>`, evidence (protocol, section 8).

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { equal, fromHex } from "../bytes.js";
import { SignedCheckpoint } from "../checkpoints.js";
import { HistoryError } from "../errors.js";
import { printJson, toJson } from "../ijson.js";
import type { IssuerState } from "../issuers.js";
import type { VerifierKey } from "../keys.js";
import type { Frontier } from "../merkle.js";
import { proofText } from "../proofs.js";
import { decodeEntries, TILE_WIDTH } from "../tiles.js";
import { damaged, makeDir, readSmall, replaceSmall } from "./disk.js";
import type { Leaf } from "./fold.js";
import { Fold, leafOf } from "./fold.js";
import type { ForkEvidence } from "./heads.js";
import { compareHeads, impliedRoot, inclusionUnder } from "./heads.js";
import type { HistoryIndex, HistoryItem } from "./history_index.js";
import type { LogClient } from "./log_client.js";
import { keepFold, keptFold } from "./snapshot.js";

const WIDTH = BigInt(TILE_WIDTH);
/** Pages of entries fetched at once: 64 MiB where every entry is as long as one can be. */
const PAGES_AT_ONCE = 4;
/** Entries that are hashed before their root is compared with the log's: 16 pages, or as soon as there are so many bytes. */
const BATCH_ENTRIES = 16 * TILE_WIDTH;
const BATCH_BYTES = 16 << 20;
/** A snapshot is written when so much was read since the last, and a fifth of everything: an entry is written five times in all, however large the log. */
const SNAPSHOT_EVERY = 4096n;
/** When the gate closes, reading so much again is worse than writing. */
const SNAPSHOT_AT_CLOSE = WIDTH;
/** Most documents of evidence that are kept: one convicts. */
const MAX_EVIDENCE = 64;

/** The log does not honour what it showed: an alarm, with what proves it. */
export class BrokenLogError extends HistoryError {
  constructor(
    code: "log-fork" | "log-rolled-back",
    sentence: string,
    /** The head that was held. */
    readonly held: string,
    /** The other one. */
    readonly offered: string,
    /** The document that convicts the log, of a `log-fork`. */
    readonly evidence?: ForkEvidence,
  ) {
    super(code, sentence);
  }
}

export class Follower {
  private fold = Fold.empty();
  private snapshotAt = 0n;
  private largest: SignedCheckpoint | undefined;
  /** The newest head of a kept proof that was found under the log's. */
  private honoured: SignedCheckpoint | undefined;
  private isLoaded = false;
  private readonly stopping = new AbortController();

  constructor(
    private readonly dir: string,
    private readonly log: LogClient,
    private readonly logKey: VerifierKey,
  ) {}

  /** Where the stream of an issuer stands in what was read. */
  state(issuer: string): IssuerState | undefined {
    return this.fold.state(issuer);
  }

  /** The decisions in what was read. */
  get index(): HistoryIndex {
    return this.fold.index;
  }

  /** How much of the log was read and counts. */
  get size(): bigint {
    return this.fold.size;
  }

  /** The root over that. */
  root(): Uint8Array {
    return this.fold.frontier.root();
  }

  /** The largest head believed. */
  get head(): SignedCheckpoint | undefined {
    return this.largest;
  }

  /** Fetches the head that the log offers, and reads the log up to it; `kept` is the newest head of a proof. Throws a {@link HistoryError}, or what fetching brings. */
  async look(kept: SignedCheckpoint | undefined): Promise<SignedCheckpoint> {
    await this.load();
    const head = SignedCheckpoint.parse(await this.log.checkpoint(this.stopping.signal));
    await head.verify(this.logKey);
    const { size } = head.head;
    const { largest } = this;
    if (largest !== undefined) await this.refuseOther(largest, head);
    if (kept !== undefined && kept.head.size <= size && kept.note.whole !== this.honoured?.note.whole) {
      await this.refuseOther(kept, head);
      this.honoured = kept;
    }
    await this.checkFold(head);
    while (this.fold.size < size && !this.fold.isFull) await this.readOn(head);
    if (this.fold.isFull) {
      throw new HistoryError(
        "history-too-large",
        "the log holds more decisions on subjects than are remembered here, so no history is known to be whole; ask a gate in Rust or an auditor's service instead",
      );
    }
    if (largest === undefined || largest.head.size < size) await replaceSmall(this.dir, "head", head.note.whole, true);
    // Also of the size held: it may carry cosignatures of today.
    this.largest = head;
    const due = size / 5n > SNAPSHOT_EVERY ? size / 5n : SNAPSHOT_EVERY;
    if (size - this.snapshotAt >= due) await this.save();
    return head;
  }

  /** The proof (`tlog-proof`) that an item is in the log, under `head`. Throws a {@link HistoryError}, or what fetching brings. */
  async proof({ id, index }: HistoryItem, head: SignedCheckpoint | undefined): Promise<string> {
    const leaf = fromHex(id);
    if (head === undefined || leaf === undefined || index === undefined || index >= head.head.size) {
      throw new HistoryError(
        "history-unavailable",
        "that item is not under the head this history stands under; ask for the history again once the log shows it",
      );
    }
    return proofText(index, await inclusionUnder(this.log, leaf, index, head.head), head);
  }

  /** Ends the look that is under way, with an error. */
  stop(): void {
    this.stopping.abort();
  }

  /** Keeps what was read, where reading it again would take long. Not while looking. */
  async close(): Promise<void> {
    if (this.largest?.head.size === this.fold.size && this.fold.size - this.snapshotAt >= SNAPSHOT_AT_CLOSE) await this.save();
  }

  private async save(): Promise<void> {
    if (await keepFold(this.dir, this.fold)) this.snapshotAt = this.fold.size;
  }

  private async load(): Promise<void> {
    if (this.isLoaded) return;
    await makeDir(this.dir);
    const path = join(this.dir, "head");
    const text = await readSmall(path);
    if (text !== undefined) {
      try {
        const head = SignedCheckpoint.parse(text);
        await head.verify(this.logKey);
        this.largest = head;
      } catch (error) {
        const reason = error instanceof Error ? error.message : "unreadable";
        throw damaged(path, "as a whole", `${reason}; it held the largest head of the log that was ever seen`);
      }
    }
    const fold = await keptFold(this.dir);
    // The head is durable first: what was read beyond it is another log's, or a copy's.
    if (fold !== undefined && this.largest !== undefined && fold.size <= this.largest.head.size) {
      this.fold = fold;
      this.snapshotAt = fold.size;
    }
    this.isLoaded = true;
  }

  /** Refuses a head that does not contain the one held. */
  private async refuseOther(held: SignedCheckpoint, head: SignedCheckpoint): Promise<void> {
    const compared = await compareHeads(this.log, this.logKey, held, head, this.stopping.signal);
    if (compared.is === "fork") throw await this.fork(held, head, compared.evidence);
    if (head.head.size < held.head.size) {
      throw new BrokenLogError(
        "log-rolled-back",
        `the log shows a head of ${head.head.size} entries and showed one of ${held.head.size} before; a log never shrinks: tell its operator and its witnesses`,
        held.note.whole,
        head.note.whole,
      );
    }
    if (compared.is === "unproven") {
      throw new HistoryError(
        "history-unavailable",
        `the log does not show that its head of ${head.head.size} entries contains that of ${held.head.size} (${compared.why}); ask again, or another address of the log`,
      );
    }
  }

  /** What was read before must be what the head says it was: it may be another log's, or have come from a damaged disk. */
  private async checkFold({ head }: SignedCheckpoint): Promise<void> {
    const { frontier, size } = this.fold;
    const held = this.largest?.head;
    if (size === 0n || (held?.size === size && equal(held.root, frontier.root()))) return;
    if (size <= head.size && (await this.isUnder(frontier, head))) return;
    this.fold = Fold.empty();
    this.snapshotAt = 0n;
  }

  /** Reads the next pages, and takes them if the head vouches for them. */
  private async readOn({ head }: SignedCheckpoint): Promise<void> {
    const from = this.fold.size;
    const frontier = this.fold.frontier.clone();
    const leaves: Leaf[] = [];
    let bytes = 0;
    for (let page = from / WIDTH; page * WIDTH < head.size; page += BigInt(PAGES_AT_ONCE)) {
      const pages = Array.from({ length: PAGES_AT_ONCE }, (_, more) => page + BigInt(more)).filter((index) => index * WIDTH < head.size);
      for (const entries of await Promise.all(pages.map((index) => this.page(index, head.size, from)))) {
        for (const entry of entries) {
          const leaf = leafOf(entry);
          leaves.push(leaf);
          frontier.push(leaf.hash);
          bytes += entry.length;
        }
      }
      if (leaves.length >= BATCH_ENTRIES || bytes >= BATCH_BYTES) break;
    }
    if (!(await this.isUnder(frontier, head))) {
      throw new HistoryError(
        "history-unavailable",
        `the log's entries ${from} to ${frontier.size} are not those under its head of ${head.size}; ask again, or another address of the log`,
      );
    }
    await this.fold.add(leaves);
  }

  /** The entries of a page from leaf `from` on. */
  private async page(index: bigint, size: bigint, from: bigint): Promise<Uint8Array[]> {
    const first = index * WIDTH;
    const width = Number(size - first < WIDTH ? size - first : WIDTH);
    const entries = decodeEntries(await this.log.resource({ kind: "entries", index, width }, this.stopping.signal), width);
    if (entries.length < width)
      throw new HistoryError("history-unavailable", `a page of ${width} entries holds ${entries.length}; ask the log again`);
    return entries.slice(from > first ? Number(from - first) : 0);
  }

  /** Whether the tree of a head began with this one. Throws where the log does not show it. */
  private async isUnder(frontier: Frontier, head: SignedCheckpoint["head"]): Promise<boolean> {
    return equal((await impliedRoot(this.log, frontier.size, head, this.stopping.signal)).root, frontier.root());
  }

  private async fork(held: SignedCheckpoint, offered: SignedCheckpoint, evidence: ForkEvidence): Promise<BrokenLogError> {
    const kept = await this.keep(printJson(toJson(evidence)));
    return new BrokenLogError(
      "log-fork",
      `the log signed two histories, one of ${held.head.size} entries and one of ${offered.head.size}; the proof of it is in ${kept}: give it to the log's auditors, and believe nothing that the log says`,
      held.note.whole,
      offered.note.whole,
      evidence,
    );
  }

  private async keep(evidence: string): Promise<string> {
    const names = (await readdir(this.dir)).filter((name) => /^fork-[0-9]+$/.test(name));
    for (const name of names) if ((await readSmall(join(this.dir, name))) === evidence) return join(this.dir, name);
    const name = `fork-${Math.min(names.length, MAX_EVIDENCE - 1)}`;
    if (names.length < MAX_EVIDENCE) await replaceSmall(this.dir, name, evidence, true);
    return join(this.dir, name);
  }
}
