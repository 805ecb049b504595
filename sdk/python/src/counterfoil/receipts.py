"""Receipts: six lines of text, signed as a note (protocol, section 2).

::

    counterfoil/receipt/v1
    gate.example/support-1          issuer
    41                              seq
    mH0cN2H7gk5m…                   prev, the id of the receipt before, in base64
    1790000000000                   issued_at, milliseconds since the Unix epoch
    {"type":"decision", …}          body

A :class:`Receipt` is well formed and nothing more: whether its signature is good and whether it stands where it may is for
:mod:`counterfoil.admit` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import ijson, jcs
from .encoding import MAX_U64, decode_hash, encode_base64, parse_decimal
from .errors import CallerError, FormatError, KeyFormatError, MalformedReceipt
from .keys import SigningKey, check_name
from .merkle import MAX_ENTRY_LEN, leaf_hash
from .notes import NoteSignature, SignedNote, sign_note
from .shapes import check_shape

MAGIC = "counterfoil/receipt/v1"
#: What stands as ``prev`` where nothing came before.
NO_RECEIPT = bytes(32)


@dataclass(frozen=True)
class Receipt:
    """A well-formed receipt with the exact bytes it was read from."""

    issuer: str
    seq: int
    #: Id of the receipt before, 32 bytes.
    prev: bytes
    #: Milliseconds since the Unix epoch by the gate's clock.
    issued_at: int
    #: Line 6, byte for byte.
    body_text: str
    #: Line 6, read; members in the order written.
    body: dict[str, Any]
    #: The RFC 6962 leaf hash of :attr:`entry`, 32 bytes.
    id: bytes
    note: SignedNote

    @classmethod
    def parse(cls, entry: bytes) -> Receipt:
        """Reads an entry. Raises :class:`MalformedReceipt`, whose ``code`` names the first thing at fault."""
        if len(entry) > MAX_ENTRY_LEN:
            raise MalformedReceipt(
                f"the receipt is {len(entry)} bytes long; at most {MAX_ENTRY_LEN} fit a log entry: commit to long values "
                "or carry their digests",
                code="entry-too-long",
            )
        try:
            note = SignedNote.parse(entry)
        except FormatError as error:
            raise MalformedReceipt(f"not a signed note: {error}", code=error.code) from None
        lines = note.text.split("\n")
        if len(lines) != 7:
            raise MalformedReceipt(
                "the text of a receipt has six lines, each ended by a newline; take the receipt as it was signed, byte for byte",
                code="six-lines",
            )
        if lines[0] != MAGIC:
            raise MalformedReceipt(
                f"line 1 must read {MAGIC}; take the receipt as it was signed, byte for byte", code="magic"
            )
        try:
            check_name(lines[1])
        except KeyFormatError as error:
            raise MalformedReceipt(f"line 2 must be the issuer's name: {error}", code=error.code) from None
        seq = parse_decimal(lines[2])
        if seq is None:
            raise MalformedReceipt(
                "line 3 must be the sequence number, in decimal without leading zeroes; take the receipt as it was signed, byte for byte",
                code="seq",
            )
        prev = decode_hash(lines[3])
        if prev is None:
            raise MalformedReceipt(
                "line 4 must be the previous receipt's id: 32 bytes in padded standard base64; take the receipt as it was signed, byte for byte",
                code="prev",
            )
        if seq == 0 and prev != NO_RECEIPT:
            raise MalformedReceipt(
                "line 4 of the receipt at seq 0 must be 32 zero bytes in base64; take the receipt as it was signed, byte for byte",
                code="prev-of-first",
            )
        issued_at = parse_decimal(lines[4])
        if issued_at is None:
            raise MalformedReceipt(
                "line 5 must be the time of issue in milliseconds since the Unix epoch, in decimal; take the receipt as it was signed, byte for byte",
                code="issued-at",
            )
        text = lines[5]
        if not (text.startswith("{") and text.endswith("}")):
            raise MalformedReceipt(
                "line 6 must be one JSON object with nothing before or after it; write the body as one line",
                code="body-line",
            )
        try:
            body = ijson.parse_object(text)
        except FormatError as error:
            raise MalformedReceipt(f"the body: {error}", code=error.code) from None
        check_shape(body)
        return cls(lines[1], seq, prev, issued_at, text, body, leaf_hash(entry), note)

    @property
    def entry(self) -> bytes:
        """The bytes that are logged and hashed."""
        return self.note.data

    @property
    def text(self) -> str:
        """The signed text: six lines."""
        return self.note.text

    @property
    def signatures(self) -> tuple[NoteSignature, ...]:
        """The signature lines, unverified."""
        return self.note.signatures

    @property
    def type(self) -> str:
        """The type of its body."""
        return str(self.body["type"])

    def __str__(self) -> str:
        return self.entry.decode("utf-8")

    def __repr__(self) -> str:
        return f"Receipt({self.issuer} seq {self.seq} id {self.id.hex()})"


def sign_receipt(
    body: str, *, seq: int, prev: bytes, issued_at: int, key: SigningKey, next_key: SigningKey | None = None
) -> Receipt:
    """Signs the receipt with this body. ``next_key`` belongs to a ``rotate`` and to nothing else.

    Raises :class:`MalformedReceipt` where the result would be none, :class:`CallerError` (``signers``) for wrong keys.
    """
    if not 0 <= seq <= MAX_U64 or not 0 <= issued_at <= MAX_U64:
        raise CallerError("seq and issued_at are numbers below 2^64; look at the gate's clock", code="signers")
    text = f"{MAGIC}\n{key.name}\n{seq}\n{encode_base64(prev)}\n{issued_at}\n{body}\n"
    keys: Sequence[SigningKey] = [key] if next_key is None else [key, next_key]
    if next_key is not None and (next_key.name != key.name or next_key.verifier == key.verifier):
        raise CallerError("a stream is handed over to another key of the same name; make one", code="signers")
    try:
        entry = sign_note(text, keys)
    except FormatError as error:
        raise MalformedReceipt(f"not a signed note: {error}", code=error.code) from None
    receipt = Receipt.parse(entry)
    is_rotation = receipt.type == "rotate"
    if is_rotation != (next_key is not None):
        raise CallerError(
            "a rotate is signed by the old and the new key, every other receipt by one; call `rotate` for it",
            code="signers",
        )
    if next_key is not None and receipt.body.get("vkey") != str(next_key.verifier):
        raise CallerError('the "vkey" of a rotate must be that of the new key; correct it', code="signers")
    return receipt


def action_digest(
    *, operation: str | None, resource: str | None, args: Any, capability_id: str | None, nonce: str
) -> str:
    """One name for one concrete action (protocol, section 3.1): approval, decision and outcome carry the same one."""
    return jcs.digest(
        {
            "operation": operation,
            "resource": resource,
            "args": args,
            "capability_id": capability_id,
            "nonce": nonce,
        }
    )
