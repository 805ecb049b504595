"""Allowed calls that have no outcome: what a gate that stopped owes the log. Derived from the receipts alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .bodies import agent_of
from .receipts import Receipt
from .store import Store, compact_line


@dataclass(frozen=True)
class OpenCall:
    """An allowed call that has no outcome yet."""

    seq: int
    #: The decision's id, in hex.
    id: str
    #: ``None`` where the decision does not show it.
    request_id: str | None
    #: Who acts, and whether that is authenticated.
    agent: tuple[str, bool] | None


class OpenCalls:
    """The open calls of which the decision says that so-and-so executes."""

    def __init__(self, executes: str) -> None:
        self.executes = executes
        self.by_seq: dict[int, OpenCall] = {}
        self._by_id: dict[str, int] = {}
        self._by_request: dict[str, int] = {}

    @classmethod
    def derive(cls, store: Store, executes: str) -> OpenCalls:
        """Reads the receipts; for ``gate`` only those that the file ``open`` does not cover."""
        calls = cls(executes)
        since = calls._saved(store) if executes == "gate" else 0
        for seq in range(since, store.count):
            calls.follow(Receipt.parse(store.receipts.read(seq) or b""))
        return calls

    def save(self, store: Store) -> None:
        """Spares the next start some reading; a loss is of no consequence. Raises :class:`OutboxDisk`."""
        store.write_small("open", compact_line({"next_seq": store.count, "open": sorted(self.by_seq)}), durable=False)

    def follow(self, receipt: Receipt) -> None:
        """What ``receipt``, the next one in order, makes of it."""
        body = receipt.body
        if body["type"] == "decision" and body["decision"] == "allow" and body["executes"] == self.executes:
            request_id = _text(body.get("request_id"))
            call = OpenCall(receipt.seq, receipt.id.hex(), request_id, agent_of(body))
            self.by_seq[call.seq] = call
            self._by_id[call.id] = call.seq
            if request_id is not None:
                self._by_request[request_id] = call.seq
        elif body["type"] == "outcome":
            decision, request_id = _text(body.get("decision")), _text(body.get("request_id"))
            seq = self._by_id.get(decision) if decision is not None else self._by_request.get(request_id or "")
            call_ended = self.by_seq.pop(seq, None) if seq is not None else None
            if call_ended is not None:
                self._by_id.pop(call_ended.id, None)
                if call_ended.request_id is not None:
                    self._by_request.pop(call_ended.request_id, None)

    def of_request(self, request_id: str) -> OpenCall | None:
        """The one of this request."""
        return self.by_seq.get(self._by_request.get(request_id, -1))

    def __len__(self) -> int:
        return len(self.by_seq)

    def _saved(self, store: Store) -> int:
        """What `open` says, where it fits the receipts, and from which seq on they have to be read."""
        try:
            members: dict[str, Any] = json.loads(store.read_small("open") or b"{}")
            next_seq, seqs = members["next_seq"], members["open"]
            if not (
                isinstance(next_seq, int) and 0 <= next_seq <= store.count and all(0 <= s < next_seq for s in seqs)
            ):
                return 0
        except (ValueError, KeyError, TypeError):
            return 0
        for seq in seqs:
            self.follow(Receipt.parse(store.receipts.read(seq) or b""))
        if len(self.by_seq) == len(seqs):
            return next_seq
        self.by_seq, self._by_id, self._by_request = {}, {}, {}
        return 0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
