"""A file that only grows, record by record, each durable before anybody is told of it.

::

    prefixed   u16 length, big-endian | that many bytes | …        (the form of a page of entries)
    lines      <JSON> \\n <JSON> \\n …

A process that is killed while it appends leaves a whole number of records and, at most, a torn tail: the beginning of a
record, or zeroes where the file system had made room and not yet written. Nobody was told of what is in it. Anything else
that does not read as records is damage, and is not repaired here.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from .errors import OutboxDamaged, OutboxDisk
from .merkle import encode_page

#: Read at once when a file is opened: some thousand receipts.
_CHUNK = 1 << 20


class Framing(Enum):
    """How records stand in the file."""

    PREFIXED = 1
    LINES = 2


class AppendFile:
    """One such file. Blocking; not locked."""

    def __init__(self, path: Path, framing: Framing, *, writable: bool) -> None:
        """Opens it, which for a writer makes it if need be. Raises :class:`OutboxDisk`, :class:`OutboxDamaged`."""
        self.path = path
        self.framing = framing
        self.ends: array[int] = array("Q")
        self.torn = b""
        self._fd: int | None = None
        flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        try:
            self._fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
            self._walk(os.fstat(self._fd).st_size)
        except FileNotFoundError as error:
            if writable:
                raise disk("open", path, error) from error
        except OSError as error:
            raise disk("open", path, error) from error

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self.ends)

    @property
    def end(self) -> int:
        """Where the last record ends, in bytes."""
        return self.ends[-1] if self.ends else 0

    def read(self, place: int) -> bytes | None:
        """The record at ``place``; ``None`` beyond the last. Raises :class:`OutboxDisk`."""
        if not 0 <= place < len(self.ends) or self._fd is None:
            return None
        begin = self.ends[place - 1] if place else 0
        try:
            data = os.pread(self._fd, self.ends[place] - begin, begin)
        except OSError as error:
            raise disk("read", self.path, error) from error
        return data[2:] if self.framing is Framing.PREFIXED else data[:-1]

    def append(self, records: Iterable[bytes]) -> None:
        """Appends records with one write and one fdatasync. Raises :class:`OutboxDisk`; what is on disk is then unknown."""
        records = list(records)
        if self.framing is Framing.PREFIXED:
            data = encode_page(records)
            overhead = 2
        else:
            data = b"".join(record + b"\n" for record in records)
            overhead = 1
        at = self.end
        try:
            if self._fd is None:
                raise OSError("the file is closed")
            written = 0
            while written < len(data):
                written += os.pwrite(self._fd, data[written:], at + written)
            datasync(self._fd)
        except OSError as error:
            raise disk("append to", self.path, error) from error
        for record in records:
            at += len(record) + overhead
            self.ends.append(at)

    def cut(self) -> None:
        """Removes a torn tail, durably. Raises :class:`OutboxDisk`."""
        if self.torn and self._fd is not None:
            try:
                os.ftruncate(self._fd, self.end)
                os.fsync(self._fd)
            except OSError as error:
                raise disk("cut", self.path, error) from error
            self.torn = b""

    def close(self) -> None:
        """Closes the file; what was appended is durable anyhow."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _walk(self, length: int) -> None:
        assert self._fd is not None
        with open(os.dup(self._fd), "rb", buffering=_CHUNK) as file:
            file.seek(0)
            end = 0
            while end < length:
                size = self._next_size(file.readline() if self.framing is Framing.LINES else file.read(2), length - end)
                if size is None:
                    break
                if self.framing is Framing.PREFIXED:
                    file.seek(size - 2, os.SEEK_CUR)
                end += size
                self.ends.append(end)
        self.torn = os.pread(self._fd, length - end, end)
        if self.framing is Framing.PREFIXED and not _is_cut(self.torn) and any(self.torn):
            raise OutboxDamaged(
                f"{self.path} is damaged at byte {end}: no record can begin with a length of 0; restore the newest copy, and "
                "do not delete it: the log may hold more than a copy does"
            )

    def _next_size(self, head: bytes, left: int) -> int | None:
        if self.framing is Framing.LINES:
            return len(head) if head.endswith(b"\n") and len(head) <= left else None
        size = 2 + int.from_bytes(head, "big")
        return size if len(head) == 2 and 2 < size <= left else None


def write_all(fd: int, data: bytes) -> None:
    """Writes all of it: a system may take a part, and says so only by how much."""
    while data:
        data = data[os.write(fd, data) :]


def datasync(fd: int) -> None:
    """Makes a file's bytes durable."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def disk(action: str, path: Path, error: OSError) -> OutboxDisk:
    """The error for a file that the system refuses."""
    return OutboxDisk(
        f"cannot {action} {path}: {error.strerror or error}; make room or mend the disk, nothing was lost"
    )


def _is_cut(torn: bytes) -> bool:
    """Whether this is the beginning of a record that says itself longer."""
    return len(torn) < 2 or len(torn) - 2 < int.from_bytes(torn[:2], "big")
