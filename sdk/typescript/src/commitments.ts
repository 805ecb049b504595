// Committed members (protocol, 3.2): a value that the log vouches for without holding it.

import { FormatError } from "./errors.js";
import type { Json, JsonInput, JsonObject } from "./ijson.js";
import { parseJsonObject, printJson, toJson } from "./ijson.js";
import { isDigest, jsonDigest } from "./jcs.js";
import { fromBase64, toBase64 } from "./bytes.js";

const MARK = "#";

/** What opens one commitment. Whoever holds it knows the value. */
export interface Disclosure {
  /** 22 characters of base64url: 16 random bytes. */
  readonly salt: string;
  /** The member's own name. */
  readonly name: string;
  /** What the receipt does not show. */
  readonly value: Json;
}

/** A fresh salt, by the platform's randomness. One a member: a salt used twice lets values be compared. */
export function newSalt(): string {
  return saltText(crypto.getRandomValues(new Uint8Array(16)));
}

/** 16 bytes as they are hashed: base64url without padding. */
export function saltText(bytes: Uint8Array): string {
  return toBase64(bytes).replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
}

/** Replaces a value by a commitment: what goes into the receipt, and what the gate keeps. */
export function commit(name: string, value: JsonInput, salt: string = newSalt()): { committed: Json; disclosure: Disclosure } {
  const disclosure = { salt, name, value: toJson(value) };
  return { committed: new Map([[MARK, disclosureDigest(disclosure)]]), disclosure };
}

/** The digest in a value that is a commitment: an object whose one member is `#`, a digest. */
export function committedDigest(value: Json): string | undefined {
  if (!(value instanceof Map) || value.size !== 1) return undefined;
  const digest = value.get(MARK);
  return typeof digest === "string" && isDigest(digest) ? digest : undefined;
}

/** The digest that stands in the receipt. */
export function disclosureDigest({ salt, name, value }: Disclosure): string {
  return jsonDigest([salt, name, value]);
}

/** Whether a disclosure opens the member of its name. */
export function opens(disclosure: Disclosure, body: JsonObject): boolean {
  const member = body.get(disclosure.name);
  return member !== undefined && committedDigest(member) === disclosureDigest(disclosure);
}

/** One line of JSON, as gates keep it. */
export function printDisclosure({ salt, name, value }: Disclosure): string {
  return printJson(
    new Map<string, Json>([
      ["salt", salt],
      ["name", name],
      ["value", value],
    ]),
  );
}

/** Reads one kept line. Throws a {@link FormatError} (`disclosure-members`, `disclosure-salt`, and those of {@link parseJsonObject}). */
export function parseDisclosure(line: string): Disclosure {
  const members = parseJsonObject(line);
  const [salt, name, value] = [members.get("salt"), members.get("name"), members.get("value")];
  if (members.size !== 3 || typeof salt !== "string" || typeof name !== "string" || value === undefined) {
    throw new FormatError("disclosure-members", 'a disclosure has exactly the members "salt", "name" (a string) and "value"');
  }
  const isSalt = salt.length === 22 && fromBase64(`${salt.replaceAll("-", "+").replaceAll("_", "/")}==`)?.length === 16;
  if (!isSalt || /[+/]/.test(salt)) {
    throw new FormatError("disclosure-salt", "the salt is 16 bytes in base64url without padding: 22 characters");
  }
  return { salt, name, value };
}
