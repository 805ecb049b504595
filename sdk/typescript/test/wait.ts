// Waiting in tests: for what comes about, not for time to pass.

import { setTimeout as sleep } from "node:timers/promises";

/** Longest that anything here takes on a busy machine. */
const LIMIT_MS = 60_000;

/** Waits until `is` answers something true, and answers that. */
export async function until<T>(what: string, is: () => T | Promise<T>): Promise<NonNullable<T>> {
  for (const end = Date.now() + LIMIT_MS; Date.now() < end; await sleep(20)) {
    const answer = await is();
    if (answer) return answer as NonNullable<T>;
  }
  throw new Error(`did not come about: ${what}`);
}
