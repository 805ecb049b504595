// A log by HTTP: bounded in bytes and time, no redirects, nothing believed. Signatures are checked by whoever knows the key.

import { concat, fromUtf8 } from "../bytes.js";
import { CounterfoilError, FormatError, SenderError } from "../errors.js";
import type { Json, JsonObject } from "../ijson.js";
import { parseJsonObject } from "../ijson.js";
import { MAX_NOTE_LEN } from "../notes.js";
import { TlogProof } from "../proofs.js";
import { receiptId } from "../receipts.js";
import type { Resource } from "../tiles.js";
import { encodeEntries, MAX_ENTRY_LEN, resourcePath, TILE_WIDTH } from "../tiles.js";

/** The longest that one exchange may take, in milliseconds. */
const TOTAL_MS = 30_000;
/** Most bytes of one proof in JSON: 64 of the longest cosignature lines, and 8 KiB for the rest. */
const MAX_PROOF_JSON = 64 * 3600 + 8 * 1024;
/** Most bytes of an answer about one receipt beside its proof, and of a problem document. */
const MAX_MEMBERS_JSON = 4 * 1024;

/** What became of one entry of a batch. */
export type Verdict =
  | { readonly status: "ok" | "duplicate"; readonly proof: TlogProof }
  | { readonly status: "refused" | "skipped"; readonly code: string; readonly detail: string; readonly expectedSeq: number | undefined };

/** What the log knows of one issuer. */
export interface KnownIssuer {
  readonly nextSeq: number;
  readonly head: string;
}

/** An answer other than the one asked for. */
export class HttpRefusal extends SenderError {
  constructor(
    readonly status: number,
    /** The problem document's code, where there is one. */
    readonly problem: string | undefined,
    sentence: string,
    /** Milliseconds the server asks to wait. */
    readonly retryAfterMs: number | undefined,
  ) {
    super(problem ?? "log-unreachable", sentence, status === 429 || status >= 500 || status === 408);
  }
}

export class LogClient {
  /** The prefix below which all paths lie, with a slash at its end. */
  readonly base: string;

  constructor(url: string) {
    let parsed: URL;
    try {
      parsed = new URL(url);
    } catch {
      throw new FormatError("not-a-url", `${JSON.stringify(url)} is not an address; write http://host:port or https://host/prefix`);
    }
    if (
      !["http:", "https:"].includes(parsed.protocol) ||
      parsed.username !== "" ||
      parsed.password !== "" ||
      parsed.search !== "" ||
      parsed.hash !== ""
    ) {
      throw new FormatError(
        "not-a-url",
        "a log's address is http or https, a host, maybe a port and a path, nothing else; leave the rest out",
      );
    }
    this.base = parsed.href.endsWith("/") ? parsed.href : `${parsed.href}/`;
  }

  /** Submits entries in order. One verdict comes back for each. */
  async submitBatch(entries: readonly Uint8Array[], signal?: AbortSignal): Promise<Verdict[]> {
    const answer = await this.send("v1/receipts/batch", entries.length * (MAX_PROOF_JSON + MAX_MEMBERS_JSON), signal, {
      method: "POST",
      headers: { "content-type": "application/octet-stream", accept: "application/x-ndjson" },
      body: new Uint8Array(encodeEntries(entries)),
    });
    return this.reading("v1/receipts/batch", () => {
      const text = fromUtf8(answer);
      if (text?.endsWith("\n") !== true) throw bad("its last line does not end");
      const lines = text.slice(0, -1).split("\n");
      if (lines.length !== entries.length) throw bad(`${lines.length} verdicts came for ${entries.length} receipts`);
      return lines.map((line, place) => verdict(parseJsonObject(line), entries[place] ?? new Uint8Array()));
    });
  }

  /** What the log knows of an issuer; `undefined` where it says that it does not know it. Throws `not-a-log` for what no log answers. */
  async issuer(name: string, signal?: AbortSignal): Promise<KnownIssuer | undefined> {
    const path = `v1/issuers/${encodeURIComponent(name)}`;
    let answer: Uint8Array;
    try {
      answer = await this.send(path, MAX_MEMBERS_JSON, signal);
    } catch (error) {
      if (!(error instanceof HttpRefusal) || error.status !== 404) throw error;
      if (error.problem === "unknown-issuer") return undefined;
      throw new SenderError(
        "not-a-log",
        `${this.base} is not a log: asked for this gate's issuer it answers 404 ${error.problem ?? ""}, which no log does; check the log's address`,
      );
    }
    return this.reading(path, () => {
      const members = parseJsonObject(answer);
      const [nextSeq, head] = [members.get("next_seq"), members.get("head")];
      if (members.get("name") !== name || !isSeq(nextSeq) || typeof head !== "string")
        throw bad("it speaks of another issuer than the one asked for");
      return { nextSeq, head };
    });
  }

  /** The newest offered signed head, unverified. */
  checkpoint(signal?: AbortSignal): Promise<Uint8Array> {
    return this.send("checkpoint", MAX_NOTE_LEN, signal);
  }

  /** The bytes of a page or tile. Where a partial one is gone, the full one comes in its place. */
  async resource(resource: Exclude<Resource, { kind: "checkpoint" }>, signal?: AbortSignal): Promise<Uint8Array> {
    const most = resource.kind === "tile" ? TILE_WIDTH * 32 : TILE_WIDTH * (2 + MAX_ENTRY_LEN);
    try {
      return await this.send(resourcePath(resource), most, signal);
    } catch (error) {
      if (!(error instanceof HttpRefusal) || error.status !== 404 || resource.width === TILE_WIDTH) throw error;
      return this.send(resourcePath({ ...resource, width: TILE_WIDTH }), most, signal);
    }
  }

  private reading<T>(path: string, read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof CounterfoilError)) throw error;
      throw new SenderError("not-a-log", `${this.base}${path} does not answer as a log should: ${error.message}`, false, { cause: error });
    }
  }

  private async send(path: string, most: number, signal: AbortSignal | undefined, request: RequestInit = {}): Promise<Uint8Array> {
    const url = `${this.base}${path}`;
    const timeout = AbortSignal.timeout(TOTAL_MS);
    try {
      const response = await fetch(url, {
        ...request,
        redirect: "error",
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      });
      const body = await bounded(response, response.ok ? most : MAX_MEMBERS_JSON + MAX_PROOF_JSON);
      if (response.ok) return body;
      throw refusal(url, response, body);
    } catch (error) {
      if (error instanceof CounterfoilError) throw error;
      throw new SenderError(
        "log-unreachable",
        `${url} gives no usable answer (${reason(error)}); the receipts are safe, and are sent again`,
        true,
        { cause: error },
      );
    }
  }
}

function bad(sentence: string): FormatError {
  return new FormatError("bad-answer", sentence);
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}

async function bounded(response: Response, most: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  if (response.body === null) return new Uint8Array();
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return concat(...parts);
    length += value.length;
    if (length > most) {
      await reader.cancel();
      throw new SenderError("not-a-log", `${response.url} answers more than ${most} bytes, which no log does; check the log's address`);
    }
    parts.push(value);
  }
}

function refusal(url: string, response: Response, body: Uint8Array): HttpRefusal {
  let [code, detail]: (string | undefined)[] = [];
  try {
    const problem = parseJsonObject(body);
    const text = (name: string) => {
      const value = problem.get(name);
      return typeof value === "string" ? value : undefined;
    };
    [code, detail] = [text("code"), text("detail")];
  } catch {
    // The answer came from something in between.
  }
  const seconds = /^[0-9]{1,6}$/.exec(response.headers.get("retry-after") ?? "")?.[0];
  const sentence = `${url} answers ${response.status} ${code ?? ""}: ${detail ?? "no reason given"}; if that lasts, ask the log's operator`;
  return new HttpRefusal(response.status, code, sentence, seconds === undefined ? undefined : Number(seconds) * 1000);
}

function isSeq(value: Json | undefined): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

function verdict(members: JsonObject, entry: Uint8Array): Verdict {
  const text = (name: string): string => {
    const value = members.get(name);
    if (typeof value !== "string") throw bad(`a verdict has no ${name}`);
    return value;
  };
  const status = text("status");
  switch (status) {
    case "ok":
    case "duplicate": {
      if (text("id") !== receiptId(entry)) throw bad("a verdict speaks of another receipt than the one at its place");
      const proof = TlogProof.parse(text("proof"));
      if (!isSeq(members.get("index")) || BigInt(Number(members.get("index"))) !== proof.index)
        throw bad("a verdict says another index than its proof");
      return { status, proof };
    }
    case "refused":
    case "skipped": {
      const expected = members.get("expected_seq");
      return { status, code: text("code"), detail: text("detail"), expectedSeq: isSeq(expected) ? expected : undefined };
    }
    default:
      throw bad("a verdict has a status that no log gives");
  }
}
