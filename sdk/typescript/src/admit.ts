// The one rule that admits receipts (protocol, section 4). The log asks it, auditors ask it, and the outbox asks it
// before it writes anything that the log would refuse.

import { utf8 } from "./bytes.js";
import { RefusalError, FormatError } from "./errors.js";
import type { IssuerState } from "./issuers.js";
import { VerifierKey } from "./keys.js";
import type { NoteSignature } from "./notes.js";
import { claims } from "./notes.js";
import { Receipt } from "./receipts.js";

/** How far ahead of the judge's clock a receipt may be dated, in milliseconds. */
export const MAX_AHEAD_MS = 5n * 60n * 1000n;

/** A receipt that was admitted, and the issuer's state after it. */
export interface Admitted {
  readonly state: IssuerState;
  readonly receipt: Receipt;
}

/**
 * Judges one entry of an issuer. `held` names the receipt held at a seq below `nextSeq` (hex id); `now` is the judge's
 * clock in milliseconds, where it has one. Throws a {@link RefusalError} with exactly one code of section 4.
 */
export async function admit(
  state: IssuerState | undefined,
  entry: Uint8Array | Receipt,
  held: (seq: bigint) => string | undefined = () => undefined,
  now?: bigint,
): Promise<Admitted> {
  const receipt = entry instanceof Receipt ? entry : parsed(entry);
  if (state === undefined) throw unknownIssuer(receipt);
  const { seq } = receipt;
  await checkSignature(receipt, state);
  const isRotation = receipt.type === "rotate";
  const successor = isRotation ? await successorOf(receipt) : undefined;
  const refuse = (code: string, sentence: string): RefusalError => {
    const helps = ["fork", "gap", "closed", "bad-open"].includes(code);
    return new RefusalError(code, sentence, helps ? { seq: state.nextSeq, prev: state.head } : undefined);
  };
  // Anybody can take the second signature off a rotate: what is left is no fork, and nobody's but theirs.
  const isWhole = !isRotation || successor !== undefined;
  const heldId = seq < state.nextSeq ? held(seq) : undefined;
  if (heldId === receipt.id) throw refuse("duplicate", `the receipt at seq ${seq} is held already`);
  if (seq < state.nextSeq && isWhole) throw refuse("fork", `the issuer signed two histories: another receipt is held at seq ${seq}`);
  if (seq === state.nextSeq && receipt.prev !== state.head) {
    throw refuse("fork", `the issuer signed two histories: prev is not the receipt held at seq ${seq - 1n}`);
  }
  if (seq > state.nextSeq) throw refuse("gap", `seq ${seq} leaves a gap: seq ${state.nextSeq} must come first`);
  if (receipt.issuedAt < state.lastIssuedAt) {
    throw refuse("time-reversed", `issued_at ${receipt.issuedAt} is before the previous receipt's ${state.lastIssuedAt}`);
  }
  if (now !== undefined && receipt.issuedAt > now + MAX_AHEAD_MS) {
    throw refuse("future-dated", `issued_at ${receipt.issuedAt} is more than ${MAX_AHEAD_MS / 1000n} s ahead; set the gate's clock`);
  }
  if (state.isClosed) throw refuse("closed", `the issuer closed its stream at seq ${state.nextSeq - 1n}`);
  const isOpen = receipt.type === "open";
  if (isOpen !== (seq === 0n) || (isOpen && receipt.body.get("vkey") !== state.registeredKey.toString())) {
    throw refuse("bad-open", `seq 0 and no other is an open, with the registered vkey ${state.registeredKey}`);
  }
  if (isRotation && (successor === undefined || !state.mayHandOverTo(successor))) {
    throw refuse(
      "bad-rotation",
      "a rotate names a sound vkey of the issuer's that it never used before, and is signed by the old and the new key",
    );
  }
  return { state: state.after(receipt, successor), receipt };
}

/** The part of the rule that looks at who signed: throws a {@link RefusalError} (`unknown-issuer`, `bad-signature`) unless the key in force did. */
export async function checkSignature(receipt: Receipt, state: IssuerState): Promise<void> {
  if (receipt.issuer !== state.name) throw unknownIssuer(receipt);
  const [first, ...more] = receipt.signatures;
  if (more.length > (receipt.type === "rotate" ? 1 : 0) || receipt.signatures.some(({ name }) => name !== receipt.issuer)) {
    throw new RefusalError("bad-signature", `a receipt carries one signature line, a rotate two, all under the name ${receipt.issuer}`);
  }
  const key = state.keyInForceAt(receipt.seq);
  if (!(await isSignedBy(receipt, first, key))) {
    throw new RefusalError("bad-signature", `the signature does not verify under the key in force at seq ${receipt.seq}, ${key}`);
  }
}

function unknownIssuer(receipt: Receipt): RefusalError {
  return new RefusalError("unknown-issuer", `${receipt.issuer} is not registered here; ask the operator to add its vkey`);
}

function parsed(entry: Uint8Array): Receipt {
  try {
    return Receipt.parse(entry);
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    throw new RefusalError("malformed", error.message, undefined, { cause: error });
  }
}

async function isSignedBy(receipt: Receipt, line: NoteSignature | undefined, key: VerifierKey): Promise<boolean> {
  return line !== undefined && key.kind === "ed25519" && claims(line, key) && (await key.verify(utf8(receipt.note.text), line.blob));
}

/** The key that a `rotate` names and that signed it second. */
async function successorOf(receipt: Receipt): Promise<VerifierKey | undefined> {
  const vkey = receipt.body.get("vkey");
  if (typeof vkey !== "string") return undefined;
  let key: VerifierKey;
  try {
    key = VerifierKey.parse(vkey);
  } catch {
    return undefined;
  }
  return (await isSignedBy(receipt, receipt.signatures[1], key)) ? key : undefined;
}

/** The key that an `open` names; `undefined` for what is no such receipt. */
export function openedKey(receipt: Receipt): VerifierKey | undefined {
  const vkey = receipt.type === "open" ? receipt.body.get("vkey") : undefined;
  try {
    return typeof vkey === "string" ? VerifierKey.parse(vkey) : undefined;
  } catch {
    return undefined;
  }
}
