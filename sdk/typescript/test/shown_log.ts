// A log that shows whatever it is told to, and takes receipts in batches.

import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import * as cf from "counterfoil";

function treeOf(entries: readonly Uint8Array[]): cf.MerkleTree {
  const tree = new cf.MerkleTree();
  for (const entry of entries) tree.push(cf.leafHash(entry));
  return tree;
}

export class ShownLog {
  readonly key = cf.SigningKey.fromSeed("log.example/shown", new Uint8Array(32).fill(9));
  /** Signs its heads. */
  signer = this.key;
  entries: Uint8Array[] = [];
  /** What its head and its tiles say, where that is not what its entries are. */
  claims: Uint8Array[] | undefined;
  /** What it does to the bytes of a tile; `undefined` serves none. */
  tile: (bytes: Uint8Array) => Uint8Array | undefined = (bytes) => bytes;
  /** Cosignature lines below its heads. */
  cosign: (text: string) => Promise<string> = () => Promise.resolve("");
  /** Whoever asks for an issuer is never answered. */
  isMute = false;
  /** The paths asked for. */
  readonly asked: string[] = [];
  private readonly server = createServer((request, response) => {
    this.answer(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
  });

  async listen(): Promise<string> {
    if (!this.server.listening) await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  /** Its present head. */
  async head(tree = treeOf(this.claims ?? this.entries)): Promise<cf.SignedCheckpoint> {
    const head = await cf.signCheckpoint({ origin: this.signer.name, size: tree.size, root: tree.root(), extensions: [] }, this.signer);
    return cf.SignedCheckpoint.parse(head.note.whole + (await this.cosign(head.note.text)));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? "").slice(1);
    this.asked.push(path);
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    if (path === "v1/receipts/batch") return void response.end(await this.take(cf.decodeEntries(new Uint8Array(Buffer.concat(parts)))));
    if (path.startsWith("v1/issuers/") && this.isMute) return;
    if (path.startsWith("v1/issuers/")) return void response.end(this.issuer(decodeURIComponent(path.slice("v1/issuers/".length))));
    const found = await this.resource(path);
    response.writeHead(found === undefined ? 404 : 200).end(found ?? '{"code":"not-found"}');
  }

  private async resource(path: string): Promise<Uint8Array | string | undefined> {
    const resource = cf.parseResource(path);
    if (resource === undefined || resource.kind === "heads") return undefined;
    if (resource.kind === "checkpoint") return (await this.head()).note.whole;
    const { index, width } = resource;
    const first = Number(index) * cf.TILE_WIDTH;
    if (resource.kind !== "tile") return cf.encodeEntries(this.entries.slice(first, first + width));
    const tree = treeOf(this.claims ?? this.entries);
    const { level } = resource;
    const hashes = Array.from({ length: width }, (_, place) => tree.subtree(8 * level, BigInt(first + place)));
    if (hashes.includes(undefined)) return undefined;
    return this.tile(new Uint8Array(Buffer.concat(hashes.map((hash) => hash ?? new Uint8Array()))));
  }

  private issuer(name: string): string {
    const held = this.entries.filter((entry) => issuerOf(entry) === name);
    const last = held[held.length - 1];
    return JSON.stringify({ name, next_seq: held.length, head: last === undefined ? "00".repeat(32) : cf.receiptId(last) });
  }

  private async take(entries: readonly Uint8Array[]): Promise<string> {
    const first = this.entries.length;
    this.entries.push(...entries);
    const tree = treeOf(this.entries);
    const head = await this.head(tree);
    return entries
      .map((entry, place) => {
        const { issuer, seq, id } = cf.Receipt.parse(entry);
        const index = first + place;
        const proof = cf.proofText(BigInt(index), cf.proveInclusion(tree, BigInt(index), tree.size), head);
        return `${JSON.stringify({ status: "ok", index, issuer, seq: Number(seq), id, proof })}\n`;
      })
      .join("");
  }
}

function issuerOf(entry: Uint8Array): string | undefined {
  try {
    return cf.Receipt.parse(entry).issuer;
  } catch {
    return undefined;
  }
}
