// The action digest (protocol, 3.1): one name for one concrete action, carried from approval to decision to outcome.

import type { JsonInput } from "./ijson.js";
import { canonicalJson, jsonDigest } from "./jcs.js";

/** One concrete action. What is absent counts as `null`. */
export interface Action {
  /** The normalised tool or operation. */
  readonly operation?: string | null | undefined;
  /** Its target. */
  readonly resource?: string | null | undefined;
  /** Its arguments, all of them and in the clear. */
  readonly args?: JsonInput | undefined;
  /** The capability it is done under. */
  readonly capabilityId?: string | null | undefined;
  /** What makes it unlike the same action done again: the request id. */
  readonly nonce?: string | null | undefined;
}

/** `sha256:…` over the five members, all of them always there. */
export function actionDigest(action: Action): string {
  return jsonDigest(members(action));
}

/** The text that {@link actionDigest} hashes. */
export function actionText(action: Action): string {
  return canonicalJson(members(action));
}

function members(action: Action): JsonInput {
  return {
    operation: action.operation ?? null,
    resource: action.resource ?? null,
    args: action.args ?? null,
    capability_id: action.capabilityId ?? null,
    nonce: action.nonce ?? null,
  };
}
