// Allowed calls that have no outcome: what a gate that stopped owes the log. Derived from the receipts, in order.

import type { Receipt } from "../receipts.js";

/** An allowed call without an outcome. */
export interface OpenCall {
  readonly seq: number;
  /** The id of the decision's receipt. */
  readonly id: string;
  /** `undefined` where the receipt does not show it. */
  readonly requestId: string | undefined;
}

export class OpenCalls {
  private readonly bySeq = new Map<number, OpenCall>();
  private readonly byId = new Map<string, number>();
  private readonly byRequest = new Map<string, number>();

  constructor(
    private readonly executes: "gate" | "caller",
    /** The first seq that was not taken into account: receipts may be on disk whose writers have not been told yet. */
    public nextSeq = 0,
  ) {}

  /** Takes the next receipt into account. */
  follow(receipt: Receipt): void {
    this.nextSeq = Number(receipt.seq) + 1;
    const { body } = receipt;
    const text = (name: string): string | undefined => {
      const value = body.get(name);
      return typeof value === "string" ? value : undefined;
    };
    if (receipt.type === "decision" && body.get("decision") === "allow" && body.get("executes") === this.executes) {
      const call = { seq: Number(receipt.seq), id: receipt.id, requestId: text("request_id") };
      this.bySeq.set(call.seq, call);
      this.byId.set(call.id, call.seq);
      if (call.requestId !== undefined) this.byRequest.set(call.requestId, call.seq);
    } else if (receipt.type === "outcome") {
      const [id, requestId] = [text("decision"), text("request_id")];
      const seq = id !== undefined ? this.byId.get(id) : requestId !== undefined ? this.byRequest.get(requestId) : undefined;
      const call = seq === undefined ? undefined : this.bySeq.get(seq);
      if (call === undefined) return;
      this.bySeq.delete(call.seq);
      this.byId.delete(call.id);
      if (call.requestId !== undefined) this.byRequest.delete(call.requestId);
    }
  }

  /** Oldest first. */
  all(): OpenCall[] {
    return Array.from(this.bySeq.values()).sort((left, right) => left.seq - right.seq);
  }

  get size(): number {
    return this.bySeq.size;
  }

  has(seq: number): boolean {
    return this.bySeq.has(seq);
  }

  ofRequest(requestId: string): OpenCall | undefined {
    const seq = this.byRequest.get(requestId);
    return seq === undefined ? undefined : this.bySeq.get(seq);
  }
}
