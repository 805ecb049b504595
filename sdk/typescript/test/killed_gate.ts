// A gate that is killed: writes as fast as it can, and says on standard output what it was told is durable.

import { writeSync } from "node:fs";
import { SigningKey } from "counterfoil";
import { Gate } from "counterfoil/node";

const [dir = "", privateKey = "", url = "", vkey = "", from = "0"] = process.argv.slice(2);
const gate = await Gate.open({ dir, key: SigningKey.parse(privateKey), log: { url, vkey }, warn: () => undefined });
let number = Number(from);
const one = async (): Promise<void> => {
  for (;;) {
    const requestId = `r-${number}`;
    number += 1;
    await gate.run(
      { authenticated: true, requestId, operation: "op", resource: "res", commit: number % 5 === 0 ? ["operation"] : [] },
      async (act) => {
        writeSync(1, `${requestId} ${act.receiptId}\n`);
        await new Promise((resolve) => setTimeout(resolve, number % 3));
      },
    );
    writeSync(1, `${requestId} done\n`);
  }
};
await Promise.all([one(), one(), one()]);
