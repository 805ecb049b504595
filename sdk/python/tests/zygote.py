"""Forks a gate for each line it reads, so that a round of the kill test does not pay for imports.

Each child says `up`, opens the gate and decides for ever; what a call returned stands in the file of returned ids before the
next one begins.
"""

from __future__ import annotations

import asyncio
import os
import sys

from counterfoil import Gate, SigningKey


def decide_for_ever(directory: str, url: str, vkey: str, returned: str, name: str) -> None:
    gate = Gate(directory, SigningKey(name, bytes(range(32))), url, vkey)
    fd = os.open(returned, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    place = 0

    def tell(receipt_id: str | None) -> None:
        os.write(fd, f"{receipt_id}\n".encode())

    async def later() -> None:
        async with gate.decision(authenticated=True, operation="later", claimed_agent="a") as act:
            tell(act.receipt_id)

    while True:
        place += 1
        with gate.decision(authenticated=True, operation="op", args={"place": place}) as act:
            tell(act.receipt_id)
        receipt = gate.deny(authenticated=False, rule="R1", commit=["rule"])
        tell(receipt.id.hex() if receipt else None)
        if place % 5 == 0:
            asyncio.run(later())


def main() -> None:
    directory, url, vkey, returned, name = sys.argv[1:]
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                decide_for_ever(directory, url, vkey, returned, name)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(status, flush=True)


main()
