"""Whether, and since when, enough witnesses vouch for a head. Pure."""

from __future__ import annotations

from .admit import MAX_AHEAD_MS
from .checkpoints import Checkpoint, verified_cosignatures
from .policy import Policy

NO_POLICY = "the gate was given no policy that asks for witnesses"


def asks_for_witnesses(policy: Policy | None) -> bool:
    """Whether anybody can vouch for a head."""
    return policy is not None and policy.quorum is not None


def witnessed_at(head: Checkpoint, policy: Policy | None, now_ms: int) -> tuple[int | None, str | None]:
    """The latest time, in seconds, by which a whole quorum had vouched for ``head``; or ``None``, and why.

    One witness alone with a fresh date keeps no old head fresh, and a date further ahead than a clock may be off is none.
    """
    if policy is None or policy.quorum is None:
        return None, NO_POLICY
    cosignatures = verified_cosignatures(head.note, [witness.vkey for witness in policy.witnesses])
    if not policy.satisfied_by({one.witness for one in cosignatures}):
        return None, "the head that the log offers lacks the quorum's cosignatures"
    latest = (now_ms + MAX_AHEAD_MS) / 1000
    together: set[int] = set()
    for one in sorted(cosignatures, key=lambda one: one.timestamp_s, reverse=True):
        if one.timestamp_s <= latest:
            together.add(one.witness)
            if policy.satisfied_by(together):
                return one.timestamp_s, None
    return None, "the quorum's cosignatures on the log's head are of times to come"
