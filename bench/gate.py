"""Times decisions of the Python SDK, for `counterfoil-bench gate`.

    python3 gate.py OUTBOX KEY LOG LOG_KEY DECISIONS

Prints one JSON object: `decide_ms`, the time of each decision until it was durable and the scope's body began, and
`sync_ms`, that of one write and fdatasync of the same disk, taken in turns. Exits 3 where the SDK cannot be imported.
"""

import json
import os
import sys
import time
from pathlib import Path


def main() -> int:
    outbox, key, log, log_key, decisions = sys.argv[1:]
    try:
        from counterfoil import Gate
    except ImportError as missing:
        print(f"the SDK cannot be imported: {missing}", file=sys.stderr)
        return 3
    decide_ms, sync_ms = [], []
    probe = os.open(Path(outbox).with_name("python-sync-probe"), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    with Gate(outbox, key, log, log_key) as gate:
        for number in range(int(decisions)):
            begun = time.perf_counter()
            with gate.decision(
                authenticated=True,
                rule="R1_WITHIN_LIMITS",
                operation="payments.refund",
                resource=f"order/{number}",
                args={"amount": number, "currency": "EUR"},
                session=f"session-{number % 100}",
            ):
                decide_ms.append((time.perf_counter() - begun) * 1e3)
            begun = time.perf_counter()
            os.write(probe, b"x" * 700)
            os.fdatasync(probe)
            sync_ms.append((time.perf_counter() - begun) * 1e3)
    os.close(probe)
    print(json.dumps({"decide_ms": decide_ms, "sync_ms": sync_ms}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
