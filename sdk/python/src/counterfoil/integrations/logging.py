"""Receipts from log records, and log records that name their receipt (the standard library's ``logging``).

* :class:`ReceiptHandler`: what a program says with ``extra={"receipt": {...}}`` becomes a receipt.
* :class:`ReceiptIdFilter`: every record made inside a scope carries ``receipt_id`` and ``request_id``.

A receipt is synced to the disk before ``emit`` returns. Where that is too slow, put a
``logging.handlers.QueueHandler`` in front: then a crash loses what is in its queue.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from counterfoil.errors import CounterfoilError
from counterfoil.scope import current_act

if TYPE_CHECKING:
    from counterfoil.gate import Gate

#: Loggers whose records never become receipts: the gate's own, and those of what it sends receipts with. Else each
#: receipt would make the next one.
OWN_LOGGERS = ("counterfoil", "httpx", "httpcore")

#: How much of a message goes into a receipt, in characters: a receipt has 64 KiB for everything, and up to 4 bytes
#: for each.
MAX_MESSAGE = 4000

#: Makes the body of a receipt of a record; ``None``: this record is none of the log's business.
Mapper = Callable[[logging.LogRecord], "Mapping[str, Any] | None"]


def body_of(record: logging.LogRecord) -> Mapping[str, Any] | None:
    """The default mapping: what stands in ``extra={"receipt": {...}}``, and nothing of a record without it.

    With a ``type`` of its own it is the whole body (``memory``, ``foreign``, a type of yours). Without one it becomes
    a body of type ``log``, with ``logger``, ``level`` and ``message`` before it.
    """
    said = getattr(record, "receipt", None)
    if not isinstance(said, Mapping):
        return None
    if "type" in said:
        return said
    message = record.getMessage()[:MAX_MESSAGE]
    return {"type": "log", "logger": record.name, "level": record.levelname, "message": message, **said}


class ReceiptHandler(logging.Handler):
    """Turns records into receipts. It never raises into the program that logs, and counts what it could not write."""

    def __init__(self, gate: Gate, *, mapping: Mapper = body_of, level: int | str = logging.NOTSET) -> None:
        super().__init__(level)
        self._gate = gate
        self._mapping = mapping
        self._counting = threading.Lock()
        self._lost: dict[str, int] = {}

    @property
    def lost(self) -> Mapping[str, int]:
        """How many records did not become receipts though they should have, by the error's code or type."""
        with self._counting:
            return dict(self._lost)

    def handle(self, record: logging.LogRecord) -> bool:
        """As in :class:`logging.Handler`, without its lock: the gate is safe for threads, and a lock held while it writes
        could wait for a thread that logs."""
        if record.name.partition(".")[0] in OWN_LOGGERS or not self.filter(record):
            return False
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the record's receipt, if it gets one."""
        try:
            body = self._mapping(record)
            if body is not None:
                self._gate.append(body)
        except CounterfoilError as error:
            self._count(error.code)
        except Exception as error:  # A mapping of the program's own, arguments that do not fit the message: it goes on.
            self._count(type(error).__name__)

    def _count(self, why: str) -> None:
        with self._counting:
            self._lost[why] = self._lost.get(why, 0) + 1


class ReceiptIdFilter(logging.Filter):
    """Gives every record ``receipt_id`` and ``request_id``: those of the scope that it was made in, else ``-``.

    Add it to a handler, and ``%(receipt_id)s`` to its format. It lets every record through.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds the two."""
        act = current_act()
        record.receipt_id = (act.receipt_id if act is not None else None) or "-"
        record.request_id = act.request_id if act is not None else "-"
        return True
