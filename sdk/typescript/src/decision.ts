// The bodies that a gate's scope writes: what was decided, and what became of it. Pure: request ids, salts and times are
// arguments. Members stand in the protocol's order, whatever order the caller gave them in.

import { actionDigest } from "./actions.js";
import type { Disclosure } from "./commitments.js";
import { commit, committedDigest, newSalt } from "./commitments.js";
import { findCredential } from "./credentials.js";
import { ScopeError } from "./errors.js";
import type { Json, JsonInput, JsonObject } from "./ijson.js";
import { printJson, toJson } from "./ijson.js";
import { jsonDigest } from "./jcs.js";

/** What a decision may say; each member is the wire member of the same name in snake case. */
export interface DecisionMembers {
  /** Whether the request's own signature verified. */
  readonly authenticated: boolean;
  /** Ties decision, approval and outcome together; used once. 128 random bits if left out. */
  readonly requestId?: string | undefined;
  /** Code of the rule that decided. */
  readonly rule?: string | undefined;
  /** Prose for the operator. */
  readonly why?: string | undefined;
  /** What the caller was told, where that is less. */
  readonly callerReason?: string | undefined;
  /** The normalised tool or operation. */
  readonly operation?: string | undefined;
  /** Its target. */
  readonly resource?: string | undefined;
  /** For example `READ` or `IDENTITY_MUTATION`. */
  readonly actionClass?: string | undefined;
  /** The risk objects touched. */
  readonly subjects?: readonly string[] | undefined;
  /** The agent's session. */
  readonly session?: string | undefined;
  /** The arguments. They go as a digest unless `argsMode` is `clear`. */
  readonly args?: JsonInput | undefined;
  readonly argsMode?: "digest" | "clear" | undefined;
  /** What had been verified when the decision was made. */
  readonly proven?: readonly string[] | undefined;
  /** Who the caller says it is. */
  readonly claimedAgent?: string | undefined;
  /** Who the verified capability is bound to; needs `capability_signature` in `proven`. */
  readonly boundAgent?: string | undefined;
  readonly capability?: CapabilityMembers | undefined;
  readonly grant?: GrantMembers | undefined;
  /** What the agent had read when it asked. */
  readonly facts?: readonly FactMembers[] | undefined;
  /** `gate` (the default) or `caller` for what is allowed; `none` for what is denied. */
  readonly executes?: "gate" | "caller" | "none" | undefined;
  /** The approval this decision rests on. */
  readonly approval?: ApprovalMembers | undefined;
  /** The history it was judged by, as `gate.history()` answers it. */
  readonly history?: PriorHistory | undefined;
  /** Names (on the wire) of members to commit to: the receipt holds a salted digest, the outbox the value. */
  readonly commit?: readonly string[] | undefined;
  /** Members of your own. */
  readonly extra?: ReadonlyMap<string, JsonInput> | { readonly [name: string]: JsonInput | undefined } | undefined;
}

/** `capability`: what the caller presented. */
export interface CapabilityMembers {
  readonly id?: string | undefined;
  readonly maxCalls?: number | undefined;
  readonly callsUsed?: number | undefined;
  readonly counts?: "dispatched" | "executed" | undefined;
  readonly expiresAt?: number | string | undefined;
}
/** `grant`: on whose behalf and to what end. */
export interface GrantMembers {
  readonly principal?: string | undefined;
  readonly purpose?: string | undefined;
  readonly verifiedVia?: string | undefined;
  readonly task?: string | undefined;
}
/** One of `facts`. */
export interface FactMembers {
  readonly source?: string | undefined;
  readonly trust?: "trusted" | "untrusted" | undefined;
  readonly summary?: string | undefined;
  readonly digest?: string | undefined;
}
/** `approval` inside a decision. */
export interface ApprovalMembers {
  readonly digest?: string | undefined;
  readonly by?: string | undefined;
  readonly at?: number | string | undefined;
}
/** The moment of a history, in the gate's own stream. */
export interface AsOf {
  readonly subjects: readonly string[];
  /** The gate's next seq when it was read. */
  readonly nextSeq: number;
}
/** The history that a gate judged by, as the decision states it. */
export interface PriorHistory {
  /** The action classes logged for the subjects, in the log's order, the pending ones behind. */
  readonly classes: readonly string[];
  /** Subject to the id of the newest receipt that names it. */
  readonly heads: ReadonlyMap<string, string> | Readonly<Record<string, string>>;
  /** Size and root (base64) of the head it was true at. */
  readonly size: bigint | number;
  readonly root: string;
  /** Whether a fresh quorum vouched for that head. */
  readonly witnessed: boolean;
  /** Why not. */
  readonly why?: string | undefined;
  /** What the gate had decided when it was read; no member of the decision. */
  readonly asOf?: AsOf | undefined;
}

/** A decision, written. */
export interface DecisionText {
  readonly text: string;
  readonly body: JsonObject;
  /** What opens its committed members, in the order in which they were named. */
  readonly disclosures: readonly Disclosure[];
  /** The action digest with the request id as nonce. */
  readonly actionDigest: string;
  /** The same, where an auditor can hold it against the decision, else `undefined`. */
  readonly executedDigest: string | undefined;
  readonly agent: Agent | undefined;
}

/** Who acts, as the outcome names it. */
export interface Agent {
  readonly name: string;
  readonly bound: boolean;
}

/** The names of an object's members, checked to be all of them. */
type Names<T> = { readonly [K in keyof Required<T>]: true };

const ORDER = [
  "rule",
  "why",
  "caller_reason",
  "operation",
  "resource",
  "action_class",
  "subjects",
  "session",
  "args",
  "args_digest",
  "authenticated",
  "proven",
  "claimed_agent",
  "bound_agent",
  "capability",
  "grant",
  "facts",
  "prior_action_classes",
  "prior_heads",
  "history",
  "executes",
  "approval",
] as const;
/** The members that a decision may have: what stands under another name would be lost without a word. */
const MEMBERS: Names<DecisionMembers> = {
  authenticated: true,
  requestId: true,
  rule: true,
  why: true,
  callerReason: true,
  operation: true,
  resource: true,
  actionClass: true,
  subjects: true,
  session: true,
  args: true,
  argsMode: true,
  proven: true,
  claimedAgent: true,
  boundAgent: true,
  capability: true,
  grant: true,
  facts: true,
  executes: true,
  approval: true,
  history: true,
  commit: true,
  extra: true,
};
/** The same of the objects in it. A history is handed over as it was answered, with more than its decision states. */
const CAPABILITY: Names<CapabilityMembers> = { id: true, maxCalls: true, callsUsed: true, counts: true, expiresAt: true };
const GRANT: Names<GrantMembers> = { principal: true, purpose: true, verifiedVia: true, task: true };
const FACT: Names<FactMembers> = { source: true, trust: true, summary: true, digest: true };
const APPROVAL: Names<ApprovalMembers> = { digest: true, by: true, at: true };
/** What a gate must find again in its receipts after a crash. */
const NEVER_COMMITTED: readonly string[] = ["type", "request_id", "decision", "executes"];
/** Most characters of an error in an outcome. */
const MAX_ERROR = 300;

/** Longest name of a request, agent or session, in bytes of UTF-8: an outcome repeats the first two, and must have room for them. */
const MAX_NAME = 1024;
/** Longest text of an outcome: header and signature of a receipt take less than the rest of an entry. */
const MAX_OUTCOME = 64_000;
/**
 * What an outcome does without, in this order, where it could not be signed with it: a decision's own id tells it from all
 * others. An outcome that cannot be signed would be owed for ever, and hold up everything behind it.
 */
const DISPENSABLE: readonly (readonly string[])[] = [["error"], ["agent", "authenticated"], ["request_id"]];

/** What the outcome of an action says whose gate stopped before it could tell. */
export const OUTCOME_UNKNOWN = "outcome-unknown: the gate stopped before it could tell";

/** A request id: 128 random bits in hex. */
export function newRequestId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Writes a decision. Throws a {@link ScopeError} (`decision-claims`) for claims that must not be signed, a `FormatError` for values that are no JSON. */
export function decisionBody(
  ruling: "allow" | "deny",
  given: DecisionMembers,
  requestId: string,
  salt: (name: string) => string = newSalt,
): DecisionText {
  checkNames(given);
  const extra = toJson(given.extra ?? {});
  const members = wireMembers(ruling, given);
  const committed = given.commit ?? [];
  if (!(extra instanceof Map)) throw claims("`extra` holds members of your own: give an object");
  checkClaims(ruling, given, committed, extra);
  const { claimedAgent, boundAgent, session } = given;
  for (const [name, value] of Object.entries({ requestId, claimedAgent, boundAgent, session })) {
    if (typeof value === "string" && new TextEncoder().encode(value).length > MAX_NAME)
      throw claims(`\`${name}\` has more than ${MAX_NAME} bytes: name it by something shorter, such as a digest`);
  }
  const args = members.get("args");
  if (args !== undefined && given.argsMode !== "clear" && !committed.includes("args")) {
    members.delete("args");
    members.set("args_digest", jsonDigest(args));
  }
  const body: JsonObject = new Map<string, Json>([
    ["type", "decision"],
    ["request_id", toJson(requestId)],
    ["decision", ruling],
  ]);
  for (const name of ORDER) {
    const value = members.get(name);
    if (value !== undefined) body.set(name, value);
  }
  for (const [name, value] of extra) body.set(name, value);
  const disclosures: Disclosure[] = [];
  for (const name of new Set(committed)) {
    const value = body.get(name);
    if (value === undefined) throw claims(`\`${name}\` is to be committed and is not given: give it, or leave it out of \`commit\``);
    const made = commit(name, value, salt(name));
    body.set(name, made.committed);
    disclosures.push(made.disclosure);
  }
  const digest = actionDigest({
    operation: given.operation,
    resource: given.resource,
    args,
    capabilityId: given.capability?.id,
    nonce: requestId,
  });
  return {
    text: printJson(body),
    body,
    disclosures,
    actionDigest: digest,
    executedDigest: isComparable(body) ? digest : undefined,
    agent: agentOf(body),
  };
}

/** How an action ended. */
export interface OutcomeMembers {
  readonly requestId?: string | undefined;
  /** The id of the decision's receipt. */
  readonly decision: string;
  readonly executed: boolean;
  readonly unknown?: boolean | undefined;
  readonly executedBy: "gate" | "caller";
  readonly executedDigest?: string | undefined;
  readonly agent?: Agent | undefined;
  readonly error?: string | undefined;
  readonly resultDigest?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly startedAt?: number | undefined;
  readonly endedAt?: number | undefined;
}

/** Writes an outcome. The text alone is no receipt: a gate signs only what its own scopes ended in. */
export function outcomeBody(end: OutcomeMembers): string {
  const body: JsonObject = new Map();
  const put = (name: string, value: Json | undefined) => value !== undefined && body.set(name, value);
  put("type", "outcome");
  put("request_id", end.requestId);
  put("decision", end.decision);
  put("executed", end.executed);
  put("unknown", end.unknown === true ? true : undefined);
  put("executed_by", end.executedBy);
  put("executed_digest", end.executedDigest);
  put("agent", end.agent?.name);
  put("authenticated", end.agent?.bound === false ? false : undefined);
  put("error", end.error);
  put("result_digest", end.resultDigest);
  put("started_at", end.startedAt);
  put("ended_at", end.endedAt);
  for (const names of DISPENSABLE) {
    if (mayBeSigned(body)) break;
    for (const name of names) body.delete(name);
  }
  return printJson(body);
}

function mayBeSigned(body: JsonObject): boolean {
  try {
    for (const value of body.values()) toJson(value);
  } catch {
    return false;
  }
  return findCredential(body) === undefined && new TextEncoder().encode(printJson(body)).length <= MAX_OUTCOME;
}

/** Writes a person's answer to the action with this digest. */
export function approvalBody(
  requestId: string,
  decision: string,
  by: string,
  digest: string,
  verdict: "approved" | "declined" = "approved",
): string {
  return printJson(toJson({ type: "approval", request_id: requestId, decision, verdict, by, digest }));
}

/** Writes that so many actions ran without a receipt. */
export function droppedBody(count: number, since: number, until: number, why: "full" | "disk"): string {
  return printJson(toJson({ type: "dropped", count, since, until, why }));
}

/** What an outcome says of an error: type, colon, message; the type alone where the message must not be told. */
export function errorText(typeName: string, message: string): string {
  const whole = `${typeName}: ${message}`;
  if (mayBeTold(whole) && mayBeTold(message)) return cut(whole);
  return mayBeTold(typeName) ? cut(typeName) : "Error";
}

/** What an outcome says where the author gave the reason. */
export function reasonText(reason: string): string {
  return mayBeTold(reason) ? cut(reason) : "the reason given cannot stand in a receipt";
}

/** Who acts, by the members of a decision's body. A committed name is not repeated. */
export function agentOf(body: JsonObject): Agent | undefined {
  const bound = body.get("bound_agent");
  if (bound !== undefined) return typeof bound === "string" ? { name: bound, bound: true } : undefined;
  const claimed = body.get("claimed_agent");
  return typeof claimed === "string" ? { name: claimed, bound: false } : undefined;
}

function claims(sentence: string): ScopeError {
  return new ScopeError("decision-claims", sentence);
}

/** Refuses what would be lost without a word. */
function checkNames(given: DecisionMembers): void {
  checkObject("", given, MEMBERS);
  checkObject("capability", given.capability, CAPABILITY);
  checkObject("grant", given.grant, GRANT);
  checkObject("approval", given.approval, APPROVAL);
  if (given.facts !== undefined && !Array.isArray(given.facts)) throw claims("`facts` is a list of objects");
  for (const [place, fact] of (given.facts ?? []).entries()) checkObject(`facts[${place}]`, fact, FACT);
}

function checkObject(path: string, object: object | undefined, names: Names<object>): void {
  if (object === undefined) return;
  if (typeof object !== "object" || object === null || Array.isArray(object) || object instanceof Map)
    throw claims(`\`${path || "decision"}\` is an object, with the members ${Object.keys(names).join(", ")}`);
  const strange = Object.keys(object).find((name) => !Object.hasOwn(names, name));
  if (strange === undefined) return;
  const [whose, member] = path === "" ? ["a decision", strange] : [`\`${path}\``, `${path}.${strange}`];
  throw claims(`${whose} has no member \`${member}\`: put it into \`extra\` if it is one of your own`);
}

function checkClaims(ruling: "allow" | "deny", given: DecisionMembers, committed: readonly string[], extra: JsonObject): void {
  if (given.boundAgent !== undefined && !given.proven?.includes("capability_signature")) {
    throw claims(
      "`boundAgent` stands only where the capability's signature was verified: put `capability_signature` into `proven` once it was, or name the agent as `claimedAgent`",
    );
  }
  const defined: readonly string[] = [...NEVER_COMMITTED, ...ORDER, "executed", "unknown"];
  const taken = Array.from(extra.keys()).find((name) => defined.includes(name));
  if (taken !== undefined) throw claims(`\`extra\` holds \`${taken}\`, which the protocol defines: give it by its own name`);
  const kept = committed.find((name) => NEVER_COMMITTED.includes(name));
  if (kept !== undefined)
    throw claims(`\`${kept}\` cannot be committed: the gate finds its own receipts by it; leave it out of \`commit\``);
  if (ruling === "deny" && given.executes !== undefined && given.executes !== "none") {
    throw claims('a denied action is executed by nobody: leave `executes` out, or say "none"');
  }
}

function wireMembers(ruling: "allow" | "deny", given: DecisionMembers): JsonObject {
  const { capability, grant, history } = given;
  const wire: Record<string, JsonInput | undefined> = {
    rule: given.rule,
    why: given.why,
    caller_reason: given.callerReason,
    operation: given.operation,
    resource: given.resource,
    action_class: given.actionClass,
    subjects: given.subjects,
    session: given.session,
    args: given.args,
    authenticated: given.authenticated,
    proven: given.proven,
    claimed_agent: given.claimedAgent,
    bound_agent: given.boundAgent,
    capability: capability && {
      id: capability.id,
      max_calls: capability.maxCalls,
      calls_used: capability.callsUsed,
      counts: capability.counts,
      expires_at: capability.expiresAt,
    },
    grant: grant && { principal: grant.principal, purpose: grant.purpose, verified_via: grant.verifiedVia, task: grant.task },
    facts: given.facts?.map(({ source, trust, summary, digest }) => ({ source, trust, summary, digest })),
    prior_action_classes: history?.classes,
    prior_heads: history?.heads,
    history: history && { size: Number(history.size), root: history.root, witnessed: history.witnessed, why: history.why },
    executes: given.executes ?? (ruling === "allow" ? "gate" : "none"),
    approval: given.approval && { digest: given.approval.digest, by: given.approval.by, at: given.approval.at },
  };
  const members = toJson(wire);
  return members instanceof Map ? members : new Map();
}

/** Whether an auditor can tell the action digest from the decision: it states one, or shows all that goes in. */
function isComparable(body: JsonObject): boolean {
  const inside = (name: string, member: string) => {
    const object = body.get(name);
    return object instanceof Map && typeof object.get(member) === "string";
  };
  const isText = (name: string) => typeof body.get(name) === "string";
  const args = body.get("args");
  const shows = isText("operation") && isText("resource") && args !== undefined && !holdsCommitment(args) && !body.has("nonce");
  return inside("approval", "digest") || (shows && (!body.has("capability") || inside("capability", "id")));
}

function holdsCommitment(value: Json): boolean {
  if (Array.isArray(value)) return value.some(holdsCommitment);
  if (!(value instanceof Map)) return false;
  return committedDigest(value) !== undefined || Array.from(value.values()).some(holdsCommitment);
}

/** Whole, so that no part of a secret is told; and cut, since a cut can make a token out of a longer word. */
function mayBeTold(text: string): boolean {
  try {
    toJson(text);
  } catch {
    return false;
  }
  return [text, cut(text)].every((told) => findCredential(new Map([["error", told]])) === undefined);
}

function cut(text: string): string {
  return Array.from(text).slice(0, MAX_ERROR).join("");
}
