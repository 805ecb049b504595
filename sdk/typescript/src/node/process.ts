// What a number of a process means, and to whom.
//
// Containers have the boot of their host, and each numbers its processes from 1. So a number says something only within one
// pid namespace of one boot, and nobody elsewhere can ask whether its process runs. Where the system tells neither, a number of
// which there is no process says nothing.

import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

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

/** The pid namespace of a machine itself: its number is the same in every Linux. */
const OF_THE_MACHINE = "pid:[4026531836]";

/**
 * How a process does, as far as that can be told from `place`. `rebooted`: its machine has been started again since, if nothing
 * else bears that machine's id. In containers that is no rarity: their images bring one along, to every machine they run on.
 */
export function standing(known: Known, place: Place): "alive" | "gone" | "rebooted" | "elsewhere" {
  if (known.pid_ns !== place.pid_ns) return "elsewhere";
  if (known.boot_id !== place.boot_id) {
    const isTold = known.boot_id !== "" && place.boot_id !== "" && known.machine_id !== "";
    return isTold && known.machine_id === place.machine_id && place.pid_ns === OF_THE_MACHINE ? "rebooted" : "elsewhere";
  }
  try {
    process.kill(known.pid, 0);
  } catch (error) {
    // EPERM: there is one, and it is somebody else's.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) return "alive";
    // Two places of which nothing is told are not one.
    return place.boot_id === "" || place.pid_ns === "" ? "elsewhere" : "gone";
  }
  const now = startOf(known.pid);
  if (now === undefined || known.started === "" || now === known.started) return "alive";
  return place.boot_id === "" || place.pid_ns === "" ? "elsewhere" : "gone";
}

/** This process, in this place. */
export function myself(): Known {
  return { pid: process.pid, started: startOf(process.pid) ?? "", ...here() };
}

function here(): Place {
  const machine = told(() => readFileSync("/etc/machine-id", "utf8").trim());
  // Systems without these files have no containers either, and only other machines may share the directory.
  if (process.platform !== "linux") return { boot_id: process.platform, machine_id: "", pid_ns: hostname() };
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
