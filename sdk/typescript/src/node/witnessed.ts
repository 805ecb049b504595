// Since when enough witnesses vouch for a head. Pure.

import { MAX_AHEAD_MS } from "../admit.js";
import type { SignedCheckpoint } from "../checkpoints.js";
import type { Policy } from "../policy.js";

/**
 * The latest time, in milliseconds, of which a quorum says that this was the log's head: when the last member of its newest
 * whole quorum was there; `undefined` where there is none. Of a policy without a quorum it is `now`, when the log said so.
 *
 * Times too far ahead of `now` are none, and the newest line alone says nothing: so one liar keeps no old head fresh.
 */
export async function witnessedAt(head: SignedCheckpoint, policy: Policy, now: number): Promise<number | undefined> {
  if (policy.quorum === undefined) return now;
  const newest: { at: number; place: number }[] = [];
  for (const [place, { vkey }] of policy.witnesses.entries()) {
    const times = (await head.cosignaturesBy(vkey)).map((cosignature) => Number(cosignature?.timestamp ?? 0n) * 1000);
    const believed = times.filter((at) => at > 0 && at <= now + Number(MAX_AHEAD_MS));
    if (believed.length > 0) newest.push({ at: Math.max(...believed), place });
  }
  newest.sort((left, right) => right.at - left.at);
  const together = new Set<number>();
  for (const { at, place } of newest) {
    together.add(place);
    if (policy.satisfiedBy(together)) return at;
  }
  return undefined;
}
