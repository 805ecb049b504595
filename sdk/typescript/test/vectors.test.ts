// The vectors that the Rust side makes: the same texts, digests, answers and error codes here.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import * as cf from "counterfoil";
import { newDir } from "./stage.js";
import { Outbox, OutboxView } from "counterfoil/node";

type Case = Record<string, unknown> & { name: string };

const VECTORS = process.env["COUNTERFOIL_VECTORS"] ?? new URL("../../../vectors/", import.meta.url).pathname;

/** Runs `check` over every case of a file; all that fail are told together. */
function vectors(file: string, check: (the: Case) => Promise<void> | void): void {
  test(`${file} answers as the Rust side does`, async () => {
    const path = `${VECTORS}/${file}`;
    assert.ok(existsSync(path), `${path} is missing; it is made by the Rust side (crates/testkit)`);
    // The numbers of this envelope are small: JSON.parse is enough.
    const { cases } = JSON.parse(readFileSync(path, "utf8")) as { cases: Case[] };
    assert.ok(cases.length > 0);
    const failed: string[] = [];
    for (const the of cases) {
      try {
        await check(the);
      } catch (error) {
        failed.push(`${the.name}: ${error instanceof Error ? error.message : error}`);
      }
    }
    assert.equal(failed.length, 0, `${failed.length} of ${cases.length} cases\n${failed.slice(0, 20).join("\n")}`);
  });
}

function text(value: unknown): string {
  assert.equal(typeof value, "string");
  return String(value);
}

function bytes(value: unknown): Uint8Array {
  return new Uint8Array(Buffer.from(text(value), "base64"));
}

function hex(value: unknown): Uint8Array {
  return new Uint8Array(Buffer.from(text(value), "hex"));
}

/** The members of an envelope's object, in the order written. */
function members(value: unknown): cf.JsonObject {
  return cf.parseJsonObject(JSON.stringify(value));
}

async function codeOf(act: () => unknown): Promise<string | null> {
  try {
    await act();
    return null;
  } catch (error) {
    if (error instanceof cf.CounterfoilError) return error.code;
    throw error;
  }
}

const KINDS = new Map<unknown, cf.KeyKind>([
  [1, "ed25519"],
  [4, "cosignature"],
  [6, "ml-dsa-44"],
]);

vectors("ijson.json", async ({ text_b64, code }) => {
  assert.equal(await codeOf(() => cf.parseJsonObject(bytes(text_b64))), code);
});

vectors("jcs.json", async (the) => {
  if (the["code"] !== undefined) return assert.equal(await codeOf(() => cf.canonicalJson(cf.parseJson(text(the["text"])))), the["code"]);
  const value = cf.parseJson(text(the["text"]));
  assert.equal(cf.canonicalJson(value), the["canonical"]);
  assert.equal(cf.jsonDigest(value).replace("sha256:", ""), text(the["sha256"]).replace("sha256:", ""));
});

vectors("keys.json", async (the) => {
  if (the["code"] !== undefined) {
    const read = () => (the["vkey"] === undefined ? cf.SigningKey.parse(text(the["private"])) : cf.VerifierKey.parse(text(the["vkey"])));
    return assert.equal(await codeOf(read), the["code"]);
  }
  if (the["seed_hex"] === undefined) return assert.equal(cf.VerifierKey.parse(text(the["vkey"])).toString(), the["vkey"]);
  const key = cf.SigningKey.fromSeed(text(the["key_name"]), hex(the["seed_hex"]), KINDS.get(the["kind"]));
  assert.equal(key.privateText(), the["private"]);
  assert.equal(key.verifier.toString(), the["vkey"]);
  assert.ok(cf.SigningKey.parse(text(the["private"])).verifier.equals(cf.VerifierKey.parse(text(the["vkey"]))));
});

for (const [engine, chosen] of [
  ["node:crypto", undefined],
  ["JavaScript alone", cf.portableEngine],
] as const) {
  test(`Ed25519 is as strict as the vectors ask, by ${engine}`, async () => {
    const { cases } = JSON.parse(readFileSync(`${VECTORS}/ed25519.json`, "utf8")) as { cases: Case[] };
    const { nodeEngine } = await import("counterfoil/node");
    cf.useEd25519(chosen ?? nodeEngine);
    const wrong: string[] = [];
    for (const the of cases) {
      const ok = await cf.verifyEd25519(hex(the["key_hex"]), hex(the["message_hex"]), hex(the["signature_hex"]));
      if (ok !== the["ok"]) wrong.push(`${the.name} ${the["flags"]}`);
    }
    cf.useEd25519(nodeEngine);
    assert.deepEqual(wrong, []);
  });
}

vectors("receipts.json", async (the) => {
  if (the["code"] !== undefined) {
    const state = cf.IssuerState.registered(cf.VerifierKey.parse(text(the["vkey"])));
    return assert.equal(await codeOf(() => cf.checkSignature(cf.Receipt.parse(bytes(the["entry_b64"])), state)), the["code"]);
  }
  const entry = bytes(the["entry_b64"]);
  const receipt = cf.Receipt.parse(entry);
  await receipt.note.verify(cf.VerifierKey.parse(text(the["vkey"])));
  if (the["id_hex"] !== undefined) assert.equal(receipt.id, the["id_hex"]);
  if (the["seed_hex"] === undefined) return;
  const key = cf.SigningKey.fromSeed(text(the["issuer"]), hex(the["seed_hex"]));
  const lines = {
    issuer: text(the["issuer"]),
    seq: BigInt(String(the["seq"])),
    prev: cf.toHex(bytes(the["prev_b64"])),
    issuedAt: BigInt(String(the["issued_at"])),
    body: text(the["body"]),
  };
  const next = the["next_seed_hex"] ?? the["new_seed_hex"];
  const signed =
    receipt.type === "rotate"
      ? await cf.signRotation(lines, key, cf.SigningKey.fromSeed(text(the["issuer"]), hex(next)))
      : await cf.signReceipt(lines, key);
  assert.deepEqual(signed.bytes, entry);
});

vectors("streams.json", async (the) => {
  let state: cf.IssuerState | undefined = cf.IssuerState.registered(cf.VerifierKey.parse(text(the["vkey"])));
  const now = typeof the["now"] === "number" || typeof the["now"] === "string" ? BigInt(the["now"]) : undefined;
  const held = new Map<bigint, string>();
  const answers: string[] = [];
  for (const entry of the["entries_b64"] as string[]) {
    try {
      const admitted: cf.Admitted = await cf.admit(state, bytes(entry), (seq) => held.get(seq), now);
      state = admitted.state;
      held.set(admitted.receipt.seq, admitted.receipt.id);
      answers.push("ok");
    } catch (error) {
      if (!(error instanceof cf.RefusalError)) throw error;
      answers.push(error.code);
    }
  }
  assert.deepEqual(answers, the["answers"]);
});

vectors("credentials.json", (the) => {
  const found = cf.findCredential(members(the["body"]));
  assert.equal(found?.member ?? null, the["member"]);
  if (the["kind"] !== undefined && the["kind"] !== null) assert.equal(found?.kind, the["kind"]);
});

vectors("commitments.json", async (the) => {
  if (the["code"] !== undefined) return assert.equal(await codeOf(() => cf.parseDisclosure(text(the["disclosure"]))), the["code"]);
  if (the["committed_body"] !== undefined) {
    const [body, salts] = [cf.parseJsonObject(text(the["body"])), members(the["salts"])];
    for (const name of the["commit"] as string[]) {
      const { committed, disclosure } = cf.commit(name, body.get(name) ?? null, text(salts.get(name)));
      body.set(name, committed);
      assert.ok(cf.opens(disclosure, body));
    }
    return assert.equal(cf.printJson(body), the["committed_body"]);
  }
  if (the["salt"] !== undefined) {
    const name = text(the["member"]);
    const { committed, disclosure } = cf.commit(name, members({ value: the["value"] }).get("value") ?? null, text(the["salt"]));
    assert.equal(cf.disclosureDigest(disclosure), the["digest"]);
    assert.equal(cf.printJson(committed), JSON.stringify(the["committed"]));
    return assert.equal(cf.printDisclosure(disclosure), the["disclosure"]);
  }
  assert.equal(cf.disclosureDigest(cf.parseDisclosure(text(the["disclosure"]))), the["digest"]);
});

vectors("actions.json", (the) => {
  const given = members(the["action"]);
  const member = (name: string) => given.get(name);
  const action: cf.Action = {
    operation: member("operation") as string | null | undefined,
    resource: member("resource") as string | null | undefined,
    args: member("args"),
    capabilityId: member("capability_id") as string | null | undefined,
    nonce: member("nonce") as string | null | undefined,
  };
  assert.equal(cf.actionText(action), the["canonical"]);
  assert.equal(cf.actionDigest(action), the["digest"]);
});

/** Wire names as the options of this package spell them. */
function options(given: cf.JsonObject): cf.DecisionMembers {
  const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const nested = (value: cf.Json): unknown => {
    if (Array.isArray(value)) return value.map(nested);
    return value instanceof Map ? Object.fromEntries(Array.from(value, ([name, member]) => [camel(name), member])) : value;
  };
  const known = [
    "request_id",
    "rule",
    "why",
    "caller_reason",
    "operation",
    "resource",
    "action_class",
    "subjects",
    "session",
    "args",
    "args_mode",
    "authenticated",
    "proven",
    "claimed_agent",
    "bound_agent",
    "capability",
    "grant",
    "facts",
    "executes",
    "approval",
    "history",
    "commit",
    "extra",
  ];
  const call: Record<string, unknown> = {};
  const extra = new Map(given.get("extra") instanceof Map ? (given.get("extra") as cf.JsonObject) : []);
  for (const [name, value] of given) {
    if (["capability", "grant", "facts", "approval"].includes(name)) call[name] = nested(value);
    else if (name === "history") call[name] = Object.fromEntries(value as cf.JsonObject);
    else if (known.includes(name)) call[camel(name)] = value;
    else if (name !== "salts") extra.set(name, value);
  }
  return { ...call, extra } as unknown as cf.DecisionMembers;
}

vectors("bodies.json", async (the) => {
  if (the["end"] !== undefined) return outcome(members(the["end"]), the);
  const given = members(the["given"]);
  const salts = given.get("salts") as cf.JsonObject | undefined;
  const write = () => {
    const made = cf.decisionBody(the["call"] === "deny" ? "deny" : "allow", options(given), text(given.get("request_id")), (name) =>
      text(salts?.get(name)),
    );
    cf.refuseCredentials(made.body);
    return made;
  };
  if (the["code"] !== undefined) return assert.equal(await codeOf(write), the["code"]);
  const made = write();
  assert.equal(made.text, the["body"]);
  assert.deepEqual(made.disclosures.map(cf.printDisclosure), the["disclosures"] ?? []);
});

function outcome(end: cf.JsonObject, the: Case): void {
  const how = end.get("how");
  const member = (name: string) => end.get(name) as string | undefined;
  const given = end.get("given") as cf.JsonObject;
  const decision = cf.decisionBody("allow", options(given), text(given.get("request_id")));
  const errors = new Map<unknown, () => string | undefined>([
    ["not-executed", () => cf.reasonText(member("reason") ?? "")],
    ["error", () => cf.errorText(member("error_type") ?? "", member("error_message") ?? "")],
    ["error-after-call", () => cf.errorText(member("error_type") ?? "", member("error_message") ?? "")],
    ["cancelled", () => "cancelled"],
    ["crashed", () => cf.OUTCOME_UNKNOWN],
    ["reported", () => member("error")],
  ]);
  const executed = how === "returned" || how === "error-after-call" || end.get("executed") === true;
  const result = end.get("result");
  const isReported = how === "reported";
  const written = cf.outcomeBody({
    requestId: text(given.get("request_id")),
    decision: text(end.get("decision")),
    executed,
    unknown: how === "cancelled" || how === "crashed",
    executedBy: isReported ? "caller" : "gate",
    executedDigest: isReported ? member("executed_digest") : executed ? decision.executedDigest : undefined,
    agent: isReported ? undefined : decision.agent,
    error: errors.get(how)?.(),
    resultDigest:
      result !== undefined ? cf.jsonDigest(result) : end.has("result_b64") ? cf.bytesDigest(bytes(end.get("result_b64"))) : undefined,
    startedAt: end.get("started_at") as number | undefined,
    endedAt: end.get("ended_at") as number | undefined,
  });
  assert.equal(written, the["body"]);
}

vectors("notes.json", async (the) => {
  if (the["code"] !== undefined) return assert.equal(await codeOf(() => cf.SignedNote.parse(bytes(the["note_b64"]))), the["code"]);
  const note = cf.SignedNote.parse(bytes(the["note_b64"]));
  assert.equal(note.text, the["text"]);
  assert.equal(note.signatures.length, Number(the["signatures"]));
  const answers: string[] = [];
  for (const vkey of the["vkeys"] as string[]) answers.push((await codeOf(() => note.verify(cf.VerifierKey.parse(vkey)))) ?? "ok");
  assert.deepEqual(answers, the["answers"]);
});

vectors("trees.json", async (the) => {
  if (the["leaves"] !== undefined) {
    const tree = new cf.MerkleTree();
    for (let leaf = 0; leaf < Number(the["leaves"]); leaf += 1) tree.push(cf.leafHash(cf.utf8(String(leaf))));
    return assert.equal(cf.toHex(tree.root()), the["root_hex"]);
  }
  const check = () => {
    if (the["inclusion"] !== undefined) {
      const given = the["inclusion"] as Record<string, unknown>;
      cf.checkInclusion(
        (given["proof"] as string[]).map(hex),
        hex(given["leaf_hex"]),
        BigInt(String(given["index"])),
        BigInt(String(given["size"])),
        hex(given["root_hex"]),
      );
    } else {
      const given = the["consistency"] as Record<string, unknown>;
      const [old, size] = [BigInt(String(given["old"])), BigInt(String(given["new"]))];
      cf.checkConsistency((given["proof"] as string[]).map(hex), old, hex(given["old_root_hex"]), size, hex(given["new_root_hex"]));
    }
  };
  const [found, wanted] = [await codeOf(check), the["code"]];
  // Of the two roots an implementation may find either first.
  const roots = ["old-root", "new-root"];
  assert.ok(found === wanted || (roots.includes(String(found)) && roots.includes(String(wanted))), `${found}, not ${wanted}`);
});

vectors("tiles.json", (the) => {
  const path = text(the["path"]);
  const read = cf.parseResource(path);
  if (the["code"] !== undefined) return assert.equal(read, undefined);
  assert.ok(read !== undefined);
  assert.equal(cf.resourcePath(read), path);
  const wanted = the["read"] as Record<string, unknown>;
  assert.equal(read.kind, wanted["kind"]);
  if (read.kind === "checkpoint") return;
  assert.equal(String(read.index), String(wanted["n"]));
  assert.equal(String(read.width), String(wanted["width"]));
  if (read.kind === "tile") assert.equal(String(read.level), String(wanted["level"]));
});

function policyOf(the: Case): cf.Policy {
  return cf.Policy.parse(the["policy_b64"] === undefined ? text(the["policy"]) : bytes(the["policy_b64"]));
}

vectors("policies.json", async (the) => {
  if (typeof the["code"] === "string") {
    await assert.rejects(
      async () => policyOf(the),
      (error) => error instanceof cf.PolicyError && error.code === the["code"] && error.line === Number(the["line"]),
      `not ${the["code"]} on line ${the["line"]}`,
    );
    return;
  }
  const policy = policyOf(the);
  assert.deepEqual(
    policy.logs.map(({ vkey }) => vkey.toString()),
    the["logs"],
  );
  assert.deepEqual(
    policy.witnesses.map(({ vkey }) => vkey.toString()),
    the["witnesses"],
  );
  assert.equal(policy.groups.length, (the["groups"] as unknown[]).length);
  assert.equal(policy.quorum === undefined, the["quorum"] === null);
  for (const [places, satisfied] of the["quorums"] as [number[], boolean][]) {
    assert.equal(policy.satisfiedBy(new Set(places)), satisfied, `by ${places}`);
  }
});

vectors("proofs.json", async (the) => {
  const policy = policyOf(the);
  const proof = () => cf.TlogProof.parse(the["proof_b64"] === undefined ? text(the["proof"]) : bytes(the["proof_b64"]));
  assert.equal(await codeOf(() => proof().verify(bytes(the["entry_b64"]), policy)), the["code"]);
  if (the["code"] !== null && the["code"] !== "quorum-not-met") return;
  const verified = await proof().verifyInclusion(bytes(the["entry_b64"]), policy);
  assert.equal(verified.index, BigInt(String(the["index"])));
  assert.equal(verified.checkpoint.head.size, BigInt(String(the["size"])));
  assert.deepEqual(
    verified.cosignedBy.map((place) => policy.witnesses[place]?.vkey.name),
    the["witnesses"],
  );
});

function laidOut(files: Record<string, string>): string {
  const dir = newDir();
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), Buffer.from(content, "base64"));
  }
  return dir;
}

vectors("outbox.json", async (the) => {
  const files = the["files_b64"] as Record<string, string>;
  const read = the["read"] as Record<string, unknown>;
  const dir = laidOut(files);
  if (read["code"] !== undefined) assert.equal(await codeOf(() => OutboxView.open(dir)), read["code"]);
  else {
    const view = await OutboxView.open(dir);
    const { dropped, issuer = null, vkey = null, log: _, ...counts } = await view.status();
    await view.close();
    assert.deepEqual({ ...counts, issuer, vkey, torn: dropped }, read);
  }
  // Whose directory it is differs, and so who is refused: that is the last case's own.
  const opened = the["opened"] as Record<string, unknown>;
  const key = cf.SigningKey.fromSeed("gate.example/support-1", hex(the["seed_hex"]));
  if (opened["code"] === "outbox-writer") return (await Outbox.open(dir, key)).close();
  if (files["receipts"] !== undefined) assert.equal(await codeOf(() => Outbox.open(dir, key)), "outbox-writer");
  writeFileSync(join(dir, "writer"), '{"writer":"node"}');
  if (opened["code"] !== undefined) return assert.equal(await codeOf(() => Outbox.open(dir, key)), opened["code"]);
  const outbox = await Outbox.open(dir, key);
  let told = 0;
  let head: string | null = null;
  await outbox.follow(0, ({ id, type, body }) => {
    head = id;
    if (type === "dropped") told += Number(body.get("count"));
  });
  const { closed, dropped } = await outbox.status();
  const kept = existsSync(join(dir, "disclosures")) ? readdirSync(join(dir, "disclosures")).map((name) => `disclosures/${name}`) : [];
  assert.deepEqual(
    {
      next_seq: outbox.count,
      head_hex: head,
      closed,
      torn: dropped,
      open_calls: (await outbox.openCalls()).all().map(({ seq }) => seq),
      drops: { count: outbox.dropCount, told },
      disclosures: kept,
    },
    opened,
  );
  await outbox.close();
  return undefined;
});
