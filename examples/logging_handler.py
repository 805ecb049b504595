"""Log records that become receipts, and log lines that name theirs.

python examples/logging_handler.py
"""

from __future__ import annotations

import hashlib
import logging
import sys

from local_log import local_log, show

from counterfoil import Gate
from counterfoil.integrations.logging import ReceiptHandler, ReceiptIdFilter

log_of_agent = logging.getLogger("agent")

with local_log(__doc__) as log, Gate(log.outbox, log.key, log.url, log.vkey, policy=log.policy or None) as gate:
    # Lines for people: within a decision they carry its receipt.
    screen = logging.StreamHandler(sys.stdout)
    screen.addFilter(ReceiptIdFilter())
    screen.setFormatter(logging.Formatter("%(levelname)s receipt=%(receipt_id).12s %(message)s"))
    log_of_agent.addHandler(screen)
    # Receipts for auditors: of those records that ask for one.
    receipts = ReceiptHandler(gate)
    log_of_agent.addHandler(receipts)
    log_of_agent.setLevel(logging.INFO)

    log_of_agent.info("started: no receipt")
    log_of_agent.warning("budget almost used up", extra={"receipt": {"budget": "mail", "left": 3}})
    note = "customer 7 prefers mail"
    body = {
        "type": "memory",
        "note_digest": f"sha256:{hashlib.sha256(note.encode()).hexdigest()}",
        "source": "chat",
        "trust": "untrusted",
        "about": ["customer:7"],
    }
    log_of_agent.info("remembered something", extra={"receipt": body})
    with gate.decision(operation="mail.send", subjects=["customer:7"], authenticated=True) as act:
        act.call(log_of_agent.info, "sending")
    print(f"records that should have become receipts and did not: {dict(receipts.lost)}")
    show(gate)
