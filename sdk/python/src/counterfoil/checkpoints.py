"""Checkpoints, a log's signed tree heads (C2SP tlog-checkpoint), and witnesses' cosignatures of them (tlog-cosignature)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .encoding import decode_hash, encode_base64, parse_decimal
from .errors import CheckpointError, NoteError
from .keys import COSIGNATURE_V1, SIGNATURE_LENGTHS, SigningKey, VerifierKey
from .notes import NoteSignature, SignedNote, sign_note

#: Latest time of a cosignature, in seconds since the epoch.
MAX_TIMESTAMP_S = (1 << 63) - 1


@dataclass(frozen=True)
class Checkpoint:
    """What a tree head says, with its note. Trust only one whose :meth:`verify` was called with a key you trust."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...]
    note: SignedNote

    @classmethod
    def parse(cls, data: bytes) -> Checkpoint:
        """Reads a signed checkpoint. Raises :class:`CheckpointError` or :class:`NoteError`."""
        note = SignedNote.parse(data)
        lines = note.text.removesuffix("\n").split("\n")
        _refuse_line(lines[0])
        size = parse_decimal(_line(lines, 1))
        if size is None:
            raise CheckpointError(
                "the tree size is not a decimal number without leading zeroes; ask the log again",
                code="checkpoint-size",
            )
        root = decode_hash(_line(lines, 2))
        if root is None:
            raise CheckpointError(
                "the root hash is not canonical base64 of 32 bytes; ask the log again", code="checkpoint-root"
            )
        for line in lines[3:]:
            _refuse_line(line)
        return cls(lines[0], size, root, tuple(lines[3:]), note)

    def verify(self, log: VerifierKey) -> None:
        """Checks that this is a head of the log whose key is ``log``.

        Raises :class:`CheckpointError`: ``wrong-origin``, ``signature-missing``, ``signature-bad``, ``wrong-key-kind``.
        """
        if self.origin != log.name:
            raise CheckpointError(
                f"the checkpoint's origin is {self.origin!r}, the log's key is named {log.name!r}; ask the right log or fix the key",
                code="wrong-origin",
            )
        try:
            self.note.verify(log)
        except NoteError as error:
            raise CheckpointError(str(error), code=error.code) from None

    @property
    def text(self) -> str:
        """The signed text."""
        return self.note.text


@dataclass(frozen=True)
class Cosignature:
    """A witness's cosignature that was verified over some checkpoint."""

    #: Place of the witness in the list of keys that was given.
    witness: int
    name: str
    #: Seconds since the epoch by the witness's clock, never 0.
    timestamp_s: int


def verified_cosignatures(note: SignedNote, witnesses: Sequence[VerifierKey]) -> list[Cosignature]:
    """The good cosignatures in ``note`` by any of ``witnesses``. Lines of other keys, and bad ones, count for nothing."""
    found: list[Cosignature] = []
    for line in note.signatures:
        for place, witness in enumerate(witnesses):
            if line.claims(witness):
                timestamp_s = cosigned_at(note.text, line, witness)
                if timestamp_s is not None:
                    found.append(Cosignature(place, witness.name, timestamp_s))
    return found


def cosigned_at(text: str, line: NoteSignature, witness: VerifierKey) -> int | None:
    """When ``witness`` cosigned the checkpoint ``text``, in seconds since the epoch; ``None`` where the line is bad."""
    time, signature = line.blob[:8], line.blob[8:]
    if not witness.cosigns() or len(signature) != SIGNATURE_LENGTHS[witness.kind]:
        return None
    timestamp_s = int.from_bytes(time, "big")
    if not 1 <= timestamp_s <= MAX_TIMESTAMP_S:
        return None
    message = _cosigned_message(text, witness, timestamp_s)
    return timestamp_s if message is not None and witness.verify(message, signature) else None


def sign_checkpoint(size: int, root: bytes, log: SigningKey) -> bytes:
    """A head of the log that ``log`` is the key of. For tests and tools: logs sign their own."""
    return sign_note(f"{log.name}\n{size}\n{encode_base64(root)}\n", [log])


def _cosigned_message(text: str, witness: VerifierKey, timestamp_s: int) -> bytes | None:
    if witness.kind == COSIGNATURE_V1:
        return f"cosignature/v1\ntime {timestamp_s}\n{text}".encode()
    lines = text.split("\n")
    size = parse_decimal(lines[1]) if len(lines) > 3 else None
    root = decode_hash(lines[2]) if size is not None else None
    name, origin = witness.name.encode("utf-8"), lines[0].encode("utf-8")
    if size is None or root is None or not 1 <= len(origin) <= 255:
        return None
    return b"".join(
        [
            b"subtree/v1\n\x00",
            bytes([len(name)]) + name,
            timestamp_s.to_bytes(8, "big"),
            bytes([len(origin)]) + origin,
            bytes(8) + size.to_bytes(8, "big") + root,
        ]
    )


def _line(lines: list[str], place: int) -> str:
    if place >= len(lines):
        raise CheckpointError(
            "a checkpoint has at least three lines: origin, tree size, root hash; ask the log again",
            code="checkpoint-too-short",
        )
    return lines[place]


def _refuse_line(line: str) -> None:
    if not line:
        raise CheckpointError("a checkpoint has no empty lines; ask the log again", code="checkpoint-empty-line")
