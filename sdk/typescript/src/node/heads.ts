// How two signed heads of one log stand to each other, by the tiles that the log serves. Tiles are believed only as far as
// they hash to a root that the log signed: so what contradicts it is its own word, and missing or wrong tiles accuse nobody.

import { equal, toBase64 } from "../bytes.js";
import type { Checkpoint, SignedCheckpoint } from "../checkpoints.js";
import { CounterfoilError } from "../errors.js";
import type { JsonInput } from "../ijson.js";
import type { VerifierKey } from "../keys.js";
import type { HashSource } from "../merkle.js";
import { checkConsistency, checkInclusion, emptyRoot, nodeHash, proveConsistency, proveInclusion, rootOf } from "../merkle.js";
import { TILE_WIDTH } from "../tiles.js";
import type { LogClient } from "./log_client.js";

const HASH_LEN = 32;
/** Levels of the tree in one tile: 2^8 is its width. */
const TILE_LEVELS = 8;
/** For finding out which hashes are needed, before any is there. */
const ANY = new Uint8Array(HASH_LEN);

/** A document that convicts a log of two histories (protocol, section 8). */
export interface ForkEvidence {
  readonly [name: string]: JsonInput;
}

/** What comparing two heads comes to. */
export type Comparison =
  | { readonly is: "consistent" }
  /** The log does not show it, which accuses nobody. */
  | { readonly is: "unproven"; readonly why: string }
  /** No history has both. */
  | { readonly is: "fork"; readonly evidence: ForkEvidence };

/** The root that a larger tree says a smaller one had, and the proof. */
interface Implied {
  readonly root: Uint8Array;
  readonly proof: readonly Uint8Array[];
}

/** Compares two heads that `logKey` signed, in either order. Never throws what the log is to blame for. */
export async function compareHeads(
  log: LogClient,
  logKey: VerifierKey,
  one: SignedCheckpoint,
  other: SignedCheckpoint,
  signal?: AbortSignal,
): Promise<Comparison> {
  const [first, second] = one.head.size <= other.head.size ? [one, other] : [other, one];
  const documents = { kind: "log-fork", log: logKey.toString(), first: first.note.whole, second: second.note.whole };
  if (first.head.size === second.head.size)
    return equal(first.head.root, second.head.root) ? { is: "consistent" } : { is: "fork", evidence: documents };
  try {
    const { root, proof } = await impliedRoot(log, first.head.size, second.head, signal);
    if (equal(root, first.head.root)) return { is: "consistent" };
    if (first.head.size === 0n) return { is: "unproven", why: "the head of the empty log has a root that no empty tree has" };
    return { is: "fork", evidence: { ...documents, implied_root: toBase64(root), proof: proof.map(toBase64) } };
  } catch (error) {
    if (!(error instanceof CounterfoilError)) throw error;
    return { is: "unproven", why: error.message };
  }
}

/** The root that the tree of `larger` had at `size`. Throws a `ProofError` where the log's tiles do not lead to its root, a `SenderError` where they do not come. */
export async function impliedRoot(log: LogClient, size: bigint, larger: Checkpoint, signal?: AbortSignal): Promise<Implied> {
  if (size === 0n) return { root: emptyRoot(), proof: [] };
  if (size === larger.size) return { root: larger.root, proof: [] };
  const read = (source: HashSource): Implied => ({
    root: rootOf(source, size),
    proof: proveConsistency(source, size, larger.size),
  });
  const implied = read(await hashesFor(log, larger.size, read, signal));
  checkConsistency(implied.proof, size, implied.root, larger.size, larger.root);
  return implied;
}

/** The proof that `leaf` stands at `index` under a head. Throws as {@link impliedRoot}. */
export async function inclusionUnder(log: LogClient, leaf: Uint8Array, index: bigint, { size, root }: Checkpoint): Promise<Uint8Array[]> {
  const read = (source: HashSource) => proveInclusion(source, index, size);
  const proof = read(await hashesFor(log, size, read));
  checkInclusion(proof, leaf, index, size, root);
  return proof;
}

/** Fetches the tiles of the tree of `size` leaves that `read` reads. Their hashes are nobody's word yet. */
async function hashesFor(log: LogClient, size: bigint, read: (source: HashSource) => unknown, signal?: AbortSignal): Promise<HashSource> {
  const needed = new Map<string, { level: number; index: bigint }>();
  read({
    subtree(level, index) {
      const { tile } = placeOf(level, index);
      needed.set(`${tile.level}/${tile.index}`, tile);
      return ANY;
    },
  });
  const fetched = await Promise.all(
    Array.from(needed, async ([name, { level, index }]): Promise<[string, Uint8Array]> => {
      const hashes = (size >> BigInt(TILE_LEVELS * level)) - index * BigInt(TILE_WIDTH);
      const width = hashes < BigInt(TILE_WIDTH) ? Number(hashes) : TILE_WIDTH;
      return [name, await log.resource({ kind: "tile", level, index, width }, signal)];
    }),
  );
  const tiles = new Map(fetched);
  return {
    subtree(level, index) {
      const { tile, first, count } = placeOf(level, index);
      const bytes = tiles.get(`${tile.level}/${tile.index}`);
      if (bytes === undefined || bytes.length < (first + count) * HASH_LEN) return undefined;
      return rootOver(bytes.subarray(first * HASH_LEN, (first + count) * HASH_LEN));
    },
  };
}

/** Where in which tile the hashes stand that a subtree's root is made of. */
function placeOf(level: number, index: bigint): { tile: { level: number; index: bigint }; first: number; count: number } {
  const inside = level % TILE_LEVELS;
  const first = index << BigInt(inside);
  return {
    tile: { level: (level - inside) / TILE_LEVELS, index: first / BigInt(TILE_WIDTH) },
    first: Number(first % BigInt(TILE_WIDTH)),
    count: 1 << inside,
  };
}

/** The root over so many hashes as are a power of two. */
function rootOver(hashes: Uint8Array): Uint8Array {
  if (hashes.length === HASH_LEN) return hashes;
  const middle = hashes.length / 2;
  return nodeHash(rootOver(hashes.subarray(0, middle)), rootOver(hashes.subarray(middle)));
}
