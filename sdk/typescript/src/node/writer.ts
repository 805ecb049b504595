// Whose directory an outbox is.
//
// Rust and Python lock a directory with `flock`, which Node does not have. So a directory is one or the other's: the file
// `writer` says `{"writer":"node"}` for ours, and nobody else writes there; we write nowhere else.

import { unlink } from "node:fs/promises";
import { join } from "node:path";
import { OutboxError } from "../errors.js";
import { exists, makeDir, readSmall, replaceSmall } from "./disk.js";

/** Makes the directory if need be and sees to it that it is Node's. Throws `outbox-writer` for one that another SDK made. */
export async function claimDirectory(dir: string): Promise<void> {
  await makeDir(dir);
  const writer = await readSmall(join(dir, "writer"));
  if (writer !== undefined) {
    if (writer.trimEnd() === '{"writer":"node"}') return;
    throw new OutboxError(
      "outbox-writer",
      `the outbox ${dir} is written by other software (${writer.trimEnd().slice(0, 100)}); use that, or another directory`,
    );
  }
  if ((await exists(join(dir, "receipts"))) || (await exists(join(dir, "lock")))) throw notOurs(dir);
  await replaceSmall(dir, "writer", '{"writer":"node"}', true);
  if (await exists(join(dir, "lock"))) {
    await unlink(join(dir, "writer"));
    throw notOurs(dir);
  }
}

function notOurs(dir: string): OutboxError {
  return new OutboxError(
    "outbox-writer",
    `the outbox ${dir} was made by the Rust or Python software, which locks it in another way; go on with that, or use another directory`,
  );
}
