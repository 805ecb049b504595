"""What a follower keeps on disk, in `history/` of the outbox's directory.

::

    head             the largest head of the log ever believed, the log's note: durable before anything is said under it
    snapshot-python  what was read of the log up to some head: lines of JSON, and last their HMAC under a secret of the
                     issuer's key. May be lost, and is then read again

The head is the file that a Rust gate keeps; each keeps a snapshot of its own beside it. Nobody who lacks the issuer's key can
write a snapshot that is read: one that is damaged, changed, of another issuer's key or of another log is none.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .appendfile import disk, write_all
from .checkpoints import Checkpoint
from .errors import FormatError, OutboxDamaged
from .index import LogIndex
from .keys import SigningKey, VerifierKey
from .store import sync_dir

_LOG = logging.getLogger("counterfoil")

_SNAPSHOT = "snapshot-python"
#: What the secret is for that authenticates it, and the version of its lines.
_PURPOSE = "counterfoil/history-snapshot/v1"
#: Most bytes that are read: a full index, printed, is below it.
_MAX_SNAPSHOT = 1 << 30
_MAX_HEAD = 1 << 20
#: Bytes written at once.
_CHUNK = 1 << 18


class Folder:
    """The directory. Blocking; for one thread at a time."""

    def __init__(self, directory: Path, log_key: VerifierKey, key: Callable[[], SigningKey]) -> None:
        """``key`` answers the issuer's key of the moment."""
        self._dir = directory
        self._log_key = log_key
        self._key = key

    def head(self) -> Checkpoint | None:
        """The largest head, where one was ever believed. Raises :class:`OutboxDamaged`, :class:`OutboxDisk`."""
        path = self._dir / "head"
        try:
            with open(path, "rb") as file:
                data = file.read(_MAX_HEAD)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise disk("read", path, error) from error
        try:
            if data.startswith(b"{"):
                # As earlier versions of this package wrote it.
                data = str(json.loads(data)["checkpoint"]).encode("utf-8")
            head = Checkpoint.parse(data)
            head.verify(self._log_key)
        except (FormatError, ValueError, LookupError, TypeError) as error:
            raise OutboxDamaged(
                f"{path} is damaged: {error}; what it held is the largest head of the log that was ever seen: restore it, or "
                "remove it and know that a log which went back before today is not noticed"
            ) from error
        return head

    def keep_head(self, head: Checkpoint) -> None:
        """Keeps the largest head, durably. Raises :class:`OutboxDisk`."""
        try:
            self._replace("head", [head.note.data])
        except OSError as error:
            raise disk("write", self._dir / "head", error) from error

    def index(self) -> LogIndex:
        """What was read of the log before; the beginning where that is lost, or is not to be believed."""
        try:
            with open(self._dir / _SNAPSHOT, "rb") as file:
                data = file.read(_MAX_SNAPSHOT)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                _LOG.warning("what was kept of the log cannot be read, and is read anew: %s", error)
            return LogIndex()
        written, _, mac = data.removesuffix(b"\n").rpartition(b"\n")
        if not hmac.compare_digest(self._mac([written, b"\n"]).hexdigest().encode(), mac):
            _LOG.warning(
                "what was kept of the log is damaged, changed or of another key, and is read anew: %s",
                self._dir / _SNAPSHOT,
            )
            return LogIndex()
        named, *lines = written.decode("utf-8").split("\n")
        return (LogIndex.from_lines(lines) if named == str(self._log_key) else None) or LogIndex()

    def keep_index(self, index: LogIndex) -> bool:
        """Keeps what was read. Where that fails, the next start reads more. Answers whether it did not."""
        mac = self._mac([])

        def written() -> Iterator[bytes]:
            yield f"{self._log_key}\n".encode()
            for line in index.to_lines():
                yield f"{line}\n".encode()

        def signed() -> Iterator[bytes]:
            for chunk in _in_chunks(written()):
                mac.update(chunk)
                yield chunk
            yield f"{mac.hexdigest()}\n".encode()

        try:
            self._replace(_SNAPSHOT, signed())
        except (OSError, UnicodeEncodeError) as error:
            _LOG.debug("what was read of the log could not be kept; the next start reads it again: %s", error)
            return False
        return True

    def _mac(self, parts: Iterable[bytes]) -> hmac.HMAC:
        mac = hmac.new(self._key().secret_for(_PURPOSE), digestmod=hashlib.sha256)
        for part in parts:
            mac.update(part)
        return mac

    def _replace(self, name: str, parts: Iterable[bytes]) -> None:
        """Replaces a file whole, durably. Raises :class:`OSError`."""
        if not self._dir.is_dir():
            self._dir.mkdir(mode=0o700)
            sync_dir(self._dir.parent)
        temporary = self._dir / f"{name}.new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            for part in parts:
                write_all(fd, part)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, self._dir / name)
        sync_dir(self._dir)


def _in_chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    chunk = bytearray()
    for part in parts:
        chunk += part
        if len(chunk) >= _CHUNK:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)
