// A gate's status as metrics, in Prometheus' text format.

import type { GateStatus } from "./gate.js";

/** `counterfoil_gate_…`, labelled with the issuer. */
export function metricsText(issuer: string, status: GateStatus): string {
  const label = issuer.replaceAll("\\", "\\\\").replaceAll('"', '\\"');
  const metrics: [name: string, type: "counter" | "gauge", help: string, value: number][] = [
    ["receipts_total", "counter", "Receipts signed.", status.receipts],
    ["queued", "gauge", "Receipts without an acknowledgement.", status.receipts - status.acknowledged],
    ["acknowledged_total", "counter", "Receipts the log has proved to hold.", status.acknowledged],
    ["dropped_total", "counter", "Actions that ran without a receipt.", status.drops.count],
    ["alarms_total", "counter", "Things the log did that no honest log does.", status.alarms],
    ["open_decisions", "gauge", "Allowed calls without an outcome.", status.open],
    ["owed", "gauge", "Outcomes that are due and not written.", status.owed],
    ["sender_failing", "gauge", "Whether receipts do not reach the log.", status.sender.state === "working" ? 0 : 1],
    ["oldest_queued_seconds", "gauge", "Age of the oldest receipt without an acknowledgement.", status.oldestQueuedMs / 1000],
  ];
  return metrics
    .map(([name, type, help, value]) => {
      const full = `counterfoil_gate_${name}`;
      return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${full}{issuer="${label}"} ${value}\n`;
    })
    .join("");
}
