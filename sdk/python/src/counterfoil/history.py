"""Histories with proof: what the log holds of a subject, so that a gate judges by the log and not by its own memory.

A follower reads *all* entries of the log up to a head, folds them itself and compares the root with the signed one: so
nothing can be left out. The head is a witnessed one: the log signed it, the policy's quorum cosigned it, and not long ago.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .checkpoints import Checkpoint
from .encoding import encode_base64
from .errors import DecisionClaims, HistoryError
from .follower import Follower, unavailable
from .index import MAX_ITEMS, Logged
from .outbox import Outbox
from .pending import Pending
from .policy import Policy
from .proofs import proof_text
from .witnessed import NO_POLICY, asks_for_witnesses, witnessed_at

#: While its witnesses have not cosigned a head: how soon it is asked for again, and for how long, in seconds.
_ASK_AGAIN_S = 0.1
_WAIT_FOR_WITNESSES_S = 3.0
#: How long a proof may take, in seconds.
_PROOF_S = 30.0


@dataclass(frozen=True)
class History:
    """What the log holds of one or several subjects under one head, and what this gate adds to it."""

    subjects: tuple[str, ...]
    #: Allowed actions with a class, in the order of the log.
    logged: tuple[Logged, ...]
    #: This gate's own, not under that head yet: its own memory only adds, and never removes.
    pending: tuple[Logged, ...]
    #: Subject to the id of the newest receipt that names it.
    heads: dict[str, str]
    #: The head: size and root of the log.
    size: int
    root: bytes
    #: Whether a quorum vouches for that head, lately; else :attr:`why` says why not.
    witnessed: bool
    #: The newest cosignature, in seconds since the epoch; ``None`` where no quorum vouches.
    witnessed_at: int | None
    why: str | None = None
    #: The gate's next seq when this was read: a decision by it is refused where the gate has decided on a subject since.
    next_seq: int = 0
    _prove: Callable[[Logged], str] = field(repr=False, compare=False, default=lambda _: "")

    @property
    def classes(self) -> list[str]:
        """The action classes, logged and then pending: what the gate judges by."""
        return [one.action_class for one in (*self.logged, *self.pending) if one.action_class is not None]

    def proof(self, place: int) -> str:
        """The tlog-proof, under this head, of the item ``logged[place]``; checked before it is handed out.

        Raises :class:`HistoryError`.
        """
        return self._prove(self.logged[place])

    def members(self) -> dict[str, Any]:
        """The members of a decision that was judged by this."""
        head: dict[str, Any] = {"size": self.size, "root": encode_base64(self.root), "witnessed": self.witnessed}
        if self.why is not None:
            head["why"] = self.why
        return {"prior_action_classes": self.classes, "prior_heads": dict(self.heads), "history": head}

    @staticmethod
    def claims(histories: Sequence[History]) -> dict[str, Any]:
        """The members of a decision that was judged by several.

        Raises :class:`DecisionClaims` where they were not taken under one head.
        """
        if not histories:
            return {}
        first = histories[0]
        if any((one.size, one.root, one.why) != (first.size, first.root, first.why) for one in histories):
            raise DecisionClaims(
                "the histories were taken under different heads: ask for all subjects in one call of `history`"
            )
        return _merged(histories).members() if len(histories) > 1 else first.members()


@dataclass(frozen=True)
class _Under:
    """What an answer stands under."""

    size: int
    root: bytes
    #: The head of that size, where the log signed one.
    head: Checkpoint | None
    #: Seconds since the epoch; ``None`` where no quorum vouches, lately enough: then `why` says why not.
    witnessed_at: int | None
    why: str | None


class Histories:
    """Answers for one gate. Thread-safe: one question at a time."""

    def __init__(self, follower: Follower, own: Outbox, policy: Policy | None, clock: Callable[[], int]) -> None:
        """``clock`` is in milliseconds."""
        self._follower = follower
        self._own = own
        self._policy = policy
        self._clock = clock
        self._lock = threading.Lock()
        #: The newest head that a quorum vouched for, and when, in seconds since the epoch.
        self._witnessed: tuple[Checkpoint, int] | None = None
        self._pending = Pending()

    def of(
        self, subjects: Sequence[str], *, own_only: bool, max_age_s: float, fail_open: bool, seconds: float
    ) -> History:
        """See :meth:`counterfoil.Gate.history`."""
        if not subjects:
            raise HistoryError("name at least one subject; a history is somebody's", code="history-unavailable")
        until = time.monotonic() + seconds
        if not self._lock.acquire(timeout=max(0.0, seconds)):
            raise unavailable("another call still reads the log")
        try:
            self._follower.open()
            under = self._under(max_age_s, until, fail_open)
            if self._follower.index.is_full:
                raise HistoryError(
                    f"the log holds more than {MAX_ITEMS} decisions on subjects, and more are not remembered: no history is "
                    "known to be whole; ask an auditor's service instead",
                    code="history-too-large",
                )
            return self._answer(tuple(dict.fromkeys(subjects)), under, own_only)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Keeps what was read of the log, unless a call is under way."""
        if self._lock.acquire(blocking=False):
            try:
                self._follower.close()
            finally:
                self._lock.release()

    def _under(self, max_age_s: float, until: float, fail_open: bool) -> _Under:
        """The head to judge by, everything under it read; or, where that may be, what there is, and why it is no fresh
        witnessed head."""
        why = "no head was looked for"
        patient_until = min(until, time.monotonic() + _WAIT_FOR_WITNESSES_S)
        blamed: HistoryError | None = None
        while True:
            try:
                why = self._look(until) or ""
            except HistoryError as error:
                why = str(error)
                if error.code == "log-fork" and fail_open:
                    break
                if error.code not in ("history-unavailable", "log-rolled-back"):
                    raise
                # A cache may show an older head: the one seen before is as good as it was.
                blamed = error if error.code == "log-rolled-back" else None
            # Everything under it was read, and not forgotten since.
            if self._witnessed is not None and self._witnessed[0].size <= self._follower.index.size:
                head, at = self._witnessed
                age = self._clock() / 1000 - at
                if age <= max_age_s:
                    return _Under(head.size, head.root, head, at, None)
                why = why or f"the newest cosignature is {age:.0f} seconds old"
            # A head that its witnesses have not cosigned yet may be cosigned in a moment.
            may_come = asks_for_witnesses(self._policy) and self._follower.largest is not None
            if blamed is not None or not may_come or time.monotonic() + _ASK_AGAIN_S >= patient_until:
                break
            time.sleep(_ASK_AGAIN_S)
        if not fail_open:
            raise blamed or self._none(why)
        index, largest = self._follower.index, self._follower.largest
        signed = largest if largest is not None and largest.size == index.size else None
        return _Under(index.size, index.root(), signed, None, why)

    def _look(self, until: float) -> str | None:
        """Looks at the log once, and answers why nobody vouches for what it offers, if so."""
        offered = self._follower.offered(until)
        self._follower.believe(offered, until)
        at, why = witnessed_at(offered, self._policy, self._clock())
        if at is not None:
            self._witnessed = offered, at
        return why

    def _none(self, why: str) -> HistoryError:
        if not asks_for_witnesses(self._policy):
            now = "" if why == NO_POLICY else f" (now: {why})"
            return HistoryError(
                "the gate was opened without a policy that asks for witnesses, so nobody vouches for the log's head; "
                f"give one to Gate(policy=…){now}",
                code="history-unavailable",
            )
        return HistoryError(
            f"no fresh witnessed head of the log can be had: {why}; do not act, or decide with "
            '`when_unavailable="fail_open"` and say so in the receipt',
            code="history-unavailable",
        )

    def _answer(self, subjects: tuple[str, ...], under: _Under, own_only: bool) -> History:
        index, own = self._follower.index, self._own.issuer
        next_seq = self._pending.catch_up(self._own, index.state(own))
        heads: dict[str, str] = {}
        found: dict[str, Logged] = {}
        pending: dict[str, Logged] = {}
        for subject in subjects:
            in_log = index.of_subject(subject, under.size, own if own_only else None)
            # This gate's own behind that head, and then what is only here.
            still = index.beyond(subject, under.size, own) + self._pending.on(subject)
            newest = (in_log + still)[-1:]
            if newest:
                heads[subject] = newest[0].id
            found.update((one.id, one) for one in in_log if one.action_class is not None)
            pending.update((one.id, one) for one in still if one.action_class is not None)
        return History(
            subjects=subjects,
            logged=tuple(sorted(found.values(), key=lambda one: one.index or 0)),
            pending=tuple(sorted(pending.values(), key=lambda one: one.seq)),
            heads=heads,
            size=under.size,
            root=under.root,
            witnessed=under.why is None,
            witnessed_at=under.witnessed_at,
            why=under.why,
            next_seq=next_seq,
            _prove=lambda one: self._proof(under.head, one),
        )

    def _proof(self, head: Checkpoint | None, one: Logged) -> str:
        if head is None or one.index is None:
            raise HistoryError(
                "what the log does not hold under a signed head has no proof; flush, and read the history again",
                code="history-unavailable",
            )
        hashes = self._follower.proof(bytes.fromhex(one.id), one.index, head, time.monotonic() + _PROOF_S)
        return proof_text(one.index, hashes, head)


def _merged(histories: Sequence[History]) -> History:
    first = histories[0]
    found = {one.id: one for history in histories for one in history.logged}
    pending = {one.id: one for history in histories for one in history.pending}
    return History(
        subjects=tuple(dict.fromkeys(subject for history in histories for subject in history.subjects)),
        logged=tuple(sorted(found.values(), key=lambda one: one.index or 0)),
        pending=tuple(sorted(pending.values(), key=lambda one: one.seq)),
        heads={subject: head for history in histories for subject, head in history.heads.items()},
        size=first.size,
        root=first.root,
        witnessed=first.witnessed,
        witnessed_at=first.witnessed_at,
        why=first.why,
        next_seq=min(history.next_seq for history in histories),
    )
