// What a member is called: whether its name says that its value is secret, and whether a value says that there is none.

import { fromBase64, utf8Length } from "./bytes.js";

/** What a member's name says of its value; a larger number weighs more. */
export enum NamedAs {
  Nothing = 0,
  /** Secret where they carry a value. */
  Cookie = 1,
  Secret = 2,
}

const SECRET = ["password", "passwords", "passwd", "passphrase", "passcode", "secret", "secrets"];
const RUN_TOGETHER = [
  "password",
  "passwd",
  "passphrase",
  "apikey",
  "apitoken",
  "accesstoken",
  "authtoken",
  "refreshtoken",
  "clientsecret",
  "privatekey",
  "secretkey",
  "accesskey",
];
/** `api_key` is secret, `public_key` is not. */
const SECRET_KEYS = ["api", "private", "secret", "access", "encryption", "master"];
/** Places in a listing, and the vocabulary of language models. */
const HARMLESS_TOKENS = [
  "page",
  "next",
  "continuation",
  "cursor",
  "sync",
  "pagination",
  "idempotency",
  "stop",
  "eos",
  "bos",
  "pad",
  "unk",
  "sep",
  "cls",
  "mask",
  "special",
  "csrf",
];
/** No longer name is an identifier, in bytes. */
const MAX_NAME = 64;

/** What `name` says of its member's value. */
export function namedAs(name: string): NamedAs {
  if (utf8Length(name) > MAX_NAME) return NamedAs.Nothing;
  // No other name says anything, and most names end here.
  if (!/(?:key|token|secrets?|passwords?|passwd|pwd|phrase|passcode|cookie|authorization|bearer|mnemonic)$/i.test(name)) {
    return NamedAs.Nothing;
  }
  const words = wordsOf(name);
  const last = words.at(-1) ?? "";
  const before = words.at(-2);
  if (last === "cookie") return NamedAs.Cookie;
  const isSecret =
    SECRET.includes(last) ||
    RUN_TOGETHER.some((run) => last.endsWith(run)) ||
    (last === "pwd" && before !== undefined) ||
    (last === "key" && before !== undefined && SECRET_KEYS.includes(before)) ||
    (last === "token" && before !== undefined && !HARMLESS_TOKENS.includes(before)) ||
    (last === "phrase" && before !== undefined && ["seed", "recovery", "pass"].includes(before)) ||
    (words.length === 2 && last === "authorization" && (before === "proxy" || before === "x")) ||
    (words.length === 1 && ["token", "authorization", "bearer", "mnemonic"].includes(last));
  return isSecret ? NamedAs.Secret : NamedAs.Nothing;
}

/** Whether `value` is a secret, standing in a member of such a name. */
export function isSecret(named: NamedAs, value: string): boolean {
  switch (named) {
    case NamedAs.Nothing:
      return false;
    case NamedAs.Cookie: {
      const equals = value.indexOf("=");
      return equals >= 0 && !standsForNoSecret(value.slice(equals + 1));
    }
    case NamedAs.Secret:
      return !standsForNoSecret(value);
  }
}

const PLACEHOLDERS = [
  ["<", ">"],
  ["[", "]"],
  ["{{", "}}"],
  ["${", "}"],
  ["%", "%"],
] as const;
const KEPT_IN = ["vault:", "env:", "arn:", "op://", "ref:", "keychain:", "keyring:", "secret://", "file:"];
const WORDS = new Set(
  (
    "none null nil n/a true false yes no ok missing absent present provided required optional valid invalid verified unverified expired " +
    "revoked unknown granted denied approved allowed allow deny refused removed hidden unset set changed " +
    "bearer basic digest jwt oauth oauth2 oidc saml mtls negotiate"
  ).split(" "),
);

/** Whether a value says that there is no secret here: empty, redacted, a digest, a reference, a word about its state. */
export function standsForNoSecret(value: string): boolean {
  const trimmed = trimWhiteSpace(value);
  const word = trimmed.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  return (
    isMasked(trimmed) ||
    isPlaceholder(trimmed, word) ||
    isDigestOfSomething(trimmed) ||
    KEPT_IN.some((prefix) => trimmed.startsWith(prefix)) ||
    WORDS.has(word) ||
    // `session_token` names a kind of secret; `Tr0ub4dor&3 password` is one.
    (/^[a-z_-]*$/.test(word) && namedAs(word) === NamedAs.Secret)
  );
}

/** Without Unicode's own White_Space at both ends (JavaScript's `trim` has another list). */
export function trimWhiteSpace(text: string): string {
  return text.replace(/^\p{White_Space}+/u, "").replace(/\p{White_Space}+$/u, "");
}

function isMasked(value: string): boolean {
  const characters = Array.from(value);
  const masking = characters.filter((character) => "*•●…".includes(character)).length;
  return (masking >= 3 && characters.length - masking <= 4) || /^[*•●….xX#\-_]*$/.test(value);
}

function isPlaceholder(value: string, lowercase: string): boolean {
  const bracketed = PLACEHOLDERS.some(([open, close]) => utf8Length(value) > 2 && value.startsWith(open) && value.endsWith(close));
  const saysSo =
    utf8Length(value) <= 40 && ["redacted", "masked", "withheld", "omitted", "scrubbed"].some((word) => lowercase.includes(word));
  return bracketed || saysSo || /^\$[A-Z][A-Z0-9_]*$/.test(value);
}

function isDigestOfSomething(value: string): boolean {
  const found = /^(?:sha1|sha256|sha384|sha512|hmac-sha256|blake2b|blake3):(.*)$/s.exec(value)?.[1];
  if (found === undefined) return false;
  return /^[0-9a-fA-F]{40,}$/.test(found) || (fromBase64(found)?.length ?? 0) >= 20;
}

/** `API-Key`, `apiKey`, `APIKey` and `api_key` are the words `api`, `key`. */
function wordsOf(name: string): string[] {
  const isUpper = (character: string | undefined) => character !== undefined && /\p{Uppercase}/u.test(character);
  const isLower = (character: string | undefined) => character !== undefined && /\p{Lowercase}/u.test(character);
  const isAlphanumeric = (character: string) => /[\p{Alphabetic}\p{N}]/u.test(character);
  const characters = Array.from(name);
  const words = [""];
  for (const [place, character] of characters.entries()) {
    const [before, after] = [characters[place - 1], characters[place + 1]];
    const begins = isUpper(character) && (isLower(before) || /[0-9]/.test(before ?? "") || (isUpper(before) && isLower(after)));
    if (begins || !isAlphanumeric(character)) words.push("");
    if (isAlphanumeric(character)) words[words.length - 1] += character.toLowerCase();
  }
  return words.filter((word) => word !== "");
}
