// History with proof, against a real log with witnesses, and as the verifier judges what was decided by it.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import * as cf from "counterfoil";
import { Gate, type GateOptions } from "counterfoil/node";
import { HistoryIndex } from "../dist/node/history_index.js";
import { ShownLog } from "./shown_log.js";
import { call, entryOf, newDir, newKey, noExecutable, Stage } from "./stage.js";
import { PATIENCE_MS, until } from "./wait.js";

/** A gate waits two seconds for the witnesses of a new head, and these may not have had their turn by then. */
function witnessed(gate: Gate, ...asked: Parameters<Gate["history"]>): ReturnType<Gate["history"]> {
  return until("the log's head is witnessed", () =>
    gate.history(...asked).catch((error: cf.HistoryError) => {
      if (error.code !== "history-unavailable") throw error;
      return undefined;
    }),
  );
}

test("two gates judge by the log, a gate that restarts forgets nothing, and an audit agrees", { skip: noExecutable }, async () => {
  const [one, two] = [newKey(), newKey()];
  const stage = await Stage.build([one, two], 3);
  const open = (dir: string, key: cf.SigningKey) =>
    Gate.open({ dir, key, log: { url: stage.url, vkey: stage.vkey }, policy: stage.policy, warn: () => undefined });
  const dir = newDir();
  let first = await open(dir, one);
  const second = await open(newDir(), two);
  const about = (actionClass: string, history: Awaited<ReturnType<Gate["history"]>>) =>
    ({ authenticated: true, operation: "op", resource: "res", session: "s-1", actionClass, subjects: ["cust_77"], history }) as const;

  const nothing = await witnessed(first, "cust_77");
  assert.deepEqual([nothing.classes, Array.from(nothing.heads), nothing.witnessed], [[], [], true]);
  await first.run(about("IDENTITY_MUTATION", nothing), () => undefined);
  // Not acknowledged, let alone witnessed: own memory adds it.
  const own = await witnessed(first, "cust_77");
  assert.deepEqual(own.classes, ["IDENTITY_MUTATION"]);
  assert.ok(await first.flush(PATIENCE_MS));

  const seen = await witnessed(second, ["cust_77", "cust_78"]);
  assert.deepEqual(seen.classes, ["IDENTITY_MUTATION"]);
  assert.equal(seen.logged[0]?.issuer, one.name);
  assert.ok(seen.witnessedAt !== undefined && seen.size > 1n);
  const item = seen.logged[0];
  assert.ok(item?.index !== undefined);
  const proof = cf.TlogProof.parse(await seen.proof(item));
  assert.equal(proof.index, item.index);
  const entry = await entryOf(dir, Number(item.seq));
  assert.ok((await proof.verify(entry, cf.Policy.parse(stage.policy))).cosignedBy.length >= 2);
  assert.deepEqual((await witnessed(second, "cust_77", { whose: "own" })).classes, []);
  const denial = await second.deny({ ...about("CREDENTIAL_RECOVERY", seen), rule: "R4_SEQUENCE" });
  const stated = denial?.body.get("history");
  assert.equal(stated instanceof Map && stated.get("witnessed"), true);
  assert.ok(await second.flush(PATIENCE_MS));

  await first.close();
  rmSync(join(dir, "history"), { recursive: true });
  first = await open(dir, one);
  const after = await witnessed(first, "cust_77");
  assert.deepEqual(after.classes, ["IDENTITY_MUTATION"]);
  assert.equal(after.heads instanceof Map && after.heads.get("cust_77"), denial?.id, "a denial advances the head");
  await first.run(about("READ", after), () => undefined);
  assert.deepEqual((await witnessed(first, "cust_77")).classes, ["IDENTITY_MUTATION", "READ"]);
  assert.ok(await first.flush(PATIENCE_MS));
  await first.close();
  await second.close();

  const [policy, issuers, bundle] = [join(stage.dir, "policy"), join(stage.dir, "issuers"), join(stage.dir, "bundle")];
  writeFileSync(policy, stage.policy);
  writeFileSync(issuers, `${one.verifier}\n${two.verifier}\n`);
  // Until its newest head is witnessed, too.
  await until("the log is fetched", () => {
    rmSync(bundle, { recursive: true, force: true });
    return call("verify", "fetch", "--policy", policy, "--out", bundle).code === 0;
  });
  const audited = call("verify", "audit", "--policy", policy, "--issuers", issuers, "--json", bundle);
  const { checks } = JSON.parse(audited.out) as { checks: { family: string; name: string; status: string; findings: unknown[] }[] };
  const prior = checks.filter(({ name }) => name === "prior-action-classes" || name === "prior-heads");
  assert.deepEqual(
    prior.map(({ name, status }) => [name, status]),
    [
      ["prior-action-classes", "ok"],
      ["prior-heads", "ok"],
    ],
    JSON.stringify(prior),
  );
  const failed = checks.filter(({ status }) => status === "fail");
  assert.deepEqual(failed, []);
  stage.stop();
});

test("without fresh witnesses there is no history, or one that says so", { skip: noExecutable }, async () => {
  const key = newKey();
  const stage = await Stage.build([key]);
  const policyOfOthers = `${stage.policy.replace("quorum none\n", "")}witness w ${cf.SigningKey.generate("witness.example/absent", "cosignature").verifier}\nquorum w\n`;
  const gate = await Gate.open({
    dir: newDir(),
    key,
    log: { url: stage.url, vkey: stage.vkey },
    policy: policyOfOthers,
    warn: () => undefined,
  });
  await gate.run({ authenticated: true, actionClass: "READ", subjects: ["a"] }, () => undefined);
  assert.ok(await gate.flush(PATIENCE_MS));
  await assert.rejects(gate.history("a"), { code: "history-unavailable" });
  const unwitnessed = await gate.history("a", { mode: "fail_open" });
  assert.deepEqual([unwitnessed.classes, unwitnessed.witnessed], [["READ"], false]);
  const receipt = await gate.deny({ authenticated: true, actionClass: "READ", subjects: ["a"], history: unwitnessed });
  const told = receipt?.body.get("history");
  assert.ok(told instanceof Map);
  assert.equal(told.get("witnessed"), false);
  assert.match(String(told.get("why")), /witnesses/);
  await gate.close();
  stage.stop();
});

function notes(...names: string[]): Uint8Array[] {
  return names.map(cf.utf8);
}

async function following(log: ShownLog, more: Partial<GateOptions> = {}): Promise<{ gate: Gate; dir: string }> {
  const dir = more.dir ?? newDir();
  const gate = await Gate.open({
    dir,
    key: newKey(),
    log: { url: await log.listen(), vkey: log.key.verifier },
    policy: `log ${log.key.verifier}\nquorum none\n`,
    warn: () => undefined,
    ...more,
  });
  return { gate, dir };
}

test("a log that changes, shrinks or does not serve what it signed is believed no more", async () => {
  const log = new ShownLog();
  const { gate, dir } = await following(log);
  log.entries = notes("a", "b", "c");
  assert.equal((await gate.history("x")).size, 3n);
  // Nobody's word is young enough.
  await assert.rejects(gate.history("x", { maxAgeMs: -1 }), { code: "history-unavailable" });
  assert.equal((await gate.history("x", { mode: "fail_open", maxAgeMs: -1 })).witnessed, false);

  // Entries that are not those of the head accuse nobody.
  log.entries = notes("a", "b", "c", "D", "e");
  log.claims = notes("a", "b", "c", "d", "e");
  await assert.rejects(gate.history("x", { maxAgeMs: -1 }), { code: "history-unavailable" });
  assert.deepEqual(await gate.alarms(), []);

  // Another history that contains nothing of the first: convicted by its own entries.
  log.claims = undefined;
  log.entries = notes("a", "X", "c", "d", "e");
  await assert.rejects(gate.history("x"), { code: "log-fork" });
  const evidence = join(dir, "history", "fork-0");
  const document = cf.parseJsonObject(readFileSync(evidence, "utf8"));
  assert.equal(document.get("kind"), "log-fork");
  if (!noExecutable) {
    const judged = call("verify", "evidence", evidence);
    assert.equal(judged.code, 0, judged.out + judged.err);
  }
  await assert.rejects(gate.history("x"), { code: "log-fork" });
  assert.equal(readdirSync(join(dir, "history")).filter((name) => name.startsWith("fork-")).length, 1);
  assert.deepEqual(
    (await gate.alarms()).map((alarm) => alarm.get("what")),
    ["log-fork"],
  );

  // The same size with another root needs no entries.
  log.entries = notes("a", "b", "C");
  await assert.rejects(gate.history("x"), { code: "log-fork" });
  log.entries = notes("a", "b");
  await assert.rejects(gate.history("x", { maxAgeMs: -1 }), { code: "log-rolled-back" });
  assert.equal((await gate.history("x", { mode: "fail_open", maxAgeMs: -1 })).witnessed, false);
  await gate.close();
  log.close();
});

test("of a log whose entries are not those it signed no more is read than a batch, however many it says there are", async () => {
  const log = new ShownLog();
  const { gate } = await following(log);
  const pages = 32;
  log.entries = Array.from({ length: pages * cf.TILE_WIDTH }, () => new Uint8Array(20_000));
  log.claims = notes(...Array.from({ length: pages * cf.TILE_WIDTH }, (_, place) => String(place)));
  await assert.rejects(gate.history("x"), { code: "history-unavailable" });
  // Five million bytes a page: the fourth ends the batch.
  assert.equal(new Set(log.asked.filter((path) => path.startsWith("tile/entries/"))).size, 4);
  await gate.close();
  log.close();
});

test("a page is read as far as it was asked for, whatever follows", () => {
  const page = new Uint8Array(1 << 20);
  page.set([0, 1, 7]);
  assert.deepEqual(cf.decodeEntries(page, 2), [Uint8Array.of(7), new Uint8Array()]);
  assert.equal(cf.decodeEntries(page.subarray(0, 5)).length, 2);
});

test("a start remembers the largest head that was ever seen", async () => {
  const log = new ShownLog();
  const key = newKey();
  const { gate, dir } = await following(log, { key });
  log.entries = notes("a", "b", "c");
  await gate.history("x");
  await gate.close();
  log.close();
  assert.ok(existsSync(join(dir, "history", "head")));
  const again = new ShownLog();
  again.entries = notes("a", "b");
  const restarted = await following(again, { dir, key });
  await assert.rejects(restarted.gate.history("x"), { code: "log-rolled-back" });
  again.entries = notes("a", "b", "c", "d");
  assert.equal((await restarted.gate.history("x")).size, 4n);
  again.entries = notes("a", "Y", "c", "d", "e");
  await assert.rejects(restarted.gate.history("x"), { code: "log-fork" });
  await restarted.gate.close();
  again.close();
});

test("history.json: a log shows of its subjects what the Rust side says", async () => {
  const path = `${process.env["COUNTERFOIL_VECTORS"] ?? new URL("../../../vectors/", import.meta.url).pathname}/history.json`;
  interface Query {
    subjects: string[];
    issuer: string | null;
    classes: Record<string, unknown>[];
    heads: Record<string, string>;
  }
  const { cases } = JSON.parse(readFileSync(path, "utf8")) as {
    cases: { name: string; entries_b64: string[]; size: number; root_b64: string; queries: Query[] }[];
  };
  assert.ok(cases.length > 0);
  for (const { name, entries_b64, size, root_b64, queries } of cases) {
    for (const { subjects, issuer, classes, heads } of queries) {
      const log = new ShownLog();
      log.entries = entries_b64.map((entry) => new Uint8Array(Buffer.from(entry, "base64")));
      const { gate } = await following(log, { key: cf.SigningKey.generate(issuer ?? "gate.example/asking") });
      const shown = await gate.history(subjects, { whose: issuer === null ? "all" : "own" });
      assert.deepEqual([shown.size, shown.root], [BigInt(size), root_b64], name);
      const found = shown.logged.map(({ actionClass, index, seq, session = null, ...item }) => {
        return { action_class: actionClass, index: Number(index), seq: Number(seq), session, ...item };
      });
      const wanted = classes.map(({ session = null, ...item }) => ({ session, ...item }));
      assert.deepEqual(found, wanted, name);
      assert.deepEqual(Object.fromEntries(shown.heads), heads, name);
      await gate.close();
      log.close();
    }
  }
});

test("of two sessions at the same time the second is judged by the first: what its history did not show refuses it", async () => {
  const log = new ShownLog();
  const { gate } = await following(log);
  const half = (session: string, history: Awaited<ReturnType<Gate["history"]>>, subjects = ["cust_77"]) =>
    gate.run({ authenticated: true, session, actionClass: "PAYMENT_HALF", subjects, history }, () => session);
  const [one, two] = await Promise.all([gate.history("cust_77"), gate.history("cust_77")]);
  const answers = await Promise.allSettled([half("s-1", one), half("s-2", two)]);
  assert.deepEqual(
    answers.map((answer) => (answer.status === "fulfilled" ? answer.value : (answer.reason as cf.HistoryError).code)),
    ["s-1", "history-moved"],
  );
  assert.equal((await gate.status()).receipts, 3, "what was refused left no trace");
  // Also a denial moves it, and also what is on disk for long.
  await assert.rejects(gate.deny({ authenticated: true, subjects: ["cust_77"], history: two }), { code: "history-moved" });
  const again = await gate.history(["cust_78", "cust_77"]);
  assert.deepEqual(again.classes, ["PAYMENT_HALF"]);
  // Decisions on others do not touch it; a decision by one of its subjects touches all of it.
  await half("s-3", await gate.history("cust_79"), ["cust_79"]);
  await half("s-2", again);
  await assert.rejects(half("s-4", again, ["cust_78"]), { code: "history-moved" });
  // The very next receipt moves it, and so does one that is written together with the second.
  const last = await gate.history("cust_80");
  await gate.deny({ authenticated: true, subjects: ["cust_80"], history: last });
  await assert.rejects(half("s-5", last, ["cust_80"]), { code: "history-moved" });
  const next = await gate.history("cust_81");
  const together = await Promise.allSettled([
    gate.append({ type: "note" }),
    half("s-6", next, ["cust_81"]),
    half("s-7", next, ["cust_81"]),
  ]);
  assert.deepEqual(
    together.map(({ status }) => status),
    ["fulfilled", "fulfilled", "rejected"],
  );
  await gate.close();
  log.close();
});

async function cosignature(text: string, key: cf.SigningKey, atSeconds: number): Promise<string> {
  const message = cf.cosignedMessage(text, key.verifier, BigInt(atSeconds));
  assert.ok(message);
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(BigInt(atSeconds));
  const blob = Buffer.concat([Buffer.from(key.verifier.id, "hex"), time, await key.sign(message)]);
  return `\u2014 ${key.name} ${blob.toString("base64")}\n`;
}

test("a head was witnessed when its newest whole quorum was there: a fresh liar makes no old head fresh", async () => {
  const log = new ShownLog();
  const witnesses = ["a", "b", "c"].map((name) => cf.SigningKey.generate(`witness.example/${name}`, "cosignature"));
  const lines = witnesses.map((key, place) => `witness w${place} ${key.verifier}\n`).join("");
  const policy = `log ${log.key.verifier}\n${lines}group two 2 w0 w1 w2\nquorum two\n`;
  const now = 1_790_000_000_000;
  /** The head cosigned by each witness so many seconds before now. */
  const cosignedBy = (ages: readonly (number | undefined)[]) => {
    log.cosign = async (text) => {
      const made = witnesses.map((key, place) => {
        const age = ages[place];
        return age === undefined ? "" : cosignature(text, key, now / 1000 - age);
      });
      return (await Promise.all(made)).join("");
    };
  };
  const ask = async (ages: readonly (number | undefined)[]): Promise<number | string> => {
    cosignedBy(ages);
    const { gate } = await following(log, { policy, clock: () => now });
    try {
      const { witnessedAt } = await gate.history("x");
      return (now - (witnessedAt ?? 0)) / 1000;
    } catch (error) {
      return (error as cf.CounterfoilError).code;
    } finally {
      await gate.close();
    }
  };
  // The first lies that it is fresh; the others were there long ago.
  assert.equal(await ask([0, 700, 900]), "history-unavailable");
  assert.equal(await ask([0, 500, 900]), 500);
  assert.equal(await ask([0, 40, 30]), 30);
  assert.equal(await ask([0, undefined, undefined]), "history-unavailable");
  // A time more than five minutes ahead is none, one less ahead is.
  assert.equal(await ask([-301, -301, 900]), "history-unavailable");
  assert.equal(await ask([-301, 100, 200]), 200);
  assert.equal(await ask([-299, -299, 900]), -299);
  log.close();
});

function junk(count: number): Uint8Array[] {
  return Array.from({ length: count }, (_, place) => cf.utf8(`no receipt ${place}`));
}

/** Entries of a vector, which make histories. */
function receipts(): Uint8Array[] {
  const path = `${process.env["COUNTERFOIL_VECTORS"] ?? new URL("../../../vectors/", import.meta.url).pathname}/history.json`;
  const { cases } = JSON.parse(readFileSync(path, "utf8")) as { cases: { entries_b64: string[] }[] };
  const longest = cases.map(({ entries_b64 }) => entries_b64).sort((left, right) => right.length - left.length)[0] ?? [];
  return longest.map((entry) => new Uint8Array(Buffer.from(entry, "base64")));
}

test("a start goes on from what was read, and reads again what is damaged, lost or of another log", async () => {
  const key = newKey();
  const dir = newDir();
  const subject = "cust_77";
  const log = new ShownLog();
  log.entries = [...receipts(), ...junk(700)];
  const seen = async (entries: Uint8Array[]) => {
    const shown = new ShownLog();
    shown.entries = entries;
    const { gate } = await following(shown, { dir, key });
    const history = await gate.history(subject);
    await gate.close();
    shown.close();
    const pages = shown.asked.filter((path) => path.startsWith("tile/entries/"));
    return { pages, history: [history.size, history.root, history.logged, Array.from(history.heads)] };
  };
  const first = await seen(log.entries);
  assert.equal(first.pages.length, Math.ceil(log.entries.length / 256));
  const snapshot = join(dir, "history", "snapshot");
  const whole = readFileSync(snapshot, "utf8");
  assert.ok(whole.includes('"READ"') || whole.includes(subject), "there are decisions in it");

  assert.deepEqual(await seen(log.entries), { pages: [], history: first.history });
  const longer = [...log.entries, ...junk(3)];
  const { pages } = await seen(longer);
  assert.deepEqual(pages, [`tile/entries/002.p/${longer.length - 512}`], "only the page with what is new");

  for (const damage of [
    (text: string) => text.replace(/"gate\.example/, '"gate.exemple'),
    (text: string) => text.slice(0, -30),
    () => "",
    (text: string) => text.replace('"version":1', '"version":2'),
  ]) {
    const damaged = damage(whole);
    assert.notEqual(damaged, whole);
    writeFileSync(snapshot, damaged);
    const read = await seen(longer);
    assert.equal(read.pages.length, Math.ceil(longer.length / 256));
    assert.deepEqual(read.history.slice(2), first.history.slice(2));
    assert.notEqual(readFileSync(snapshot, "utf8"), damaged, "it was made anew");
  }
  rmSync(snapshot);
  assert.equal((await seen(longer)).pages.length, Math.ceil(longer.length / 256));

  // Whole, but not of what this log holds: somebody copied it from elsewhere.
  const other = newDir();
  const elsewhere = new ShownLog();
  elsewhere.entries = junk(600);
  const { gate } = await following(elsewhere, { dir: other });
  await gate.history(subject);
  await gate.close();
  elsewhere.close();
  writeFileSync(snapshot, readFileSync(join(other, "history", "snapshot")));
  const read = await seen(longer);
  assert.equal(read.pages.length, Math.ceil(longer.length / 256));
  assert.deepEqual(read.history.slice(2), first.history.slice(2));
});

test("an index that is full says so, and one name is held once", () => {
  const mention = (index: bigint, ...subjects: string[]) => ({
    subjects,
    item: { actionClass: "READ", index, issuer: "gate.example/1", seq: index, id: "00".repeat(32), session: undefined },
    counts: true,
  });
  const index = new HistoryIndex({ mentions: 3, nameChars: 1000 });
  index.add(mention(0n, "a", "b"));
  index.add(mention(1n, "a"));
  assert.equal(index.isFull, false);
  index.add(mention(2n, "a"));
  assert.equal(index.isFull, true);
  assert.equal(index.find(["a"], () => true).length, 2);
  const named = new HistoryIndex({ mentions: 1000, nameChars: 30 });
  for (let at = 0n; at < 50n; at += 1n) named.add(mention(at, "the same one"));
  assert.equal(named.isFull, false);
  named.add(mention(50n, "another one"));
  named.add(mention(51n, "a third one"));
  assert.equal(named.isFull, true);
});

test("a gate that closes waits for no log that is silent", async () => {
  const log = new ShownLog();
  log.cosign = () => new Promise(() => undefined);
  const { gate } = await following(log);
  const asking = assert.rejects(gate.history("x"), ({ code, message }: cf.HistoryError) => {
    assert.equal(code, "history-unavailable");
    // The log's own time is up only after half a minute.
    assert.doesNotMatch(message, /timeout/);
    return true;
  });
  await until("the log was asked", () => log.asked.includes("checkpoint"));
  await gate.close();
  await asking;
  log.close();
});
