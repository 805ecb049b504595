"""The one rule that admits receipts (protocol, section 4), as every log and every auditor applies it.

Cheap to ask: a state, an entry, and perhaps what is held at an earlier seq and what time it is; the answer is the next state
or one refusal.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .encoding import MAX_U64, decode_hex_hash
from .errors import CounterfoilError, FormatError, KeyFormatError, MalformedReceipt, Refusal
from .keys import ED25519, VerifierKey
from .notes import NoteSignature
from .receipts import NO_RECEIPT, Receipt

#: How far ahead of the judge's clock a receipt may be dated, in milliseconds.
MAX_AHEAD_MS = 5 * 60 * 1000

#: Names the receipt held at a seq below the next one, if it can.
Held = Callable[[int], "bytes | None"]


@dataclass(frozen=True)
class IssuerState:
    """What is known of one issuer: its keys, and where its stream ends."""

    #: Each key with the seq from which it signs, oldest first; never empty.
    keys: tuple[tuple[int, VerifierKey], ...]
    next_seq: int = 0
    #: Id of its last receipt; 32 zero bytes before the first.
    head: bytes = NO_RECEIPT
    #: Milliseconds, by its own clock.
    last_issued_at: int = 0
    closed: bool = False

    @classmethod
    def registered(cls, key: VerifierKey) -> IssuerState:
        """An issuer that has no receipts yet."""
        return cls(((0, key),))

    @property
    def name(self) -> str:
        """The issuer's name."""
        return self.keys[0][1].name

    @property
    def registered_key(self) -> VerifierKey:
        """Its first key."""
        return self.keys[0][1]

    @property
    def current_key(self) -> VerifierKey:
        """Its newest key."""
        return self.keys[-1][1]

    @property
    def is_closed(self) -> bool:
        """Whether its last receipt is a ``close``, or no number is left for another one."""
        return self.closed or self.next_seq == MAX_U64

    def key_at(self, seq: int) -> VerifierKey:
        """The key that signs the receipt at ``seq``."""
        return next(key for since, key in reversed(self.keys) if since <= seq)

    def to_json(self) -> str:
        """The line in which stores keep a state."""
        record = {
            "keys": [[since, str(key)] for since, key in self.keys],
            "next_seq": self.next_seq,
            "head": self.head.hex(),
            "last_issued_at": self.last_issued_at,
            "closed": self.closed,
        }
        return json.dumps(record, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> IssuerState | None:
        """Reads what :meth:`to_json` wrote; ``None`` for what admission cannot have made."""
        try:
            record = json.loads(text)
            state = cls(
                tuple((_number(since), VerifierKey.parse(vkey)) for since, vkey in record.pop("keys")),
                _number(record.pop("next_seq")),
                decode_hex_hash(record.pop("head")) or b"",
                _number(record.pop("last_issued_at")),
                record.pop("closed"),
            )
        except (ValueError, TypeError, KeyError, AttributeError, CounterfoilError):
            return None
        sinces = [since for since, _ in state.keys]
        in_order = sinces[:1] == [0] and all(a < b <= state.next_seq for a, b in itertools.pairwise(sinces))
        one_name = len({key.name for _, key in state.keys}) == 1
        distinct = len({key.public_key for _, key in state.keys}) == len(state.keys)
        fits = (state.next_seq == 0) == (state.head == NO_RECEIPT) and len(state.head) == 32
        new = state.next_seq > 0 or (state.closed is False and state.last_issued_at == 0)
        is_bool = isinstance(state.closed, bool)
        return state if in_order and one_name and distinct and fits and new and is_bool and not record else None

    def _may_hand_over_to(self, key: VerifierKey) -> bool:
        unused = all(key.public_key != used.public_key for _, used in self.keys)
        return key.name == self.name and key.kind == ED25519 and unused


def admit(
    state: IssuerState | None, entry: bytes | Receipt, held: Held | None = None, now: int | None = None
) -> tuple[IssuerState, Receipt]:
    """Judges one entry: the state after it, and the receipt.

    ``state`` is the issuer's, if it is known; ``held`` is asked only for seqs below the next one; ``now`` is the judge's
    clock in milliseconds, where it has one.

    Raises :class:`Refusal` with exactly one code.
    """
    try:
        receipt = entry if isinstance(entry, Receipt) else Receipt.parse(entry)
    except MalformedReceipt as error:
        raise Refusal("malformed", str(error)) from error
    if state is None or receipt.issuer != state.name:
        raise Refusal("unknown-issuer", f"{receipt.issuer} is not registered here")
    if not _has_fitting_lines(receipt):
        raise Refusal(
            "bad-signature",
            f"a receipt carries one signature line, a rotate two, all under the name {receipt.issuer}",
        )
    seq, next_seq = receipt.seq, state.next_seq
    in_force = state.key_at(seq)
    if not _is_signed(receipt, receipt.signatures[0], in_force):
        raise Refusal("bad-signature", f"the signature does not verify under the key in force at seq {seq}, {in_force}")
    is_rotation = receipt.type == "rotate"
    successor = _successor(receipt) if is_rotation else None
    held_id = held(seq) if held is not None and seq < next_seq else None
    if held_id == receipt.id:
        raise Refusal("duplicate", f"the receipt at seq {seq} is held already")
    expected = {"expected_seq": next_seq, "expected_prev": state.head}
    # Anybody can take the second signature off a rotate: what is left is no fork, and nobody's but theirs.
    if seq < next_seq and not (is_rotation and successor is None):
        raise _refusal("fork", f"the issuer signed two histories: another receipt is held at seq {seq}", expected)
    if seq == next_seq and receipt.prev != state.head:
        raise _refusal(
            "fork",
            f"the issuer signed two histories: prev is not the receipt held at seq {max(next_seq - 1, 0)}",
            expected,
        )
    if seq > next_seq:
        raise _refusal("gap", f"seq {seq} leaves a gap: seq {next_seq} must come first", expected)
    if receipt.issued_at < state.last_issued_at:
        raise Refusal(
            "time-reversed", f"issued_at {receipt.issued_at} is before the previous receipt's {state.last_issued_at}"
        )
    if now is not None and receipt.issued_at > now + MAX_AHEAD_MS:
        raise Refusal(
            "future-dated",
            f"issued_at {receipt.issued_at} is more than {MAX_AHEAD_MS // 1000} s ahead",
        )
    if state.is_closed:
        raise _refusal("closed", f"the issuer closed its stream at seq {max(next_seq - 1, 0)}", expected)
    if _is_bad_open(receipt, state):
        raise _refusal(
            "bad-open", f"seq 0 and no other is an open, with the registered vkey {state.registered_key}", expected
        )
    if is_rotation and (successor is None or not state._may_hand_over_to(successor)):
        raise Refusal(
            "bad-rotation",
            "a rotate names a sound vkey of the issuer's that it never used before, and is signed by the old and the new key",
        )
    keys = state.keys if successor is None else (*state.keys, (next_seq + 1, successor))
    after = replace(
        state,
        keys=keys,
        next_seq=next_seq + 1,
        head=receipt.id,
        last_issued_at=receipt.issued_at,
        closed=receipt.type == "close",
    )
    return after, receipt


def first_key(entry: bytes) -> VerifierKey | None:
    """The key that an ``open`` names; ``None`` for anything else."""
    try:
        receipt = Receipt.parse(entry)
        vkey = receipt.body.get("vkey")
        return VerifierKey.parse(vkey) if receipt.type == "open" and isinstance(vkey, str) else None
    except (FormatError, KeyFormatError):
        return None


def _refusal(code: str, detail: str, expected: dict[str, Any]) -> Refusal:
    return Refusal(code, detail, **expected)


def _has_fitting_lines(receipt: Receipt) -> bool:
    allowed = 2 if receipt.type == "rotate" else 1
    return len(receipt.signatures) <= allowed and all(line.name == receipt.issuer for line in receipt.signatures)


def _is_signed(receipt: Receipt, line: NoteSignature, key: VerifierKey) -> bool:
    return key.kind == ED25519 and line.claims(key) and key.verify(receipt.text.encode("utf-8"), line.blob)


def _successor(receipt: Receipt) -> VerifierKey | None:
    vkey = receipt.body.get("vkey")
    if not isinstance(vkey, str) or len(receipt.signatures) < 2:
        return None
    try:
        key = VerifierKey.parse(vkey)
    except KeyFormatError:
        return None
    return key if _is_signed(receipt, receipt.signatures[1], key) else None


def _is_bad_open(receipt: Receipt, state: IssuerState) -> bool:
    if receipt.type == "open":
        return receipt.seq != 0 or receipt.body.get("vkey") != str(state.registered_key)
    return receipt.seq == 0


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_U64:
        raise ValueError("no number")
    return value
