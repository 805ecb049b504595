// Private keys in files: one line, mode 0600.

import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { FormatError } from "../errors.js";
import { SigningKey } from "../keys.js";

/** Longest key file: a name of 255 bytes and 33 bytes of key, with room. */
const MAX_KEY_FILE = 4096;

/** Reads a private key from a file that nobody else can read. Throws a {@link FormatError} (`key-file`, and those of {@link SigningKey.parse}). */
export async function readKeyFile(path: string): Promise<SigningKey> {
  const fault = (sentence: string, cause?: unknown) =>
    new FormatError("key-file", `the key file ${path} ${sentence}`, undefined, { cause });
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(path, constants.O_RDONLY);
  } catch (error) {
    throw fault("cannot be read; make one with `counterfoil keygen`", error);
  }
  try {
    const { mode, size } = await file.stat();
    if ((mode & 0o077) !== 0) throw fault("can be read by others; run chmod 600 on it, and make a new key if others may have read it");
    if (size > MAX_KEY_FILE) throw fault("is too long for a key; give the file that `counterfoil keygen` made");
    const text = await file.readFile("utf8");
    return SigningKey.parse(text.endsWith("\n") ? text.slice(0, -1) : text);
  } finally {
    await file.close();
  }
}
