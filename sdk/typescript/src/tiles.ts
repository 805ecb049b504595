// Paths of a tiled log (protocol, 5.1) and pages of entries.
//
//   tile/<L>/<N>[.p/<W>]   tile/entries/<N>[.p/<W>]   heads/<N>[.p/<W>]       <N> = 1234067 -> x001/x234/067

import { parseU64 } from "./bytes.js";
import { FormatError } from "./errors.js";

/** Hashes in a full tile, entries in a full page. */
export const TILE_WIDTH = 256;
/** Longest entry: its length is written in 16 bits. */
export const MAX_ENTRY_LEN = 65_535;
const MAX_TILE_LEVEL = 63n;
/** Groups of three digits in the longest index. */
const MAX_INDEX_GROUPS = 7;

/** A static resource of a tiled log. */
export type Resource =
  | { readonly kind: "checkpoint" }
  | { readonly kind: "tile"; readonly level: number; readonly index: bigint; readonly width: number }
  | { readonly kind: "entries" | "heads"; readonly index: bigint; readonly width: number };

/** The path of a resource below the log's prefix, without a leading slash. */
export function resourcePath(resource: Resource): string {
  switch (resource.kind) {
    case "checkpoint":
      return "checkpoint";
    case "tile":
      return `tile/${resource.level}/${pagePath(resource.index, resource.width)}`;
    case "entries":
      return `tile/entries/${pagePath(resource.index, resource.width)}`;
    case "heads":
      return `heads/${pagePath(resource.index, resource.width)}`;
  }
}

/** Reads a path; `undefined` for anything that {@link resourcePath} would not print. */
export function parseResource(path: string): Resource | undefined {
  if (path === "checkpoint") return { kind: "checkpoint" };
  const pages = /^(tile\/entries|heads)\/(.*)$/s.exec(path);
  if (pages !== null) {
    const page = parsePage(pages[2] ?? "");
    return page && { kind: pages[1] === "heads" ? "heads" : "entries", ...page };
  }
  const tile = /^tile\/([^/]*)\/(.*)$/s.exec(path);
  const level = tile === null ? undefined : parseU64(tile[1] ?? "");
  const page = tile === null ? undefined : parsePage(tile[2] ?? "");
  if (level === undefined || level > MAX_TILE_LEVEL || page === undefined) return undefined;
  return { kind: "tile", level: Number(level), ...page };
}

/**
 * The entries of a page: length in two bytes, big-endian, then so many bytes, and so on. Reads no more than `most` of them: a
 * page that holds only empty ones would take a hundred times its size in memory. Throws a {@link FormatError} (`cut`).
 */
export function decodeEntries(page: Uint8Array, most = Number.POSITIVE_INFINITY): Uint8Array[] {
  const entries: Uint8Array[] = [];
  const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
  for (let at = 0; at < page.length && entries.length < most; ) {
    const end = at + 2 <= page.length ? at + 2 + view.getUint16(at) : Number.POSITIVE_INFINITY;
    if (end > page.length) throw new FormatError("cut", "the page ends inside an entry; fetch it again");
    entries.push(page.subarray(at + 2, end));
    at = end;
  }
  return entries;
}

/** A page of entries. Throws a {@link FormatError} (`too-long`) for one of more than 65,535 bytes. */
export function encodeEntries(entries: readonly Uint8Array[]): Uint8Array {
  const page = new Uint8Array(entries.reduce((length, entry) => length + 2 + entry.length, 0));
  let at = 0;
  for (const entry of entries) {
    if (entry.length > MAX_ENTRY_LEN)
      throw new FormatError("too-long", `an entry has at most ${MAX_ENTRY_LEN} bytes, this one ${entry.length}`);
    page[at] = entry.length >> 8;
    page[at + 1] = entry.length & 0xff;
    page.set(entry, at + 2);
    at += 2 + entry.length;
  }
  return page;
}

function pagePath(index: bigint, width: number): string {
  const digits = index.toString();
  const padded = digits.padStart(Math.ceil(digits.length / 3) * 3, "0");
  const groups = padded.match(/.{3}/g) ?? [];
  const path = groups.map((group, place) => (place + 1 === groups.length ? group : `x${group}`)).join("/");
  return width < TILE_WIDTH ? `${path}.p/${width}` : path;
}

function parsePage(path: string): { index: bigint; width: number } | undefined {
  const cut = path.indexOf(".p/");
  const width = cut < 0 ? BigInt(TILE_WIDTH) : parseU64(path.slice(cut + 3));
  if (width === undefined || (cut >= 0 && (width < 1n || width >= BigInt(TILE_WIDTH)))) return undefined;
  const spelling = cut < 0 ? path : path.slice(0, cut);
  const groups = spelling.split("/");
  const isSpelt = groups.every((group, place) => (place + 1 === groups.length ? /^[0-9]{3}$/ : /^x[0-9]{3}$/).test(group));
  // A group of zeroes in front would be a second spelling of a shorter index.
  if (!isSpelt || groups.length > MAX_INDEX_GROUPS || (groups.length > 1 && groups[0] === "x000")) return undefined;
  const index = parseU64(
    groups
      .map((group) => group.slice(-3))
      .join("")
      .replace(/^0+(?=.)/, ""),
  );
  return index === undefined ? undefined : { index, width: Number(width) };
}
