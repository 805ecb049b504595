"""Proofs that an entry is in a log, checkable offline (C2SP tlog-proof), and what a policy makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import merkle
from .checkpoints import Checkpoint, Cosignature, verified_cosignatures
from .encoding import decode_base64, decode_hash, encode_base64, parse_decimal
from .errors import CheckpointError, NoteError, ProofError
from .keys import VerifierKey
from .notes import MAX_NOTE_LEN
from .policy import Policy

#: Largest proof in bytes.
MAX_PROOF_LEN = 2 * MAX_NOTE_LEN

_MAGIC = "c2sp.org/tlog-proof@v1"


@dataclass(frozen=True)
class VerifiedProof:
    """What a proof proves under a policy."""

    index: int
    checkpoint: Checkpoint
    #: Places in the policy of the witnesses that cosigned this head, ascending.
    witnesses: tuple[int, ...]
    cosignatures: tuple[Cosignature, ...]


@dataclass(frozen=True)
class TlogProof:
    """A proof as read. Nothing is verified; ``extra`` never is."""

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: Checkpoint
    extra: bytes | None = None

    @classmethod
    def parse(cls, data: bytes | str, known: Checkpoint | None = None) -> TlogProof:
        """Reads a proof. Where its checkpoint is ``known`` byte for byte, that one is taken. Raises :class:`ProofError`."""
        data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        if len(data) > MAX_PROOF_LEN:
            raise ProofError(f"the proof is longer than {MAX_PROOF_LEN} bytes; ask for another", code="proof-too-long")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise ProofError("the proof is not UTF-8; take it as it was sent", code="not-utf8") from None
        head, blank, checkpoint = text.partition("\n\n")
        if not blank:
            raise ProofError("the proof ends before its checkpoint; take all of it", code="proof-truncated")
        lines = head.split("\n")
        if lines.pop(0) != _MAGIC:
            raise ProofError(
                f"not a tlog-proof: its first line must be {_MAGIC!r}; give the text that the log answered",
                code="proof-magic",
            )
        extra = None
        if lines and lines[0].startswith("extra "):
            extra = decode_base64(lines.pop(0)[len("extra ") :])
            if not extra:
                raise ProofError(
                    'the proof\'s extra line is not "extra <base64>"; leave the line out if there is no extra data',
                    code="proof-extra",
                )
        index = parse_decimal(lines[0][len("index ") :]) if lines and lines[0].startswith("index ") else None
        if index is None:
            raise ProofError('the proof\'s index line is not "index <number>"; ask for another', code="proof-index")
        hashes: list[bytes] = []
        for place, line in enumerate(lines[1:], 1):
            if place > merkle.MAX_PROOF_HASHES:
                raise ProofError(
                    "the proof has more hashes than any tree is high; ask for another", code="proof-too-many-hashes"
                )
            decoded = decode_hash(line)
            if decoded is None:
                raise ProofError(
                    f"hash {place} of the proof is not canonical base64 of 32 bytes; ask for another", code="proof-hash"
                )
            hashes.append(decoded)
        signed = checkpoint.encode("utf-8")
        if known is not None and known.note.data == signed:
            return cls(index, tuple(hashes), known, extra)
        try:
            parsed = Checkpoint.parse(signed)
        except (CheckpointError, NoteError) as error:
            raise ProofError(f"the proof's checkpoint: {error}", code=error.code) from None
        return cls(index, tuple(hashes), parsed, extra)

    def check(self, entry: bytes, log: VerifierKey, known: Checkpoint | None = None) -> None:
        """Checks that ``log`` signed the head and ``entry`` is under it. Asks for no witness. ``known`` is a head that the
        same log was found to have signed: it is not computed again.

        Raises :class:`ProofError`: the head's code, or ``not-included``.
        """
        try:
            if known is None or self.checkpoint is not known:
                self.checkpoint.verify(log)
        except CheckpointError as error:
            raise ProofError(f"the proof's checkpoint is not this log's: {error}", code=error.code) from None
        self._check_inclusion(entry)

    def verify(self, entry: bytes, policy: Policy | str | bytes) -> VerifiedProof:
        """Checks everything: a listed log signed the head, ``entry`` is under it, and its witnesses satisfy the quorum.

        Raises :class:`ProofError`: ``no-listed-log``, ``wrong-origin``, ``bad-log-signature``, ``not-included`` or
        ``quorum-not-met``; :class:`~counterfoil.errors.PolicyError` for a text that is no policy.
        """
        policy = policy if isinstance(policy, Policy) else Policy.parse(policy)
        self._check_listed(policy)
        self._check_inclusion(entry)
        cosignatures = verified_cosignatures(self.checkpoint.note, [witness.vkey for witness in policy.witnesses])
        witnesses = sorted({cosignature.witness for cosignature in cosignatures})
        if not policy.satisfied_by(witnesses):
            raise ProofError(
                f"the entry is in the log, but the witnesses that cosigned ({len(witnesses)}) do not satisfy the policy's "
                "quorum; fetch the proof again once more have",
                code="quorum-not-met",
            )
        return VerifiedProof(self.index, self.checkpoint, tuple(witnesses), tuple(cosignatures))

    def __str__(self) -> str:
        return proof_text(self.index, self.hashes, self.checkpoint, self.extra)

    def _check_inclusion(self, entry: bytes) -> None:
        head = self.checkpoint
        try:
            merkle.check_inclusion(merkle.leaf_hash(entry), self.index, head.size, head.root, self.hashes)
        except ProofError as error:
            raise ProofError(
                f"the entry is not at index {self.index} of the checkpoint's tree: {error}", code="not-included"
            ) from None

    def _check_listed(self, policy: Policy) -> None:
        # A bad line under any listed log's key refuses the whole, as signed-note advises.
        signed = False
        for log in policy.logs:
            try:
                self.checkpoint.verify(log.vkey)
                signed = True
            except CheckpointError as error:
                if error.code == "signature-bad":
                    raise ProofError(
                        f"the signature line of log {log.vkey.name} does not verify; the checkpoint was altered or forged",
                        code="bad-log-signature",
                    ) from None
        if signed:
            return
        origin = self.checkpoint.origin
        for log in policy.logs:
            if any(self.checkpoint.note.signatures_by(log.vkey)):
                raise ProofError(
                    f"the checkpoint carries a line of log {log.vkey.name}, but its origin is {origin!r}; it is not that log's head",
                    code="wrong-origin",
                )
        raise ProofError(
            f"no log of the policy signed this checkpoint of {origin!r}; add the log's vkey to the policy if you trust it",
            code="no-listed-log",
        )


def proof_text(index: int, hashes: Sequence[bytes], checkpoint: Checkpoint, extra: bytes | None = None) -> str:
    """The text of a proof."""
    lines = [_MAGIC]
    if extra:
        lines.append(f"extra {encode_base64(extra)}")
    lines.append(f"index {index}")
    lines += [encode_base64(node) for node in hashes]
    return "\n".join(lines) + "\n\n" + checkpoint.note.data.decode("utf-8")
