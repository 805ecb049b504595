// Checkpoints, a log's signed tree heads (tlog-checkpoint), and witnesses' cosignatures of them (tlog-cosignature).

import { concat, fromBase64, parseU64, toBase64, u64Bytes, utf8, utf8Length } from "./bytes.js";
import { FormatError, ProofError } from "./errors.js";
import type { SigningKey, VerifierKey } from "./keys.js";
import type { NoteSignature } from "./notes.js";
import { claims, SignedNote, signNote } from "./notes.js";

/** What a tree head says. */
export interface Checkpoint {
  /** Which log: the first line. */
  readonly origin: string;
  /** Number of leaves. */
  readonly size: bigint;
  /** RFC 6962 root over them. */
  readonly root: Uint8Array;
  /** Opaque lines after the root; none in Counterfoil's own. */
  readonly extensions: readonly string[];
}

/** A cosignature that was verified. */
export interface Cosignature {
  /** The witness's key name. */
  readonly name: string;
  /** When it signed, seconds since the epoch by its clock. Never 0. */
  readonly timestamp: bigint;
}

/** Latest timestamp of a cosignature. */
const MAX_TIMESTAMP = (1n << 63n) - 1n;
const TIMESTAMP_LEN = 8;

/** A checkpoint with its note, byte for byte. What it says is only its log's word after {@link SignedCheckpoint.verify}. */
export class SignedCheckpoint {
  private constructor(
    /** The note with all its signature lines. */
    readonly note: SignedNote,
    /** What it says, whether or not anybody checked who says it. */
    readonly head: Checkpoint,
  ) {}

  /** Reads a signed checkpoint. Throws a {@link FormatError}: that of the note, or `checkpoint-too-short`, `checkpoint-empty-line`, `checkpoint-size`, `checkpoint-root`. */
  static parse(note: Uint8Array | string): SignedCheckpoint {
    const signed = SignedNote.parse(note);
    return new SignedCheckpoint(signed, parseCheckpointText(signed.text));
  }

  /** Throws a {@link ProofError} unless it is a head of `log`: `wrong-origin`, `signature-missing`, `signature-bad`, `wrong-key-kind`. */
  async verify(log: VerifierKey): Promise<void> {
    const fault = await this.faultOf(log);
    if (fault !== undefined) {
      throw new ProofError(fault, `the checkpoint is not one of ${log.name} (${fault}); check the log's vkey and address`);
    }
  }

  /** The same as an answer; `undefined` where nothing is wrong. */
  async faultOf(log: VerifierKey): Promise<"wrong-origin" | "signature-missing" | "signature-bad" | "wrong-key-kind" | undefined> {
    if (this.head.origin !== log.name) return "wrong-origin";
    switch (await this.note.faultBy(log)) {
      case "missing":
        return "signature-missing";
      case "bad":
        return "signature-bad";
      case "wrong-key-kind":
        return "wrong-key-kind";
      default:
        return undefined;
    }
  }

  /** The cosignatures by `witness`; lines under its name and id that are bad come as `undefined`. */
  async cosignaturesBy(witness: VerifierKey): Promise<(Cosignature | undefined)[]> {
    const found: (Cosignature | undefined)[] = [];
    for (const signature of this.note.signaturesBy(witness)) {
      found.push(await checkCosignature(signature, this.note.text, witness));
    }
    return found;
  }
}

/** Reads a checkpoint's text, its final newline included. */
export function parseCheckpointText(text: string): Checkpoint {
  const fault = (code: string, sentence: string) => new FormatError(code, sentence);
  const tooShort = () =>
    fault("checkpoint-too-short", "a checkpoint has at least three lines: origin, tree size, root hash, each ending in a newline");
  if (!text.endsWith("\n")) throw tooShort();
  const lines = text.slice(0, -1).split("\n");
  const [origin, spelledSize, spelledRoot, ...extensions] = lines;
  if (origin === "") throw fault("checkpoint-empty-line", "a checkpoint has no empty lines");
  if (origin === undefined || spelledSize === undefined) throw tooShort();
  const size = parseU64(spelledSize);
  if (size === undefined) throw fault("checkpoint-size", "the tree size is not a decimal number without leading zeroes");
  if (spelledRoot === undefined) throw tooShort();
  const root = fromBase64(spelledRoot);
  if (root?.length !== 32) throw fault("checkpoint-root", "the root hash is not canonical base64 of 32 bytes");
  if (extensions.includes("")) throw fault("checkpoint-empty-line", "a checkpoint has no empty lines");
  return { origin, size, root, extensions };
}

/** The text of a checkpoint, as logs sign it. */
export function checkpointText(head: Checkpoint): string {
  return [head.origin, head.size.toString(), toBase64(head.root), ...head.extensions].map((line) => `${line}\n`).join("");
}

/** Signs a head: for tests and for logs. The key's name must be the origin. */
export async function signCheckpoint(head: Checkpoint, log: SigningKey): Promise<SignedCheckpoint> {
  if (head.origin !== log.name) throw new FormatError("wrong-origin", "a log's origin is its key's name; sign with the log's own key");
  return SignedCheckpoint.parse((await signNote(checkpointText(head), [log])).whole);
}

async function checkCosignature(signature: NoteSignature, text: string, witness: VerifierKey): Promise<Cosignature | undefined> {
  const { blob, name } = signature;
  if (blob.length <= TIMESTAMP_LEN || !claims(signature, witness)) return undefined;
  const timestamp = new DataView(blob.buffer, blob.byteOffset, TIMESTAMP_LEN).getBigUint64(0);
  if (timestamp === 0n || timestamp > MAX_TIMESTAMP) return undefined;
  const message = cosignedMessage(text, witness, timestamp);
  if (message === undefined) return undefined;
  return (await witness.verify(message, blob.subarray(TIMESTAMP_LEN))) ? { name, timestamp } : undefined;
}

/** What a witness signs; `undefined` for what its kind of key cannot sign. */
export function cosignedMessage(text: string, witness: VerifierKey, timestamp: bigint): Uint8Array | undefined {
  switch (witness.kind) {
    case "ed25519":
      return undefined;
    case "cosignature":
      return utf8(`cosignature/v1\ntime ${timestamp}\n${text}`);
    case "ml-dsa-44": {
      const { origin, size, root } = parseCheckpointText(text);
      if (utf8Length(origin) > 255) return undefined;
      const named = (name: string) => concat(Uint8Array.of(utf8Length(name)), utf8(name));
      return concat(utf8("subtree/v1\n\0"), named(witness.name), u64Bytes(timestamp), named(origin), u64Bytes(0n), u64Bytes(size), root);
    }
  }
}
