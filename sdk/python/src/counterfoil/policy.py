"""Policies: which logs and witnesses somebody trusts, and how many witnesses it takes (C2SP tlog-policy).

::

    # comment
    log <vkey> [<url>]
    witness <name> <vkey> [<url>]
    group <name> all|any|<k> <member>...
    quorum <name>|none

A policy is octets: names are compared byte for byte and never interpreted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .encoding import parse_decimal
from .errors import KeyFormatError, PolicyError
from .keys import ED25519, PRIVATE_PREFIX, VerifierKey

#: Largest policy in bytes.
MAX_POLICY_LEN = 1 << 21
#: Most logs, most witnesses, most groups.
MAX_OF_EACH = 256

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_FORMS = {
    b"log": "log <vkey> [<url>]",
    b"witness": "witness <name> <vkey> [<url>]",
    b"group": "group <name> all|any|<k> <member>...",
    b"quorum": "quorum <name>|none",
}


@dataclass(frozen=True)
class PolicyLog:
    """A log whose heads the policy accepts."""

    vkey: VerifierKey
    url: str | None


@dataclass(frozen=True)
class PolicyWitness:
    """A key of a witness. Keys of one key name are one witness."""

    name: bytes
    vkey: VerifierKey
    url: str | None


@dataclass(frozen=True)
class PolicyGroup:
    """Satisfied when ``threshold`` of its members are."""

    name: bytes
    threshold: int
    #: Names of witnesses, and of groups before this one.
    members: tuple[bytes, ...]


@dataclass
class Policy:
    """Whom to believe. Every reference in it resolves."""

    logs: list[PolicyLog] = field(default_factory=list)
    witnesses: list[PolicyWitness] = field(default_factory=list)
    groups: list[PolicyGroup] = field(default_factory=list)
    #: The name of the witness or group that must be satisfied; ``None`` is ``quorum none``.
    quorum: bytes | None = None

    @classmethod
    def parse(cls, octets: bytes | str) -> Policy:
        """Reads a policy file. Raises :class:`PolicyError`."""
        octets = octets.encode("utf-8") if isinstance(octets, str) else octets
        return _Reader().file(octets)

    def satisfied_by(self, witnesses: Iterable[int]) -> bool:
        """Whether the witnesses at these places, together, satisfy the quorum."""
        if self.quorum is None:
            return True
        # Members stand before the group they are in, so one pass in file order settles all.
        satisfied = {self.witnesses[place].name for place in witnesses}
        for group in self.groups:
            if sum(member in satisfied for member in group.members) >= group.threshold:
                satisfied.add(group.name)
        return self.quorum in satisfied


class _Reader:
    def __init__(self) -> None:
        self.policy = Policy()
        self.line = 0
        self.quorum_line: int | None = None
        self.defined: set[bytes] = set()
        self.taken: set[bytes] = set()
        self.log_keys: dict[bytes, int] = {}
        self.witness_keys: dict[bytes, int] = {}

    def file(self, octets: bytes) -> Policy:
        if len(octets) > MAX_POLICY_LEN:
            self.line = octets.count(b"\n", 0, MAX_POLICY_LEN) + 1
            raise self.error(f"the file is longer than {MAX_POLICY_LEN} bytes; shorten its comments", "policy-too-long")
        for line in re.findall(rb"[^\n]*\n|[^\n]+", octets):
            self.line += 1
            if not line.endswith(b"\n"):
                raise self.error(
                    "the last line does not end in a newline; check that the file is whole, then add one",
                    "policy-unterminated",
                )
            self.read(line[:-1])
        if self.quorum_line is None:
            self.line = max(self.line, 1)
            raise self.error(
                'no quorum line in the file; add "quorum <name>", or "quorum none" if no witness is required',
                "policy-no-quorum",
            )
        return self.policy

    def error(self, message: str, code: str) -> PolicyError:
        return PolicyError(message, code=code, line=self.line)

    def read(self, line: bytes) -> None:
        control = _CONTROL.search(line)
        if control:
            raise self.error(
                f"byte {control.group()[0]:#04x} is not allowed, only tabs and newlines are; save the file as plain text",
                "policy-control",
            )
        words = line.replace(b"\t", b" ").split()
        if not words or words[0].startswith(b"#"):
            return
        keyword, rest = words[0], words[1:]
        if keyword not in _FORMS:
            if keyword.startswith(PRIVATE_PREFIX.encode()):
                raise self.error(
                    "bad vkey: this is a private key; give the vkey, and keep this one to yourself", "private-key"
                )
            raise self.error(
                f"unknown keyword {_shown(keyword)}; a line starts with log, witness, group, quorum or #",
                "policy-keyword",
            )
        least, most = {b"log": (1, 2), b"witness": (2, 3), b"group": (3, None), b"quorum": (1, 1)}[keyword]
        if len(rest) < least:
            raise self.error(f'incomplete; it must read "{_FORMS[keyword]}"', "policy-too-few-words")
        if most is not None and len(rest) > most:
            raise self.error(
                f'{_shown(rest[most])} is one word too many; it must read "{_FORMS[keyword]}"', "policy-too-many-words"
            )
        {b"log": self.log, b"witness": self.witness, b"group": self.group, b"quorum": self.quorum}[keyword](rest)

    def log(self, words: list[bytes]) -> None:
        vkey = self.vkey(words[0])
        if vkey.kind != ED25519:
            raise self.error(
                f"a log needs a key of type 0x01, this one is of type {vkey.kind:#04x}; copy the vkey that the log prints",
                "policy-key-kind",
            )
        self.new_key(self.log_keys, vkey)
        self.room(self.policy.logs, "log")
        self.policy.logs.append(PolicyLog(vkey, _url(words[1:])))

    def witness(self, words: list[bytes]) -> None:
        self.new_name(words[0])
        vkey = self.vkey(words[1])
        if not vkey.cosigns():
            raise self.error(
                "a witness needs a key of type 0x04 or 0x06, this one is of type 0x01; copy the vkey that the witness prints",
                "policy-key-kind",
            )
        self.new_key(self.witness_keys, vkey)
        self.room(self.policy.witnesses, "witness")
        self.defined.add(words[0])
        self.policy.witnesses.append(PolicyWitness(words[0], vkey, _url(words[2:])))

    def group(self, words: list[bytes]) -> None:
        name, word, members = words[0], words[1], words[2:]
        self.new_name(name)
        threshold = {b"any": 1, b"all": len(members)}.get(word) or self.threshold(word, len(members))
        for member in members:
            if member == b"none":
                raise self.error(
                    "none cannot be a member of a group; only a quorum line may say none", "policy-none-as-member"
                )
            self.resolve(member)
            if member in self.taken:
                raise self.error(
                    f"{_shown(member)} is already a member of a group; each name may be a member once",
                    "policy-member-twice",
                )
            self.taken.add(member)
        self.room(self.policy.groups, "group")
        self.defined.add(name)
        self.policy.groups.append(PolicyGroup(name, threshold, tuple(members)))

    def threshold(self, word: bytes, members: int) -> int:
        number = parse_decimal(word.decode("utf-8", "replace"))
        if number is None or not 1 <= number <= members:
            raise self.error(
                f"the threshold {_shown(word)} is not all, any or a number from 1 to the {members} members listed; correct it",
                "policy-threshold",
            )
        return number

    def quorum(self, words: list[bytes]) -> None:
        if self.quorum_line is not None:
            raise self.error(
                f"the quorum is already defined on line {self.quorum_line}; keep one quorum line",
                "policy-second-quorum",
            )
        if words[0] != b"none":
            self.resolve(words[0])
            self.policy.quorum = words[0]
        self.quorum_line = self.line

    def new_name(self, name: bytes) -> None:
        if name == b"none":
            raise self.error('the name none is reserved for "quorum none"; choose another', "policy-reserved-name")
        if name in self.defined:
            raise self.error(
                f"the name {_shown(name)} is already defined; names of witnesses and groups must differ",
                "policy-duplicate-name",
            )

    def resolve(self, name: bytes) -> None:
        if name not in self.defined:
            raise self.error(f"{_shown(name)} is not defined on an earlier line; define it first", "policy-undefined")

    def vkey(self, word: bytes) -> VerifierKey:
        try:
            return VerifierKey.parse(word.decode("utf-8"))
        except UnicodeDecodeError:
            raise self.error("bad vkey: it is not UTF-8; copy the whole line that was printed", "key-shape") from None
        except KeyFormatError as error:
            raise self.error(f"bad vkey: {error}", error.code) from None

    def new_key(self, known: dict[bytes, int], vkey: VerifierKey) -> None:
        if vkey.public_key in known:
            raise self.error(
                f"this public key is already listed on line {known[vkey.public_key]}, whatever its name; remove one of the two",
                "policy-duplicate-key",
            )
        known[vkey.public_key] = self.line

    def room(self, listed: list[PolicyLog] | list[PolicyWitness] | list[PolicyGroup], kind: str) -> None:
        if len(listed) == MAX_OF_EACH:
            raise self.error(
                f"more than {MAX_OF_EACH} {kind} lines; remove those that no quorum needs", "policy-too-many"
            )


def _shown(word: bytes) -> str:
    """A word for a message, which may end in a ticket: a private key is not repeated."""
    if PRIVATE_PREFIX.encode() in word:
        return "(a private key, not repeated here)"
    return word.decode("utf-8", "replace")


def _url(words: list[bytes]) -> str | None:
    if not words:
        return None
    return "".join(
        f"%{ord(c) - 0xDC00:02X}" if 0xDC80 <= ord(c) <= 0xDCFF else c
        for c in words[0].decode("utf-8", "surrogateescape")
    )


def policy_of(given: str | bytes | os.PathLike[str]) -> Policy:
    """A policy from its text, or from its file: every policy ends in a newline, and the name of a file does not.

    Raises :class:`PolicyError`.
    """
    if isinstance(given, bytes) or (isinstance(given, str) and (not given or "\n" in given)):
        return Policy.parse(given)
    try:
        return Policy.parse(Path(given).read_bytes())
    except OSError as error:
        raise PolicyError(
            f"the policy file {os.fspath(given)} cannot be read: {error.strerror}; give a policy's text or the path of its file",
            code="policy-file",
        ) from error
