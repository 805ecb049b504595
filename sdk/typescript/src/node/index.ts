// The entry for Node: what needs files and processes. Importing it has Ed25519 computed by Node's OpenSSL.

export { nodeEngine } from "./engine.js";
export { Gate, type GateOptions, type GateStatus } from "./gate.js";
export { BrokenLogError } from "./follower.js";
export type { ForkEvidence } from "./heads.js";
export { DEFAULT_MAX_AGE_MS, type HistoryOptions, type SubjectHistory } from "./history.js";
export type { HistoryItem } from "./history_index.js";
export { readKeyFile } from "./keyfile.js";
export { HttpRefusal, type KnownIssuer, LogClient, type Verdict } from "./log_client.js";
export { type GateDescription, LogForkError, type NewBody, Outbox } from "./outbox.js";
export { type OutboxStatus, OutboxView } from "./view.js";
export { Act } from "./scope.js";
export { Sender, type Sending } from "./sender.js";
export type { OpenCall } from "./calls.js";
export type { Acknowledged, DropLine, KeptHead, LogBinding } from "./store.js";
