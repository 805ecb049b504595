// What a number of a process means, and to whom.
//
// Containers have the boot of their host, and each numbers its processes from 1. So a number says something only within one
// pid namespace of one boot, and nobody elsewhere can ask whether its process runs.

import { readFileSync, readlinkSync } from "node:fs";

/** Where a number means a process; empty is what the system does not tell. */
export interface Place {
  readonly boot_id: string;
  readonly machine_id: string;
  readonly pid_ns: string;
}

/** A process, told from every other one of its place. */
export interface Known extends Place {
  readonly pid: number;
  readonly started: string;
}

/** How a process does, as far as that can be told from `place`. */
export function standing(known: Known, place: Place): "alive" | "gone" | "elsewhere" {
  if (known.boot_id !== place.boot_id) {
    // Nothing runs on from before a start of the same machine.
    const isTold = known.boot_id !== "" && place.boot_id !== "" && known.machine_id !== "";
    return isTold && known.machine_id === place.machine_id ? "gone" : "elsewhere";
  }
  if (known.pid_ns !== place.pid_ns) return "elsewhere";
  try {
    process.kill(known.pid, 0);
  } catch (error) {
    // EPERM: there is one, and it is somebody else's.
    return error instanceof Error && "code" in error && error.code === "ESRCH" ? "gone" : "alive";
  }
  const now = startOf(known.pid);
  return now !== undefined && known.started !== "" && now !== known.started ? "gone" : "alive";
}

/** This process, in this place. */
export function myself(): Known {
  return { pid: process.pid, started: startOf(process.pid) ?? "", ...here() };
}

function here(): Place {
  const machine = told(() => readFileSync("/etc/machine-id", "utf8").trim());
  return {
    boot_id: told(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    // Images hold other words until a machine is made of them.
    machine_id: /^[0-9a-f]{32}$/.test(machine) ? machine : "",
    pid_ns: told(() => readlinkSync("/proc/self/ns/pid")),
  };
}

function told(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}

/** When a process started, in the kernel's ticks; `undefined` where there is no such process or no `/proc`. A zombie has ended. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is a name in parentheses that may hold anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? "ended" : fields[19];
  } catch {
    return undefined;
  }
}
