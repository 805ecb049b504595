// A log (and witnesses) of the project's own, run by its executable: COUNTERFOIL_BIN, else target/debug/counterfoil.

import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SigningKey } from "counterfoil";
import { OutboxView } from "counterfoil/node";
import { until } from "./wait.js";

const BUILT = new URL("../../../target/debug/counterfoil", import.meta.url).pathname;
/** The executable, if there is one. */
export const EXECUTABLE: string | undefined = process.env["COUNTERFOIL_BIN"] ?? (existsSync(BUILT) ? BUILT : undefined);

/** Why tests with a real log do not run, for `node:test`'s `skip`. */
export const noExecutable: string | false =
  EXECUTABLE === undefined && "SKIPPED, NOTHING WAS CHECKED: there is no counterfoil executable; set COUNTERFOIL_BIN";
if (noExecutable) process.stderr.write(`${noExecutable}\n`);

/** Runs the executable to its end. */
export function call(...args: string[]): { code: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(EXECUTABLE ?? "counterfoil", args, { encoding: "utf8" });
  return { code: status, out: stdout, err: stderr };
}

function run(...args: string[]): string {
  const { code, out, err } = call(...args);
  assert.equal(code, 0, `${args.join(" ")}: ${err}`);
  return out;
}

const made: string[] = [];
process.on("exit", () => {
  for (const dir of made) rmSync(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});

/** A new directory under the system's, removed when the process ends. */
export function newDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "counterfoil-"));
  made.push(dir);
  return dir;
}

let names = 0;
/** A new issuer's key. */
export function newKey(): SigningKey {
  names += 1;
  return SigningKey.generate(`gate.example/${process.pid}-${names}`);
}

/** Ports that the system gives nobody who asks for any: a connection of another test would take one that is free just now. */
const PORTS = { first: 15_000, count: 15_000 };

async function freePort(): Promise<number> {
  for (;;) {
    const port = PORTS.first + Math.floor(Math.random() * PORTS.count);
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer().once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

/** A port that was free was taken by the time that it was used. */
class PortTaken extends Error {}
const TRIES = 5;

/** A log that runs, and witnesses. */
export class Stage {
  private readonly processes: ChildProcess[] = [];
  private log: ChildProcess | undefined;

  private constructor(
    readonly dir: string,
    readonly url: string,
    readonly vkey: string,
    /** The policy's text. */
    readonly policy: string,
  ) {
    process.on("exit", () => this.stop());
  }

  /** Everything answers when this does. */
  static async build(keys: readonly SigningKey[], witnesses = 0): Promise<Stage> {
    for (let tried = 1; ; tried += 1) {
      try {
        return await Stage.buildOnce(keys, witnesses);
      } catch (error) {
        if (!(error instanceof PortTaken) || tried === TRIES) throw error;
      }
    }
  }

  private static async buildOnce(keys: readonly SigningKey[], witnesses: number): Promise<Stage> {
    const dir = newDir();
    const listen = `127.0.0.1:${await freePort()}`;
    const log = join(dir, "log");
    const vkey = run("log", "init", "--dir", log, "--origin", `log.example/${process.pid}`, "--listen", listen).split("\n")[0] ?? "";
    for (const key of keys) run("log", "issuer", "add", "--dir", log, key.verifier.toString());
    const url = `http://${listen}`;
    let policy = `log ${vkey} ${url}\n`;
    const placed: { name: string; url: string; dir: string }[] = [];
    for (let number = 1; number <= witnesses; number += 1) {
      const at = `127.0.0.1:${await freePort()}`;
      const own = join(dir, `witness-${number}`);
      const key = run("witness", "init", "--dir", own, "--name", `witness.example/${number}`, "--listen", at).split("\n")[0] ?? "";
      appendFileSync(join(own, "config.toml"), `\n[[log]]\nvkey = "${vkey}"\nurl = "${url}"\nprivate_address = true\n`);
      appendFileSync(join(log, "config.toml"), `\n[[witness]]\nvkey = "${key}"\nurl = "http://${at}"\n`);
      policy += `witness w${number} ${key} http://${at}\n`;
      placed.push({ name: `w${number}`, url: `http://${at}`, dir: own });
    }
    const names = placed.map(({ name }) => name).join(" ");
    policy += witnesses === 0 ? "quorum none\n" : `group most ${Math.floor(witnesses / 2) + 1} ${names}\nquorum most\n`;
    const stage = new Stage(dir, url, vkey, policy);
    try {
      await stage.startLog();
      for (const { url, dir } of placed) await answers(url, stage.spawn("witness", "serve", "--config", join(dir, "config.toml")));
    } catch (error) {
      stage.stop();
      throw error;
    }
    return stage;
  }

  private spawn(...args: string[]): ChildProcess {
    const child = spawn(EXECUTABLE ?? "counterfoil", args, { stdio: "ignore" });
    child.unref();
    this.processes.push(child);
    return child;
  }

  async startLog(): Promise<void> {
    this.log = this.spawn("log", "serve", "--config", join(this.dir, "log", "config.toml"));
    await answers(this.url, this.log);
  }

  async stopLog(): Promise<void> {
    const { log } = this;
    if (log === undefined) return;
    log.kill("SIGKILL");
    await until("the log is gone", () => log.exitCode !== null || log.signalCode !== null);
  }

  stop(): void {
    for (const child of this.processes) child.kill("SIGKILL");
  }

  /** What the log knows of an issuer. */
  async issuer(name: string): Promise<{ next_seq: number; head: string; forks: number }> {
    const answer = await fetch(`${this.url}/v1/issuers/${encodeURIComponent(name)}`);
    return (await answer.json()) as { next_seq: number; head: string; forks: number };
  }
}

/** Waits until a server answers. */
async function answers(url: string, child: ChildProcess): Promise<void> {
  await until(`${url} answers`, async () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new PortTaken(`nothing runs at ${url}`);
    return fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  });
}

/** The bytes of the receipt at `seq` of an outbox. */
export async function entryOf(dir: string, seq: number): Promise<Uint8Array> {
  const view = await OutboxView.open(dir);
  const receipt = await view.receipt(seq);
  await view.close();
  assert.ok(receipt);
  return receipt.bytes;
}

/** A file's text. */
export function textOf(path: string): string {
  return readFileSync(path, "utf8");
}
