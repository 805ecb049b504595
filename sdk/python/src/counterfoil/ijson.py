"""Strict JSON (RFC 7493, I-JSON): the one door through which JSON enters a decision.

Two programs that read the same bytes must see the same value, so everything on which JSON parsers differ is refused: a
member named twice, numbers beyond ±(2^53−1), lone surrogates, noncharacters, nesting over 32.

The standard library's scanner reads what is in order, fast; a text in which anything is odd is read again by the slow
parser below, which knows the code and the place of the first fault. So the fast path may only ever be the stricter one.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from .errors import JsonError

#: Deepest nesting of objects and arrays, the outermost one counted.
MAX_DEPTH = 32
#: Largest magnitude of a number: above 2^53 − 1 a double no longer tells neighbours apart.
MAX_INTEGER = (1 << 53) - 1
#: Longest document in bytes: the largest one read anywhere is an evidence document.
MAX_JSON_LEN = 4 << 20

#: U+FDD0 to U+FDEF and the last two code points of every plane.
_NONCHARACTER = re.compile(
    "[\ufdd0-\ufdef" + "".join(chr(p << 16 | 0xFFFE) + chr(p << 16 | 0xFFFF) for p in range(17)) + "]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Parses one JSON object, members in the order written. White space around and between tokens is allowed.

    Raises :class:`JsonError`: not I-JSON, or no object (``not-an-object``).
    """
    value = parse_value(text)
    if not isinstance(value, dict):
        raise JsonError("expected a JSON object; put the value into one", code="not-an-object")
    return value


def parse_value(text: str | bytes) -> Any:
    """Parses one JSON value of any type.

    Raises :class:`JsonError` with code ``not-utf8``, ``json-too-long``, ``json-syntax``, ``too-deep``, ``duplicate-member``,
    ``number-out-of-range`` or ``noncharacter``.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise JsonError("the text is not UTF-8; send it as it was written", code="not-utf8") from None
    # A character takes at most four bytes; the exact count matters only near the limit.
    if len(text) * 4 > MAX_JSON_LEN:
        length = len(text.encode("utf-8", "surrogatepass"))
        if length > MAX_JSON_LEN:
            raise JsonError(f"the document is {length} bytes long; send at most {MAX_JSON_LEN}", code="json-too-long")
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_odd)
    except (ValueError, RecursionError):
        return _Slow(text).document()
    return value if _is_plain(value, 0) else _Slow(text).document()


def check_value(value: Any) -> None:
    """Checks a value that was built by a program: whether its text would parse again.

    Raises :class:`JsonError`; code ``not-json`` for what has no JSON form (other types, keys that are no strings, NaN).
    """
    # What is in order, which is nearly everything, needs no paths.
    if not _is_plain(value, 0):
        _check(value, 0, "")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands twice")
    return members


def _odd(_: str) -> NoReturn:
    raise ValueError("no JSON")


def _is_odd_text(text: str) -> bool:
    return not text.isascii() and (_NONCHARACTER.search(text) is not None or _SURROGATE.search(text) is not None)


def _is_plain(value: Any, depth: int) -> bool:
    if type(value) is str:
        return not _is_odd_text(value)
    if type(value) is int or type(value) is float:
        return -MAX_INTEGER <= value <= MAX_INTEGER
    if type(value) is dict:
        return depth < MAX_DEPTH and all(
            type(name) is str and not _is_odd_text(name) and _is_plain(member, depth + 1)
            for name, member in value.items()
        )
    if type(value) is list:
        return depth < MAX_DEPTH and all(_is_plain(element, depth + 1) for element in value)
    return value is None or type(value) is bool


def _check(value: Any, depth: int, path: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, int | float):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise _out_of_range(path)
    elif isinstance(value, dict | list | tuple):
        if depth == MAX_DEPTH:
            raise _too_deep(path)
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in items:
            if isinstance(value, dict):
                if not isinstance(name, str):
                    raise JsonError(
                        f"{_shown(path)} has a member whose name is no string; use strings", code="not-json"
                    )
                _check_text(name, path)
            _check(inner, depth + 1, f"{path}/{pointer_step(name)}")
    else:
        kind = type(value).__name__
        raise JsonError(f"{_shown(path)} is a {kind}, which JSON has not; convert it first", code="not-json")


def _check_text(text: str, path: str) -> None:
    if text.isascii():
        return
    if _SURROGATE.search(text):
        raise JsonError(
            f"{_shown(path)} holds a lone surrogate; it is no Unicode text: carry its digest", code="json-syntax"
        )
    if _NONCHARACTER.search(text):
        raise _noncharacter(path)


class _Slow:
    """Reads character by character; knows the first fault in the order written."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> Any:
        self.space()
        value = self.value(0, "")
        self.space()
        if self.at != len(self.text):
            self.syntax()
        return value

    def syntax(self) -> NoReturn:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - self.text.rfind("\n", 0, self.at)
        raise JsonError(f"not JSON at line {line}, column {column}; check it with any JSON tool", code="json-syntax")

    def space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, token: str) -> bool:
        found = self.text.startswith(token, self.at)
        if found:
            self.at += len(token)
        return found

    def value(self, depth: int, path: str) -> Any:
        first = self.peek()
        if first == '"':
            text = self.string()
            if _NONCHARACTER.search(text):
                raise _noncharacter(path)
            return text
        if first == "{":
            return self.object(depth, path)
        if first == "[":
            return self.array(depth, path)
        for word, meaning in (("true", True), ("false", False), ("null", None)):
            if self.take(word):
                return meaning
        return self.number(path)

    def number(self, path: str) -> int | float:
        found = _NUMBER.match(self.text, self.at)
        if found is None or self.text[found.end() : found.end() + 1].isdigit():
            self.syntax()
        digits = found.group()
        if float(digits) in (float("inf"), float("-inf")):
            self.syntax()
        self.at = found.end()
        whole = found.group(1) is None and found.group(2) is None
        number = int(digits) if whole and len(digits) < 20 else float(digits)
        if not -MAX_INTEGER <= number <= MAX_INTEGER:
            raise _out_of_range(path)
        return number

    def string(self) -> str:
        self.at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(self.text, self.at)
            if plain is not None:
                parts.append(plain.group())
                self.at = plain.end()
            ended = self.peek()
            if ended == '"':
                self.at += 1
                text = "".join(parts)
                if _SURROGATE.search(text):
                    self.syntax()
                return text
            if ended != "\\":
                self.syntax()
            self.at += 1
            escape = self.peek()
            self.at += 1
            if escape in _ESCAPES and escape:
                parts.append(_ESCAPES[escape])
            elif escape == "u":
                parts.append(self.escaped())
            else:
                self.syntax()

    def unit(self) -> int:
        found = _HEX4.match(self.text, self.at)
        if found is None:
            self.syntax()
        self.at = found.end()
        return int(found.group(), 16)

    def escaped(self) -> str:
        unit = self.unit()
        if not 0xD800 <= unit <= 0xDFFF:
            return chr(unit)
        if unit > 0xDBFF or not self.take("\\u"):
            self.syntax()
        low = self.unit()
        if not 0xDC00 <= low <= 0xDFFF:
            self.syntax()
        return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))

    def array(self, depth: int, path: str) -> list[Any]:
        if depth == MAX_DEPTH:
            raise _too_deep(path)
        self.at += 1
        elements: list[Any] = []
        self.space()
        if self.take("]"):
            return elements
        while True:
            self.space()
            elements.append(self.value(depth + 1, f"{path}/{len(elements)}"))
            self.space()
            if self.take("]"):
                return elements
            if not self.take(","):
                self.syntax()

    def object(self, depth: int, path: str) -> dict[str, Any]:
        if depth == MAX_DEPTH:
            raise _too_deep(path)
        self.at += 1
        members: dict[str, Any] = {}
        self.space()
        if self.take("}"):
            return members
        while True:
            self.space()
            if self.peek() != '"':
                self.syntax()
            name = self.string()
            if _NONCHARACTER.search(name):
                raise _noncharacter(path)
            place = f"{path}/{pointer_step(name)}"
            if name in members:
                raise JsonError(f"{place} stands twice in its object; keep one", code="duplicate-member", path=place)
            self.space()
            if not self.take(":"):
                self.syntax()
            self.space()
            members[name] = self.value(depth + 1, place)
            self.space()
            if self.take("}"):
                return members
            if not self.take(","):
                self.syntax()


def pointer_step(name: str | int) -> str:
    """A step of a JSON pointer (RFC 6901): one line whatever the name holds, and cut after 64 characters."""
    text = str(name)
    shown = text if len(text) <= 64 else text[:64] + "…"
    shown = shown.replace("~", "~0").replace("/", "~1")
    return shown if shown.isprintable() else "".join(map(_printable, shown))


def _printable(character: str) -> str:
    plain = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    is_control = character < " " or "\x7f" <= character <= "\x9f"
    return plain or (f"\\u{{{ord(character):x}}}" if is_control else character)


def _shown(path: str) -> str:
    return path or "(the whole object)"


def _too_deep(path: str) -> JsonError:
    return JsonError(
        f"{_shown(path)} is nested deeper than {MAX_DEPTH} levels; flatten it or carry it as a string",
        code="too-deep",
        path=path,
    )


def _out_of_range(path: str) -> JsonError:
    return JsonError(
        f"{_shown(path)} is a number beyond ±(2^53−1); write it as a string", code="number-out-of-range", path=path
    )


def _noncharacter(path: str) -> JsonError:
    return JsonError(f"{_shown(path)} holds a Unicode noncharacter; remove it", code="noncharacter", path=path)
