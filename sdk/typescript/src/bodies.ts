// The shapes of bodies (protocol, section 3): which members a type has and what each may hold. A member may be
// committed instead; members and types that are not listed are kept and not looked at.

import { fromBase64 } from "./bytes.js";
import { committedDigest } from "./commitments.js";
import { FormatError } from "./errors.js";
import type { Json, JsonObject } from "./ijson.js";
import { MAX_INTEGER, pointer } from "./ijson.js";
import { isDigest } from "./jcs.js";

/** Throws {@link FormatError} with this code, or answers nothing. The path starts at the value. */
type Shape = { readonly expected: string; readonly fits: (value: Json, path: readonly (string | number)[]) => boolean };
type Members = Readonly<Record<string, Shape>>;

const shape = (expected: string, fits: Shape["fits"]): Shape => ({ expected, fits });
const text = shape("a string", (value) => typeof value === "string");
const truth = shape("true or false", (value) => typeof value === "boolean");
const isWhole = (value: Json) => typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MAX_INTEGER;
const whole = shape("a whole number from 0 to 2^53−1", isWhole);
const moment = shape("a time: whole milliseconds since the Unix epoch, or text", (value) => typeof value === "string" || isWhole(value));
const digest = shape('a digest: "sha256:" and 64 lowercase hex digits', (value) => typeof value === "string" && isDigest(value));
const receiptId = shape("a receipt id: 64 lowercase hex digits", (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value));
const anything = shape("any JSON value", () => true);
const exactBytes = shape(
  "bytes in standard, padded, canonical base64",
  (value) => typeof value === "string" && fromBase64(value) !== undefined,
);
const oneOf = (...words: string[]) =>
  shape(words.map((word) => `"${word}"`).join(" or "), (value) => typeof value === "string" && words.includes(value));

const arrayOf = (element: Shape) =>
  shape("an array", (value, path) => {
    if (!Array.isArray(value)) return false;
    for (const [place, member] of value.entries()) {
      if (!element.fits(member, [...path, place])) throw wrongType([...path, place], element.expected);
    }
    return true;
  });

const objectOf = (members: Members) =>
  shape("an object", (value, path) => {
    if (!(value instanceof Map)) return false;
    checkMembers(value, members, [], path);
    return true;
  });

/** An object whose member names are data. */
const named = (member: Shape) =>
  shape("an object", (value, path) => {
    if (!(value instanceof Map)) return false;
    for (const [name, held] of value) checkMember(held, member, [...path, name]);
    return true;
  });

const trust = oneOf("trusted", "untrusted");

const TYPES: ReadonlyMap<string, { readonly required: readonly string[]; readonly members: Members }> = new Map([
  [
    "decision",
    {
      required: ["request_id", "decision", "authenticated", "executes"],
      members: {
        request_id: text,
        decision: oneOf("allow", "deny"),
        rule: text,
        why: text,
        caller_reason: text,
        operation: text,
        resource: text,
        action_class: text,
        subjects: arrayOf(text),
        session: text,
        args_digest: digest,
        args: anything,
        authenticated: truth,
        proven: arrayOf(text),
        claimed_agent: text,
        bound_agent: text,
        capability: objectOf({
          id: text,
          max_calls: whole,
          calls_used: whole,
          counts: oneOf("dispatched", "executed"),
          expires_at: moment,
        }),
        grant: objectOf({ principal: text, purpose: text, verified_via: text, task: text }),
        facts: arrayOf(objectOf({ source: text, trust, summary: text, digest })),
        prior_action_classes: arrayOf(text),
        prior_heads: named(receiptId),
        history: objectOf({ size: whole, root: text, witnessed: truth, why: text }),
        executes: oneOf("gate", "caller", "none"),
        approval: objectOf({ digest, by: text, at: moment }),
      },
    },
  ],
  [
    "outcome",
    {
      required: ["executed"],
      members: {
        request_id: text,
        decision: receiptId,
        executed: truth,
        unknown: truth,
        executed_by: oneOf("gate", "caller"),
        executed_digest: digest,
        agent: text,
        authenticated: truth,
        error: text,
        result_digest: digest,
        started_at: moment,
        ended_at: moment,
      },
    },
  ],
  [
    "approval",
    { required: [], members: { request_id: text, decision: receiptId, verdict: oneOf("approved", "declined"), by: text, digest } },
  ],
  ["open", { required: [], members: { vkey: text, gate: anything, heartbeat_ms: whole, policy_digest: digest } }],
  ["heartbeat", { required: [], members: {} }],
  ["rotate", { required: [], members: { vkey: text } }],
  ["close", { required: [], members: {} }],
  ["dropped", { required: ["count"], members: { count: whole, since: moment, until: moment, why: oneOf("full", "disk") } }],
  [
    "memory",
    { required: [], members: { note_digest: digest, source: text, trust, form: oneOf("quoted", "asserted"), about: arrayOf(text) } },
  ],
  ["foreign", { required: [], members: { format: text, receipt: anything, receipt_b64: exactBytes } }],
]);

/** The members that a type defines; none for a type that is not defined. */
export function definedMembers(type: string): readonly string[] {
  return Object.keys(TYPES.get(type)?.members ?? {});
}

/** Checks a body's shape and answers its `type`. Throws a {@link FormatError} (`member-missing`, `member-type`). */
export function checkBody(body: JsonObject): string {
  const type = body.get("type");
  const expected = "a string that names the type of the body";
  if (type === undefined) throw missing(["type"], expected);
  if (typeof type !== "string") throw wrongType(["type"], expected);
  const known = TYPES.get(type);
  if (known !== undefined) checkMembers(body, known.members, known.required, []);
  return type;
}

function checkMembers(object: JsonObject, members: Members, required: readonly string[], path: readonly (string | number)[]): void {
  for (const [name, shape] of Object.entries(members)) {
    const value = object.get(name);
    if (value !== undefined) checkMember(value, shape, [...path, name]);
    else if (required.includes(name)) throw missing([...path, name], shape.expected);
  }
}

function checkMember(value: Json, shape: Shape, path: readonly (string | number)[]): void {
  if (committedDigest(value) === undefined && !shape.fits(value, path)) throw wrongType(path, shape.expected);
}

function missing(path: readonly (string | number)[], expected: string): FormatError {
  return new FormatError("member-missing", `${pointer(path)} is missing; expected ${expected}`, pointer(path));
}

function wrongType(path: readonly (string | number)[], expected: string): FormatError {
  return new FormatError("member-type", `${pointer(path)} is of the wrong type; expected ${expected}`, pointer(path));
}
