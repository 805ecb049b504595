// The Merkle tree of RFC 6962, sections 2.1.1 and 2.1.2: hashes, and proofs checked exactly. A proof of any length but
// the one that its numbers call for is refused, whatever it hashes to. Sizes and indices are `bigint`.

import { concat, equal, sha256 } from "./bytes.js";
import { ProofError } from "./errors.js";

/** Most hashes in a proof. */
export const MAX_PROOF_HASHES = 65;

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** SHA-256(0x00 | entry): the id of a receipt, as bytes. */
export function leafHash(entry: Uint8Array): Uint8Array {
  return sha256(concat(LEAF, entry));
}

/** SHA-256(0x01 | left | right). */
export function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  return sha256(concat(NODE, left, right));
}

/** The root of a tree without leaves. */
export function emptyRoot(): Uint8Array {
  return sha256(new Uint8Array());
}

/** Checks that `leaf` stands at `index` in the tree of `size` leaves under `root`. Throws a {@link ProofError}: `index-beyond-size`, `wrong-length`, `new-root`. */
export function checkInclusion(proof: readonly Uint8Array[], leaf: Uint8Array, index: bigint, size: bigint, root: Uint8Array): void {
  if (index >= size) throw new ProofError("index-beyond-size", `leaf ${index} is not in a tree of ${size}`);
  const [inner, border] = pathLengths(index, size);
  const [low, high] = splitExactly(proof, inner, border);
  if (!equal(climbBorder(climbInner(leaf, low, index), high), root)) {
    throw new ProofError("new-root", "the proof does not lead to the root; ask the log for the proof again");
  }
}

/** Checks that the tree of `old` leaves is a prefix of that of `size`. Throws a {@link ProofError}: `sizes-reversed`, `wrong-length`, `old-root`, `new-root`. */
export function checkConsistency(proof: readonly Uint8Array[], old: bigint, oldRoot: Uint8Array, size: bigint, root: Uint8Array): void {
  const refuse = (code: "old-root" | "new-root") =>
    new ProofError(code, `the proof does not lead to the ${code === "old-root" ? "older root" : "root"}; ask the log for the proof again`);
  if (old > size) throw new ProofError("sizes-reversed", `a tree of ${old} leaves cannot be a prefix of a tree of ${size}`);
  if (old === 0n) {
    splitExactly(proof, 0, 0);
    if (!equal(oldRoot, emptyRoot())) throw refuse("old-root");
    if (size === 0n && !equal(root, emptyRoot())) throw refuse("new-root");
    return;
  }
  if (old === size) {
    splitExactly(proof, 0, 0);
    if (!equal(oldRoot, root)) throw refuse("new-root");
    return;
  }
  const skipped = trailingZeros(old);
  const [length, border] = pathLengths(old - 1n, size);
  const inner = length - skipped;
  const isPower = (old & (old - 1n)) === 0n;
  const start = isPower ? oldRoot : proof[0];
  const extra = isPower ? 0 : 1;
  if (start === undefined || proof.length !== extra + inner + border) throw wrongLength(extra + inner + border, proof.length);
  const rest = proof.slice(extra);
  const [low, high] = [rest.slice(0, inner), rest.slice(inner)];
  const path = (old - 1n) >> BigInt(skipped);
  const left = low.reduce((hash, sibling, level) => (isRight(path, level) ? nodeHash(sibling, hash) : hash), start);
  if (!equal(climbBorder(left, high), oldRoot)) throw refuse("old-root");
  if (!equal(climbBorder(climbInner(start, low, path), high), root)) throw refuse("new-root");
}

/** Somewhere to get the roots of complete subtrees from: those over the leaves `[index << level, (index + 1) << level)`. */
export interface HashSource {
  /** The root, or `undefined` where the source lacks it. */
  subtree(level: number, index: bigint): Uint8Array | undefined;
}

/** The root of the first `size` leaves. Throws a {@link ProofError} (`missing-hash`). */
export function rootOf(source: HashSource, size: bigint): Uint8Array {
  return size === 0n ? emptyRoot() : rangeRoot(source, 0n, size);
}

/** The proof that leaf `index` is in the tree of `size` leaves. */
export function proveInclusion(source: HashSource, index: bigint, size: bigint): Uint8Array[] {
  if (index >= size) throw new ProofError("index-beyond-size", `leaf ${index} is not in a tree of ${size}`);
  const siblings: Uint8Array[] = [];
  let [begin, end] = [0n, size];
  while (end - begin > 1n) {
    const middle = begin + split(end - begin);
    if (index < middle) {
      siblings.push(rangeRoot(source, middle, end));
      end = middle;
    } else {
      siblings.push(rangeRoot(source, begin, middle));
      begin = middle;
    }
  }
  return siblings.reverse();
}

/** The proof that the tree of `old` leaves is a prefix of that of `size`. */
export function proveConsistency(source: HashSource, old: bigint, size: bigint): Uint8Array[] {
  if (old > size) throw new ProofError("sizes-reversed", `a tree of ${old} leaves cannot be a prefix of a tree of ${size}`);
  if (old === 0n || old === size) return [];
  const hashes: Uint8Array[] = [];
  let [begin, end] = [0n, size];
  while (old < end) {
    const middle = begin + split(end - begin);
    if (old <= middle) {
      hashes.push(rangeRoot(source, middle, end));
      end = middle;
    } else {
      hashes.push(rangeRoot(source, begin, middle));
      begin = middle;
    }
  }
  // The old root itself is left out when it is a subtree of the new tree: the checker has it.
  if (begin > 0n) hashes.push(rangeRoot(source, begin, end));
  return hashes.reverse();
}

/** A tree that is built leaf by leaf and keeps every complete subtree's root, so that it can prove anything about itself. */
export class MerkleTree implements HashSource {
  private readonly levels: Uint8Array[][] = [[]];

  /** Adds the next leaf by its hash. */
  push(leaf: Uint8Array): void {
    let hash = leaf;
    for (let level = 0; ; level += 1) {
      let row = this.levels[level];
      if (row === undefined) {
        row = [];
        this.levels.push(row);
      }
      row.push(hash);
      if (row.length % 2 === 1) return;
      hash = nodeHash(row[row.length - 2] ?? hash, hash);
    }
  }

  /** Forgets all leaves but the first `size`. */
  truncate(size: bigint): void {
    for (const [level, row] of this.levels.entries()) row.length = Math.min(row.length, Number(size >> BigInt(level)));
  }

  /** How many leaves there are. */
  get size(): bigint {
    return BigInt(this.levels[0]?.length ?? 0);
  }

  subtree(level: number, index: bigint): Uint8Array | undefined {
    return this.levels[level]?.[Number(index)];
  }

  /** The root over all leaves. */
  root(): Uint8Array {
    return rootOf(this, this.size);
  }

  /** Whether the leaf at `index` is `leaf`. */
  holds(index: bigint, leaf: Uint8Array): boolean {
    const held = this.subtree(0, index);
    return held !== undefined && equal(held, leaf);
  }
}

/** The right edge of a tree that grows: enough to go on, and for the root; no more than 64 hashes. */
export class Frontier {
  private constructor(
    private leaves: bigint,
    private readonly hashes: Uint8Array[],
  ) {}

  /** The frontier of a tree without leaves. */
  static empty(): Frontier {
    return new Frontier(0n, []);
  }

  /** A frontier from its parts, the largest subtree first; `undefined` where they do not fit each other. */
  static fromPeaks(size: bigint, peaks: readonly Uint8Array[]): Frontier | undefined {
    const needed = size.toString(2).replaceAll("0", "").length;
    return peaks.length === needed && peaks.every(({ length }) => length === 32) ? new Frontier(size, [...peaks]) : undefined;
  }

  /** Adds the next leaf by its hash. */
  push(leaf: Uint8Array): void {
    let hash = leaf;
    for (let rest = this.leaves; (rest & 1n) === 1n; rest >>= 1n) hash = nodeHash(this.hashes.pop() ?? hash, hash);
    this.hashes.push(hash);
    this.leaves += 1n;
  }

  /** Another one that goes on by itself. */
  clone(): Frontier {
    return new Frontier(this.leaves, [...this.hashes]);
  }

  /** How many leaves there are. */
  get size(): bigint {
    return this.leaves;
  }

  /** The roots of the largest complete subtrees, the largest first. */
  get peaks(): readonly Uint8Array[] {
    return this.hashes;
  }

  /** The root over all leaves. */
  root(): Uint8Array {
    return this.leaves === 0n ? emptyRoot() : this.hashes.reduceRight((right, left) => nodeHash(left, right));
  }
}

/** The largest power of two below `count`, which is at least 2. */
function split(count: bigint): bigint {
  return 1n << BigInt((count - 1n).toString(2).length - 1);
}

/** The root over `[begin, end)`, where `begin` is a multiple of the power of two that covers the range. */
function rangeRoot(source: HashSource, begin: bigint, end: bigint): Uint8Array {
  const count = end - begin;
  if ((count & (count - 1n)) === 0n) {
    const level = count.toString(2).length - 1;
    const root = source.subtree(level, begin >> BigInt(level));
    if (root === undefined) throw new ProofError("missing-hash", `the root over leaves ${begin} to ${end} is not there; fetch its tile`);
    return root;
  }
  const middle = begin + split(count);
  return nodeHash(rangeRoot(source, begin, middle), rangeRoot(source, middle, end));
}

function trailingZeros(number: bigint): number {
  const digits = number.toString(2);
  return digits.length - 1 - digits.lastIndexOf("1");
}

/** Siblings of the path from leaf `index` below the point where it joins the tree's right edge, and above. */
function pathLengths(index: bigint, size: bigint): [number, number] {
  const difference = index ^ (size - 1n);
  const inner = difference === 0n ? 0 : difference.toString(2).length;
  const border = (index >> BigInt(inner)).toString(2).replaceAll("0", "").length;
  return [inner, border];
}

function wrongLength(expected: number, found: number): ProofError {
  return new ProofError("wrong-length", `the proof has ${found} hashes, these sizes call for ${expected}`);
}

function splitExactly(hashes: readonly Uint8Array[], inner: number, border: number): [readonly Uint8Array[], readonly Uint8Array[]] {
  if (hashes.length !== inner + border) throw wrongLength(inner + border, hashes.length);
  return [hashes.slice(0, inner), hashes.slice(inner)];
}

function isRight(path: bigint, level: number): boolean {
  return ((path >> BigInt(level)) & 1n) === 1n;
}

function climbInner(start: Uint8Array, siblings: readonly Uint8Array[], path: bigint): Uint8Array {
  return siblings.reduce((hash, sibling, level) => (isRight(path, level) ? nodeHash(sibling, hash) : nodeHash(hash, sibling)), start);
}

function climbBorder(start: Uint8Array, siblings: readonly Uint8Array[]): Uint8Array {
  return siblings.reduce((hash, sibling) => nodeHash(sibling, hash), start);
}
