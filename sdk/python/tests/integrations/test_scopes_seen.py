"""What integrations hold on to: the scope a task is in, what observers are told, outcomes that nobody knows."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator

import pytest

from counterfoil import Gate, OutcomeUnknown, Written, current_act

from .conftest import bodies, receipts


class NoAnswer(OutcomeUnknown):
    """A request that left."""


def test_an_outcome_that_nobody_knows_is_unknown_unless_the_action_had_returned(gate: Gate) -> None:
    for returned in (False, True):
        with pytest.raises(NoAnswer), gate.decision(operation="a", authenticated=True) as act:
            if returned:
                act.call(int)
            raise NoAnswer("in time")
    outcomes = [body for body in bodies(gate) if body["type"] == "outcome"]
    assert [(body["executed"], body.get("unknown"), body["error"]) for body in outcomes] == [
        (False, True, "NoAnswer: in time"),
        (True, None, "NoAnswer: in time"),
    ]


def test_observers_are_told_of_what_is_on_the_disk_in_order_and_of_nothing_else(gate: Gate) -> None:
    told: list[tuple[str, str | None, int]] = []

    def observer(written: Written) -> None:
        told.append((written.type, written.receipt_id, len(receipts(gate))))

    gate.observers.append(observer)
    with gate.decision(operation="a", authenticated=True):
        gate.append({"type": "memory", "source": "chat"})
    gate.deny(operation="b", authenticated=True)
    gate.allow(operation="c", authenticated=True, request_id="r")
    gate.reported("r", executed=True)
    ids = [receipt.id.hex() for receipt in receipts(gate)]
    # Each with the count of receipts on the disk at that moment: its own is the last of them.
    assert told == [
        ("decision", ids[1], 2),
        ("outcome", ids[3], 4),
        ("decision", ids[4], 5),
        ("decision", ids[5], 6),
        ("outcome", ids[6], 7),
    ]


def test_an_observer_of_an_asyncio_scope_is_in_the_context_of_its_task(gate: Gate) -> None:
    task_name: contextvars.ContextVar[str] = contextvars.ContextVar("task_name", default="none")
    seen: list[tuple[str, str]] = []
    gate.observers.append(lambda written: seen.append((written.request_id, task_name.get())))

    async def task(name: str) -> None:
        task_name.set(name)
        async with gate.decision(operation="a", authenticated=True, request_id=name):
            await asyncio.sleep(0)

    async def tasks() -> None:
        await asyncio.gather(*(task(f"t{number}") for number in range(5)))

    asyncio.run(tasks())
    assert sorted(seen) == sorted((f"t{number}", f"t{number}") for number in range(5) for _ in range(2))


def test_a_generator_that_is_closed_in_another_context_still_ends_its_scope(gate: Gate) -> None:
    def steps() -> Iterator[int]:
        with gate.decision(operation="a", authenticated=True):
            yield 1

    begun = steps()
    contextvars.copy_context().run(next, begun)
    assert current_act() is None
    begun.close()  # type: ignore[attr-defined]
    [_, outcome] = bodies(gate)
    assert (outcome["executed"], outcome["unknown"]) == (False, True)
    assert current_act() is None
