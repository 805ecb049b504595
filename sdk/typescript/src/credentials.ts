// Credential-shaped values, which have no place in a log that is for ever (protocol, section 4). A net for accidents, not
// a wall: whoever wants to put a secret into a log can encode it. A finding is a place and a kind, never a value.

import { fromBase64, fromUtf8 } from "./bytes.js";
import { isSecret, NamedAs, namedAs } from "./credential_names.js";
import type { CredentialKind } from "./credential_shapes.js";
import { shapeOf } from "./credential_shapes.js";
import { CredentialError } from "./errors.js";
import type { Json, JsonObject } from "./ijson.js";
import { parseJson, pointer } from "./ijson.js";

/** How often JSON may hide in a string of JSON before the search stops. */
const MAX_EMBEDDING = 3;

/** A credential-shaped value: where, and of what kind. */
export interface CredentialFound {
  /** As a JSON pointer; where a member's *name* is the credential, the object it stands in. */
  readonly member: string;
  /** What it looks like. */
  readonly kind: CredentialKind;
}

type Found = { readonly path: (string | number)[]; readonly kind: CredentialKind };

/** The first credential-shaped value among a body's members, in the order written. */
export function findCredential(members: JsonObject): CredentialFound | undefined {
  const found = inObject(members, NamedAs.Nothing, 0);
  return found && { member: pointer(found.path), kind: found.kind };
}

/** Throws a {@link CredentialError} where {@link findCredential} finds something. */
export function refuseCredentials(members: JsonObject): void {
  const found = findCredential(members);
  if (found !== undefined) throw new CredentialError(found.member, found.kind);
}

function inObject(members: JsonObject, named: NamedAs, embedding: number): Found | undefined {
  // {"name": "X-Api-Key", "value": …}: how lists of headers and variables are often written.
  const labels = ["name", "key", "header"].map((name) => members.get(name)).filter((label) => typeof label === "string");
  const labelled = Math.max(NamedAs.Nothing, ...labels.map(namedAs));
  const isWebKey = typeof members.get("kty") === "string";
  for (const [name, value] of members) {
    const kind = shapeOf(name);
    if (kind !== undefined) return { path: [], kind };
    const found = inMember(name, value);
    if (found !== undefined) return { path: [name, ...found.path], kind: found.kind };
  }
  return undefined;

  function inMember(name: string, value: Json): Found | undefined {
    // The private part of a JSON web key (RFC 7518).
    if (isWebKey && (name === "d" || name === "k") && typeof value === "string") return { path: [], kind: "a private key" };
    const exact = name === "receipt_b64" ? exactText(value) : undefined;
    if (exact !== undefined) return inString(exact, NamedAs.Nothing, embedding);
    return inValue(value, name === "value" ? Math.max(labelled, named) : namedAs(name), embedding);
  }
}

function inValue(value: Json, named: NamedAs, embedding: number): Found | undefined {
  if (typeof value === "string") return inString(value, named, embedding);
  if (value instanceof Map) return inObject(value, named, embedding);
  if (!Array.isArray(value)) return undefined;
  for (const [place, element] of value.entries()) {
    const found = inValue(element, named, embedding);
    if (found !== undefined) return { path: [place, ...found.path], kind: found.kind };
  }
  return undefined;
}

function inString(text: string, named: NamedAs, embedding: number): Found | undefined {
  const kind = shapeOf(text);
  if (kind !== undefined) return { path: [], kind };
  if (isSecret(named, text)) return { path: [], kind: "a secret, by its member's name" };
  const embedded = embedding < MAX_EMBEDDING ? embeddedJson(text) : undefined;
  return embedded === undefined ? undefined : inValue(embedded, named, embedding + 1);
}

/** The object or array that a string holds as text. */
function embeddedJson(text: string): Json | undefined {
  if (!/^\p{White_Space}*[{[]/u.test(text)) return undefined;
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** What the exact bytes of a foreign receipt say, where they are text. */
function exactText(value: Json): string | undefined {
  const bytes = typeof value === "string" ? fromBase64(value) : undefined;
  return bytes && fromUtf8(bytes);
}
