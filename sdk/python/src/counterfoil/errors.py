"""Everything this package raises on purpose: one tree, each error with a code and a sentence that says what to do next.

Switch on ``error.code``, which is the same word in the Rust and TypeScript packages; show ``str(error)`` to people. The
classes say who is to blame: whoever wrote the bytes, whoever calls, this machine, or the log.
"""

from __future__ import annotations


class CounterfoilError(Exception):
    """The root of the tree.

    ``code`` is a kebab-case word that never changes its meaning; ``str(error)`` is a sentence.
    """

    code: str = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class FormatError(CounterfoilError):
    """Bytes or a text are not what they should be: no JSON, no key, no note, no proof, no policy. Their author is to blame."""

    code = "malformed"


class JsonError(FormatError):
    """Not I-JSON. ``path`` is the JSON pointer of what is at fault, where that is a member."""

    def __init__(self, message: str, *, code: str, path: str = "") -> None:
        super().__init__(message, code=code)
        self.path = path


class KeyFormatError(FormatError):
    """No key, or one that must not be used."""


class NoteError(FormatError):
    """No signed note, or none by the key asked for."""


class CheckpointError(FormatError):
    """No checkpoint, or none of the log asked for."""


class PolicyError(FormatError):
    """No policy. ``line`` counts from 1; 0 where there is no text to speak of."""

    def __init__(self, message: str, *, code: str, line: int = 0) -> None:
        super().__init__(f"policy line {line}: {message}" if line else message, code=code)
        self.line = line


class ProofError(FormatError):
    """No proof, or one that does not prove what it should."""


class MalformedReceipt(FormatError):
    """Bytes are no receipt (protocol, sections 2 and 3)."""

    code = "malformed"


#: What to do about a refusal.
_AFTER_REFUSAL = {
    "malformed": "take the receipt as it was signed, byte for byte",
    "unknown-issuer": "ask the operator to add its vkey",
    "bad-signature": "check that the issuer's registered vkey is this key's, and take the receipt as it was signed",
    "duplicate": "nothing is left to do",
    "fork": "keep both as evidence, stop that gate, and go on under a new issuer name, with a new key and a new outbox",
    "gap": "send the receipts between first",
    "time-reversed": "a gate never dates a receipt before the last one: sign it by this package's outbox",
    "future-dated": "set the gate's clock, and send it again",
    "closed": "go on under a new issuer name, with a new key and a new outbox",
    "bad-open": "check that the issuer's first vkey is registered",
    "bad-rotation": "hand the stream over to a new key of the same name (`rotate`)",
}


class Refusal(CounterfoilError):
    """The issuer rules do not admit a receipt (protocol, section 4). Nothing has changed."""

    def __init__(
        self, code: str, detail: str, *, expected_seq: int | None = None, expected_prev: bytes | None = None
    ) -> None:
        advice = _AFTER_REFUSAL.get(code)
        super().__init__(f"{code}: {detail}" + (f"; {advice}" if advice else ""), code=code)
        self.detail = detail
        self.expected_seq = expected_seq
        self.expected_prev = expected_prev


class CallerError(CounterfoilError):
    """The gate's own code asked for what must not be. Nothing was signed."""


class DecisionClaims(CallerError):
    """The members of a decision contradict each other or the protocol."""

    code = "decision-claims"


class ScopeOnly(CallerError):
    """Decisions and outcomes are written by a scope, and by nothing else."""

    code = "scope-only"


class ReservedType(CallerError):
    """Receipts of this type are written by the gate itself."""

    code = "reserved-type"


class NoSuchDecision(CallerError):
    """No decision that waits for a word of its caller has this request id."""

    code = "no-such-decision"


class CredentialShaped(CallerError):
    """A value looks like a secret. ``member`` is its JSON pointer; the value is never repeated."""

    code = "credential-shaped"

    def __init__(self, member: str, kind: str) -> None:
        super().__init__(
            f"{member or '(the whole object)'} looks like {kind}; remove it, commit to it or carry its digest"
        )
        self.member = member
        self.kind = kind


class OutboxError(CounterfoilError):
    """The outbox does not do what was asked of it."""


class OutboxBusy(OutboxError):
    """Somebody else writes to it: another process, or this one before it forked."""

    code = "outbox-busy"


class OutboxWriter(OutboxError):
    """It belongs to a kind of writer that locks in another way."""

    code = "outbox-writer"


class OutboxFull(OutboxError):
    """No room is left for a decision and its outcome."""

    code = "outbox-full"


class OutboxDisk(OutboxError):
    """The disk refuses."""

    code = "outbox-disk"


class OutboxDamaged(OutboxError):
    """What is on the disk is not what was written there."""

    code = "outbox-damaged"


class OutboxOtherKey(OutboxError):
    """Its receipts are signed by another key."""

    code = "outbox-other-key"


class OutboxOtherLog(OutboxError):
    """Its receipts go to another log."""

    code = "outbox-other-log"


class OutboxStopped(OutboxError):
    """It was closed, or an earlier write failed."""

    code = "outbox-stopped"


class SendError(CounterfoilError):
    """The log does not take the receipts. They are safe in the outbox."""

    def __init__(self, message: str, *, code: str, ends: bool = False) -> None:
        super().__init__(message, code=code)
        #: Whether trying again is no use, so that the sender has stopped.
        self.ends = ends


class HistoryError(CounterfoilError):
    """No history with proof can be had."""

    code = "history-unavailable"
