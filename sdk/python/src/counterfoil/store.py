"""The outbox's directory, and what is known from it.

::

    lock           held by the one writer (flock)
    writer         only where another kind of writer made the directory
    receipts       the signed receipts in order of seq: the truth
    acknowledged   {"seq":0,"index":17,"proof":"<tlog-proof>"} a line; a later line for the same seq holds a better proof
    log            {"vkey":"…","url":"…"}: the one log these receipts go to
    dropped        {"at":1234,"bytes":"<hex>"}: torn tails of `receipts` that a start removed
    alarms         a JSON document a line: what the log did that no honest log does
    drops          {"at":ms,"why":"full","request_id":"…"}: actions that ran without a receipt (fail_open)
    disclosures/   <seq>.jsonl: what opens the commitments of that receipt
    state, sent, open   derived; may be lost or stale

The same files as those of the Rust outbox, so that `counterfoil outbox` works on them, and either goes on where the other
stopped. A crash inside an append to `receipts` leaves a torn tail: its receipt was never returned and never sent; it is
moved to `dropped` and its seq is signed again for another body.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .admit import IssuerState, admit, first_key
from .appendfile import AppendFile, Framing, datasync, disk, write_all
from .encoding import parse_decimal
from .errors import (
    CounterfoilError,
    FormatError,
    OutboxBusy,
    OutboxDamaged,
    OutboxDisk,
    OutboxWriter,
    Refusal,
)
from .keys import VerifierKey
from .merkle import leaf_hash
from .proofs import TlogProof
from .receipts import MAGIC, Receipt

_LOG = logging.getLogger("counterfoil")

#: A start checks every receipt that `state` does not cover, at some four thousand a second.
_STATE_EVERY = 256
_SEQ_FIRST = re.compile(rb'\{"seq":([0-9]{1,20}),"index":')
#: Most bytes of `state`, `log`, `writer` and `open`.
_MAX_SMALL_FILE = 1 << 20
# How long a lock is waited for that somebody holds.
_LOCK_PATIENCE_S = 1.0


@dataclass(frozen=True)
class LogBinding:
    """The one log of an outbox."""

    vkey: VerifierKey
    url: str


@dataclass(frozen=True)
class Kept:
    """A proof that the log holds a receipt."""

    seq: int
    index: int
    proof: str

    def line(self) -> bytes:
        """As it stands in `acknowledged`."""
        return compact_line({"seq": self.seq, "index": self.index, "proof": self.proof})


@dataclass(frozen=True)
class KeptHead:
    """The head of the newest kept proof."""

    size: int
    root: bytes
    checkpoint: str


class Store:
    """The files, as one writer or any number of readers have them. Blocking; not thread-safe."""

    def __init__(self, directory: Path, *, writable: bool, lock: int | None = None) -> None:
        """Opens the directory, which a writer makes if need be, and locks; ``lock`` is one that is held already.

        Raises :class:`OutboxError`: ``outbox-busy``, ``outbox-writer``, ``outbox-damaged`` (also where there is none
        to read), ``outbox-disk``.
        """
        self.dir = directory
        self.writable = writable
        self._lock = lock
        self._files: list[AppendFile] = []
        #: None before the first receipt.
        self.state: IssuerState | None = None
        #: For each acknowledged seq, the line of `acknowledged` that holds its newest proof.
        self.proofs: array[int] = array("Q")
        self.newest_head: KeptHead | None = None
        self._state_saved_at = 0
        if writable and lock is None:
            self._take()
        elif not writable and not (directory / "receipts").exists():
            raise OutboxDamaged(f"there is no outbox at {directory}; a gate makes one, so check the path")
        try:
            # Before `receipts`: whatever is acknowledged there now was in `receipts` earlier, also beside a writer.
            self.acknowledged = self._open("acknowledged", Framing.LINES)
            self.receipts = self._open("receipts", Framing.PREFIXED)
            self.dropped = self._open("dropped", Framing.LINES)
            self.alarms = self._open("alarms", Framing.LINES)
            self.drops = self._open("drops", Framing.LINES)
            self.log = self._read_log()
            # Everything is judged before anything is changed.
            self._derive_acknowledged()
            self._derive_state()
            if writable:
                self._refuse_what_was_lost()
                self._drop_torn()
                self._remove_unused_disclosures()
                sync_dir(directory)
                self.save_state(_STATE_EVERY // 4)
        except BaseException:
            # A lock that was handed over stays its owner's.
            self.close(keep_lock=lock is not None)
            raise

    def close(self, *, keep_lock: bool = False) -> int | None:
        """Lets go of the files, and of the lock last; or answers the lock, for a store that takes it over."""
        for file in self._files:
            file.close()
        self._files = []
        lock = self._lock
        if not keep_lock:
            self._lock = None
            if lock is not None:
                os.close(lock)
        return lock

    @property
    def count(self) -> int:
        """How many receipts there are; the next seq."""
        return self.receipts.count

    @property
    def acknowledged_count(self) -> int:
        """How many of them have a proof; the first seq that has none."""
        return len(self.proofs)

    def proof(self, seq: int) -> Kept | None:
        """The newest proof kept for ``seq``."""
        if not 0 <= seq < len(self.proofs):
            return None
        return self._kept(self.proofs[seq])

    def append_receipts(self, receipts: Sequence[Receipt], state: IssuerState) -> None:
        """Appends receipts that were admitted one after the other; ``state`` is that after the last."""
        self.receipts.append(receipt.entry for receipt in receipts)
        self.state = state
        self.save_state(_STATE_EVERY)

    def append_acknowledged(self, lines: Sequence[Kept], newest_head: KeptHead | None) -> None:
        """Appends acknowledgements: for each the next seq that has none, or one that has."""
        first = self.acknowledged.count
        self.acknowledged.append(kept.line() for kept in lines)
        for place, kept in enumerate(lines, first):
            if kept.seq < len(self.proofs):
                self.proofs[kept.seq] = place
            else:
                self.proofs.append(place)
        self.newest_head = newest_head or self.newest_head

    def bind(self, binding: LogBinding) -> None:
        """Remembers the log, durably."""
        self.write_small("log", compact_line({"vkey": str(binding.vkey), "url": binding.url}), durable=True)
        self.log = binding

    def sent(self) -> int:
        """The first seq that was never sent, as far as that is known."""
        return min(max(self._noted_as_sent(), self.acknowledged_count), self.count)

    def set_sent(self, seq: int) -> None:
        """Remembers that everything before ``seq`` was sent. A count for people, so an error is of no consequence."""
        try:
            fd = os.open(self.dir / "sent", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # Always as long as the longest number, so that one write replaces the other whole.
                os.pwrite(fd, f"{seq:<20}\n".encode("ascii"), 0)
            finally:
                os.close(fd)
        except OSError as error:
            _LOG.debug("what was sent could not be counted: %s", error)

    def keep_disclosures(self, seq: int, lines: Sequence[str]) -> None:
        """Writes what opens the commitments of the receipt that is about to be ``seq``, durably. Raises :class:`OutboxDisk`."""
        directory = self.dir / "disclosures"
        path = directory / f"{seq}.jsonl"
        try:
            if not directory.exists():
                directory.mkdir(mode=0o700)
                sync_dir(self.dir)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                write_all(fd, "".join(line + "\n" for line in lines).encode("utf-8"))
                datasync(fd)
            finally:
                os.close(fd)
            sync_dir(directory)
        except OSError as error:
            raise disk("write", path, error) from error

    def save_state(self, every: int) -> None:
        """Saves the state where it moved on by ``every``; a loss only makes the next start slower."""
        if self.state is None or not self.writable or self.state.next_seq - self._state_saved_at < every:
            return
        try:
            self.write_small("state", self.state.to_json().encode("utf-8"), durable=False)
            self._state_saved_at = self.state.next_seq
        except OutboxDisk as error:
            _LOG.debug("the state could not be saved; the next start checks more receipts: %s", error)

    def write_small(self, name: str, data: bytes, *, durable: bool) -> None:
        """Replaces a small file whole. Raises :class:`OutboxDisk`."""
        path, temporary = self.dir / name, self.dir / f"{name}.new"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                write_all(fd, data)
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(temporary, path)
            if durable:
                sync_dir(self.dir)
        except OSError as error:
            raise disk("write", path, error) from error

    def read_small(self, name: str) -> bytes | None:
        """A small file; ``None`` where there is none. Raises :class:`OutboxDisk`."""
        try:
            with open(self.dir / name, "rb") as file:
                return file.read(_MAX_SMALL_FILE)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise disk("read", self.dir / name, error) from error

    def _open(self, name: str, framing: Framing) -> AppendFile:
        file = AppendFile(self.dir / name, framing, writable=self.writable)
        self._files.append(file)
        return file

    def _take(self) -> None:
        path = self.dir / "lock"
        try:
            # Receipts say who asked for what: nobody else's business.
            self.dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_dir(self.dir.parent)
            if (self.dir / "writer").exists():
                raise OutboxWriter(
                    f"the outbox {self.dir} was made by another kind of writer, which locks in its own way; use the TypeScript "
                    "SDK for it, or another directory"
                )
            self._lock = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._lock_patiently(self._lock)
        except BlockingIOError as error:
            self.close()
            raise OutboxBusy(
                f"another process is using the outbox {self.dir}; an outbox has one writer at a time: wait until it has "
                "ended, or use another directory with a key of its own"
            ) from error
        except OSError as error:
            self.close()
            raise disk("lock", path, error) from error

    @staticmethod
    def _lock_patiently(lock: int) -> None:
        """Takes the lock, or raises :class:`BlockingIOError`. Between fork and exec a child that was just started holds a
        copy of every open file, and with it the lock of a gate that has closed; that is over in a moment."""
        gives_up = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > gives_up:
                    raise
                time.sleep(0.01)

    def _read_log(self) -> LogBinding | None:
        data = self.read_small("log")
        if data is None:
            return None
        try:
            members = json.loads(data)
            return LogBinding(VerifierKey.parse(members["vkey"]), str(members["url"]))
        except (ValueError, KeyError, TypeError, FormatError) as error:
            raise damaged(self.dir / "log", "as a whole", str(error)) from error

    def _noted_as_sent(self) -> int:
        try:
            return parse_decimal((self.dir / "sent").read_text("ascii").rstrip()) or 0
        except (OSError, ValueError):
            return 0

    def _kept(self, line: int) -> Kept:
        data = self.acknowledged.read(line) or b""
        try:
            members = json.loads(data)
            return Kept(int(members["seq"]), int(members["index"]), str(members["proof"]))
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(self.acknowledged.path, f"on line {line + 1}", str(error)) from error

    def _seq_of(self, line: int) -> int:
        # As every writer writes it; anything else is read whole, which takes twenty times as long.
        found = _SEQ_FIRST.match(self.acknowledged.read(line) or b"")
        return int(found[1]) if found else self._kept(line).seq

    def _derive_acknowledged(self) -> None:
        for line in range(self.acknowledged.count):
            seq = self._seq_of(line)
            if 0 <= seq < len(self.proofs):
                self.proofs[seq] = line
            elif seq == len(self.proofs) and seq < self.receipts.count:
                self.proofs.append(line)
            else:
                raise damaged(
                    self.acknowledged.path,
                    f"on line {line + 1}",
                    "a receipt is acknowledged that is not in the outbox, or out of order: `receipts` is older than "
                    "`acknowledged`",
                )
        if self.acknowledged.count:
            self.newest_head = kept_head(self._kept(self.acknowledged.count - 1).proof)

    def _derive_state(self) -> None:
        self.state = self._saved_state()
        self._state_saved_at = self.state.next_seq if self.state else 0
        for seq in range(self._state_saved_at, self.receipts.count):
            entry = self.receipts.read(seq) or b""
            if self.state is None:
                key = first_key(entry)
                if key is None:
                    raise damaged(self.receipts.path, f"at seq {seq}", "the first receipt is no open with a vkey")
                self.state = IssuerState.registered(key)
            try:
                self.state, _ = admit(self.state, entry)
            except Refusal as error:
                raise damaged(self.receipts.path, f"at seq {seq}", str(error)) from error

    def _saved_state(self) -> IssuerState | None:
        """The saved state, where it is that of the first so many receipts here."""
        try:
            data = self.read_small("state")
            state = IssuerState.from_json((data or b"").decode("utf-8"))
        except (OutboxDisk, UnicodeDecodeError):
            return None
        if state is None or state.next_seq == 0:
            return None
        first, last = self.receipts.read(0), self.receipts.read(state.next_seq - 1)
        if first is None or last is None or leaf_hash(last) != state.head or first_key(first) != state.registered_key:
            return None
        return state

    def _refuse_what_was_lost(self) -> None:
        """Tells a torn tail, which nobody was told of, from receipts that were returned and cannot be read any more: to
        sign their seqs again would be a second history."""
        place = f"at byte {self.receipts.end}"
        sent, count = self._noted_as_sent(), self.receipts.count
        if sent > count:
            raise damaged(self.receipts.path, place, f"{sent} receipts were sent and only {count} are here")
        # A length that was changed makes whole receipts look like the beginning of a longer one.
        tail = self.receipts.torn[2:]
        whole = first_key(tail) is not None
        if self.state is not None and not whole:
            try:
                admit(self.state, tail)
                whole = True
            except Refusal:
                whole = False
        if whole or tail.count(f"{MAGIC}\n".encode()) > 1:
            raise damaged(self.receipts.path, place, "the length does not fit the receipt behind it")

    def _drop_torn(self) -> None:
        for file in (self.acknowledged, self.dropped, self.alarms, self.drops):
            file.cut()
        if not self.receipts.torn:
            return
        line = compact_line({"at": self.receipts.end, "bytes": self.receipts.torn.hex()})
        # A crash between the line and the cut would write it twice.
        if self.dropped.count == 0 or self.dropped.read(self.dropped.count - 1) != line:
            self.dropped.append([line])
        _LOG.warning(
            "%s: dropped %d bytes, the beginning of a receipt that was never returned nor sent",
            self.dir,
            len(self.receipts.torn),
        )
        self.receipts.cut()

    def _remove_unused_disclosures(self) -> None:
        directory = self.dir / "disclosures"
        if not directory.is_dir():
            return
        for path in directory.iterdir():
            seq = parse_decimal(path.name.removesuffix(".jsonl"))
            if path.name.endswith(".jsonl") and seq is not None and seq >= self.count:
                # Its receipt was never signed.
                path.unlink(missing_ok=True)


def damaged(path: Path, at: str, reason: str) -> OutboxDamaged:
    """The error for a file that does not say what was written to it."""
    return OutboxDamaged(
        f"{path} is damaged {at}: {reason}; restore the newest copy, and do not delete it: the log may hold more than a copy does"
    )


def kept_head(proof: str) -> KeptHead | None:
    """The head of a kept proof."""
    try:
        head = TlogProof.parse(proof).checkpoint
    except CounterfoilError:
        return None
    return KeptHead(head.size, head.root, head.note.data.decode("utf-8"))


def compact_line(document: dict[str, Any]) -> bytes:
    """One line of JSON, without its line end."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def sync_dir(path: Path) -> None:
    """Makes a directory's entries durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
