// The browser-safe entry: everything that needs no files and no processes. Imports no `node:` module.

export * from "./actions.js";
export * from "./admit.js";
export * from "./bodies.js";
export { bytesDigest, canonicalJson, isDigest, jsonDigest } from "./jcs.js";
export { equal, fromBase64, fromHex, fromUtf8, parseU64, sha256, toBase64, toHex, utf8 } from "./bytes.js";
export * from "./checkpoints.js";
export * from "./commitments.js";
export * from "./credentials.js";
export type { CredentialKind } from "./credential_shapes.js";
export * from "./decision.js";
export { type Ed25519Engine, portableEngine, signEd25519, useEd25519, verifyEd25519 } from "./ed25519.js";
export * from "./errors.js";
export {
  type Json,
  type JsonInput,
  type JsonObject,
  MAX_DEPTH,
  MAX_INTEGER,
  MAX_JSON_LEN,
  parseJson,
  parseJsonObject,
  printJson,
  toJson,
} from "./ijson.js";
export * from "./issuers.js";
export { type KeyKind, MAX_NAME_LEN, SigningKey, VerifierKey, checkKeyName } from "./keys.js";
export * from "./merkle.js";
export * from "./notes.js";
export * from "./policy.js";
export * from "./proofs.js";
export * from "./receipts.js";
export * from "./tiles.js";
