// Ed25519 by Node's own OpenSSL. Faster than WebCrypto, and without the warning that Node 20 prints for Ed25519 there.

import type { KeyObject } from "node:crypto";
import { createPrivateKey, createPublicKey, sign, verify } from "node:crypto";
import type { Ed25519Engine } from "../ed25519.js";
import { useEd25519 } from "../ed25519.js";

/** DER before the 32 bytes of a seed and of a public key (RFC 8410). */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
const SPKI = Buffer.from("302a300506032b6570032100", "hex");

// To decode a key takes longer than to sign with it. Keys are told apart by the bytes' identity, and forgotten with them.
const privateKeys = new WeakMap<Uint8Array, KeyObject>();
const publicKeys = new WeakMap<Uint8Array, KeyObject>();

function decoded(keys: WeakMap<Uint8Array, KeyObject>, bytes: Uint8Array, decode: () => KeyObject): KeyObject {
  const held = keys.get(bytes) ?? decode();
  keys.set(bytes, held);
  return held;
}

/** The engine of the `counterfoil/node` entry, which chooses it when it is imported. */
export const nodeEngine: Ed25519Engine = {
  verify(publicKey, message, signature) {
    try {
      const key = () => createPublicKey({ key: Buffer.concat([SPKI, publicKey]), format: "der", type: "spki" });
      return verify(null, message, decoded(publicKeys, publicKey, key), signature);
    } catch {
      // Bytes that are no point.
      return false;
    }
  },
  sign(seed, message) {
    const key = () => createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: "der", type: "pkcs8" });
    return new Uint8Array(sign(null, message, decoded(privateKeys, seed, key)));
  },
};

useEd25519(nodeEngine);
