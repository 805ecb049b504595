"""JSON as it is written: RFC 8785 (JCS) for digests, and the compact form of receipts' bodies.

Receipts are signed and hashed as bytes and never canonicalised. JCS serves only where two values must be compared without
carrying them: ``args_digest``, action digests, results, commitments.
"""

from __future__ import annotations

import hashlib
import re
from json.encoder import encode_basestring
from typing import Any

from . import ijson
from .encoding import is_lower_hex

_EXPONENT = re.compile(r"^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$")


def canonical(value: Any) -> str:
    """The RFC 8785 text of ``value``: members sorted by UTF-16 code units, numbers as ECMAScript writes them.

    Raises :class:`~counterfoil.errors.JsonError` for what is no I-JSON value.
    """
    ijson.check_value(value)
    return _write(value, ordered=True)


def compact(value: Any) -> str:
    """The text of ``value`` in a body: no spaces, members in the caller's order, only the escapes that JSON needs.

    Raises :class:`~counterfoil.errors.JsonError` for what is no I-JSON value.
    """
    ijson.check_value(value)
    return _write(value, ordered=False)


def digest(value: Any) -> str:
    """``sha256:`` and 64 hex digits, over the RFC 8785 text of ``value``."""
    return digest_of_bytes(canonical(value).encode("utf-8"))


def digest_of_bytes(data: bytes) -> str:
    """``sha256:`` and 64 hex digits, over ``data`` as it is."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def is_digest(value: object) -> bool:
    """Whether ``value`` is spelt as a digest in a body."""
    return isinstance(value, str) and len(value) == 71 and value.startswith("sha256:") and is_lower_hex(value[7:])


def _write(value: Any, *, ordered: bool) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        # `int` itself, so that an enumeration's member is written as the number that it is.
        return int.__repr__(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict):
        names = sorted(value, key=_utf16) if ordered else value
        return "{" + ",".join(f"{encode_basestring(n)}:{_write(value[n], ordered=ordered)}" for n in names) + "}"
    return "[" + ",".join(_write(element, ordered=ordered) for element in value) + "]"


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _number(number: float) -> str:
    """ECMAScript's Number::toString (ECMA-262, 6.1.6.1.20); Python finds the same shortest digits."""
    if number == int(number) and abs(number) < 1e21:
        return str(int(number))
    text = float.__repr__(number)
    found = _EXPONENT.match(text)
    if found is None:
        return text
    sign, first, rest, power = found[1], found[2], found[3] or "", int(found[4])
    if -7 < power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{first}{rest}"
    digits = f"{first}.{rest}" if rest else first
    return f"{sign}{digits}e{'+' if power > 0 else '-'}{abs(power)}"
