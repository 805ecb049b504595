// A gate is killed 200 times at random instants: nothing that it was told is durable is lost, nothing is signed twice, and
// every allowed call has exactly one outcome.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Gate, OutboxView } from "counterfoil/node";
import { call, newDir, newKey, noExecutable, Stage } from "./stage.js";
import { PATIENCE_MS } from "./wait.js";

const KILLS = Number(process.env["COUNTERFOIL_KILLS"] ?? "200");
const CHILD = new URL("./killed_gate.js", import.meta.url).pathname;

test(`after ${KILLS} kills at random instants nothing is lost, forked or twice in the log`, { skip: noExecutable }, async () => {
  const key = newKey();
  const stage = await Stage.build([key]);
  const dir = newDir();
  /** Request id to the receipt id that its scope saw. */
  const durable = new Map<string, string>();
  const done = new Set<string>();
  let lived = 0;
  for (let kill = 0; kill < KILLS; kill += 1) {
    const args = [CHILD, dir, key.privateText(), stage.url, stage.vkey, String(kill * 1_000_000)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    child.stdout.on("data", (bytes) => {
      said += bytes;
    });
    const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
    // Every fourth one is killed somewhere in its start, the others while they write.
    if (kill % 4 !== 0) await Promise.race([ended, new Promise((resolve) => child.stdout.once("data", resolve))]);
    await sleep(Math.random() * (kill % 4 === 0 ? 300 : 80));
    child.kill("SIGKILL");
    await ended;
    const lines = said.split("\n").slice(0, -1);
    lived += lines.length > 0 ? 1 : 0;
    for (const line of lines) {
      const [request = "", what = ""] = line.split(" ");
      if (what === "done") done.add(request);
      else durable.set(request, what);
    }
  }
  const gate = await Gate.open({ dir, key, log: { url: stage.url, vkey: stage.vkey } });
  assert.ok(await gate.flush(PATIENCE_MS), JSON.stringify(await gate.status()));
  await gate.close();

  const view = await OutboxView.open(dir);
  const { receipts, acknowledged, alarms } = await view.status();
  assert.equal(acknowledged, receipts);
  assert.equal(alarms, 0);
  const decisions = new Map<string, string>();
  const outcomes = new Map<string, boolean>();
  let unknown = 0;
  for (let seq = 0; seq < receipts; seq += 1) {
    const receipt = await view.receipt(seq);
    assert.ok(receipt);
    const request = String(receipt.body.get("request_id"));
    if (receipt.type === "decision") {
      assert.ok(!decisions.has(request), `${request} was decided twice`);
      decisions.set(request, receipt.id);
      if (receipt.body.get("operation") instanceof Map)
        assert.ok(existsSync(join(dir, "disclosures", `${seq}.jsonl`)), `what opens seq ${seq} is lost`);
    } else if (receipt.type === "outcome") {
      assert.ok(!outcomes.has(request), `${request} ended twice`);
      assert.equal(receipt.body.get("decision"), decisions.get(request));
      outcomes.set(request, receipt.body.get("executed") === true);
      unknown += receipt.body.get("unknown") === true ? 1 : 0;
    }
  }
  await view.close();
  for (const [request, id] of durable) assert.equal(decisions.get(request), id, `${request} was lost`);
  for (const request of done) assert.equal(outcomes.get(request), true, `the outcome of ${request} was lost`);
  assert.equal(outcomes.size, decisions.size);
  assert.ok(unknown > 0, "some call was open when its gate was killed");
  const known = await stage.issuer(key.name);
  assert.deepEqual([known.next_seq, known.forks], [receipts, 0]);
  const verify = call("outbox", "verify", "--outbox", dir);
  assert.equal(verify.code, 0, verify.err);
  process.stdout.write(
    `# ${KILLS} kills (${lived} while writing): ${receipts} receipts, ${durable.size} told durable, ${unknown} outcomes unknown; 0 lost, 0 forks, 0 duplicates\n`,
  );
  stage.stop();
});
