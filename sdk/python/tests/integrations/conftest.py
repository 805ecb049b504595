"""A gate whose log is away, and what stands in its outbox: what an integration wrote, whatever becomes of it later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil import Gate, OutboxView, Receipt, SigningKey

GateMaker = Callable[..., Gate]


def receipts(gate: Gate) -> list[Receipt]:
    """What is in the gate's outbox, in order. None before its first receipt."""
    with OutboxView(gate.directory) as view:
        return list(view.receipts())


def bodies(gate: Gate) -> list[dict[str, Any]]:
    """The bodies after the stream's first."""
    found = [receipt.body for receipt in receipts(gate)]
    assert all((body["type"] == "open") == (seq == 0) for seq, body in enumerate(found))
    return found[1:]


@pytest.fixture
def make_gate(tmp_path: Path) -> Iterator[GateMaker]:
    """Makes gates, and closes them."""
    made: list[Gate] = []
    log_vkey = str(SigningKey.generate("log.example/agents").verifier)

    def make(**options: Any) -> Gate:
        directory = tmp_path / f"outbox-{len(made)}"
        key = SigningKey.generate("gate.example/support-1")
        # Nobody listens there.
        made.append(Gate(directory, key, "http://127.0.0.1:9", log_vkey, **options))
        return made[-1]

    yield make
    for gate in made:
        gate.close()


@pytest.fixture
def gate(make_gate: GateMaker) -> Gate:
    """One of them."""
    return make_gate()
