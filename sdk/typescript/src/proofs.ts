// Proofs that an entry is in a witnessed log, checkable offline (tlog-proof).

import { fromBase64, fromUtf8, parseU64, toBase64, utf8Length } from "./bytes.js";
import { SignedCheckpoint } from "./checkpoints.js";
import { CounterfoilError, FormatError, ProofError } from "./errors.js";
import type { VerifierKey } from "./keys.js";
import { checkInclusion, leafHash, MAX_PROOF_HASHES } from "./merkle.js";
import { MAX_NOTE_LEN } from "./notes.js";
import type { Policy } from "./policy.js";

const MAGIC = "c2sp.org/tlog-proof@v1";
/** Largest proof in bytes. */
export const MAX_PROOF_LEN = 2 * MAX_NOTE_LEN;

/** What a proof proves, once a log of the policy signed the head and the entry is under it. */
export interface VerifiedProof {
  /** Place of the log in the policy. */
  readonly log: number;
  /** Leaf index of the entry. */
  readonly index: bigint;
  /** The head. */
  readonly checkpoint: SignedCheckpoint;
  /** Places of the witnesses whose keys cosigned the head, ascending. */
  readonly cosignedBy: readonly number[];
  /** The times of their cosignatures in seconds, newest for each place. */
  readonly cosignedAt: ReadonlyMap<number, bigint>;
  /** Lines under a listed witness's key that are bad. Somebody made them. */
  readonly badCosignatures: number;
  /** Whether they satisfy the quorum. */
  readonly quorumMet: boolean;
}

/** A proof as read. Nothing is verified. */
export class TlogProof {
  private constructor(
    /** The proof, byte for byte. */
    readonly text: string,
    /** Opaque data; never authenticated. */
    readonly extra: Uint8Array | undefined,
    /** Where in the log the entry is said to be. */
    readonly index: bigint,
    /** From the entry's sibling up. */
    readonly inclusion: readonly Uint8Array[],
    /** The head whose tree holds the entry. */
    readonly checkpoint: SignedCheckpoint,
  ) {}

  /** Reads a proof. Throws a {@link FormatError}: `proof-…`, `not-utf8`, and those of {@link SignedCheckpoint.parse}. */
  static parse(proof: Uint8Array | string): TlogProof {
    const fault = (code: string, sentence: string) => new FormatError(code, sentence);
    if ((typeof proof === "string" ? utf8Length(proof) : proof.length) > MAX_PROOF_LEN)
      throw fault("proof-too-long", `the proof is longer than ${MAX_PROOF_LEN} bytes`);
    const text = typeof proof === "string" ? proof : fromUtf8(proof);
    if (text === undefined) throw fault("not-utf8", "the proof is not UTF-8");
    const end = text.indexOf("\n\n");
    if (end < 0) throw fault("proof-truncated", "the proof ends before its checkpoint");
    const lines = text.slice(0, end).split("\n");
    if (lines.shift() !== MAGIC) throw fault("proof-magic", `not a tlog-proof: its first line must be "${MAGIC}"`);
    let extra: Uint8Array | undefined;
    if (lines[0]?.startsWith("extra ")) {
      extra = fromBase64(lines.shift()?.slice("extra ".length) ?? "");
      if (extra === undefined || extra.length === 0)
        throw fault("proof-extra", 'the proof\'s extra line is not "extra <base64>"; leave the line out if there is no extra data');
    }
    const line = lines.shift();
    const index = line?.startsWith("index ") ? parseU64(line.slice("index ".length)) : undefined;
    if (index === undefined) throw fault("proof-index", 'the proof\'s index line is not "index <decimal number without leading zeroes>"');
    const inclusion = lines.map((spelling, place) => {
      if (place === MAX_PROOF_HASHES) throw fault("proof-too-many-hashes", `the proof has more than ${MAX_PROOF_HASHES} hashes`);
      const hash = fromBase64(spelling);
      if (hash?.length !== 32) throw fault("proof-hash", `hash ${place + 1} of the proof is not canonical base64 of 32 bytes`);
      return hash;
    });
    let checkpoint: SignedCheckpoint;
    try {
      checkpoint = SignedCheckpoint.parse(text.slice(end + 2));
    } catch (error) {
      if (!(error instanceof CounterfoilError)) throw error;
      throw new FormatError(error.code, `the proof's checkpoint: ${error.message}`, undefined, { cause: error });
    }
    return new TlogProof(text, extra, index, inclusion, checkpoint);
  }

  /** Checks that `log` signed the head and that `entry` is under it. Throws a {@link ProofError}. Whether witnesses vouch for the head is not asked. */
  async check(entry: Uint8Array, log: VerifierKey): Promise<void> {
    await this.checkpoint.verify(log);
    this.checkInclusion(entry);
  }

  /**
   * Checks everything against a policy: a listed log signed the head, `entry` is under it, and the witnesses that cosigned
   * satisfy the quorum. Throws a {@link ProofError}: `no-listed-log`, `wrong-origin`, `bad-log-signature`, `not-included`, `quorum-not-met`.
   */
  async verify(entry: Uint8Array, policy: Policy): Promise<VerifiedProof> {
    const verified = await this.verifyInclusion(entry, policy);
    if (!verified.quorumMet) {
      throw new ProofError(
        "quorum-not-met",
        `the entry is in the log, but the witnesses that cosigned (${verified.cosignedBy.length}) do not satisfy the policy's quorum; fetch the proof again once more have`,
      );
    }
    return verified;
  }

  /** The same without asking for the quorum: look at `quorumMet` before calling the entry witnessed. */
  async verifyInclusion(entry: Uint8Array, policy: Policy): Promise<VerifiedProof> {
    const log = await this.listedLog(policy);
    this.checkInclusion(entry);
    return { log, index: this.index, checkpoint: this.checkpoint, ...(await judgeCosignatures(this.checkpoint, policy)) };
  }

  private checkInclusion(entry: Uint8Array): void {
    const { size, root } = this.checkpoint.head;
    try {
      checkInclusion(this.inclusion, leafHash(entry), this.index, size, root);
    } catch (error) {
      if (!(error instanceof CounterfoilError)) throw error;
      throw new ProofError("not-included", `the entry is not at index ${this.index} of the checkpoint's tree: ${error.message}`, {
        cause: error,
      });
    }
  }

  private async listedLog(policy: Policy): Promise<number> {
    const { origin } = this.checkpoint.head;
    let found: number | undefined;
    let claimed: VerifierKey | undefined;
    for (const [place, { vkey }] of policy.logs.entries()) {
      const fault = await this.checkpoint.faultOf(vkey);
      if (fault === "signature-bad") {
        throw new ProofError(
          "bad-log-signature",
          `the signature line of log ${vkey.name} does not verify; the checkpoint was altered or forged`,
        );
      }
      if (fault === undefined) found ??= place;
      if (this.checkpoint.note.signaturesBy(vkey).length > 0) claimed ??= vkey;
    }
    if (found !== undefined) return found;
    if (claimed !== undefined) {
      throw new ProofError(
        "wrong-origin",
        `the checkpoint carries a line of log ${claimed.name}, but its origin is ${JSON.stringify(origin)}; it is not that log's head`,
      );
    }
    throw new ProofError(
      "no-listed-log",
      `no log of the policy signed this checkpoint of ${JSON.stringify(origin)}; add the log's vkey to the policy if you trust it`,
    );
  }
}

/** Which witnesses of a policy vouch for a head, and whether they are enough. Who signed the head is not asked. */
export async function judgeCosignatures(
  checkpoint: SignedCheckpoint,
  policy: Policy,
): Promise<Pick<VerifiedProof, "cosignedBy" | "cosignedAt" | "badCosignatures" | "quorumMet">> {
  const cosignedAt = new Map<number, bigint>();
  let badCosignatures = 0;
  for (const [place, { vkey }] of policy.witnesses.entries()) {
    for (const cosignature of await checkpoint.cosignaturesBy(vkey)) {
      if (cosignature === undefined) badCosignatures += 1;
      else if (cosignature.timestamp > (cosignedAt.get(place) ?? 0n)) cosignedAt.set(place, cosignature.timestamp);
    }
  }
  const cosignedBy = Array.from(cosignedAt.keys()).sort((left, right) => left - right);
  return { cosignedBy, cosignedAt, badCosignatures, quorumMet: policy.satisfiedBy(new Set(cosignedBy)) };
}

/** The text of a proof. */
export function proofText(index: bigint, inclusion: readonly Uint8Array[], checkpoint: SignedCheckpoint): string {
  return `${MAGIC}\nindex ${index}\n${inclusion.map((hash) => `${toBase64(hash)}\n`).join("")}\n${checkpoint.note.whole}`;
}
