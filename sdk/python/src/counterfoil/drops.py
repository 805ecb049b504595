"""What ran without a receipt, because the gate was told to let it (``fail_open``): never silent.

A durable line each where the disk takes it, a count in memory always, and a ``dropped`` receipt as soon as one can be written.
How many of the lines the log was told of is the sum of the counts in those receipts, so that no crash can put the two out of
step.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from . import bodies
from .receipts import Receipt
from .store import Store, compact_line

#: Lines kept in memory while the disk refuses; of further drops the request ids are lost, the count is not.
_MOST_LINES = 65_536


@dataclass
class _Untold:
    count: int
    since: int
    until: int


class Drops:
    """The drops of one gate."""

    def __init__(self) -> None:
        self.count = 0
        #: How many of them a `dropped` receipt has recorded.
        self.told = 0
        self._untold: dict[str, _Untold] = {}
        self._unwritten: list[dict[str, object]] = []

    def read(self, store: Store) -> None:
        """Takes what the disk says, and adds what is not there yet."""
        lines = store.drops.count
        self.told = _told(store) if lines else 0
        self.count = max(lines, self.told)
        self._untold = {}
        for place in range(self.told, lines):
            at, why = _line(store.drops.read(place) or b"")
            self._tell(at, why)
        for line in self._unwritten:
            self.count += 1
            self._tell(int(str(line["at"])), str(line["why"]))

    def add(self, at: int, why: str, request_id: str) -> None:
        """Counts one; ``at`` in milliseconds, ``why`` is ``full`` or ``disk``."""
        self.count += 1
        self._tell(at, why)
        kept = request_id if len(self._unwritten) < _MOST_LINES else ""
        self._unwritten.append({"at": at, "why": why, "request_id": kept})

    def write(self, store: Store) -> None:
        """Writes the lines that are not on disk: before the log is told, or a start would take later drops for told ones.

        Raises :class:`OutboxDisk`.
        """
        if self._unwritten:
            store.drops.append(compact_line(line) for line in self._unwritten)
            self._unwritten = []

    def bodies(self) -> list[str]:
        """What the log is still to be told."""
        return [
            bodies.dropped(count=untold.count, since=untold.since, until=untold.until, why=why)
            for why, untold in self._untold.items()
        ]

    def were_told(self) -> None:
        """Says that what :meth:`bodies` answered was signed."""
        self.told += sum(untold.count for untold in self._untold.values())
        self._untold = {}

    def _tell(self, at: int, why: str) -> None:
        untold = self._untold.setdefault(why, _Untold(0, at, at))
        untold.count += 1
        untold.since = min(untold.since, at)
        untold.until = max(untold.until, at)


def _told(store: Store) -> int:
    told = 0
    for seq in range(store.count):
        entry = store.receipts.read(seq) or b""
        if b'"dropped"' in entry:
            body = Receipt.parse(entry).body
            count = body.get("count")
            if body["type"] == "dropped" and isinstance(count, int) and count > 0:
                told += count
    return told


def _line(line: bytes) -> tuple[int, str]:
    try:
        members = json.loads(line)
        return int(members["at"]), str(members["why"])
    except (ValueError, KeyError, TypeError):
        # A line that nobody can read is a drop all the same.
        return 0, "disk"
