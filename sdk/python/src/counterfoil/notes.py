"""Signed notes (C2SP signed-note): a text, a blank line, signature lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .encoding import decode_base64, encode_base64
from .errors import KeyFormatError, NoteError
from .keys import ED25519, SigningKey, VerifierKey, check_name

#: Largest note in bytes.
MAX_NOTE_LEN = 1 << 20
#: Most signature lines.
MAX_SIGNATURES = 64

_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f]")
_LINE_START = "— "


@dataclass(frozen=True)
class NoteSignature:
    """One signature line, unverified."""

    name: str
    key_id: bytes
    #: What follows the key id: 64 bytes of Ed25519, or a cosignature's time and signature.
    blob: bytes

    @classmethod
    def parse(cls, line: str) -> NoteSignature | None:
        """Reads one line, without its newline; ``None`` if it is none."""
        if not line.startswith(_LINE_START):
            return None
        name, space, encoded = line[len(_LINE_START) :].partition(" ")
        data = decode_base64(encoded) if space else None
        if data is None or len(data) <= 4:
            return None
        try:
            check_name(name)
        except KeyFormatError:
            return None
        return cls(name, data[:4], data[4:])

    def line(self) -> str:
        """The line, without its newline."""
        return f"{_LINE_START}{self.name} {encode_base64(self.key_id + self.blob)}"

    def claims(self, key: VerifierKey) -> bool:
        """Whether the line claims to be by ``key``: same name and same id."""
        return self.key_id == key.id and self.name == key.name


@dataclass(frozen=True)
class SignedNote:
    """A well-formed note. Nothing in it is verified."""

    #: The signed text, its final newline included.
    text: str
    signatures: tuple[NoteSignature, ...]
    #: The whole note, byte for byte.
    data: bytes

    @classmethod
    def parse(cls, data: bytes) -> SignedNote:
        """Splits a note. Raises :class:`NoteError`."""
        if len(data) > MAX_NOTE_LEN:
            raise NoteError(
                f"the note is longer than {MAX_NOTE_LEN} bytes; it is no receipt and no head", code="note-too-long"
            )
        try:
            whole = data.decode("utf-8")
        except UnicodeDecodeError:
            raise NoteError("the note is not UTF-8; take it as it was sent, byte for byte", code="not-utf8") from None
        _refuse_controls(data)
        end = whole.rfind("\n\n")
        if end < 0 or not whole.endswith("\n") or end + 2 >= len(whole):
            raise NoteError(
                "the note has no signatures: it needs text, a blank line and at least one signature line, each ending in a "
                "newline; take it as it was sent",
                code="unsigned",
            )
        signatures: list[NoteSignature] = []
        for place, line in enumerate(whole[end + 2 : -1].split("\n")):
            if place == MAX_SIGNATURES:
                raise NoteError(
                    f"the note has more than {MAX_SIGNATURES} signature lines; leave some out",
                    code="too-many-signatures",
                )
            signature = NoteSignature.parse(line)
            if signature is None:
                raise NoteError(
                    f'signature line {place + 1} is malformed: it must read "— <key name> <base64>" in canonical base64; take it as it was sent',
                    code="bad-signature-line",
                )
            signatures.append(signature)
        return cls(whole[: end + 1], tuple(signatures), data)

    def signatures_by(self, key: VerifierKey) -> Iterator[NoteSignature]:
        """The lines that claim to be by ``key``."""
        return (signature for signature in self.signatures if signature.claims(key))

    def verify(self, key: VerifierKey) -> None:
        """Checks that ``key`` (type 0x01) signed the text: at least one line under its name and id, and all of them good.

        Raises :class:`NoteError`: ``signature-missing``, ``signature-bad`` or ``wrong-key-kind``.
        """
        if key.kind != ED25519:
            raise _wrong_key_kind()
        text = self.text.encode("utf-8")
        claimed = {signature.blob for signature in self.signatures_by(key)}
        if not claimed:
            raise NoteError("the note is not signed by this key; ask for the one that is", code="signature-missing")
        if not all(key.verify(text, blob) for blob in claimed):
            raise NoteError(
                "a signature line under this key's name and id does not verify; the note was altered or the line forged",
                code="signature-bad",
            )


def sign_note(text: str, keys: Sequence[SigningKey]) -> bytes:
    """Signs ``text``, which must end in a newline, by each key (type 0x01) in order. Raises :class:`NoteError`."""
    message = text.encode("utf-8")
    _refuse_controls(message)
    if not text.endswith("\n"):
        raise NoteError("a text to be signed must end in a newline; add it", code="text-unfinished")
    note = text + "\n"
    for key in keys:
        if key.verifier.kind != ED25519:
            raise _wrong_key_kind()
        note += NoteSignature(key.name, key.verifier.id, key.sign(message)).line() + "\n"
    return note.encode("utf-8")


def _refuse_controls(data: bytes) -> None:
    found = _CONTROL.search(data)
    if found:
        raise NoteError(
            f"the note holds a control character at byte {found.start()}; only newlines are allowed",
            code="control-character",
        )


def _wrong_key_kind() -> NoteError:
    return NoteError("this key signs cosignatures, not note texts; use a key of type 0x01", code="wrong-key-kind")
