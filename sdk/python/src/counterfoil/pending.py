"""What this gate decided and the log does not show yet: its own memory, which only ever adds."""

from __future__ import annotations

from collections import deque

from .admit import IssuerState
from .index import Logged, logged, subjects_of
from .outbox import Outbox


class Pending:
    """Own decisions on subjects, oldest first, from a seq on."""

    def __init__(self) -> None:
        #: The first seq that is covered, and the first that is not.
        self._first = 0
        self._next = 0
        self._own: deque[tuple[Logged, frozenset[str]]] = deque()

    def catch_up(self, outbox: Outbox, state: IssuerState | None) -> int:
        """Reads what the outbox holds beyond what the log holds of its stream, which is in ``state`` as far as it was read;
        answers the outbox's next seq. Raises :class:`~counterfoil.errors.OutboxError`."""
        count = outbox.next_seq
        # What the log holds of a stream that is not this outbox's is no reason to forget one's own.
        shared = min(state.next_seq, count) if state is not None and _is_of(outbox, state) else 0
        if shared < self._first:
            self._own.clear()
            self._next = shared
        self._first = shared
        while self._own and self._own[0][0].seq < shared:
            self._own.popleft()
        for seq in range(max(self._next, shared), count):
            receipt = outbox.receipt(seq)
            subjects = frozenset(subjects_of(receipt)) if receipt is not None else frozenset()
            if receipt is not None and subjects:
                self._own.append((logged(receipt, None), subjects))
        self._next = count
        return count

    def on(self, subject: str) -> list[Logged]:
        """The decisions on a subject, denials too."""
        return [one for one, subjects in self._own if subject in subjects]


def _is_of(outbox: Outbox, state: IssuerState) -> bool:
    """Whether the stream that the log holds is the beginning of the outbox's."""
    last = outbox.receipt(state.next_seq - 1) if state.next_seq else None
    return state.next_seq == 0 or (last is not None and last.id == state.head)
