"""Committed members (protocol, section 3.2): a value that the log can vouch for without holding it.

In the receipt stands ``{"#": "sha256:…"}``; the gate keeps ``{"salt":…,"name":…,"value":…}``, which opens it. Once the salt
is destroyed nobody can show what the value was.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from dataclasses import dataclass
from typing import Any

from . import ijson, jcs
from .errors import FormatError
from .shapes import committed_digest


@dataclass(frozen=True, repr=False)
class Disclosure:
    """What opens one commitment. Whoever holds it knows the value."""

    #: 22 characters of base64url.
    salt: str
    #: The member's own name, without the path to it.
    name: str
    value: Any

    @classmethod
    def parse(cls, line: str) -> Disclosure:
        """Reads one kept line. Raises :class:`FormatError`: a JSON code, ``disclosure-members`` or ``disclosure-salt``."""
        members = ijson.parse_object(line)
        salt, name = members.get("salt"), members.get("name")
        if set(members) != {"salt", "name", "value"} or not isinstance(salt, str) or not isinstance(name, str):
            raise FormatError(
                'a disclosure has exactly the members "salt", "name" (a string) and "value"; take the line as it was kept',
                code="disclosure-members",
            )
        if not _is_salt(salt):
            raise FormatError(
                "the salt is 16 bytes in base64url without padding: 22 characters; take the line as it was kept",
                code="disclosure-salt",
            )
        return cls(salt, name, members["value"])

    def digest(self) -> str:
        """The digest that stands in the receipt."""
        return jcs.digest([self.salt, self.name, self.value])

    def opens(self, committed: Any) -> bool:
        """Whether this opens ``committed``, a member's value as it stands in a receipt."""
        try:
            return committed_digest(committed) == self.digest()
        except FormatError:
            # Numbers that JCS cannot tell from their neighbours open nothing.
            return False

    def __str__(self) -> str:
        return jcs.compact({"salt": self.salt, "name": self.name, "value": self.value})

    def __repr__(self) -> str:
        # Without salt and value: a disclosure in a log file would undo the commitment.
        return f"Disclosure(of {self.name!r})"


def commit(name: str, value: Any, salt: bytes | None = None) -> tuple[dict[str, str], Disclosure]:
    """What goes into the receipt in place of ``value``, and what opens it.

    ``salt``: 16 bytes, fresh for each member; from the system's randomness unless given.
    """
    salt = secrets.token_bytes(16) if salt is None else salt
    disclosure = Disclosure(base64.urlsafe_b64encode(salt).decode("ascii").rstrip("="), name, value)
    return {"#": disclosure.digest()}, disclosure


def _is_salt(text: str) -> bool:
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"==")
    except (binascii.Error, ValueError):
        return False
    return len(data) == 16 and base64.urlsafe_b64encode(data).decode("ascii").rstrip("=") == text
