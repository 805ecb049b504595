// The receipt (protocol, section 2): six lines of text, signed as a note. Well formed and nothing more: whether its
// signature is good and its place right is for `admit` to say.

import { fromBase64, parseU64, toBase64, toHex, fromHex } from "./bytes.js";
import { checkBody } from "./bodies.js";
import { FormatError } from "./errors.js";
import type { JsonObject } from "./ijson.js";
import { parseJsonObject } from "./ijson.js";
import type { SigningKey } from "./keys.js";
import { checkKeyName } from "./keys.js";
import { leafHash } from "./merkle.js";
import type { NoteSignature } from "./notes.js";
import { SignedNote, signNote } from "./notes.js";

/** Line 1 of every receipt. */
export const MAGIC = "counterfoil/receipt/v1";
/** Longest receipt in bytes, signature lines included. */
export const MAX_ENTRY = 65_535;
/** What stands as `prev` where nothing came before, hex. */
export const NO_RECEIPT = "00".repeat(32);

/** The six lines that a gate is about to sign. */
export interface ReceiptText {
  readonly issuer: string;
  readonly seq: bigint;
  /** Hex. */
  readonly prev: string;
  /** Milliseconds since the epoch. */
  readonly issuedAt: bigint;
  /** One JSON object on one line, signed as it stands. */
  readonly body: string;
}

/** A well-formed receipt. */
export class Receipt {
  private constructor(
    /** The entry: the bytes that are logged and hashed. */
    readonly bytes: Uint8Array,
    /** The note around it. */
    readonly note: SignedNote,
    /** Line 2: who issued it. */
    readonly issuer: string,
    /** Line 3: its number in the issuer's stream. */
    readonly seq: bigint,
    /** Line 4: the id of the receipt before it, hex. */
    readonly prev: string,
    /** Line 5: milliseconds since the epoch, by the gate's clock. */
    readonly issuedAt: bigint,
    /** Line 6, byte for byte. */
    readonly bodyText: string,
    /** Line 6, read. */
    readonly body: JsonObject,
    /** The body's `type`. */
    readonly type: string,
    /** The RFC 6962 leaf hash of the bytes, hex. */
    readonly id: string,
  ) {}

  /** Reads an entry. Throws a {@link FormatError} that says what is malformed about it; admission calls them all `malformed`. */
  static parse(entry: Uint8Array): Receipt {
    const fault = (code: string, sentence: string) => new FormatError(code, sentence);
    if (entry.length > MAX_ENTRY) {
      throw fault(
        "entry-too-long",
        `the receipt is ${entry.length} bytes long; at most ${MAX_ENTRY} fit a log entry: commit to long values or carry their digests`,
      );
    }
    const note = within("not a signed note", () => SignedNote.parse(entry));
    const lines = note.text.slice(0, -1).split("\n");
    const [magic, issuer, seqText, prevText, timeText, bodyText] = lines;
    if (
      lines.length !== 6 ||
      issuer === undefined ||
      seqText === undefined ||
      prevText === undefined ||
      timeText === undefined ||
      bodyText === undefined
    ) {
      throw fault("six-lines", "the text of a receipt has six lines, each ended by a newline");
    }
    if (magic !== MAGIC) throw fault("magic", `line 1 must read ${MAGIC}`);
    within("line 2 must be the issuer's name", () => checkKeyName(issuer));
    const seq = parseU64(seqText);
    if (seq === undefined) throw fault("seq", "line 3 must be the sequence number, in decimal without leading zeroes");
    const prevBytes = fromBase64(prevText);
    if (prevBytes?.length !== 32) throw fault("prev", "line 4 must be the previous receipt's id: 32 bytes in padded standard base64");
    const prev = toHex(prevBytes);
    if (seq === 0n && prev !== NO_RECEIPT)
      throw fault("prev-of-first", "line 4 of the receipt at seq 0 must be 32 zero bytes in base64: nothing comes before it");
    const issuedAt = parseU64(timeText);
    if (issuedAt === undefined)
      throw fault("issued-at", "line 5 must be the time of issue in milliseconds since the Unix epoch, in decimal without leading zeroes");
    if (!bodyText.startsWith("{") || !bodyText.endsWith("}"))
      throw fault("body-line", "line 6 must be one JSON object with nothing before or after it");
    const body = within("the body", () => parseJsonObject(bodyText));
    const type = within("the body", () => checkBody(body));
    return new Receipt(entry, note, issuer, seq, prev, issuedAt, bodyText, body, type, receiptId(entry));
  }

  /** The signature lines, unverified, at least one. */
  get signatures(): readonly NoteSignature[] {
    return this.note.signatures;
  }
}

function within<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    throw new FormatError(error.code, `${what}: ${error.message}`, error.path, { cause: error });
  }
}

/** The id of an entry, by its bytes: hex of the leaf hash. */
export function receiptId(entry: Uint8Array): string {
  return toHex(leafHash(entry));
}

/** The text that is signed. */
export function receiptText({ issuer, seq, prev, issuedAt, body }: ReceiptText): string {
  const prevBytes = fromHex(prev, 32);
  if (prevBytes === undefined) throw new FormatError("prev", "prev is 64 lowercase hex digits");
  return `${MAGIC}\n${issuer}\n${seq}\n${toBase64(prevBytes)}\n${issuedAt}\n${body}\n`;
}

/** Signs any receipt but a `rotate`. Throws a {@link FormatError}: those of {@link Receipt.parse}, `other-issuer`, `signers`. */
export async function signReceipt(text: ReceiptText, key: SigningKey): Promise<Receipt> {
  const receipt = await signedBy(text, [key]);
  if (receipt.type === "rotate") throw new FormatError("signers", "a rotate is signed by the old and the new key; call signRotation");
  return receipt;
}

/** Signs a `rotate`, by the old and the new key. Throws a {@link FormatError}: those of {@link Receipt.parse}, `other-issuer`, `signers`, `new-key`. */
export async function signRotation(text: ReceiptText, old: SigningKey, next: SigningKey): Promise<Receipt> {
  const receipt = await signedBy(text, [old, next]);
  if (receipt.type !== "rotate") throw new FormatError("signers", "only a rotate is signed by two keys; call signReceipt");
  if (receipt.body.get("vkey") !== next.verifier.toString() || old.verifier.equals(next.verifier)) {
    throw new FormatError("new-key", 'the "vkey" of a rotate must be that of the new key, and not the old key\'s');
  }
  return receipt;
}

async function signedBy(text: ReceiptText, keys: readonly SigningKey[]): Promise<Receipt> {
  const other = keys.find((key) => key.name !== text.issuer);
  if (other !== undefined) {
    throw new FormatError("other-issuer", `the key is ${other.name}'s and cannot sign for ${text.issuer}; use the issuer's own key`);
  }
  const note = await signNote(receiptText(text), keys);
  return Receipt.parse(note.bytes);
}
