// The browser-safe entry: its bundle needs no `node:` module, and runs in a browser by WebCrypto.

import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:http";
import { isBuiltin } from "node:module";
import test from "node:test";
import { build } from "esbuild";
import { newDir } from "./stage.js";
import { PATIENCE_MS } from "./wait.js";

const ENTRY = new URL("../dist/index.js", import.meta.url).pathname;
const VECTORS = process.env["COUNTERFOIL_VECTORS"] ?? new URL("../../../vectors/", import.meta.url).pathname;

async function bundle(): Promise<{ text: string; inputs: string[] }> {
  const built = await build({
    entryPoints: [ENTRY],
    bundle: true,
    format: "esm",
    platform: "browser",
    write: false,
    metafile: true,
    // Whatever is not found in here is told instead of refused.
    external: ["node:*"],
    logLevel: "silent",
  });
  const imported = Object.values(built.metafile.inputs).flatMap((input) => input.imports.map(({ path, original }) => original ?? path));
  return { text: built.outputFiles[0]?.text ?? "", inputs: imported };
}

test("the bundle of the browser-safe entry imports no module of Node's", async () => {
  const { text, inputs } = await bundle();
  assert.deepEqual(
    inputs.filter((path) => path.startsWith("node:") || isBuiltin(path)),
    [],
  );
  assert.doesNotMatch(text, /["']node:|\brequire\(|\bprocess\.|\bBuffer\./);
});

/** Runs in the page: the strictest vectors, and every proof with its policy. */
const PAGE = `<!doctype html><script type="module">
  import * as cf from "/counterfoil.js";
  const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const hex = (text) => cf.fromHex(text);
  const told = { webCrypto: false, wrong: [], checked: 0 };
  const check = (name, found, wanted) => {
    told.checked += 1;
    if (found !== wanted) told.wrong.push(name + ": " + found + ", not " + wanted);
  };
  const cases = async (file) => (await (await fetch("/vectors/" + file)).json()).cases;
  const codeOf = async (act) => { try { await act(); return null; } catch (error) { return error.code ?? String(error); } };
  try {
    const raw = await crypto.subtle.importKey("raw", cf.SigningKey.fromSeed("a", new Uint8Array(32)).verifier.publicKey, "Ed25519", false, ["verify"]).then(() => true, () => false);
    told.webCrypto = raw;
    for (const one of await cases("ed25519.json")) {
      check(one.name, await cf.verifyEd25519(hex(one.key_hex), hex(one.message_hex), hex(one.signature_hex)), one.ok);
    }
    for (const one of await cases("proofs.json")) {
      const proof = one.proof_b64 === undefined ? one.proof : bytes(one.proof_b64);
      check(one.name, await codeOf(() => cf.TlogProof.parse(proof).verify(bytes(one.entry_b64), cf.Policy.parse(one.policy))), one.code);
    }
    const key = cf.SigningKey.generate("gate.example/browser");
    const body = cf.printJson(cf.toJson({ type: "open", vkey: key.verifier.toString() }));
    const receipt = await cf.signReceipt({ issuer: key.name, seq: 0n, prev: cf.NO_RECEIPT, issuedAt: 1n, body }, key);
    check("a receipt signed here", (await cf.admit(cf.IssuerState.registered(key.verifier), receipt.bytes)).state.nextSeq, 1n);
  } catch (error) {
    told.wrong.push(String(error) + " " + error.stack);
  }
  await fetch("/told", { method: "POST", body: JSON.stringify(told) });
</script>`;

function chromium(): string | undefined {
  return ["chromium", "chromium-browser", "google-chrome", "chrome"].find((name) => spawnSync(name, ["--version"]).status === 0);
}

const browser = chromium();
const noBrowser = browser === undefined && "SKIPPED, NOTHING WAS CHECKED: no Chromium is installed";
if (noBrowser) process.stderr.write(`${noBrowser}\n`);

test("a browser checks signatures and proofs as Node does, by WebCrypto", { skip: noBrowser }, async () => {
  const { text } = await bundle();
  const told = await new Promise<{ webCrypto: boolean; wrong: string[]; checked: number }>((resolve, reject) => {
    const server = createServer((request, response) => {
      const { url = "/" } = request;
      if (url === "/told") {
        let body = "";
        request.on("data", (part) => {
          body += part;
        });
        request.on("end", () => {
          response.end();
          resolve(JSON.parse(body));
          // The browser is several processes, in a group of their own; while one lives it writes to its profile.
          if (child?.pid !== undefined) process.kill(-child.pid, "SIGKILL");
          server.close();
        });
      } else if (url === "/counterfoil.js") response.setHeader("content-type", "text/javascript").end(text);
      else if (url.startsWith("/vectors/"))
        response.setHeader("content-type", "application/json").end(readFileSync(`${VECTORS}/${url.slice(9)}`));
      else if (url === "/") response.setHeader("content-type", "text/html; charset=utf-8").end(PAGE);
      else response.writeHead(404).end();
    });
    let child: ChildProcess | undefined;
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      const flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        `--user-data-dir=${newDir()}`,
      ];
      child = spawn(browser ?? "", [...flags, `http://127.0.0.1:${port}/`], { stdio: "ignore", detached: true });
      child.on("error", reject);
    });
    setTimeout(() => reject(new Error(`the page said nothing within ${PATIENCE_MS} ms`)), PATIENCE_MS).unref();
  });
  assert.deepEqual(told.wrong, []);
  assert.ok(told.checked > 100, `only ${told.checked} checks`);
  assert.ok(told.webCrypto, "this Chromium has Ed25519 in WebCrypto");
});
