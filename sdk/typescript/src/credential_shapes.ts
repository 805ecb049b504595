// What a credential looks like, wherever in a string it stands: a prefix that nothing else has, at the beginning of a
// word, and as many characters behind it as the provider writes.

import { fromBase64, fromUtf8, utf8Length } from "./bytes.js";
import { standsForNoSecret } from "./credential_names.js";

/** What a credential looks like, in a few words. */
export type CredentialKind =
  | "an API token"
  | "a JSON web token"
  | "a private key"
  | "an authorization header"
  | "a URL with a password"
  | "a secret, by its member's name";

/** Every shape has at least this many bytes. */
const SHORTEST = 12;

const ALPHANUMERIC = "[A-Za-z0-9]";
const WORD = "[A-Za-z0-9_]";
const URL_SAFE = "[A-Za-z0-9_-]";
const DOTTED = "[A-Za-z0-9_.-]";

interface Token {
  readonly run: RegExp;
  readonly prefix: string;
  readonly least: number;
  readonly most: number;
  readonly looks: RegExp;
}

const ANY = /^/;
const HAS_DIGIT = /[0-9]/;

function token(prefix: string, alphabet: string, least: number, looks = ANY, most = Number.POSITIVE_INFINITY): Token {
  return { prefix, run: new RegExp(`${alphabet}*`, "y"), least, most, looks };
}

/** As providers document them, or as the tokens they give out show. */
const TOKENS: readonly Token[] = [
  ...["ghp_", "gho_", "ghu_", "ghs_", "ghr_"].map((prefix) => token(prefix, ALPHANUMERIC, 20)),
  token("github_pat_", WORD, 20),
  token("AKIA", ALPHANUMERIC, 16, /^[^a-z]*$/, 16),
  token("ASIA", ALPHANUMERIC, 16, /^[^a-z]*$/, 16),
  ...["xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"].map((prefix) => token(prefix, URL_SAFE, 10, HAS_DIGIT)),
  token("AIza", URL_SAFE, 35, /[A-Z]/, 35),
  token("ya29.", URL_SAFE, 30),
  token("glpat-", URL_SAFE, 20),
  token("gldt-", URL_SAFE, 20),
  token("glrt-", URL_SAFE, 20),
  token("npm_", ALPHANUMERIC, 30),
  token("pypi-", URL_SAFE, 50),
  token("dckr_pat_", URL_SAFE, 20),
  token("sk-ant-", URL_SAFE, 20, HAS_DIGIT),
  token("sk-proj-", URL_SAFE, 20, HAS_DIGIT),
  token("hf_", ALPHANUMERIC, 30),
  ...["sk_live_", "sk_test_", "rk_live_", "rk_test_"].map((prefix) => token(prefix, ALPHANUMERIC, 16)),
  token("whsec_", ALPHANUMERIC, 24),
  token("SG.", DOTTED, 60),
  token("shpat_", ALPHANUMERIC, 32),
  token("dop_v1_", ALPHANUMERIC, 60),
  token("lin_api_", ALPHANUMERIC, 30),
  token("hvs.", URL_SAFE, 20),
  token("AGE-SECRET-KEY-1", ALPHANUMERIC, 50),
];

/** The first credential shape in `text`. */
export function shapeOf(text: string): CredentialKind | undefined {
  if (utf8Length(text) < SHORTEST) return undefined;
  if (holdsUrlPassword(text)) return "a URL with a password";
  const starts = /(?<![A-Za-z0-9_])[A-Za-z]/g;
  for (let found = starts.exec(text); found !== null; found = starts.exec(text)) {
    const kind = credentialAt(text, found.index);
    if (kind !== undefined) return kind;
  }
  return undefined;
}

function credentialAt(text: string, start: number): CredentialKind | undefined {
  if (TOKENS.some((token) => isToken(token, text, start)) || isPlainSkKey(text, start)) return "an API token";
  if (isWebToken(text, start)) return "a JSON web token";
  if (isPrivateKey(text, start)) return "a private key";
  if (isAuthorization(text, start)) return "an authorization header";
  return undefined;
}

function runAt(text: string, at: number, alphabet: RegExp): string {
  alphabet.lastIndex = at;
  return alphabet.exec(text)?.[0] ?? "";
}

function isToken({ prefix, run, least, most, looks }: Token, text: string, start: number): boolean {
  if (!text.startsWith(prefix, start)) return false;
  const tail = runAt(text, start + prefix.length, run);
  return tail.length >= least && tail.length <= most && looks.test(tail);
}

/** `sk-` and at least 20 characters, of which 16 in a row hold letters and digits: no hyphenated words. */
function isPlainSkKey(text: string, start: number): boolean {
  // Behind a hyphen `sk-` may be a part of base64url, or of a name.
  if (!text.startsWith("sk-", start) || text[start - 1] === "-") return false;
  const tail = runAt(text, start + 3, /[A-Za-z0-9_-]*/y);
  return tail.length >= 20 && tail.split(/[-_]/).some((part) => part.length >= 16 && /[0-9]/.test(part) && /[A-Za-z]/.test(part));
}

/** `eyJ` is how base64url writes `{"`. */
function isWebToken(text: string, start: number): boolean {
  if (!text.startsWith("eyJ", start)) return false;
  const run = runAt(text, start, /[A-Za-z0-9_.-]*/y);
  return run.length >= 36 && run.split(".").length > 2;
}

function isPrivateKey(text: string, start: number): boolean {
  if (text.startsWith("PRIVATE+KEY+", start) || text.startsWith("PuTTY-User-Key-File-", start)) return true;
  if (!text.startsWith("BEGIN ", start) || !text.slice(0, start).endsWith("-----")) return false;
  return (text.slice(start + 6).split("-----")[0] ?? "").includes("PRIVATE KEY");
}

/** `Bearer` and something that no word looks like, or `Basic` and base64 of `user:password`. */
function isAuthorization(text: string, start: number): boolean {
  const scheme = /(?:(Bearer|bearer|BEARER)|Basic|basic|BASIC) [ \t\n\f\r]*([A-Za-z0-9_.~+/=-]*)/y;
  scheme.lastIndex = start;
  const found = scheme.exec(text);
  if (found === null) return false;
  const credentials = found[2] ?? "";
  if (found[1] !== undefined) {
    return credentials.length >= (isWholeHeader(text, start, credentials) ? 8 : 12) && looksRandom(credentials);
  }
  const decoded =
    fromBase64(credentials) ??
    (credentials.includes("=") ? undefined : fromBase64(credentials.padEnd(Math.ceil(credentials.length / 4) * 4, "=")));
  const pair = decoded === undefined ? undefined : fromUtf8(decoded);
  return pair?.includes(":") === true && !/\p{Cc}/u.test(pair);
}

/** Whether the scheme stands where only a header has it: alone in its string, or after `authorization:`. */
function isWholeHeader(text: string, start: number, credentials: string): boolean {
  const before = text.slice(0, start).replace(/\p{White_Space}+$/u, "");
  const ends = text.replace(/\p{White_Space}+$/u, "").endsWith(credentials);
  return (before === "" && ends) || /authorization:$/.test(before.slice(-14).replace(/[A-Z]/g, (letter) => letter.toLowerCase()));
}

function looksRandom(credentials: string): boolean {
  return (/[0-9]/.test(credentials) && /[A-Za-z]/.test(credentials)) || /[a-z][A-Z]/.test(credentials);
}

/** `scheme://user:password@host`. */
function holdsUrlPassword(text: string): boolean {
  if (!text.includes("@")) return false;
  return text
    .split("://")
    .slice(1)
    .some((rest) => {
      const authority = rest.split(/[/?#"'<>\p{White_Space}]/u)[0] ?? "";
      const at = authority.lastIndexOf("@");
      const colon = authority.indexOf(":");
      return at >= 0 && colon >= 0 && colon < at && !standsForNoSecret(authority.slice(colon + 1, at));
    });
}
