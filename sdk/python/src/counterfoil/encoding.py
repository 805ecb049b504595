"""How numbers, hashes and bytes are spelt outside JSON (protocol, section 1): one spelling each, and nothing else is read."""

from __future__ import annotations

import base64
import binascii

MAX_U64 = (1 << 64) - 1

_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdef")


def parse_decimal(text: str) -> int | None:
    """The number that ``text`` spells: ASCII digits, no sign, no leading zero, below 2^64; else ``None``."""
    if not text or len(text) > 20 or not _DIGITS.issuperset(text) or (text[0] == "0" and text != "0"):
        return None
    number = int(text)
    return number if number <= MAX_U64 else None


def encode_base64(data: bytes) -> str:
    """RFC 4648 section 4, padded."""
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str) -> bytes | None:
    """The bytes that ``text`` spells in padded standard base64 with unused bits zero; else ``None``."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if encode_base64(data) == text else None


def decode_hash(text: str) -> bytes | None:
    """32 bytes from their base64; else ``None``."""
    data = decode_base64(text) if len(text) == 44 else None
    return data if data is not None and len(data) == 32 else None


def decode_hex_hash(text: str) -> bytes | None:
    """32 bytes from 64 lowercase hex digits; else ``None``."""
    return bytes.fromhex(text) if len(text) == 64 and _HEX.issuperset(text) else None


def is_lower_hex(text: str) -> bool:
    """Whether every character is a lowercase hex digit."""
    return _HEX.issuperset(text)
