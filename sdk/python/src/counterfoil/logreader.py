"""The read side of a log: its checkpoint, its tiles, its pages of entries (protocol 5.1).

Everything here is bytes from somewhere. Sizes are checked, because they bound what is read; signatures and hashes are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from . import merkle
from .errors import FormatError
from .transport import FetchError, Transport

#: Largest checkpoint: a signed note.
_MAX_CHECKPOINT = 1 << 20
#: Requests under way at once.
_AT_ONCE = 4


class LogReader:
    """Reads one log. Lives in the worker's loop."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def url(self) -> str:
        """Where the log is."""
        return self._transport.url

    async def checkpoint(self) -> bytes:
        """The offered head. Raises :class:`FetchError`."""
        return await self._transport.get("checkpoint", _MAX_CHECKPOINT)

    async def page(self, index: int, width: int) -> list[bytes]:
        """A page of entries; a partial one that is gone is cut from the full one. Raises :class:`FetchError`."""
        served = width
        try:
            data = await self._get(merkle.entries_path(index, width), width * (2 + merkle.MAX_ENTRY_LEN))
        except FetchError as error:
            if error.status not in (404, 410) or width == merkle.TILE_WIDTH:
                raise
            served = merkle.TILE_WIDTH
            data = await self._get(merkle.entries_path(index), served * (2 + merkle.MAX_ENTRY_LEN))
        try:
            entries = merkle.decode_page(data)
        except FormatError as error:
            raise FetchError(f"{self.url}: page {index}: {error}", may_pass=False) from None
        if len(entries) != served:
            raise FetchError(f"{self.url}: a page of {served} holds {len(entries)}; it is no log's", may_pass=False)
        return entries[:width]

    async def pages(self, wanted: Iterable[tuple[int, int]]) -> list[list[bytes]]:
        """Several pages, in the order asked for."""
        return await asyncio.gather(*(self.page(index, width) for index, width in wanted))

    async def tiles(self, size: int, heights: Iterable[tuple[int, int]]) -> merkle.Tiles:
        """The tiles of the tree of ``size`` that these subtrees are read from. Raises :class:`FetchError`."""
        tiles = merkle.Tiles(size)
        wanted = sorted(tiles.needed(heights))
        for (level, index), data in zip(
            wanted, await asyncio.gather(*(self._tile(tiles, level, index) for level, index in wanted)), strict=True
        ):
            tiles.add(level, index, data)
        return tiles

    async def _tile(self, tiles: merkle.Tiles, level: int, index: int) -> bytes:
        width = tiles.width(level, index)
        try:
            data = await self._get(merkle.tile_path(level, index, width), 32 * width)
        except FetchError as error:
            if error.status not in (404, 410) or width == merkle.TILE_WIDTH:
                raise
            data = (await self._get(merkle.tile_path(level, index), 32 * merkle.TILE_WIDTH))[: 32 * width]
        if len(data) != 32 * width:
            raise FetchError(
                f"{self.url}: a tile of {width} hashes has {len(data)} bytes; it is no log's", may_pass=False
            )
        return data

    async def _get(self, path: str, most: int) -> bytes:
        async with self._slots:
            return await self._transport.get(path, most)


async def implied_root(reader: LogReader, size: int, root: bytes, smaller: int) -> bytes | None:
    """The root that the tree of ``size`` with this root has at ``smaller``, by tiles that hash to it; ``None`` where they do
    not, or are not to be had: that accuses nobody. Raises :class:`FetchError`."""
    heights = merkle.subtrees_of(lambda subtree: merkle.range_root(0, size, subtree))
    heights += merkle.subtrees_of(lambda subtree: merkle.range_root(0, smaller, subtree))
    tiles = await reader.tiles(size, heights)
    return tiles.root(smaller) if tiles.root() == root else None
