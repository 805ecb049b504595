"""What a log says of each subject: its entries folded in order, by the issuer rules, into histories. Pure.

Nothing is left out and nothing is believed: whoever feeds entries compares the root over them with a signed one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .admit import IssuerState, admit, first_key
from .encoding import decode_hex_hash
from .errors import MalformedReceipt, Refusal
from .merkle import Frontier
from .receipts import Receipt

#: Decisions on subjects that are remembered at most: at some 300 bytes each, a quarter of a gigabyte.
MAX_ITEMS = 1_000_000


@dataclass(frozen=True)
class Logged:
    """A decision that names a subject."""

    #: The leaf's index in the log; ``None`` while the log does not hold it.
    index: int | None
    issuer: str
    seq: int
    #: Hex.
    id: str
    #: ``None`` for denials and actions of no class: they advance the head and stand in no history.
    action_class: str | None
    session: str | None


class LogIndex:
    """Subject by subject, and issuer by issuer."""

    def __init__(self) -> None:
        self._frontier = Frontier()
        self._issuers: dict[str, IssuerState] = {}
        self._subjects: dict[str, list[Logged]] = {}
        self._items = 0

    @property
    def is_full(self) -> bool:
        """Whether there was more than is remembered, so that no history is known to be whole."""
        return self._items > MAX_ITEMS

    @property
    def size(self) -> int:
        """How many entries were folded."""
        return self._frontier.size

    def root(self) -> bytes:
        """The root over them."""
        return self._frontier.root()

    def root_with(self, leaves: Iterable[bytes]) -> bytes:
        """The root over them and the next ones, which do not count yet."""
        frontier = Frontier(self._frontier.size, list(self._frontier.nodes))
        for leaf in leaves:
            frontier.append(leaf)
        return frontier.root()

    def add(self, entry: bytes, leaf: bytes) -> None:
        """Folds the next entry, whose hash is ``leaf``. What the rules do not admit is in the tree and does not count."""
        index = self._frontier.size
        self._frontier.append(leaf)
        try:
            receipt = Receipt.parse(entry)
            state = self._issuers.get(receipt.issuer)
            if state is None:
                key = first_key(entry)
                state = None if key is None or key.name != receipt.issuer else IssuerState.registered(key)
            state, _ = admit(state, receipt)
        except (MalformedReceipt, Refusal):
            return
        self._issuers[receipt.issuer] = state
        for subject in subjects_of(receipt):
            self._items += 1
            if self.is_full:
                return
            self._subjects.setdefault(subject, []).append(logged(receipt, index))

    def of_subject(self, subject: str, size: int, issuer: str | None = None) -> list[Logged]:
        """The decisions on ``subject`` among the first ``size`` entries, in order; by one issuer, or by all."""
        found = self._subjects.get(subject, ())
        return [one for one in found if (one.index or 0) < size and issuer in (None, one.issuer)]

    def beyond(self, subject: str, size: int, issuer: str) -> list[Logged]:
        """One issuer's decisions on ``subject`` behind the first ``size`` entries, in order."""
        found = self._subjects.get(subject, ())
        return [one for one in found if (one.index or 0) >= size and one.issuer == issuer]

    def state(self, issuer: str) -> IssuerState | None:
        """Where an issuer's stream stands."""
        return self._issuers.get(issuer)

    def to_lines(self) -> Iterator[str]:
        """All of it as lines of JSON, for a disk."""
        names = {name: number for number, name in enumerate(self._issuers)}
        peaks = [node.hex() for node in self._frontier.nodes]
        yield _line([self.size, peaks, self._items, len(names)])
        for state in self._issuers.values():
            yield state.to_json()
        for subject, found in self._subjects.items():
            rows = [(one.index, names[one.issuer], one.seq, one.id, one.action_class, one.session) for one in found]
            yield _line([subject, rows])

    @classmethod
    def from_lines(cls, lines: Sequence[str]) -> LogIndex | None:
        """Reads what :meth:`to_lines` wrote; ``None`` where its parts do not fit each other."""
        made = cls()
        try:
            size, peaks, made._items, issuers = json.loads(lines[0])
            nodes = [decode_hex_hash(peak) or b"" for peak in peaks]
            if len(nodes) != int(size).bit_count() or not all(nodes):
                return None
            made._frontier = Frontier(size, nodes)
            names = []
            for line in lines[1 : 1 + issuers]:
                state = IssuerState.from_json(line)
                if state is None:
                    return None
                made._issuers[state.name] = state
                names.append(state.name)
            # Each of a few names stands in many rows.
            shared: dict[str | None, str | None] = {}
            for line in lines[1 + issuers :]:
                subject, rows = json.loads(line)
                made._subjects[subject] = [
                    Logged(
                        index,
                        names[issuer],
                        seq,
                        receipt_id,
                        shared.setdefault(action_class, action_class),
                        shared.setdefault(session, session),
                    )
                    for index, issuer, seq, receipt_id, action_class, session in rows
                ]
        except (ValueError, TypeError, LookupError):
            return None
        return made


def subjects_of(receipt: Receipt) -> Iterable[str]:
    """The subjects that a decision names in the clear, each once."""
    subjects = receipt.body.get("subjects") if receipt.type == "decision" else None
    return dict.fromkeys(subjects) if isinstance(subjects, list) else ()


def logged(receipt: Receipt, index: int | None) -> Logged:
    """A decision as histories have it."""
    body = receipt.body
    action_class, session = body.get("action_class"), body.get("session")
    counts = body.get("decision") == "allow" and isinstance(action_class, str)
    return Logged(
        index,
        receipt.issuer,
        receipt.seq,
        receipt.id.hex(),
        action_class if counts else None,
        session if isinstance(session, str) else None,
    )


def _line(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
