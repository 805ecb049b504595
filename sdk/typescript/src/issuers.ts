// What is known of one issuer: its keys, and where its stream ends. Made from a registered vkey and then only by
// `admit`, one receipt at a time; kept as JSON:
//
//   {"keys":[[0,"<vkey>"],[42,"<vkey>"]],"next_seq":57,"head":"<hex id>","last_issued_at":1790000000123,"closed":false}

import { equal } from "./bytes.js";
import { FormatError } from "./errors.js";
import type { Json } from "./ijson.js";
import { parseJsonObject } from "./ijson.js";
import { VerifierKey } from "./keys.js";
import type { Receipt } from "./receipts.js";
import { NO_RECEIPT } from "./receipts.js";

/** A key and the first seq it signs. */
export interface DatedKey {
  readonly from: bigint;
  readonly key: VerifierKey;
}

const LAST_SEQ = (1n << 64n) - 1n;

/** What is known of one issuer. Immutable. */
export class IssuerState {
  private constructor(
    /** All its keys, oldest first; the first is the registered one, from seq 0. */
    readonly keys: readonly [DatedKey, ...DatedKey[]],
    /** How many receipts it has: the number of the next one. */
    readonly nextSeq: bigint,
    /** The id of its last receipt, hex; zeros before the first. */
    readonly head: string,
    /** The time of its last receipt; 0 before the first. */
    readonly lastIssuedAt: bigint,
    private readonly closed: boolean,
  ) {}

  /** An issuer that has been registered and has no receipts. */
  static registered(key: VerifierKey): IssuerState {
    return new IssuerState([{ from: 0n, key }], 0n, NO_RECEIPT, 0n, false);
  }

  /** The issuer's name. */
  get name(): string {
    return this.registeredKey.name;
  }

  /** The key that was registered. */
  get registeredKey(): VerifierKey {
    return this.keys[0].key;
  }

  /** The newest key. */
  get currentKey(): VerifierKey {
    return (this.keys[this.keys.length - 1] ?? this.keys[0]).key;
  }

  /** Whether its last receipt is a `close`, or no number is left for another one. */
  get isClosed(): boolean {
    return this.closed || this.nextSeq === LAST_SEQ;
  }

  /** The key that signs the receipt at `seq`; the newest for a seq that is not reached yet. */
  keyInForceAt(seq: bigint): VerifierKey {
    return (this.keys.findLast(({ from }) => from <= seq) ?? this.keys[0]).key;
  }

  /** Whether the issuer may hand over to `key`: its own name, a key for notes, never used before. */
  mayHandOverTo(key: VerifierKey): boolean {
    return key.name === this.name && key.kind === "ed25519" && this.keys.every((used) => !equal(used.key.publicKey, key.publicKey));
  }

  /** The state after a receipt that was found to stand at `nextSeq`. */
  after(receipt: Receipt, successor: VerifierKey | undefined): IssuerState {
    const nextSeq = this.nextSeq + 1n;
    const keys: [DatedKey, ...DatedKey[]] = successor === undefined ? [...this.keys] : [...this.keys, { from: nextSeq, key: successor }];
    return new IssuerState(keys, nextSeq, receipt.id, receipt.issuedAt, receipt.type === "close");
  }

  /** One line of JSON. */
  toJSONText(): string {
    const keys = this.keys.map(({ from, key }) => `[${from},${JSON.stringify(key.toString())}]`).join(",");
    return `{"keys":[${keys}],"next_seq":${this.nextSeq},"head":"${this.head}","last_issued_at":${this.lastIssuedAt},"closed":${this.closed}}`;
  }

  /** Reads a kept state. Throws a {@link FormatError} (`state`) for one that admission cannot have made. */
  static parse(text: string): IssuerState {
    const fault = () => new FormatError("state", "the state is none that admission made; rebuild it from the receipts");
    const members = parseJsonObject(text);
    const number = (value: Json | undefined): bigint => {
      if (typeof value !== "number" || !Number.isInteger(value) || value < 0) throw fault();
      return BigInt(value);
    };
    const [keys, head, closed] = [members.get("keys"), members.get("head"), members.get("closed")];
    if (
      members.size !== 5 ||
      !Array.isArray(keys) ||
      typeof head !== "string" ||
      !/^[0-9a-f]{64}$/.test(head) ||
      typeof closed !== "boolean"
    )
      throw fault();
    const [nextSeq, lastIssuedAt] = [number(members.get("next_seq")), number(members.get("last_issued_at"))];
    let state: IssuerState | undefined;
    for (const pair of keys) {
      const [from, vkey] = Array.isArray(pair) && pair.length === 2 ? pair : [];
      if (typeof vkey !== "string") throw fault();
      const dated = { from: number(from), key: VerifierKey.parse(vkey) };
      if (state === undefined) {
        if (dated.from !== 0n) throw fault();
        state = new IssuerState([dated], nextSeq, head, lastIssuedAt, closed);
      } else {
        const last = state.keys[state.keys.length - 1]?.from ?? 0n;
        if (dated.from <= last || dated.from > nextSeq || !state.mayHandOverTo(dated.key)) throw fault();
        state = new IssuerState([...state.keys, dated], nextSeq, head, lastIssuedAt, closed);
      }
    }
    if (state === undefined || (nextSeq === 0n) !== (head === NO_RECEIPT)) throw fault();
    if (nextSeq === 0n && (closed || lastIssuedAt !== 0n)) throw fault();
    return state;
  }
}
