// Signed notes (protocol, 1.2): text, a blank line, signature lines. What the text says is for others to read.

import { concat, equal, fromBase64, fromHex, fromUtf8, toBase64, toHex, utf8, utf8Length } from "./bytes.js";
import { FormatError, ProofError } from "./errors.js";
import type { SigningKey, VerifierKey } from "./keys.js";
import { checkKeyName } from "./keys.js";

/** Largest note in bytes. */
export const MAX_NOTE_LEN = 1 << 20;
/** Most signature lines in a note. */
export const MAX_SIGNATURES = 64;

const LINE_START = "— ";

/** One signature line. Unverified. */
export interface NoteSignature {
  /** The name of the key that is said to have signed. */
  readonly name: string;
  /** The id of that key, 8 hex digits. */
  readonly keyId: string;
  /** What follows the key id. */
  readonly blob: Uint8Array;
}

/** A well-formed note. Nothing in it is verified: ask {@link SignedNote.verify} with a key you trust. */
export class SignedNote {
  private constructor(
    /** The whole note, as it came. */
    readonly whole: string,
    /** The signed text, its final newline included. */
    readonly text: string,
    /** The signature lines in order. */
    readonly signatures: readonly NoteSignature[],
  ) {}

  /** Splits a note. Throws a {@link FormatError} (`note-too-long`, `not-utf8`, `control-character`, `unsigned`, `bad-signature-line`, `too-many-signatures`). */
  static parse(note: Uint8Array | string): SignedNote {
    if ((typeof note === "string" ? utf8Length(note) : note.length) > MAX_NOTE_LEN) {
      throw new FormatError("note-too-long", `the note is longer than ${MAX_NOTE_LEN} bytes`);
    }
    const whole = typeof note === "string" ? note : fromUtf8(note);
    if (whole === undefined) throw new FormatError("not-utf8", "the note is not UTF-8");
    refuseControls(whole);
    const unsigned = () =>
      new FormatError(
        "unsigned",
        "the note has no signatures: it needs text, a blank line and at least one signature line, each ending in a newline",
      );
    const blank = whole.lastIndexOf("\n\n");
    if (blank < 0) throw unsigned();
    const rest = whole.slice(blank + 2);
    if (!rest.endsWith("\n")) throw unsigned();
    const signatures = rest
      .slice(0, -1)
      .split("\n")
      .map((line, place) => {
        if (place === MAX_SIGNATURES) {
          throw new FormatError("too-many-signatures", `the note has more than ${MAX_SIGNATURES} signature lines`);
        }
        const signature = parseSignatureLine(line);
        if (signature === undefined) {
          throw new FormatError(
            "bad-signature-line",
            `signature line ${place + 1} is malformed: it must read "— <key name> <base64>" in canonical base64`,
          );
        }
        return signature;
      });
    return new SignedNote(whole, whole.slice(0, blank + 1), signatures);
  }

  /** The whole note's bytes. */
  get bytes(): Uint8Array {
    return utf8(this.whole);
  }

  /** The lines that claim to be by `key`: its name, and its id. */
  signaturesBy(key: VerifierKey): NoteSignature[] {
    return this.signatures.filter((signature) => claims(signature, key));
  }

  /**
   * What is wrong with `key`'s signature over the text: `undefined` where there is at least one line under its name and id and
   * every such line is good, else `missing`, `bad` or `wrong-key-kind`.
   */
  async faultBy(key: VerifierKey): Promise<"missing" | "bad" | "wrong-key-kind" | undefined> {
    if (key.kind !== "ed25519") return "wrong-key-kind";
    const message = utf8(this.text);
    const good: Uint8Array[] = [];
    for (const { blob } of this.signaturesBy(key)) {
      // The same line again costs its sender nothing, and shall not cost us a check.
      if (good.some((held) => equal(held, blob))) continue;
      if (!(await key.verify(message, blob))) return "bad";
      good.push(blob);
    }
    return good.length === 0 ? "missing" : undefined;
  }

  /** Throws a {@link ProofError} (`signature-missing`, `signature-bad`, `wrong-key-kind`) unless `key` signed the text. */
  async verify(key: VerifierKey): Promise<void> {
    const fault = await this.faultBy(key);
    if (fault !== undefined) {
      throw new ProofError(
        fault === "wrong-key-kind" ? fault : `signature-${fault}`,
        `the note is not signed by ${key.name} (${fault}); ask whoever sent it for the whole note`,
      );
    }
  }
}

/** Whether a line claims to be by `key`. */
export function claims(signature: NoteSignature, key: VerifierKey): boolean {
  return signature.keyId === key.id && signature.name === key.name;
}

/** Reads one signature line, without its newline. */
export function parseSignatureLine(line: string): NoteSignature | undefined {
  if (!line.startsWith(LINE_START)) return undefined;
  const space = line.indexOf(" ", LINE_START.length);
  if (space < 0) return undefined;
  const name = line.slice(LINE_START.length, space);
  try {
    checkKeyName(name);
  } catch {
    return undefined;
  }
  const bytes = fromBase64(line.slice(space + 1));
  if (bytes === undefined || bytes.length < 5) return undefined;
  return { name, keyId: toHex(bytes.subarray(0, 4)), blob: bytes.subarray(4) };
}

/** Signs a text, which must end in a newline, by each key (of kind `ed25519`), and returns the note. */
export async function signNote(text: string, keys: readonly SigningKey[]): Promise<SignedNote> {
  refuseControls(text);
  if (!text.endsWith("\n")) throw new FormatError("text-unfinished", "a text to be signed must end in a newline");
  const message = utf8(text);
  let note = `${text}\n`;
  for (const key of keys) {
    if (key.verifier.kind !== "ed25519") {
      throw new FormatError("wrong-key-kind", "this key signs cosignatures, not note texts; use a key of type 0x01");
    }
    const blob = concat(fromHex(key.verifier.id) ?? new Uint8Array(), await key.sign(message));
    note += `${LINE_START}${key.name} ${toBase64(blob)}\n`;
  }
  // What we print must be what we accept.
  return SignedNote.parse(note);
}

function refuseControls(text: string): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  const place = text.search(/[\u0000-\u0009\u000b-\u001f]/);
  if (place >= 0)
    throw new FormatError("control-character", `the note holds a control character at character ${place}; only newlines are allowed`);
}
