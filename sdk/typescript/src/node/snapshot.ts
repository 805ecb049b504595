// What a follower has read of a log, on disk, so that a start goes on from there. May be lost or damaged: then the log is
// read again. Whether it is what the log holds is asked of the log, before it counts.
//
//   {"version":1,"size":"4096","peaks":["<base64>"],"issuers":2}
//   {"keys":…}                      the state of an issuer, so many lines
//   ["17","gate.example/1","3","<id>","READ",null,true,["cust_77"]]
//                                   index, issuer, seq, id, class, session, whether it counts, subjects
//   <hex>                           SHA-256 over the lines before it

import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { open, rename } from "node:fs/promises";
import { join } from "node:path";
import { fromBase64, parseU64, toBase64 } from "../bytes.js";
import { CounterfoilError } from "../errors.js";
import { IssuerState } from "../issuers.js";
import { Frontier } from "../merkle.js";
import { isMissing, syncDir } from "./disk.js";
import { Fold } from "./fold.js";
import type { Mention } from "./history_index.js";

/** Most bytes that are read: a full index with its names, printed, is below it. */
const MAX_SNAPSHOT = 1 << 30;
/** Characters that are written at once. */
const CHUNK = 1 << 18;
const VERSION = 1;
/** Where reading by lines would end one, beside the newline: JSON has other ways to write them. */
const LINE_ENDS = /[\u2028\u2029]/g;
const escaped = (end: string) => `\\u${end.charCodeAt(0).toString(16)}`;

/** Keeps a fold. Where that fails, the next start reads more of the log. Answers whether it did not. */
export async function keepFold(dir: string, fold: Fold): Promise<boolean> {
  const path = join(dir, "snapshot");
  try {
    const handle = await open(`${path}.new`, "w", 0o600);
    try {
      await writeLines(handle, linesOf(fold));
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(`${path}.new`, path);
    await syncDir(dir);
    return true;
  } catch (error) {
    if (error instanceof CounterfoilError || (error instanceof Error && "syscall" in error)) return false;
    throw error;
  }
}

/** The fold that was kept; `undefined` where there is none, or none that is whole. */
export async function keptFold(dir: string): Promise<Fold | undefined> {
  let handle: FileHandle;
  try {
    handle = await open(join(dir, "snapshot"), "r");
  } catch (error) {
    if (isMissing(error) || (error instanceof Error && "syscall" in error)) return undefined;
    throw error;
  }
  try {
    if ((await handle.stat()).size > MAX_SNAPSHOT) return undefined;
    const fold = await readLines(handle);
    return fold?.isFull ? undefined : fold;
  } catch {
    // Whatever is wrong with it: it is not what was written.
    return undefined;
  } finally {
    await handle.close();
  }
}

function* linesOf(fold: Fold): Generator<string> {
  const { size, frontier, issuers } = fold;
  yield JSON.stringify({ version: VERSION, size: String(size), peaks: frontier.peaks.map(toBase64), issuers: issuers.length });
  for (const state of issuers) yield state.toJSONText();
  for (const { subjects, item, counts } of fold.index.mentions) {
    const { index, issuer, seq, id, actionClass, session = null } = item;
    yield JSON.stringify([String(index), issuer, String(seq), id, actionClass, session, counts, subjects]);
  }
}

async function writeLines(handle: FileHandle, lines: Iterable<string>): Promise<void> {
  const hash = createHash("sha256");
  let chunk = "";
  const flush = async () => {
    hash.update(chunk);
    await handle.appendFile(chunk);
    chunk = "";
  };
  for (const line of lines) {
    chunk += `${line.replace(LINE_ENDS, escaped)}\n`;
    if (chunk.length >= CHUNK) await flush();
  }
  await flush();
  await handle.appendFile(`${hash.digest("hex")}\n`);
}

async function readLines(handle: FileHandle): Promise<Fold | undefined> {
  const hash = createHash("sha256");
  const states: IssuerState[] = [];
  const mentions: Mention[] = [];
  let head: { frontier: Frontier; issuers: number } | undefined;
  // The line before is taken when there is one behind it: the last is the digest.
  let line: string | undefined;
  for await (const next of handle.readLines({ encoding: "utf8", autoClose: false })) {
    if (line !== undefined) {
      hash.update(`${line}\n`);
      if (head === undefined) head = readHead(line);
      else if (states.length < head.issuers) states.push(IssuerState.parse(line));
      else mentions.push(readMention(line));
    }
    line = next;
  }
  if (head === undefined || line !== hash.digest("hex") || states.length !== head.issuers) return undefined;
  return Fold.resumed(head.frontier, states, mentions);
}

function readHead(line: string): { frontier: Frontier; issuers: number } {
  const { version, size, peaks, issuers } = JSON.parse(line) as { version: unknown; size: string; peaks: string[]; issuers: unknown };
  const hashes = peaks.map((peak) => fromBase64(peak) ?? new Uint8Array());
  const frontier = Frontier.fromPeaks(number(size), hashes);
  if (version !== VERSION || frontier === undefined || typeof issuers !== "number") throw new Error("no snapshot of this version");
  return { frontier, issuers };
}

function readMention(line: string): Mention {
  const [index, issuer, seq, id, actionClass, session, counts, subjects] = JSON.parse(line) as [
    index: string,
    issuer: string,
    seq: string,
    id: string,
    actionClass: string,
    session: string | null,
    counts: boolean,
    subjects: string[],
  ];
  const item = { actionClass, index: number(index), issuer, seq: number(seq), id, session: session ?? undefined };
  return { subjects, item, counts };
}

function number(text: string): bigint {
  const value = parseU64(text);
  if (value === undefined) throw new Error("no number");
  return value;
}
