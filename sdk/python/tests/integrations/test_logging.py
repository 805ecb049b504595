"""Receipts from log records, and records that name their receipt."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from counterfoil import Gate
from counterfoil.integrations.logging import OWN_LOGGERS, ReceiptHandler, ReceiptIdFilter

from .conftest import GateMaker, bodies


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The root logger, which everybody's records reach, with the handlers of one test only."""
    root = logging.getLogger()
    before, level, root.handlers = root.handlers, root.level, []
    root.setLevel(logging.DEBUG)
    yield root
    root.handlers = before
    root.setLevel(level)


class Caught(logging.Handler):
    """Keeps what the formatter makes of each record."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter(form))
        self.addFilter(ReceiptIdFilter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def test_a_record_becomes_a_receipt_where_it_says_so_and_only_there(gate: Gate, logger: logging.Logger) -> None:
    logger.addHandler(handler := ReceiptHandler(gate, level=logging.INFO))
    agent = logging.getLogger("agent.budget")
    agent.info("nothing for the log")
    agent.debug("below its level", extra={"receipt": {}})
    agent.warning("%d left", 3, extra={"receipt": {"budget": "mail"}})
    agent.info("whole", extra={"receipt": {"type": "memory", "source": "chat", "trust": "untrusted"}})
    assert bodies(gate) == [
        {"type": "log", "logger": "agent.budget", "level": "WARNING", "message": "3 left", "budget": "mail"},
        {"type": "memory", "source": "chat", "trust": "untrusted"},
    ]
    assert handler.lost == {}


def test_a_mapping_of_ones_own_decides_what_becomes_a_receipt(gate: Gate, logger: logging.Logger) -> None:
    def mapping(record: logging.LogRecord) -> dict[str, str] | None:
        return {"type": "note", "said": record.getMessage()} if record.levelno > logging.INFO else None

    logger.addHandler(ReceiptHandler(gate, mapping=mapping))
    logging.getLogger("agent").info("no")
    logging.getLogger("agent").error("yes")
    assert bodies(gate) == [{"type": "note", "said": "yes"}]


def test_what_the_gate_itself_logs_never_becomes_a_receipt_in_any_thread(gate: Gate, logger: logging.Logger) -> None:
    def mapping(record: logging.LogRecord) -> dict[str, str]:
        # As bad as it gets: writing a receipt makes records, here and in the thread that sends.
        for name in OWN_LOGGERS:
            logging.getLogger(f"{name}.deep").error("while a receipt is written")
            aside = threading.Thread(target=logging.getLogger(name).error, args=("aside",))
            aside.start()
            aside.join(10)
            assert not aside.is_alive()
        return {"type": "note", "said": record.getMessage()}

    logger.addHandler(handler := ReceiptHandler(gate, mapping=mapping))
    logging.getLogger("agent").error("one")
    # Only the first part of a name counts, and it whole.
    logging.getLogger("counterfoils").error("two")
    assert [body["said"] for body in bodies(gate)] == ["one", "two"]
    assert handler.lost == {}


def test_what_cannot_become_a_receipt_is_counted_and_the_program_goes_on(gate: Gate) -> None:
    handler = ReceiptHandler(gate)
    # Under nobody: other handlers raise for what this one must not.
    agent = logging.Logger("agent")
    agent.addHandler(handler)
    agent.info("password in a URL", extra={"receipt": {"at": "https://bob:hunter2hunter2@db.example/"}})
    agent.info("%d", "no number", extra={"receipt": {}})
    agent.info("no JSON", extra={"receipt": {"type": "note", "at": object()}})
    agent.info("not for authors", extra={"receipt": {"type": "outcome", "executed": True}})
    assert bodies(gate) == []
    assert sum(handler.lost.values()) == 4
    assert handler.lost["credential-shaped"] == 1
    assert handler.lost["scope-only"] == 1
    gate.close()
    agent.info("the gate is closed", extra={"receipt": {}})
    assert sum(handler.lost.values()) == 5


def test_what_a_fail_open_gate_drops_is_counted_too(make_gate: GateMaker, logger: logging.Logger) -> None:
    gate = make_gate(max_queued=1, when_full="fail_open")
    logger.addHandler(handler := ReceiptHandler(gate))
    for number in range(3):
        logging.getLogger("agent").info("%d", number, extra={"receipt": {}})
    assert sum(handler.lost.values()) == 3 - len(bodies(gate)) > 0


def test_records_of_many_threads_all_become_receipts(gate: Gate, logger: logging.Logger) -> None:
    logger.addHandler(handler := ReceiptHandler(gate))

    def work(name: str) -> None:
        for number in range(10):
            logging.getLogger(name).info("%d", number, extra={"receipt": {}})

    threads = [threading.Thread(target=work, args=(f"agent-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert handler.lost == {}
    assert len({(body["logger"], body["message"]) for body in bodies(gate)}) == 40


def test_records_made_in_a_scope_name_its_receipt_and_others_do_not(gate: Gate, logger: logging.Logger) -> None:
    logger.addHandler(caught := Caught("%(receipt_id)s %(request_id)s %(message)s"))
    agent = logging.getLogger("agent")
    agent.info("before")
    with gate.decision(operation="a", authenticated=True) as outer:
        agent.info("in")
        with gate.decision(operation="b", authenticated=True) as inner:
            agent.info("deeper")
        agent.info("out again")
    agent.info("after")
    assert [line for line in caught.lines if line.split()[-1] in ("before", "in", "deeper", "again", "after")] == [
        "- - before",
        f"{outer.receipt_id} {outer.request_id} in",
        f"{inner.receipt_id} {inner.request_id} deeper",
        f"{outer.receipt_id} {outer.request_id} out again",
        "- - after",
    ]


def test_scopes_of_tasks_that_run_at_once_are_kept_apart(gate: Gate, logger: logging.Logger) -> None:
    logger.addHandler(caught := Caught("%(request_id)s %(message)s"))

    async def task(number: int) -> None:
        async with gate.decision(operation="a", authenticated=True, request_id=f"r{number}"):
            await asyncio.sleep(0)
            logging.getLogger("agent").info("task %d", number)
            await asyncio.to_thread(logging.getLogger("agent").info, "task %d", number)

    async def tasks() -> None:
        await asyncio.gather(*map(task, range(8)))

    asyncio.run(tasks())
    lines = sorted(line for line in caught.lines if " task " in line)
    assert lines == sorted(f"r{number} task {number}" for number in range(8) for _ in range(2))
