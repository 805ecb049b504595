// Keys: names, vkeys, private keys in the note package's text form (protocol, 1.1). Reads no files.

import { ml_dsa44 } from "@noble/post-quantum/ml-dsa.js";
import { concat, equal, fromBase64, fromHex, sha256, toBase64, toHex, utf8, utf8Length } from "./bytes.js";
import { ed25519PublicKey, judgePoint, signEd25519, verifyEd25519 } from "./ed25519.js";
import { FormatError } from "./errors.js";

/** What a key signs: `ed25519` notes (gates and logs), `cosignature` and `ml-dsa-44` checkpoints (witnesses). */
export type KeyKind = "ed25519" | "cosignature" | "ml-dsa-44";

const TYPE_BYTES: Readonly<Record<KeyKind, number>> = { ed25519: 0x01, cosignature: 0x04, "ml-dsa-44": 0x06 };
/** Bytes of a public key and of a signature, by kind (RFC 8032; FIPS 204, table 2). */
const LENGTHS: Readonly<Record<KeyKind, readonly [number, number]>> = {
  ed25519: [32, 64],
  cosignature: [32, 64],
  "ml-dsa-44": [1312, 2420],
};
/** How a private key begins. */
export const PRIVATE_PREFIX = "PRIVATE+KEY+";
/** Longest key name in bytes. */
export const MAX_NAME_LEN = 255;
/** Bytes of an ML-DSA-44 key before `t1` (FIPS 204, algorithm 22). */
const RHO_LEN = 32;

/** Takes a key name, or throws a {@link FormatError} (`name-empty`, `name-too-long`, `name-character`). */
export function checkKeyName(name: string): string {
  if (name === "") throw new FormatError("name-empty", "a key name must not be empty");
  if (utf8Length(name) > MAX_NAME_LEN) throw new FormatError("name-too-long", `a key name has at most ${MAX_NAME_LEN} bytes; shorten it`);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  if (/[\p{White_Space}+\u0000-\u001f]/u.test(name)) {
    throw new FormatError("name-character", "a key name holds no spaces, plus signs or control characters; remove them");
  }
  return name;
}

/** The four bytes that stand before a key's signatures, as 8 hex digits. */
function keyId(name: string, kind: KeyKind, publicKey: Uint8Array): string {
  return toHex(sha256(concat(utf8(`${name}\n`), Uint8Array.of(TYPE_BYTES[kind]), publicKey))).slice(0, 8);
}

/** A public key with its name and kind: whom to believe. One that exists is neither weak nor oddly encoded. */
export class VerifierKey {
  private constructor(
    /** Whose key it is. */
    readonly name: string,
    /** What it signs. */
    readonly kind: KeyKind,
    /** 32 bytes of a point, or 1312 of an ML-DSA-44 key. */
    readonly publicKey: Uint8Array,
    /** The id that stands before its signatures, 8 hex digits. */
    readonly id: string,
  ) {}

  /** A key from its parts. Throws a {@link FormatError} (`key-length`, `not-a-point`, `weak-key`, and those of {@link checkKeyName}). */
  static of(name: string, kind: KeyKind, publicKey: Uint8Array): VerifierKey {
    checkKeyName(name);
    if (publicKey.length !== LENGTHS[kind][0]) throw keyFault("key-length");
    if (kind === "ml-dsa-44") {
      // With t1 = 0 the secret drops out of the check, and any short vector is a signature.
      if (publicKey.subarray(RHO_LEN).every((byte) => byte === 0)) throw keyFault("weak-key");
    } else {
      const judged = judgePoint(publicKey);
      if (judged !== "ok") throw keyFault(judged === "weak" ? "weak-key" : judged);
    }
    return new VerifierKey(name, kind, publicKey, keyId(name, kind, publicKey));
  }

  /** Reads a vkey. Throws a {@link FormatError}; a private key given by mistake is never repeated. */
  static parse(vkey: string): VerifierKey {
    if (vkey.startsWith(PRIVATE_PREFIX)) throw keyFault("private-key");
    const { name, id, kind, material } = splitKey(vkey);
    const key = VerifierKey.of(name, kind, material);
    if (key.id !== id) throw keyFault("key-id-mismatch");
    return key;
  }

  /** Whether `signature` is this key's, strictly, over exactly `message`. */
  async verify(message: Uint8Array, signature: Uint8Array): Promise<boolean> {
    if (signature.length !== LENGTHS[this.kind][1]) return false;
    if (this.kind !== "ml-dsa-44") return verifyEd25519(this.publicKey, message, signature);
    try {
      return ml_dsa44.verify(signature, message, this.publicKey);
    } catch {
      return false;
    }
  }

  /** Whether both are one key under one name. */
  equals(other: VerifierKey): boolean {
    return this.kind === other.kind && this.name === other.name && equal(this.publicKey, other.publicKey);
  }

  /** The vkey. */
  toString(): string {
    return `${this.name}+${this.id}+${toBase64(concat(Uint8Array.of(TYPE_BYTES[this.kind]), this.publicKey))}`;
  }
}

/** A private key with its name and kind. Prints as its public half only. */
export class SigningKey {
  readonly #seed: Uint8Array;

  private constructor(
    seed: Uint8Array,
    /** The public half, which others check with. */
    readonly verifier: VerifierKey,
  ) {
    this.#seed = seed;
  }

  /** The key that 32 bytes of seed make. They must come from {@link crypto.getRandomValues}, or be a test's. */
  static fromSeed(name: string, seed: Uint8Array, kind: KeyKind = "ed25519"): SigningKey {
    if (seed.length !== 32) throw keyFault("key-length");
    const publicKey = kind === "ml-dsa-44" ? ml_dsa44.keygen(seed).publicKey : ed25519PublicKey(seed);
    return new SigningKey(Uint8Array.from(seed), VerifierKey.of(name, kind, publicKey));
  }

  /** A new key, by the platform's randomness. */
  static generate(name: string, kind: KeyKind = "ed25519"): SigningKey {
    return SigningKey.fromSeed(name, crypto.getRandomValues(new Uint8Array(32)), kind);
  }

  /** Reads `PRIVATE+KEY+…`, without a line end. Throws a {@link FormatError} that never repeats the text. */
  static parse(text: string): SigningKey {
    if (!text.startsWith(PRIVATE_PREFIX)) throw keyFault("key-shape");
    const { name, id, kind, material } = splitKey(text.slice(PRIVATE_PREFIX.length));
    const key = SigningKey.fromSeed(name, material, kind);
    if (key.verifier.id !== id) throw keyFault("key-id-mismatch");
    return key;
  }

  /** Whose key it is. */
  get name(): string {
    return this.verifier.name;
  }

  /** Signs exactly `message`, the same every time. */
  async sign(message: Uint8Array): Promise<Uint8Array> {
    if (this.verifier.kind !== "ml-dsa-44") return signEd25519(this.#seed, message);
    return ml_dsa44.sign(message, ml_dsa44.keygen(this.#seed).secretKey, { extraEntropy: false });
  }

  /** The text that {@link SigningKey.parse} reads. Keep it in a file of mode 0600 and nowhere else. */
  privateText(): string {
    const { name, kind, id } = this.verifier;
    return `${PRIVATE_PREFIX}${name}+${id}+${toBase64(concat(Uint8Array.of(TYPE_BYTES[kind]), this.#seed))}`;
  }

  /** The vkey: a key that is printed by mistake gives nothing away. */
  toString(): string {
    return `SigningKey(of ${this.verifier})`;
  }
}

function splitKey(text: string): { name: string; id: string; kind: KeyKind; material: Uint8Array } {
  // Names hold no `+`, base64 may: the third part is whatever is left.
  const first = text.indexOf("+");
  const second = text.indexOf("+", first + 1);
  if (first < 0 || second < 0) throw keyFault("key-shape");
  const name = text.slice(0, first);
  try {
    checkKeyName(name);
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    throw new FormatError(error.code, `the key's name is not allowed: ${error.message}`);
  }
  const id = text.slice(first + 1, second);
  if (fromHex(id, 4) === undefined) throw keyFault("key-id");
  const bytes = fromBase64(text.slice(second + 1));
  if (bytes === undefined) throw keyFault("key-base64");
  if (bytes.length === 0) throw keyFault("key-length");
  const kind = (Object.keys(TYPE_BYTES) as KeyKind[]).find((kind) => TYPE_BYTES[kind] === bytes[0]);
  if (kind === undefined) throw keyFault("key-kind-unknown");
  return { name, id, kind, material: bytes.subarray(1) };
}

const KEY_FAULTS = {
  "key-shape": "not a key: a vkey reads name+8 hex digits+base64; copy the whole line that was printed when the key was made",
  "private-key": "this is a private key; give the vkey that was printed beside it, and keep this one to yourself",
  "key-id": "the key's id is not 8 lowercase hex digits; copy the whole line",
  "key-base64": "the key's last part is not canonical base64; copy the whole line",
  "key-kind-unknown": "keys of this signature type are not supported; use type 0x01 for gates and logs, 0x04 or 0x06 for witnesses",
  "key-length": "the key's last part has the wrong length; copy the whole line",
  "key-id-mismatch": "the key's id does not belong to this name, type and key; the line was altered or damaged",
  "not-a-point": "the key is not a canonically encoded Ed25519 point; make a new key",
  "weak-key": "the key is weak: anybody can sign with it; make a new key",
} as const;

function keyFault(code: keyof typeof KEY_FAULTS): FormatError {
  return new FormatError(code, KEY_FAULTS[code]);
}
