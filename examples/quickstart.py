"""The first receipts: one action that is allowed, one that fails, one that is denied, and the log's proof of all of them.

python examples/quickstart.py
"""

from __future__ import annotations

import contextlib

from local_log import local_log, show

from counterfoil import Gate


def read_customer(number: int) -> dict[str, str]:
    """What the gate guards."""
    if number == 0:
        raise LookupError("no such customer")
    return {"name": "Ada", "plan": "yearly"}


with local_log(__doc__) as log, Gate(log.outbox, log.key, log.url, log.vkey, policy=log.policy or None) as gate:
    # Allowed. The decision is on the disk before the block begins, the outcome is written when it ends.
    with gate.decision(
        operation="customer.read", subjects=["customer:7"], action_class="READ", authenticated=True
    ) as act:
        customer = act.call(read_customer, 7)
        act.result(customer)
    print(f"allowed: {customer}")

    # Whatever way it ends.
    with contextlib.suppress(LookupError), gate.decision(operation="customer.read", authenticated=True) as act:
        act.call(read_customer, 0)

    # Denied. Nothing runs, and the auditor learns of it all the same.
    gate.deny(operation="customer.delete", rule="R2_PURPOSE", caller_reason="not in this task", authenticated=True)

    show(gate)
