"""The gate's promise not to be silent: a receipt by timer, where nothing else was written."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Executor

from .errors import CounterfoilError, DecisionClaims
from .ledger import Ledger

_LOG = logging.getLogger("counterfoil")

#: A heartbeat is due after this part of the time announced, so that a slow disk does not make it late.
_BEAT_AFTER = 0.5
_LEAST_MS = 100


def check_heartbeat(heartbeat_ms: int | None) -> None:
    """Raises :class:`DecisionClaims` for a promise that a gate cannot keep beside anything else."""
    if heartbeat_ms is not None and heartbeat_ms < _LEAST_MS:
        raise DecisionClaims(f"`heartbeat_ms` is at least {_LEAST_MS}: a gate that beats faster writes nothing else")


async def keep_beating(ledger: Ledger, executor: Executor, heartbeat_ms: int) -> None:
    """Beats until the key is found to have signed another history."""
    due_s = heartbeat_ms / 1000 * _BEAT_AFTER
    while not ledger.is_second_history():
        await asyncio.sleep(max(0.001, ledger.written_at + due_s - time.monotonic()))
        try:
            await asyncio.get_running_loop().run_in_executor(executor, ledger.beat, due_s)
        except Exception as error:
            # Not at once again: the disk or the room may take a while.
            ledger.written_at = time.monotonic()
            _LOG.warning(
                "a heartbeat could not be written: %s", error, exc_info=not isinstance(error, CounterfoilError)
            )
