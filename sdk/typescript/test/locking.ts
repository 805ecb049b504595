// A process that opens an outbox as if it ran in some container, and does what it is told on standard input.
//
//   argv     the directory, the private key, the options of the lock
//   append   appends a receipt and says its seq, or the code of the error
//   end      of the input: lets the lock go

import { createInterface } from "node:readline";
import { CounterfoilError, SigningKey } from "counterfoil";
import { Outbox } from "../dist/node/outbox.js";

const [dir = "", key = "", options = "{}"] = process.argv.slice(2);
try {
  const outbox = await Outbox.open(dir, SigningKey.parse(key), {}, JSON.parse(options));
  console.log("open");
  for await (const _ of createInterface({ input: process.stdin })) {
    const said = await outbox.append([{ text: '{"type":"note"}' }], Date.now).then(
      ([receipt]) => `seq ${receipt?.seq}`,
      (error: CounterfoilError) => error.code,
    );
    console.log(said);
  }
  await outbox.close();
} catch (error) {
  console.log(error instanceof CounterfoilError ? error.code : error);
}
