"""What a log says of each subject: its entries folded in order, by the issuer rules, into histories.

Nothing is left out and nothing is believed: whoever feeds entries compares the root over them with a signed one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from .admit import IssuerState, admit, first_key
from .errors import MalformedReceipt, Refusal
from .merkle import Frontier, leaf_hash
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
        #: Indexes of each issuer's admitted receipts, in order.
        self._indexes: dict[str, list[int]] = {}
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

    def add(self, entry: bytes) -> None:
        """Folds the next entry. What the rules do not admit is in the tree and does not count."""
        index = self._frontier.size
        self._frontier.append(leaf_hash(entry))
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
        self._indexes.setdefault(receipt.issuer, []).append(index)
        for subject in subjects_of(receipt):
            self._items += 1
            if self.is_full:
                return
            self._subjects.setdefault(subject, []).append(logged(receipt, index))

    def of_subject(self, subject: str, size: int, issuer: str | None = None) -> list[Logged]:
        """The decisions on ``subject`` among the first ``size`` entries, in order; by one issuer, or by all."""
        found = self._subjects.get(subject, ())
        return [one for one in found if (one.index or 0) < size and issuer in (None, one.issuer)]

    def receipts_of(self, issuer: str, size: int) -> int:
        """How many receipts of an issuer are among the first ``size`` entries."""
        return bisect_left(self._indexes.get(issuer, ()), size)


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
