// Bytes and their spellings (protocol, section 1): each decoder takes exactly what its encoder prints.

import { sha256 as nobleSha256 } from "@noble/hashes/sha2.js";

const encoder = new TextEncoder();
// A byte order mark is a character like any other here: to drop it would change what was signed.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The UTF-8 bytes of a text without lone surrogates. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The text that bytes spell in UTF-8; `undefined` for what is no UTF-8. */
export function fromUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** How many bytes of UTF-8 a text takes. */
export function utf8Length(text: string): number {
  let length = text.length;
  for (let place = 0; place < text.length; place += 1) {
    const unit = text.charCodeAt(place);
    if (unit > 0x7f) length += unit > 0x7ff && !(unit >= 0xd800 && unit <= 0xdfff) ? 2 : 1;
  }
  return length;
}

/** SHA-256. */
export function sha256(bytes: Uint8Array): Uint8Array {
  return nobleSha256(bytes);
}

/** All parts in a row. */
export function concat(...parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Whether both hold the same bytes. Not in constant time: nothing compared here is secret. */
export function equal(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, place) => byte === right[place]);
}

/** Standard base64, padded. */
export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(binary);
}

/** What standard, padded, canonical base64 spells; `undefined` for anything else. */
export function fromBase64(text: string): Uint8Array | undefined {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return undefined;
  }
  // Unused bits of the last digit must be zero.
  if (btoa(binary) !== text) return undefined;
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Lowercase hex. */
export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += HEX[byte];
  return text;
}

/** What lowercase hex spells, of exactly `length` bytes if that is given; `undefined` for anything else. */
export function fromHex(text: string, length?: number): Uint8Array | undefined {
  if (text.length % 2 !== 0 || !/^[0-9a-f]*$/.test(text)) return undefined;
  if (length !== undefined && text.length !== 2 * length) return undefined;
  const bytes = new Uint8Array(text.length / 2);
  for (let place = 0; place < bytes.length; place += 1) {
    bytes[place] = Number.parseInt(text.slice(2 * place, 2 * place + 2), 16);
  }
  return bytes;
}

const MAX_U64 = (1n << 64n) - 1n;

/** A decimal number below 2^64 as the formats write it; `undefined` for anything that printing one would not give. */
export function parseU64(text: string): bigint | undefined {
  if (text.length > 20 || !/^(0|[1-9][0-9]*)$/.test(text)) return undefined;
  const number = BigInt(text);
  return number <= MAX_U64 ? number : undefined;
}

/** Eight bytes, big-endian. */
export function u64Bytes(number: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, number);
  return bytes;
}
