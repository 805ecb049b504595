"""The gate's one background thread: an event loop of its own, in which the sender and the heartbeat run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .errors import OutboxStopped

_T = TypeVar("_T")


class Worker:
    """A daemon thread with an event loop. Nothing is lost where it ends with the process: what matters is on disk."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._last: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, _T]) -> concurrent.futures.Future[_T]:
        """Runs ``coroutine`` in the loop, at once and beside others. Raises :class:`OutboxStopped` after :meth:`stop`."""
        if self.loop.is_closed():
            coroutine.close()
            raise OutboxStopped("the gate was closed; open it again to go on")
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]], seconds: float = 5.0) -> None:
        """Cancels all that runs in the loop, runs ``last`` and ends the thread."""
        if os.getpid() != self._pid or self.loop.is_closed() or not self._thread.is_alive():
            return
        self._last = last
        self.loop.call_soon_threadsafe(self._cancel_all)
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    def _cancel_all(self, waited: int = 0) -> None:
        tasks = asyncio.all_tasks(self.loop)
        if not tasks:
            self.loop.stop()
            return
        # Now and then again: a request that ends at the very moment may swallow the cancellation (`asyncio.wait_for` before
        # Python 3.12 does).
        if waited % 25 == 0:
            for task in tasks:
                task.cancel()
        self.loop.call_later(0.02, self._cancel_all, waited + 1)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            if self._last is not None:
                self.loop.run_until_complete(self._last())
        finally:
            self.loop.close()
