// A gate on a disk that takes no more: files may not grow beyond a limit that whoever starts this sets (`ulimit -f`).

import { SigningKey } from "counterfoil";
import { Gate } from "counterfoil/node";

// Without a listener the system ends the process that exceeds the limit; with one, the write is refused.
process.on("SIGXFSZ", () => undefined);

const [dir = "", privateKey = "", vkey = "", whenFull = ""] = process.argv.slice(2);
const gate = await Gate.open({
  dir,
  key: SigningKey.parse(privateKey),
  log: { url: "http://127.0.0.1:9", vkey },
  whenFull: whenFull === "fail_open" ? "fail_open" : "fail_closed",
  warn: () => undefined,
});
const seen = { receipts: 0, dropped: 0, refused: "", ran: 0 };
for (let number = 0; number < 60 && seen.refused === ""; number += 1) {
  try {
    await gate.run({ authenticated: true, requestId: `r-${number}`, why: "x".repeat(500) }, (act) => {
      seen.ran += 1;
      if (act.receiptId === null) seen.dropped += 1;
      else seen.receipts += 1;
    });
  } catch (error) {
    seen.refused = error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
}
console.log(JSON.stringify({ ...seen, drops: (await gate.status().catch(() => undefined))?.drops }));
process.exit(0);
