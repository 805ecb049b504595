// A gate in Node, without any SDK: one function that runs whatever is allowed inside a scope of the sidecar.
//
//   counterfoil sidecar --config gate.toml --listen 127.0.0.1:7390 --token-file token
//   SIDECAR=http://127.0.0.1:7390 SIDECAR_TOKEN=$(cat token) node gate.mjs

const { SIDECAR, SIDECAR_TOKEN } = process.env;
if (!SIDECAR || !SIDECAR_TOKEN) {
  console.error("set SIDECAR to the sidecar's address and SIDECAR_TOKEN to its token; the first lines of this file show how");
  process.exit(64);
}

async function call(path, body) {
  const answer = await fetch(SIDECAR + path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${SIDECAR_TOKEN}` },
    body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(`${said.code}: ${said.detail}`);
  return said;
}

// No receipt, no action: where the decision cannot be kept, this throws and `action` does not run.
async function allowed(decision, action) {
  const { scope, receipt_id } = await call("/v1/decisions", { decision: "allow", authenticated: true, ...decision });
  let result;
  try {
    result = await action();
  } catch (error) {
    await call("/v1/outcomes", { scope, error: `${error.name}: ${error.message}` });
    throw error;
  }
  await call("/v1/outcomes", { scope, result: result ?? null });
  return { result, receipt_id };
}

const sum = await allowed({ operation: "calc.add", args: { a: 2, b: 3 } }, async () => 2 + 3);
console.log(`allowed: calc.add = ${sum.result}, receipt ${sum.receipt_id}`);

await allowed({ operation: "mail.send", args: { to: "a@b.example" } }, async () => {
  throw new TypeError("no such mailbox");
}).catch((error) => console.log(`failed: mail.send, ${error.message}`));

await call("/v1/decisions", { decision: "deny", authenticated: false, operation: "disk.format", rule: "R2_UNSIGNED" });
console.log("denied: disk.format");
