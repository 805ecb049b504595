// A file that only grows, record by record, each durable before anybody is told of it.
//
//   prefixed   u16 length, big-endian | that many bytes | …        (the form of an entry bundle)
//   lines      <JSON> \n <JSON> \n …
//
// A process that is killed while it appends leaves whole records and, at most, a torn tail: the beginning of a record, or
// zeroes where the file system had made room. Anything else that does not read as records is damage.

import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { open } from "node:fs/promises";
import { encodeEntries } from "../tiles.js";
import { damaged, diskError, isMissing } from "./disk.js";

/** Read this much at once while looking for the records. */
const WALK_BUFFER = 1 << 20;

export type Framing = "prefixed" | "lines";
/** With `read` nothing is changed, and a file that is not there has no records. */
export type Access = "read" | "write";

export class AppendOnly {
  private constructor(
    private file: FileHandle | undefined,
    readonly path: string,
    private readonly framing: Framing,
    /** Where each record ends, framing included. */
    private readonly ends: number[],
    /** Bytes behind the last whole record. */
    public torn: Buffer,
  ) {}

  static async open(path: string, framing: Framing, access: Access): Promise<AppendOnly> {
    let file: FileHandle;
    try {
      file = await open(path, access === "read" ? constants.O_RDONLY : constants.O_RDWR | constants.O_CREAT, 0o600);
    } catch (error) {
      if (access === "read" && isMissing(error)) return new AppendOnly(undefined, path, framing, [], Buffer.alloc(0));
      throw diskError("open", path, error);
    }
    try {
      const { ends, torn } = await walk(file, path, framing);
      return new AppendOnly(file, path, framing, ends, torn);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** How many whole records there are. */
  get count(): number {
    return this.ends.length;
  }

  /** Bytes in the whole records. */
  get end(): number {
    return this.ends[this.ends.length - 1] ?? 0;
  }

  /** Record `place` without its framing; `undefined` beyond the last. */
  async read(place: number): Promise<Buffer | undefined> {
    const end = this.ends[place];
    if (end === undefined || this.file === undefined) return undefined;
    const begin = this.ends[place - 1] ?? 0;
    const bytes = Buffer.alloc(end - begin);
    try {
      await readExactly(this.file, bytes, begin);
    } catch (error) {
      throw diskError("read", this.path, error);
    }
    return this.framing === "prefixed" ? bytes.subarray(2) : bytes.subarray(0, -1);
  }

  /** Appends records with one write and one fdatasync. They count once `mayCount` does not throw. After an error nothing is known about the file. */
  async append(records: readonly Uint8Array[], mayCount: () => void): Promise<void> {
    const bytes = this.framing === "prefixed" ? encodeEntries(records) : Buffer.concat(records.flatMap((line) => [line, NEWLINE]));
    try {
      if (this.file === undefined) throw new Error("it is not there");
      const { bytesWritten } = await this.file.write(bytes, 0, bytes.length, this.end);
      if (bytesWritten !== bytes.length) throw new Error(`only ${bytesWritten} of ${bytes.length} bytes were taken`);
      await this.file.datasync();
      mayCount();
    } catch (error) {
      throw diskError("append to", this.path, error);
    }
    const framing = this.framing === "prefixed" ? 2 : 1;
    for (const record of records) this.ends.push(this.end + framing + record.length);
  }

  /** Removes the torn tail. */
  async cut(): Promise<void> {
    if (this.torn.length === 0 || this.file === undefined) return;
    try {
      await this.file.truncate(this.end);
      await this.file.sync();
    } catch (error) {
      throw diskError("cut", this.path, error);
    }
    this.torn = Buffer.alloc(0);
  }

  async close(): Promise<void> {
    await this.file?.close();
    this.file = undefined;
  }
}

const NEWLINE = Buffer.from("\n");

async function readExactly(file: FileHandle, bytes: Buffer, from: number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesRead } = await file.read(bytes, at, bytes.length - at, from + at);
    if (bytesRead === 0) throw new Error("it is shorter than it was");
    at += bytesRead;
  }
}

/** Where the records end, and what lies behind the last. */
async function walk(file: FileHandle, path: string, framing: Framing): Promise<{ ends: number[]; torn: Buffer }> {
  try {
    const { size } = await file.stat();
    const ends: number[] = [];
    let rest: Buffer = Buffer.alloc(0);
    let end = 0;
    for (let at = 0; at < size; ) {
      const chunk = Buffer.alloc(Math.min(WALK_BUFFER, size - at));
      await readExactly(file, chunk, at);
      at += chunk.length;
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let used = 0;
      for (let length = recordLength(rest, used, framing); length !== undefined; length = recordLength(rest, used, framing)) {
        used += length;
        end += length;
        ends.push(end);
      }
      rest = rest.subarray(used);
    }
    const mayBeTorn = framing === "lines" || rest.length < 2 || rest.length < 2 + rest.readUInt16BE(0) || rest.every((byte) => byte === 0);
    if (!mayBeTorn) throw damaged(path, `at byte ${end}`, "no record can begin with a length of 0");
    return { ends, torn: Buffer.from(rest) };
  } catch (error) {
    throw diskError("read", path, error);
  }
}

/** The length of the record at `at`, framing included; `undefined` where none is whole. A length of 0 is none: it is what zeroes look like. */
function recordLength(bytes: Buffer, at: number, framing: Framing): number | undefined {
  if (framing === "lines") {
    const newline = bytes.indexOf(0x0a, at);
    return newline < 0 ? undefined : newline + 1 - at;
  }
  if (at + 2 > bytes.length) return undefined;
  const length = bytes.readUInt16BE(at);
  return length > 0 && at + 2 + length <= bytes.length ? 2 + length : undefined;
}
