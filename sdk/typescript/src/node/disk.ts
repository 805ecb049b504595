// Small files of an outbox, and what the disk says when it refuses.

import { constants } from "node:fs";
import { mkdir, open, readFile, rename, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { CounterfoilError, OutboxError } from "../errors.js";

/** Most bytes of a small file: an issuer's state with a thousand rotations fits. */
const MAX_SMALL_FILE = 1 << 20;

/** The system refused. An error of ours passes as it is. */
export function diskError(action: string, path: string, error: unknown): CounterfoilError {
  if (error instanceof CounterfoilError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new OutboxError("outbox-disk", `cannot ${action} ${path}: ${reason}; make room or mend the disk, then open the outbox again`, {
    cause: error,
  });
}

/** What is there is not what an outbox writes. */
export function damaged(path: string, at: string, reason: string): OutboxError {
  return new OutboxError(
    "outbox-damaged",
    `${path} is damaged ${at}: ${reason}; restore the newest copy, and do not delete it: the log may hold more than a copy does`,
  );
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/** Whether the system said that there is no such file. */
export function isMissing(error: unknown): boolean {
  return codeOf(error) === "ENOENT";
}

/** Whether the system said that there is such a file already. */
export function isThere(error: unknown): boolean {
  return codeOf(error) === "EEXIST";
}

/** Whether there is a file or directory of that name. */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw diskError("look for", path, error);
  }
}

/** Makes a directory that nobody else may read: receipts say who asked for what. */
export async function makeDir(dir: string): Promise<void> {
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw diskError("create", dir, error);
  }
  await syncDir(dirname(dir));
}

/** Makes the names in a directory durable. */
export async function syncDir(dir: string): Promise<void> {
  try {
    const handle = await open(dir, constants.O_RDONLY);
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw diskError("sync", dir, error);
  }
}

/** Writes a file of mode 0600 under its own name, durably, its name excepted. */
export async function writeSynced(path: string, text: string, durable = true): Promise<void> {
  try {
    const handle = await open(path, "w", 0o600);
    try {
      await handle.writeFile(text);
      if (durable) await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw diskError("write", path, error);
  }
}

/** Replaces a small file whole. */
export async function replaceSmall(dir: string, name: string, text: string, durable: boolean): Promise<void> {
  const path = join(dir, name);
  await writeSynced(`${path}.new`, text, durable);
  try {
    await rename(`${path}.new`, path);
  } catch (error) {
    throw diskError("write", path, error);
  }
  if (durable) await syncDir(dir);
}

/** A small file's text; `undefined` where there is none. */
export async function readSmall(path: string): Promise<string | undefined> {
  try {
    const bytes = await readFile(path);
    if (bytes.length > MAX_SMALL_FILE) throw damaged(path, "as a whole", "it is longer than any such file");
    return bytes.toString("utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw diskError("read", path, error);
  }
}
