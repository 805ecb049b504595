// Strict Ed25519: canonical `A`, `R` and `S`, no small-order `A` or `R`, equation without cofactor.
//
// The equation itself is left to an engine: WebCrypto where it has Ed25519, `node:crypto` in the entry for Node, and
// @noble/curves where neither is there. Engines compute `S·B − k·A` and compare its encoding with `R`; what they let
// through beyond that (odd encodings, points of small order) is refused here, the same for all.

import { ed25519 } from "@noble/curves/ed25519.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { concat, equal, fromHex } from "./bytes.js";

/** Who does the arithmetic. Takes 32 bytes of key or seed and 64 of signature. */
export interface Ed25519Engine {
  /** Whether the equation without cofactor holds. */
  verify(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean | Promise<boolean>;
  /** The deterministic signature of RFC 8032. */
  sign(seed: Uint8Array, message: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

let engine: Ed25519Engine | undefined;

/** Has Ed25519 computed by `chosen` from now on. The `counterfoil/node` entry does so for Node's own OpenSSL. */
export function useEd25519(chosen: Ed25519Engine): void {
  engine = chosen;
}

/** Whether `signature` is a strict Ed25519 signature over `message` by a key that {@link isStrictPoint} accepted. */
export async function verifyEd25519(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
  if (signature.length !== 64 || publicKey.length !== 32) return false;
  const [point, scalar] = [signature.subarray(0, 32), signature.subarray(32)];
  if (!isCanonical(point) || isSmallOrder(point) || !isBelowOrder(scalar)) return false;
  if (!isCanonical(publicKey) || isSmallOrder(publicKey)) return false;
  return (await chosenEngine()).verify(publicKey, message, signature);
}

/** The signature of RFC 8032 by a seed of 32 bytes. */
export async function signEd25519(seed: Uint8Array, message: Uint8Array): Promise<Uint8Array> {
  return (await chosenEngine()).sign(seed, message);
}

/** The public key that a seed makes. */
export function ed25519PublicKey(seed: Uint8Array): Uint8Array {
  return ed25519.getPublicKey(seed);
}

/** What a public key is: `ok`, no canonically encoded point, or one of small order. */
export function judgePoint(bytes: Uint8Array): "ok" | "not-a-point" | "weak" {
  if (bytes.length !== 32 || !isCanonical(bytes)) return "not-a-point";
  if (isSmallOrder(bytes)) return "weak";
  try {
    ed25519.Point.fromBytes(bytes, false);
    return "ok";
  } catch {
    return "not-a-point";
  }
}

/** The canonical encodings of the eight points whose order divides 8. */
const SMALL_ORDER = [
  "0100000000000000000000000000000000000000000000000000000000000000",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0000000000000000000000000000000000000000000000000000000000000080",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
].map((hex) => fromHex(hex) ?? new Uint8Array());

/** 2^255 − 19 and the group's order, little-endian. */
const PRIME = fromHex(`ed${"ff".repeat(30)}7f`) ?? new Uint8Array();
const ORDER = fromHex(`edd3f55c1a631258d69cf7a2def9de14${"00".repeat(15)}10`) ?? new Uint8Array();

function isSmallOrder(point: Uint8Array): boolean {
  return SMALL_ORDER.some((weak) => equal(weak, point));
}

/** Whether `y` is below the prime, and an `x` of zero has no sign. Whether there is such a point is for the engine to say. */
function isCanonical(point: Uint8Array): boolean {
  const y = Uint8Array.from(point);
  y[31] = (y[31] ?? 0) & 0x7f;
  const isSigned = ((point[31] ?? 0) & 0x80) !== 0;
  const hasZeroX = SMALL_ORDER.slice(0, 2).some((zeroX) => equal(zeroX, y));
  return isBelow(y, PRIME) && !(isSigned && hasZeroX);
}

function isBelowOrder(scalar: Uint8Array): boolean {
  return isBelow(scalar, ORDER);
}

function isBelow(number: Uint8Array, limit: Uint8Array): boolean {
  for (let place = 31; place >= 0; place -= 1) {
    const [left, right] = [number[place] ?? 0, limit[place] ?? 0];
    if (left !== right) return left < right;
  }
  return false;
}

/** PKCS #8 of an Ed25519 seed: the seed stands behind these bytes (RFC 8410). */
const PKCS8 = fromHex("302e020100300506032b657004220420") ?? new Uint8Array();

const ALGORITHM = "Ed25519";

const webCrypto: Ed25519Engine = {
  async verify(publicKey, message, signature) {
    try {
      const key = await crypto.subtle.importKey("raw", own(publicKey), ALGORITHM, false, ["verify"]);
      return await crypto.subtle.verify(ALGORITHM, key, own(signature), own(message));
    } catch {
      // Bytes that are no point: some implementations refuse them here, others above.
      return false;
    }
  },
  async sign(seed, message) {
    const key = await crypto.subtle.importKey("pkcs8", own(concat(PKCS8, seed)), ALGORITHM, false, ["sign"]);
    return new Uint8Array(await crypto.subtle.sign(ALGORITHM, key, own(message)));
  },
};

/** In JavaScript alone: for browsers whose WebCrypto has no Ed25519. Slower, and not in constant time when signing. */
export const portableEngine: Ed25519Engine = {
  verify(publicKey, message, signature) {
    try {
      const { Point } = ed25519;
      const challenge = fromLittleEndian(sha512(concat(signature.subarray(0, 32), publicKey, message))) % Point.Fn.ORDER;
      const scalar = fromLittleEndian(signature.subarray(32));
      const sum = Point.BASE.multiplyUnsafe(scalar).subtract(Point.fromBytes(publicKey, false).multiplyUnsafe(challenge));
      return equal(sum.toBytes(), signature.subarray(0, 32));
    } catch {
      return false;
    }
  },
  sign: (seed, message) => ed25519.sign(message, seed),
};

function fromLittleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);
}

/** A copy over memory of its own, which is what WebCrypto's types ask for. */
function own(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}

async function chosenEngine(): Promise<Ed25519Engine> {
  engine ??= (await hasWebCrypto()) ? webCrypto : portableEngine;
  return engine;
}

async function hasWebCrypto(): Promise<boolean> {
  try {
    await crypto.subtle.importKey("raw", own(ed25519PublicKey(new Uint8Array(32))), ALGORITHM, false, ["verify"]);
    return true;
  } catch {
    return false;
  }
}
