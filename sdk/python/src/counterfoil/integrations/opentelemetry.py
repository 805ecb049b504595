"""The receipt's id on the span in which a decision was made (the ``opentelemetry-api`` package).

Attributes of the span that is current when the decision is made: :data:`RECEIPT_ID`, :data:`REQUEST_ID`,
:data:`DECISION`. An event on the span that is current when it ends: :data:`OUTCOME`. A span with several decisions
carries the newest one in its attributes and all their outcomes in its events.

An id is no secret, and proves nothing by itself: whoever has the span looks the receipt up in the log by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opentelemetry import trace

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    from counterfoil.gate import Gate, Written

#: Attribute: id of the decision's receipt, hex. Absent where a ``fail_open`` gate had no room for it.
RECEIPT_ID = "counterfoil.receipt_id"
#: Attribute: what ties decision, approval and outcome together.
REQUEST_ID = "counterfoil.request_id"
#: Attribute: ``allow`` or ``deny``.
DECISION = "counterfoil.decision"
#: Event, with the attributes ``counterfoil.receipt_id`` (the outcome's), ``counterfoil.request_id``,
#: ``counterfoil.executed``, and ``counterfoil.error`` and ``counterfoil.unknown`` where there are such.
OUTCOME = "counterfoil.outcome"


def observe(gate: Gate) -> Callable[[], None]:
    """From now on ``gate`` tells the current span what it decides. Returns a function that ends this."""
    gate.observers.append(_tell)

    def stop() -> None:
        if _tell in gate.observers:
            gate.observers.remove(_tell)

    return stop


def _tell(written: Written) -> None:
    span = trace.get_current_span()
    if not span.is_recording():
        return
    attributes: dict[str, AttributeValue] = {REQUEST_ID: written.request_id}
    if written.receipt_id is not None:
        attributes[RECEIPT_ID] = written.receipt_id
    if written.type == "decision":
        attributes[DECISION] = written.body["decision"]
        span.set_attributes(attributes)
    elif written.type == "outcome":
        for member in ("executed", "error", "unknown"):
            if member in written.body:
                attributes[f"counterfoil.{member}"] = written.body[member]
        span.add_event(OUTCOME, attributes)
