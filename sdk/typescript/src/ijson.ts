// Strict JSON (RFC 7493, I-JSON): the one door through which JSON enters a decision.
//
// `JSON.parse` keeps the last of two members of one name and rounds big numbers without a word: two programs would see
// two values in one receipt. So this parser refuses everything on which parsers differ: a member named twice, numbers
// beyond ±(2^53−1), lone surrogates, noncharacters, deep nesting. Objects become a `Map`, because the properties of a
// plain object change their order when they look like numbers, and `__proto__` is none.

import { fromUtf8, utf8Length } from "./bytes.js";
import { FormatError } from "./errors.js";

/** A JSON value as parsed: objects are `Map`s in the order written. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
/** A JSON object: members in the order written. */
export type JsonObject = Map<string, Json>;
/** What callers may hand over for a JSON value: also plain objects and read-only arrays. Members that are `undefined` are left out. */
export type JsonInput =
  | null
  | boolean
  | number
  | string
  | readonly JsonInput[]
  | ReadonlyMap<string, JsonInput>
  | { readonly [name: string]: JsonInput | undefined };

/** Deepest nesting of objects and arrays, the outermost one counted. */
export const MAX_DEPTH = 32;
/** Largest magnitude of a number, 2^53 − 1. */
export const MAX_INTEGER = Number.MAX_SAFE_INTEGER;
/** Longest document in bytes of UTF-8: two notes of 1 MiB, of which every byte may become two. */
export const MAX_JSON_LEN = 4 << 20;
/** Longest member name shown in full in a path, in characters. */
const MAX_SHOWN_NAME = 64;

type Step = string | number;

/** Parses one JSON value. Throws a {@link FormatError} (`not-utf8`, `json-syntax`, `json-too-long`, `too-deep`, `duplicate-member`, `number-out-of-range`, `noncharacter`). */
export function parseJson(document: string | Uint8Array): Json {
  const text = typeof document === "string" ? document : fromUtf8(document);
  if (text === undefined) throw new FormatError("not-utf8", "the document is not UTF-8");
  if (text.length > MAX_JSON_LEN || utf8Length(text) > MAX_JSON_LEN) {
    throw new FormatError("json-too-long", `the document is ${utf8Length(text)} bytes long; send at most ${MAX_JSON_LEN}`);
  }
  return new Parser(text).document();
}

/** Parses one JSON object. Throws as {@link parseJson}, and `not-an-object`. */
export function parseJsonObject(document: string | Uint8Array): JsonObject {
  const value = parseJson(document);
  if (!(value instanceof Map)) throw new FormatError("not-an-object", "expected a JSON object");
  return value;
}

/** Takes a value that a program built: copies it into {@link Json}, refusing what its text could not be parsed back from. */
export function toJson(value: JsonInput): Json {
  return checked(value, []);
}

/** Compact text: no spaces, only the escapes that JSON needs, numbers as ECMAScript writes them. */
export function printJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(printJson).join(",")}]`;
  if (value instanceof Map) {
    return `{${Array.from(value, ([name, member]) => `${JSON.stringify(name)}:${printJson(member)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

/** A path as a JSON pointer, one bounded line whatever the names hold. */
export function pointer(steps: readonly Step[]): string {
  if (steps.length === 0) return "(the whole object)";
  return steps
    .slice(0, MAX_DEPTH + 1)
    .map((step) => `/${typeof step === "number" ? step : shownName(step)}`)
    .join("");
}

function shownName(name: string): string {
  const characters = Array.from(name);
  const shown = characters
    .slice(0, MAX_SHOWN_NAME)
    .map((character) => {
      if (character === "~") return "~0";
      if (character === "/") return "~1";
      return /\p{Cc}/u.test(character) ? escapedControl(character) : character;
    })
    .join("");
  return characters.length > MAX_SHOWN_NAME ? `${shown}…` : shown;
}

function escapedControl(character: string): string {
  const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character];
  return short ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

function tooDeep(path: readonly Step[]): FormatError {
  const at = pointer(path);
  return new FormatError("too-deep", `${at} is nested deeper than ${MAX_DEPTH} levels; flatten it or carry it as a string`, at);
}

function outOfRange(path: readonly Step[]): FormatError {
  const at = pointer(path);
  return new FormatError("number-out-of-range", `${at} is a number beyond ±(2^53−1); write it as a string`, at);
}

function noncharacter(path: readonly Step[]): FormatError {
  const at = pointer(path);
  return new FormatError("noncharacter", `${at} holds a Unicode noncharacter; remove it`, at);
}

/** U+FDD0 to U+FDEF and the last two code points of every plane. */
function hasNoncharacter(text: string): boolean {
  for (let place = 0; place < text.length; place += 1) {
    const unit = text.charCodeAt(place);
    if (unit < 0xd800) continue;
    if ((unit >= 0xfdd0 && unit <= 0xfdef) || unit >= 0xfffe) return true;
    // The second half of a pair: the last two code points of a plane end in FFFE or FFFF.
    if (unit >= 0xd800 && unit <= 0xdbff && ((text.codePointAt(place) ?? 0) & 0xfffe) === 0xfffe) return true;
  }
  return false;
}

/** Whether some surrogate stands alone. */
export function hasLoneSurrogate(text: string): boolean {
  for (let place = 0; place < text.length; place += 1) {
    const unit = text.charCodeAt(place);
    if (unit >= 0xd800 && unit <= 0xdfff) {
      const next = text.charCodeAt(place + 1);
      if (unit > 0xdbff || !(next >= 0xdc00 && next <= 0xdfff)) return true;
      place += 1;
    }
  }
  return false;
}

function checkedText(text: string, path: readonly Step[]): string {
  if (hasLoneSurrogate(text)) {
    const at = pointer(path);
    throw new FormatError("json-syntax", `${at} holds a lone surrogate; remove it`, at);
  }
  if (hasNoncharacter(text)) throw noncharacter(path);
  return text;
}

function checked(value: JsonInput, path: readonly Step[]): Json {
  switch (typeof value) {
    case "string":
      return checkedText(value, path);
    case "boolean":
      return value;
    case "number":
      if (!(Math.abs(value) <= MAX_INTEGER)) throw outOfRange(path);
      return value;
    case "object":
      break;
    default:
      throw new FormatError(
        "json-syntax",
        `${pointer(path)} is a ${typeof value}, which JSON does not have; write it as a string`,
        pointer(path),
      );
  }
  if (value === null) return null;
  if (path.length >= MAX_DEPTH) throw tooDeep(path);
  if (Array.isArray(value)) return value.map((element: JsonInput, place) => checked(element, [...path, place]));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (!(value instanceof Map) && prototype !== Object.prototype && prototype !== null) {
    throw new FormatError("json-syntax", `${pointer(path)} is no plain object; hand over its members`, pointer(path));
  }
  const members: JsonObject = new Map();
  const entries: Iterable<[string, JsonInput | undefined]> = value instanceof Map ? value : Object.entries(value);
  for (const [name, member] of entries) {
    if (member === undefined) continue;
    checkedText(name, path);
    members.set(name, checked(member, [...path, name]));
  }
  return members;
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;

class Parser {
  private at = 0;
  private readonly path: Step[] = [];

  constructor(private readonly text: string) {}

  document(): Json {
    const value = this.value();
    this.space();
    if (this.at < this.text.length) throw this.syntax();
    return value;
  }

  private syntax(): FormatError {
    const before = this.text.slice(0, this.at);
    const line = before.split("\n").length;
    const column = utf8Length(before.slice(before.lastIndexOf("\n") + 1)) + 1;
    return new FormatError("json-syntax", `not JSON at line ${line}, column ${column}; check it with any JSON tool`);
  }

  private space(): void {
    for (;;) {
      const unit = this.text.charCodeAt(this.at);
      if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return;
      this.at += 1;
    }
  }

  private value(): Json {
    this.space();
    switch (this.text[this.at]) {
      case "{":
        return this.object();
      case "[":
        return this.array();
      case '"': {
        const text = this.string();
        if (hasNoncharacter(text)) throw noncharacter(this.path);
        return text;
      }
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      default:
        return this.number();
    }
  }

  private word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) throw this.syntax();
    this.at += word.length;
    return value;
  }

  private number(): number {
    NUMBER.lastIndex = this.at;
    const spelling = NUMBER.exec(this.text)?.[0];
    if (spelling === undefined) throw this.syntax();
    const number = Number(spelling);
    if (!Number.isFinite(number)) throw this.syntax();
    this.at += spelling.length;
    // `01`, `1.` and `1e` end before their last character; nothing that may follow a number looks like that.
    if (/[0-9.eE+-]/.test(this.text[this.at] ?? "")) throw this.syntax();
    if (Math.abs(number) > MAX_INTEGER) throw outOfRange(this.path);
    return number;
  }

  private string(): string {
    this.at += 1;
    let text = "";
    for (;;) {
      const begin = this.at;
      let unit = this.text.charCodeAt(this.at);
      while (unit !== 0x22 && unit !== 0x5c && unit >= 0x20) {
        this.at += 1;
        unit = this.text.charCodeAt(this.at);
      }
      text += this.text.slice(begin, this.at);
      if (unit === 0x22) {
        this.at += 1;
        break;
      }
      // A control character, or the end of the text.
      if (unit !== 0x5c) throw this.syntax();
      text += this.escape();
    }
    if (hasLoneSurrogate(text)) throw this.syntax();
    return text;
  }

  private escape(): string {
    const letter = this.text[this.at + 1] ?? "";
    if (letter !== "u") {
      const plain = ESCAPES[letter];
      if (plain === undefined) throw this.syntax();
      this.at += 2;
      return plain;
    }
    const unit = this.unit(this.at);
    this.at += 6;
    if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit);
    // Half of a pair must be escaped beside its other half: an escaped half and a written one make no character.
    if (unit > 0xdbff || !this.text.startsWith("\\u", this.at)) throw this.syntax();
    const low = this.unit(this.at);
    if (low < 0xdc00 || low > 0xdfff) throw this.syntax();
    this.at += 6;
    return String.fromCharCode(unit, low);
  }

  private unit(at: number): number {
    const digits = this.text.slice(at + 2, at + 6);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.syntax();
    return Number.parseInt(digits, 16);
  }

  private enter(): void {
    if (this.path.length >= MAX_DEPTH) throw tooDeep(this.path);
    this.at += 1;
    this.space();
  }

  private array(): Json[] {
    this.enter();
    const elements: Json[] = [];
    if (this.text[this.at] === "]") {
      this.at += 1;
      return elements;
    }
    for (;;) {
      this.path.push(elements.length);
      elements.push(this.value());
      this.path.pop();
      if (!this.goesOn("]")) return elements;
    }
  }

  private object(): JsonObject {
    this.enter();
    const members: JsonObject = new Map();
    if (this.text[this.at] === "}") {
      this.at += 1;
      return members;
    }
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') throw this.syntax();
      const name = this.string();
      if (hasNoncharacter(name)) throw noncharacter(this.path);
      this.path.push(name);
      if (members.has(name)) {
        const at = pointer(this.path);
        throw new FormatError("duplicate-member", `${at} stands twice in its object; keep one`, at);
      }
      this.space();
      if (this.text[this.at] !== ":") throw this.syntax();
      this.at += 1;
      members.set(name, this.value());
      this.path.pop();
      if (!this.goesOn("}")) return members;
    }
  }

  private goesOn(end: string): boolean {
    this.space();
    const found = this.text[this.at];
    if (found !== "," && found !== end) throw this.syntax();
    this.at += 1;
    return found === ",";
  }
}
