// Private keys in files: one line, mode 0600.

import { isUtf8 } from "node:buffer";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { FormatError } from "../errors.js";
import { SigningKey } from "../keys.js";

/** Longest key file: a name of 255 bytes and 33 bytes of key, with room. Of a longer one the rest is not needed to see that it is no key. */
const MAX_KEY_FILE = 4096;

/** Reads a private key from a file that nobody else can read. Throws a {@link FormatError}: `key-file` where it cannot or must not be read, and those of {@link SigningKey.parse} for what is no key. */
export async function readKeyFile(path: string): Promise<SigningKey> {
  const fault = (sentence: string, cause?: unknown) =>
    new FormatError("key-file", `the key file ${path} ${sentence}`, undefined, { cause });
  const unreadable = (error: unknown) => fault("cannot be read; make one with `counterfoil keygen`", error);
  const file = await open(path, constants.O_RDONLY).catch((error: unknown) => {
    throw unreadable(error);
  });
  const bytes = Buffer.alloc(MAX_KEY_FILE);
  try {
    // Of the open file, not of the path: what is checked is what is read.
    const { mode } = await file.stat();
    if ((mode & 0o077) !== 0) throw fault("can be read by others; run chmod 600 on it, and make a new key if others may have read it");
    const { bytesRead } = await file.read(bytes, 0, MAX_KEY_FILE, 0).catch((error: unknown) => {
      throw unreadable(error);
    });
    // What is no text is no key either.
    const text = isUtf8(bytes.subarray(0, bytesRead)) ? bytes.toString("utf8", 0, bytesRead) : "";
    return SigningKey.parse(text.endsWith("\n") ? text.slice(0, -1) : text);
  } finally {
    bytes.fill(0);
    await file.close();
  }
}
