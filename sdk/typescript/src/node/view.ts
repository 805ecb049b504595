// How an outbox stands, also while another process writes to it.

import { join, resolve } from "node:path";
import { OutboxError } from "../errors.js";
import type { Receipt } from "../receipts.js";
import { exists } from "./disk.js";
import type { Acknowledged } from "./store.js";
import { Store } from "./store.js";

/** How an outbox stands. `receipts` = `queued` + `sent` + `acknowledged`. */
export interface OutboxStatus {
  readonly issuer: string | undefined;
  /** The vkey that signs next. */
  readonly vkey: string | undefined;
  /** Whether the stream ends with `close`. */
  readonly closed: boolean;
  readonly log: { readonly vkey: string; readonly url: string } | undefined;
  readonly receipts: number;
  /** Never sent. */
  readonly queued: number;
  /** Sent, and the answer has not come. */
  readonly sent: number;
  /** With a proof. */
  readonly acknowledged: number;
  /** Torn records that a start removed. */
  readonly dropped: number;
  /** Things the log did that no honest log does. */
  readonly alarms: number;
}

/** An outbox that is only looked at, also while another process writes to it, whichever SDK made it. */
export class OutboxView {
  private constructor(private readonly store: Store) {}

  /** Looks at the outbox in `dir`. Throws an {@link OutboxError} (`outbox-damaged`, `outbox-disk`). */
  static async open(dir: string): Promise<OutboxView> {
    const path = resolve(dir);
    if (!(await exists(join(path, "receipts"))))
      throw new OutboxError("outbox-damaged", `there is no outbox at ${path}; a gate makes one when it opens it`);
    return new OutboxView(await Store.open(path, "read"));
  }

  /** How it stands. */
  status(): Promise<OutboxStatus> {
    return statusOf(this.store);
  }
  /** The receipt at `seq`; `undefined` where there is none. */
  receipt(seq: number): Promise<Receipt | undefined> {
    return this.store.receipt(seq);
  }
  /** The newest proof kept for `seq`; `undefined` where it is not acknowledged. */
  proof(seq: number): Promise<Acknowledged | undefined> {
    return this.store.proof(seq);
  }
  /** The alarms that were kept, one JSON document each. */
  alarms(): ReturnType<Store["alarms"]> {
    return this.store.alarms();
  }
  /** The calls that the gate executes and that have no outcome. */
  async openCalls(): Promise<{ seq: number; id: string; requestId: string | undefined }[]> {
    return (await this.store.openCalls()).all();
  }
  /** Lets go of the files. */
  close(): Promise<void> {
    return this.store.close();
  }
}

/** How the outbox in a store stands. */
export async function statusOf(store: Store): Promise<OutboxStatus> {
  const [receipts, sent, acknowledged] = [store.count, await store.sent(), store.acknowledgedCount];
  return {
    issuer: store.state?.name,
    vkey: store.state?.currentKey.toString(),
    closed: store.state?.isClosed ?? false,
    log: store.log && { vkey: store.log.vkey.toString(), url: store.log.url },
    receipts,
    queued: receipts - sent,
    sent: sent - acknowledged,
    acknowledged,
    dropped: store.droppedCount,
    alarms: store.alarmCount,
  };
}
