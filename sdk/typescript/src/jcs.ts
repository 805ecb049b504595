// Digests of JSON values: `sha256:` and 64 lowercase hex digits, over RFC 8785 (JCS). Receipts themselves are never
// canonicalised; this serves where values must be compared without carrying them.

import { sha256, toHex, utf8 } from "./bytes.js";
import type { Json, JsonInput } from "./ijson.js";
import { toJson } from "./ijson.js";

/** The RFC 8785 text of a value. Throws what {@link toJson} throws. */
export function canonicalJson(value: JsonInput): string {
  return canonical(toJson(value));
}

/** SHA-256 over the RFC 8785 text, as `sha256:<hex>`. */
export function jsonDigest(value: JsonInput): string {
  return bytesDigest(utf8(canonicalJson(value)));
}

/** SHA-256 over bytes as they are, as `sha256:<hex>`. */
export function bytesDigest(bytes: Uint8Array): string {
  return `sha256:${toHex(sha256(bytes))}`;
}

/** Whether a text is a digest as bodies carry it. */
export function isDigest(text: string): boolean {
  return /^sha256:[0-9a-f]{64}$/.test(text);
}

function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Map) {
    // JavaScript compares strings by UTF-16 units, which is the order RFC 8785 asks for.
    const names = Array.from(value.keys()).sort();
    return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value.get(name) ?? null)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}
