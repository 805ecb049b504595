"""How a gate stands: for its caller, and for Prometheus under the names that every SDK has."""

from __future__ import annotations

from dataclasses import dataclass

from .outbox import OutboxStatus
from .sender import SenderState


@dataclass(frozen=True)
class GateStatus:
    """How a gate stands."""

    outbox: OutboxStatus
    #: Whether the disk refused the last write; the next call tries again.
    disk_refuses: bool
    #: Actions that ran without a receipt, and how many of them a receipt has told the log of.
    dropped_actions: int
    dropped_told: int
    #: Allowed calls without an outcome.
    open_decisions: int
    sender: SenderState
    #: How long the oldest receipt has waited for the log, in seconds; ``None`` where none waits.
    oldest_queued_s: float | None
    #: Outcomes that are due and not written: the disk refuses, the gate has just started, or it may sign no more.
    owed: int = 0


def prometheus(issuer: str, status: GateStatus) -> str:
    """Prometheus' text format: one line of help, one of type and one of value for each."""
    outbox = status.outbox
    label = '{issuer="' + issuer.replace("\\", "\\\\").replace('"', '\\"') + '"}'
    rows: list[tuple[str, str, str, float]] = [
        ("receipts_total", "counter", "Receipts signed.", outbox.receipts),
        ("queued", "gauge", "Receipts that the log has not proved to hold.", outbox.receipts - outbox.acknowledged),
        ("acknowledged_total", "counter", "Receipts with a proof.", outbox.acknowledged),
        ("dropped_total", "counter", "Actions that ran without a receipt.", status.dropped_actions),
        ("alarms_total", "counter", "Things the log did that no honest log does.", outbox.alarms),
        ("open_decisions", "gauge", "Allowed calls without an outcome.", status.open_decisions),
        ("owed", "gauge", "Outcomes that are due and not written.", status.owed),
        ("sender_failing", "gauge", "1 while the log does not take receipts.", status.sender.state != "working"),
        ("oldest_queued_seconds", "gauge", "How long the oldest receipt has waited.", status.oldest_queued_s or 0),
    ]
    lines: list[str] = []
    for name, kind, about, value in rows:
        name = f"counterfoil_gate_{name}"
        shown = repr(float(value)) if value != int(value) else str(int(value))
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name}{label} {shown}"]
    return "\n".join(lines) + "\n"
