// One allowed action, from its decision to its outcome. The outcome is made from what the scope saw, never from what an
// author says: there is no way to write `executed: true` but to let the call return.

import { bytesDigest, jsonDigest } from "../jcs.js";
import type { DecisionText } from "../decision.js";
import { approvalBody, errorText, outcomeBody, reasonText } from "../decision.js";
import { OutcomeUnknown, ScopeError } from "../errors.js";
import type { JsonInput } from "../ijson.js";
import type { Ledger } from "./ledger.js";
import type { Receipt } from "../receipts.js";

/** How a call inside a scope, or the scope itself, ended. */
type Ended = { readonly how: "returned" } | { readonly how: "threw"; readonly error: unknown };

/** A scope: the decision is durable, the outcome is still to come. */
export class Act implements AsyncDisposable {
  /** The request id, given or made. */
  readonly requestId: string;
  /** The action digest, computed once. */
  readonly actionDigest: string;
  /** The id of the decision's receipt; `null` where `fail_open` let the action through without one. */
  readonly receiptId: string | null;
  private readonly startedAt: number;
  private readonly calls: Ended[] = [];
  private pendingCalls = 0;
  private reason: string | undefined;
  private resultDigest: string | undefined;
  private ended: Promise<void> | undefined;

  /** @internal Scopes are made by `Gate.decision` and `Gate.run`. */
  constructor(
    private readonly ledger: Ledger,
    private readonly clock: () => number,
    private readonly decision: DecisionText,
    /** The decision's receipt, where this scope writes its outcome. */
    private readonly receipt: Receipt | undefined,
    requestId: string,
    receiptId: string | undefined,
    private readonly warn: (error: Error) => void,
  ) {
    this.requestId = requestId;
    this.actionDigest = decision.actionDigest;
    this.receiptId = receiptId ?? null;
    this.startedAt = clock();
  }

  /** Does the action: calls `action`, and remembers whether it returned. What it answers or throws is handed on. */
  async call<T>(action: () => T | Promise<T>): Promise<T> {
    if (this.ended !== undefined) throw new ScopeError("scope-only", "this scope has ended; ask the gate for another decision");
    this.pendingCalls += 1;
    try {
      const answer = await action();
      this.calls.push({ how: "returned" });
      return answer;
    } catch (error) {
      this.calls.push({ how: "threw", error });
      throw error;
    } finally {
      this.pendingCalls -= 1;
    }
  }

  /** Says that the action was not done after all, and why. */
  notExecuted(reason: string): void {
    this.reason = reason;
  }

  /** Puts the digest of the action's result into the outcome: over bytes as they are, over anything else as JSON. */
  result(value: JsonInput | Uint8Array): void {
    this.resultDigest = value instanceof Uint8Array ? bytesDigest(value) : jsonDigest(value);
  }

  /** Writes that a person approved (or declined) exactly this action. `null` where the decision has no receipt. */
  async approvedBy(by: string, verdict: "approved" | "declined" = "approved"): Promise<Receipt | null> {
    if (this.receiptId === null) return null;
    return this.ledger.appendPromised({ text: approvalBody(this.requestId, this.receiptId, by, this.actionDigest, verdict) });
  }

  /**
   * Ends the scope, for `await using`. An exception in the block is not visible here: the calls made by {@link Act.call}
   * decide. None made: nobody knows, and the outcome says so.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.end(undefined);
  }

  /**
   * @internal Ends the scope once; `body` is how the function that ran in it ended. Never fails: the action has run, and that
   * its outcome is not on disk yet must not look as if it had not. The outcome stays owed, and `warn` is told.
   */
  end(body: Ended | undefined): Promise<void> {
    this.ended ??= this.writeOutcome(body).catch((error: unknown) => this.warn(error instanceof Error ? error : new Error(String(error))));
    return this.ended;
  }

  private async writeOutcome(body: Ended | undefined): Promise<void> {
    if (this.receipt === undefined) return;
    const { executed, unknown, error } = this.judge(body);
    const text = outcomeBody({
      requestId: this.requestId,
      decision: this.receipt.id,
      executed,
      unknown,
      executedBy: "gate",
      executedDigest: executed ? this.decision.executedDigest : undefined,
      agent: this.decision.agent,
      error,
      resultDigest: this.resultDigest,
      startedAt: this.startedAt,
      endedAt: Math.max(this.startedAt, this.clock()),
    });
    await this.ledger.end(Number(this.receipt.seq), text);
  }

  private judge(body: Ended | undefined): { executed: boolean; unknown?: boolean; error?: string | undefined } {
    const failed = this.calls.find((call) => call.how === "threw");
    const isDone = this.calls.some((call) => call.how === "returned");
    // Whatever the author made of it: of a call that left and was not answered nobody knows what it did.
    const isOpen = this.calls.some((call) => call.how === "threw" && notDone(call.error).unknown === true);
    // What a call is still doing nobody knows.
    if (this.pendingCalls > 0) return isDone ? { executed: true } : cancelled;
    if (body?.how === "threw") {
      if (isDone) return { executed: true, error: toldError(body.error) };
      return isOpen ? { ...notDone(body.error), unknown: true } : notDone(body.error);
    }
    if (this.reason !== undefined && !isDone) {
      return { executed: false, ...(isOpen ? { unknown: true } : {}), error: reasonText(this.reason) };
    }
    if (isDone) return { executed: true, error: failed?.how === "threw" ? toldError(failed.error) : undefined };
    // The calls tell more than a body that returned all the same.
    if (failed?.how === "threw") return isOpen ? { ...notDone(failed.error), unknown: true } : notDone(failed.error);
    return body === undefined ? cancelled : { executed: true };
  }
}

const cancelled = { executed: false, unknown: true, error: "cancelled" };

/** How those are named who gave up waiting, which leaves open what happened: `AbortController.abort()`, `AbortSignal.timeout(…)`. */
const GAVE_UP: readonly string[] = ["AbortError", "TimeoutError"];

/** What an error says of an action that never returned. */
function notDone(error: unknown): { executed: boolean; unknown?: boolean; error: string } {
  if (error instanceof Error && GAVE_UP.includes(error.name)) return cancelled;
  if (error instanceof OutcomeUnknown) return { executed: false, unknown: true, error: toldError(error) };
  return { executed: false, error: toldError(error) };
}

function toldError(error: unknown): string {
  try {
    if (!(error instanceof Error)) return errorText(typeof error, typeof error === "string" ? error : "");
    return errorText(`${error.name}` === "" ? "Error" : `${error.name}`, `${error.message}`);
  } catch {
    // Its members are whatever its author made them.
    return "Error";
  }
}
