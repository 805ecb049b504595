// Policies: which logs and witnesses somebody trusts, and how many witnesses it takes (tlog-policy).
//
//   log <vkey> [<url>]   witness <name> <vkey> [<url>]   group <name> all|any|<k> <member>...   quorum <name>|none
//
// A policy is octets: names are compared byte for byte. In here a name is a string of characters U+0000 to U+00FF, one
// for each octet; what people see is decoded for them.

import { fromUtf8, parseU64, toHex, utf8 } from "./bytes.js";
import { CounterfoilError, FormatError } from "./errors.js";
import { PRIVATE_PREFIX, VerifierKey } from "./keys.js";

/** Largest policy file in bytes. */
export const MAX_POLICY_LEN = 1 << 21;
/** Most logs, most witnesses, most groups. */
const MAX_OF_EACH = 256;

/** A member of a group, or the quorum: a place in the policy's list of witnesses or of groups. */
export interface Member {
  readonly kind: "witness" | "group";
  readonly place: number;
}
/** A log whose heads the policy accepts. */
export interface PolicyLog {
  readonly vkey: VerifierKey;
  readonly url: string | undefined;
}
/** A key of a witness. */
export interface PolicyWitness {
  /** What groups and the quorum call it. */
  readonly name: string;
  readonly vkey: VerifierKey;
  readonly url: string | undefined;
}
/** A group: satisfied when `threshold` of its members are. */
export interface PolicyGroup {
  readonly name: string;
  readonly threshold: number;
  readonly members: readonly Member[];
}

/** Octets that are no policy: `line` says where, `code` what. */
export class PolicyError extends FormatError {
  constructor(
    code: string,
    /** The line at fault, from 1. */
    readonly line: number,
    sentence: string,
  ) {
    super(code, `policy line ${line}: ${sentence}`);
  }
}

/** A policy. Every reference in it resolves, no key is listed twice, no name is a member twice. */
export class Policy {
  private constructor(
    /** In file order; any of them is accepted. */
    readonly logs: readonly PolicyLog[],
    /** In file order. */
    readonly witnesses: readonly PolicyWitness[],
    /** In file order. */
    readonly groups: readonly PolicyGroup[],
    /** What must be satisfied; `undefined` is `quorum none`. */
    readonly quorum: Member | undefined,
  ) {}

  /** Reads a policy file. Throws a {@link PolicyError}. */
  static parse(policy: Uint8Array | string): Policy {
    const octets = typeof policy === "string" ? utf8(policy) : policy;
    const reader = new Reader();
    if (octets.length > MAX_POLICY_LEN) {
      throw new PolicyError(
        "policy-too-long",
        1,
        `the file is longer than ${MAX_POLICY_LEN} bytes; shorten its comments or split the policy`,
      );
    }
    const lines = latin1(octets).split("\n");
    const last = lines.pop();
    for (const line of lines) reader.read(line);
    if (last !== "") {
      reader.line += 1;
      throw reader.fault("policy-unterminated", "the last line does not end in a newline; check that the file is whole, then add one");
    }
    if (reader.quorum === undefined) {
      reader.line = Math.max(1, reader.line);
      throw reader.fault("policy-no-quorum", 'no quorum line in the file; add "quorum <name>", or "quorum none" if no witness is required');
    }
    return new Policy(reader.logs, reader.witnesses, reader.groups, reader.quorum.member);
  }

  /** Whether the witnesses at these places, together, satisfy the quorum. */
  satisfiedBy(places: ReadonlySet<number>): boolean {
    const holds = (member: Member): boolean => {
      if (member.kind === "witness") return places.has(member.place);
      const group = this.groups[member.place];
      return group !== undefined && group.members.filter(holds).length >= group.threshold;
    };
    return this.quorum === undefined || holds(this.quorum);
  }
}

function latin1(octets: Uint8Array): string {
  let text = "";
  for (let at = 0; at < octets.length; at += 8192) text += String.fromCharCode(...octets.subarray(at, at + 8192));
  return text;
}

function octetsOf(name: string): Uint8Array {
  return Uint8Array.from(name, (character) => character.charCodeAt(0));
}

/** As text, for messages: what may be a private key is not repeated. */
function shown(word: string): string {
  if (word.includes(PRIVATE_PREFIX)) return "(a private key, not repeated here)";
  return new TextDecoder().decode(octetsOf(word));
}

class Reader {
  line = 0;
  readonly logs: PolicyLog[] = [];
  readonly witnesses: PolicyWitness[] = [];
  readonly groups: PolicyGroup[] = [];
  quorum: { line: number; member: Member | undefined } | undefined;
  private readonly defined = new Map<string, Member>();
  private readonly taken = new Set<string>();
  private readonly keyLines = { log: new Map<string, number>(), witness: new Map<string, number>() };

  fault(code: string, sentence: string): PolicyError {
    return new PolicyError(code, this.line, sentence);
  }

  read(line: string): void {
    this.line += 1;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
    if (/[\u0000-\u0008\u000a-\u001f\u007f]/.test(line)) {
      throw this.fault("policy-control", "a control character other than a tab; save the file as plain text with Unix line ends");
    }
    const [keyword, ...words] = line.split(/[ \t]+/).filter((word) => word !== "");
    if (keyword === undefined || keyword.startsWith("#")) return;
    switch (keyword) {
      case "log":
        this.log(words);
        break;
      case "witness":
        this.witness(words);
        break;
      case "group":
        this.group(words);
        break;
      case "quorum":
        this.quorumLine(words);
        break;
      default:
        if (keyword.startsWith(PRIVATE_PREFIX)) throw this.fault("private-key", "bad vkey: this is a private key; keep it to yourself");
        throw this.fault("policy-keyword", `unknown keyword ${shown(keyword)}; a line starts with log, witness, group, quorum or #`);
    }
  }

  private words(words: readonly string[], least: number, most: number, form: string): void {
    if (words.length < least) throw this.fault("policy-too-few-words", `incomplete; it must read "${form}"`);
    if (words.length > most)
      throw this.fault("policy-too-many-words", `${shown(words[most] ?? "")} is one word too many; it must read "${form}"`);
  }

  private key(word: string, role: "log" | "witness"): VerifierKey {
    let key: VerifierKey;
    try {
      const text = fromUtf8(octetsOf(word));
      if (text === undefined) throw new FormatError("key-shape", "not a key");
      key = VerifierKey.parse(text);
    } catch (error) {
      if (!(error instanceof CounterfoilError)) throw error;
      throw this.fault(error.code, `bad vkey: ${error.message}`);
    }
    if ((role === "log") !== (key.kind === "ed25519")) {
      throw this.fault(
        "policy-key-kind",
        `a ${role} needs a key of type ${role === "log" ? "0x01" : "0x04 or 0x06"}; copy the vkey that the ${role} itself prints`,
      );
    }
    const bytes = toHex(key.publicKey);
    const before = this.keyLines[role].get(bytes);
    this.keyLines[role].set(bytes, this.line);
    if (before !== undefined) {
      throw this.fault(
        "policy-duplicate-key",
        `this public key is already listed on line ${before}, whatever its name; remove one of the two`,
      );
    }
    return key;
  }

  private room(list: readonly unknown[], kind: string): void {
    if (list.length === MAX_OF_EACH)
      throw this.fault("policy-too-many", `more than ${MAX_OF_EACH} ${kind} lines; remove those that no quorum needs`);
  }

  private log(words: readonly string[]): void {
    this.words(words, 1, 2, "log <vkey> [<url>]");
    const vkey = this.key(words[0] ?? "", "log");
    this.room(this.logs, "log");
    this.logs.push({ vkey, url: url(words[1]) });
  }

  private witness(words: readonly string[]): void {
    this.words(words, 2, 3, "witness <name> <vkey> [<url>]");
    const name = this.newName(words[0] ?? "");
    const vkey = this.key(words[1] ?? "", "witness");
    this.defined.set(name, { kind: "witness", place: this.witnesses.length });
    this.room(this.witnesses, "witness");
    this.witnesses.push({ name, vkey, url: url(words[2]) });
  }

  private group(words: readonly string[]): void {
    this.words(words, 3, Number.POSITIVE_INFINITY, "group <name> all|any|<k> <member>...");
    const [nameWord = "", threshold = "", ...listed] = words;
    const name = this.newName(nameWord);
    const needed = this.threshold(threshold, listed.length);
    const members = listed.map((word) => {
      if (word === "none") throw this.fault("policy-none-as-member", "none cannot be a member of a group; only a quorum line may say none");
      const member = this.resolve(word);
      if (this.taken.has(word)) {
        throw this.fault(
          "policy-member-twice",
          `${shown(word)} is already a member of a group; each name may be a member once, so that nobody counts twice`,
        );
      }
      this.taken.add(word);
      return member;
    });
    // Defined only now: a group cannot be its own member.
    this.defined.set(name, { kind: "group", place: this.groups.length });
    this.room(this.groups, "group");
    this.groups.push({ name, threshold: needed, members });
  }

  private threshold(word: string, members: number): number {
    if (word === "any") return 1;
    if (word === "all") return members;
    const number = parseU64(word);
    if (number === undefined || number < 1n || number > BigInt(members)) {
      throw this.fault(
        "policy-threshold",
        `the threshold ${shown(word)} is not all, any or a number from 1 to the ${members} members listed`,
      );
    }
    return Number(number);
  }

  private quorumLine(words: readonly string[]): void {
    this.words(words, 1, 1, "quorum <name>|none");
    if (this.quorum !== undefined)
      throw this.fault("policy-second-quorum", `the quorum is already defined on line ${this.quorum.line}; keep one quorum line`);
    const word = words[0] ?? "";
    this.quorum = { line: this.line, member: word === "none" ? undefined : this.resolve(word) };
  }

  private newName(word: string): string {
    if (word === "none") throw this.fault("policy-reserved-name", 'the name none is reserved for "quorum none"; choose another');
    if (this.defined.has(word))
      throw this.fault("policy-duplicate-name", `the name ${shown(word)} is already defined; names of witnesses and groups must differ`);
    return word;
  }

  private resolve(word: string): Member {
    const member = this.defined.get(word);
    if (member === undefined) throw this.fault("policy-undefined", `${shown(word)} is not defined on an earlier line; define it first`);
    return member;
  }
}

/** Octets that are no UTF-8 are percent-encoded, which is how a URL carries them. */
function url(word: string | undefined): string | undefined {
  if (word === undefined) return undefined;
  const octets = octetsOf(word);
  return (
    fromUtf8(octets) ??
    Array.from(octets, (octet) => (octet < 0x80 ? String.fromCharCode(octet) : `%${toHex(Uint8Array.of(octet)).toUpperCase()}`)).join("")
  );
}
