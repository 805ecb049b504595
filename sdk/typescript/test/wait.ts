// Waiting in tests: for what comes about, not for time to pass.

import { setTimeout as sleep } from "node:timers/promises";

/** Longest that anything here takes on a busy machine: whatever comes about is not waited for any longer. */
export const PATIENCE_MS = 180_000;

/** Waits until `is` answers something true, and answers that. */
export async function until<T>(what: string, is: () => T | Promise<T>): Promise<NonNullable<T>> {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(20)) {
    const answer = await is();
    if (answer) return answer as NonNullable<T>;
  }
  throw new Error(`did not come about: ${what}`);
}
