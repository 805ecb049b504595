"""Whether the log still honours the proofs that it gave: its present head must contain the newest head that was kept.

The log that implies another root at the kept size signed two histories, and both heads go to the alarms. Missing or wrong
tiles accuse nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from .checkpoints import Checkpoint
from .errors import CounterfoilError, FormatError
from .keys import VerifierKey
from .logreader import LogReader, implied_root
from .outbox import LogFork, Outbox

_LOG = logging.getLogger("counterfoil")

#: How often, in seconds.
EVERY_S = 60.0


async def watch(
    outbox: Outbox,
    reader: LogReader,
    log_key: VerifierKey,
    clock: Callable[[], int],
    stop: Callable[[LogFork], None],
) -> None:
    """Looks now and every so often, for ever. A broken promise is kept as an alarm and handed to ``stop``, once."""
    while True:
        try:
            fork = await broken_promise(outbox, reader, log_key)
        except CounterfoilError as error:
            _LOG.debug("whether the log honours its proofs could not be looked into: %s", error)
            fork = None
        except Exception:
            _LOG.exception("whether the log honours its proofs could not be looked into; it is tried again")
            fork = None
        if fork is not None:
            document = {
                "at": clock(),
                "what": "log-fork",
                "log": str(log_key),
                "detail": str(fork),
                "held": fork.held,
                "offered": fork.offered,
            }
            try:
                outbox.keep_alarm(document)
            except CounterfoilError as error:
                _LOG.error("an alarm could not be kept (%s): %s", error, fork)
            stop(fork)
            return
        await asyncio.sleep(EVERY_S)


async def broken_promise(outbox: Outbox, reader: LogReader, log_key: VerifierKey) -> LogFork | None:
    """The two heads that contradict each other, if the log's present one and the newest kept one do.

    Raises :class:`CounterfoilError` where nothing can be told.
    """
    kept = outbox.newest_head()
    if kept is None:
        return None
    try:
        offered = Checkpoint.parse(await reader.checkpoint())
        offered.verify(log_key)
    except FormatError as error:
        _LOG.debug("what the log offers is no head of its: %s", error)
        return None
    # The offered head may be older than one that proved a receipt; a later look tells.
    if offered.size < kept.size:
        return None
    implied = (
        offered.root if offered.size == kept.size else await implied_root(reader, offered.size, offered.root, kept.size)
    )
    if implied is None or implied == kept.root:
        return None
    return LogFork(kept.size, kept.checkpoint, offered.note.data.decode("utf-8"))
