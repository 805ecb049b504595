"""Following a log: fetching its head and its entries, and believing no more than what its root vouches for.

Batch by batch: the entries of one are hashed, the root over all so far is compared with the one that the signed head implies
at that size, and only then do they count. So whatever was read is known to be what the log signed, and is not read again.
"""

from __future__ import annotations

import concurrent.futures
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from . import merkle
from .checkpoints import Checkpoint
from .errors import CounterfoilError, FormatError, HistoryError
from .index import LogIndex
from .keep import Folder
from .keys import VerifierKey
from .logreader import LogReader, implied_root
from .transport import FetchError, Transport
from .worker import Worker

_LOG = logging.getLogger("counterfoil")
_T = TypeVar("_T")

#: Pages in one batch, and how long it may take to come, in seconds: on a slow link a call whose time is up has lost no more.
_BATCH_PAGES = 8
_BATCH_S = 2.0
#: Pages on their way while a batch is folded.
_AHEAD = 4
#: Entries folded before the thread lets others run.
_FOLDED_AT_ONCE = 8
#: A snapshot is written when so much was read since the last, and a fifth of everything: an entry is written five times in
#: all, however large the log. And when the gate closes, where it spares the next start a page.
_SNAPSHOT_EVERY = 4096
_SNAPSHOT_AT_CLOSE = merkle.TILE_WIDTH


class Follower:
    """A log as far as it was read, and the largest head of it that was believed. Its requests run in the worker's loop, its
    arithmetic in the caller's thread; for one thread at a time."""

    def __init__(
        self,
        *,
        folder: Folder,
        transport: Transport,
        worker: Worker,
        log_key: VerifierKey,
        clock: Callable[[], int],
        alarm: Callable[[dict[str, Any]], None],
    ) -> None:
        """``clock`` is in milliseconds; ``alarm`` keeps a document."""
        self._folder = folder
        self._transport = transport
        self._worker = worker
        self._log_key = log_key
        self._clock = clock
        self._alarm = alarm
        self._reader: LogReader | None = None
        self._is_open = False
        #: Folded entries, all of them under a head that the log signed.
        self.index = LogIndex()
        self.largest: Checkpoint | None = None
        self._snapshot_at = 0
        #: Alarms that were kept: asking again adds nothing.
        self._told: set[tuple[str, bytes, bytes]] = set()

    def open(self) -> None:
        """Reads what was kept, once. Raises :class:`~counterfoil.errors.OutboxError` each time that the head is damaged."""
        if self._is_open:
            return
        largest, index = self._folder.head(), self._folder.index()
        # The head is durable first: what goes beyond it, or is something else, is another log's, or a copy's.
        size = 0 if largest is None else largest.size
        if index.size > size or (largest is not None and index.size == size and index.root() != largest.root):
            _LOG.warning("what was kept of the log is not under the largest head seen, and is read anew")
            index = LogIndex()
        self.largest, self.index, self._snapshot_at, self._is_open = largest, index, index.size, True

    def offered(self, until: float) -> Checkpoint:
        """The head that the log offers now, signed by its key. It is not believed yet. Raises :class:`HistoryError`."""
        data = self._await(self._reading().checkpoint(), until)
        try:
            offered = Checkpoint.parse(data)
            offered.verify(self._log_key)
        except FormatError as error:
            raise unavailable(f"what the log offers is no head of its: {error}") from error
        return offered

    def believe(self, offered: Checkpoint, until: float) -> None:
        """Reads the log up to this head, if it goes on from the largest one seen. What was read and fits stays.

        Raises :class:`HistoryError`, :class:`~counterfoil.errors.OutboxError`.
        """
        self._refuse_other_history(offered, until)
        self._check_index(offered, until)
        self._read(offered, until)
        if self.largest is None or self.largest.size < offered.size:
            self._folder.keep_head(offered)
        # Also of the size held: it may carry cosignatures of today.
        self.largest = offered
        self._keep_index(max(_SNAPSHOT_EVERY, offered.size // 5))

    def close(self) -> None:
        """Keeps what was read."""
        if self.largest is not None and self.index.size == self.largest.size:
            self._keep_index(_SNAPSHOT_AT_CLOSE)

    def proof(self, entry_id: bytes, index: int, head: Checkpoint, until: float) -> list[bytes]:
        """The hashes that prove an entry under ``head``, checked. Raises :class:`HistoryError`."""
        heights = merkle.subtrees_of(lambda subtree: merkle.prove_inclusion(index, head.size, subtree))
        tiles = self._await(self._reading().tiles(head.size, heights), until)
        hashes = merkle.prove_inclusion(index, head.size, tiles.subtree)
        try:
            merkle.check_inclusion(entry_id, index, head.size, head.root, hashes)
        except FormatError as error:
            raise unavailable(f"the log's tiles do not prove what its entries say: {error}") from error
        return hashes

    def _refuse_other_history(self, offered: Checkpoint, until: float) -> None:
        held = self.largest
        if held is None or (held.size, held.root) == (offered.size, offered.root):
            return
        if held.size == offered.size:
            raise self._alarmed("log-fork", f"the log signed two different trees of size {held.size}", held, offered)
        smaller, larger = (held, offered) if held.size < offered.size else (offered, held)
        implied = None
        if smaller is offered or not self._is_at(held):
            # Where the entries were folded up to the held head, folding on shows whether the new one continues it.
            implied = self._implied(larger, smaller, until)
            if implied is not None and implied != smaller.root:
                raise self._alarmed("log-fork", "the log signed two histories", smaller, larger)
            if implied is None and smaller is held:
                raise unavailable("the log does not show that its head goes on from the largest one seen")
        if smaller is offered:
            raise self._alarmed(
                "log-rolled-back", f"the log held {held.size} entries and now offers {offered.size}", held, offered
            )

    def _check_index(self, offered: Checkpoint, until: float) -> None:
        """What was read before must be what the head says it was: it may be of a head that came to nothing, or of a disk."""
        if self.index.size == 0 or (self.largest is not None and self._is_at(self.largest)):
            return
        if self.index.size > offered.size or not self._is_under(offered, self.index.size, self.index.root(), until):
            _LOG.warning("what was read of the log is not what the log holds, and is read anew")
            self.index, self._snapshot_at = LogIndex(), 0

    def _read(self, offered: Checkpoint, until: float) -> None:
        wanted = deque(merkle.pages(offered.size, self.index.size))
        coming: deque[tuple[int, concurrent.futures.Future[list[bytes]]]] = deque()
        try:
            while self.index.size < offered.size:
                entries: list[bytes] = []
                begun = time.monotonic()
                for _ in range(_BATCH_PAGES):
                    while wanted and len(coming) < _AHEAD:
                        index, width = wanted.popleft()
                        coming.append((index, self._worker.start(self._reading().page(index, width))))
                    if not coming or (entries and not _is_here(coming[0][1], min(until, begun + _BATCH_S))):
                        break
                    index, page = coming.popleft()
                    # The first page may begin with entries that were read when it was narrower.
                    known = self.index.size + len(entries) - index * merkle.TILE_WIDTH
                    entries += self._result(page, until)[known:]
                self._take(offered, entries, until)
        finally:
            for _, page in coming:
                page.cancel()

    def _take(self, offered: Checkpoint, entries: Sequence[bytes], until: float) -> None:
        """Folds the next entries, if the head vouches for them."""
        leaves = [merkle.leaf_hash(entry) for entry in entries]
        size = self.index.size + len(entries)
        if not self._is_under(offered, size, self.index.root_with(leaves), until):
            held = self.largest
            if held is not None and held.size < offered.size:
                implied = self._implied(offered, held, until)
                if implied is not None and implied != held.root:
                    raise self._alarmed("log-fork", "the log signed two histories", held, offered)
            raise unavailable("the entries that the log serves do not hash to the head that it signed")
        try:
            for place, (entry, leaf) in enumerate(zip(entries, leaves, strict=True)):
                if place % _FOLDED_AT_ONCE == 0:
                    # Folding is arithmetic: without a pause it would keep the gate's other threads waiting for theirs.
                    time.sleep(0.0001)
                    # A page at least, so that calls come to an end however short they are.
                    if place >= merkle.TILE_WIDTH and time.monotonic() > until:
                        # What was read is not lost: the next call goes on from here.
                        raise unavailable(
                            f"the log is still being read, {self.index.size} of {offered.size} entries so far"
                        )
                self.index.add(entry, leaf)
        except HistoryError:
            raise
        except BaseException:
            # Interrupted within an entry: nobody knows whether it counts.
            self.index, self._snapshot_at = LogIndex(), 0
            raise

    def _is_at(self, head: Checkpoint) -> bool:
        return self.index.size == head.size and self.index.root() == head.root

    def _is_under(self, head: Checkpoint, size: int, root: bytes, until: float) -> bool:
        """Whether the tree of the head had this root at this size."""
        if size == head.size:
            return root == head.root
        implied = self._await(implied_root(self._reading(), head.size, head.root, size), until)
        if implied is None:
            raise unavailable("the log's tiles do not hash to the head that it signed")
        return implied == root

    def _implied(self, larger: Checkpoint, smaller: Checkpoint, until: float) -> bytes | None:
        try:
            return self._await(implied_root(self._reading(), larger.size, larger.root, smaller.size), until)
        except HistoryError:
            return None

    def _keep_index(self, every: int) -> None:
        if self.index.size >= self._snapshot_at + every and self._folder.keep_index(self.index):
            self._snapshot_at = self.index.size

    def _alarmed(self, code: str, what: str, first: Checkpoint, second: Checkpoint) -> HistoryError:
        error = HistoryError(
            f"{what}: nothing it serves is judged by; both heads are kept in the outbox's `alarms`, tell the log's operator "
            "and auditors",
            code=code,
        )
        document = {
            "at": self._clock(),
            "what": code,
            "log": str(self._log_key),
            "detail": str(error),
            "first": first.note.data.decode("utf-8"),
            "second": second.note.data.decode("utf-8"),
        }
        if (code, first.note.data, second.note.data) in self._told:
            return error
        self._told.add((code, first.note.data, second.note.data))
        try:
            self._alarm(document)
        except CounterfoilError as kept:
            error = HistoryError(f"{error} (the alarm itself could not be kept: {kept})", code=code)
        return error

    def _reading(self) -> LogReader:
        if self._reader is None:
            self._reader = LogReader(self._transport)
        return self._reader

    def _await(self, request: Coroutine[Any, Any, _T], until: float) -> _T:
        return self._result(self._worker.start(request), until)

    @staticmethod
    def _result(request: concurrent.futures.Future[_T], until: float) -> _T:
        try:
            return request.result(max(0.1, until - time.monotonic()))
        except concurrent.futures.TimeoutError:
            request.cancel()
            raise unavailable("the log did not answer in time") from None
        except FetchError as error:
            raise unavailable(str(error)) from error


def _is_here(request: concurrent.futures.Future[Any], until: float) -> bool:
    """Whether an answer has come by then."""
    return request in concurrent.futures.wait([request], max(0.0, until - time.monotonic())).done


def unavailable(why: str) -> HistoryError:
    """The error for a history that cannot be had now."""
    return HistoryError(f"{why}; try again", code="history-unavailable")
