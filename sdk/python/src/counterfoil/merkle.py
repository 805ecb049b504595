"""The Merkle tree of RFC 6962: hashes, roots, proofs made and checked, and the tiles of tlog-tiles.

Everything is pure. Hashes are 32 bytes, sizes and indexes plain integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .encoding import parse_decimal
from .errors import FormatError, ProofError

#: Hashes or entries in a full tile or page.
TILE_WIDTH = 256
#: Largest entry in bytes: its length is written in 16 bits.
MAX_ENTRY_LEN = 65_535
#: A consistency proof in the highest tree there is has one hash more than its height.
MAX_PROOF_HASHES = 65
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    """SHA-256(0x00 | entry): a receipt's id."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 | left | right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass
class Frontier:
    """The roots of a growing tree's full subtrees: enough to go on, and for the root."""

    size: int = 0
    nodes: list[bytes] = field(default_factory=list)

    def append(self, leaf: bytes) -> None:
        """Adds one leaf hash."""
        count = self.size
        while count & 1:
            leaf = node_hash(self.nodes.pop(), leaf)
            count >>= 1
        self.nodes.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """The root of the leaves so far."""
        if not self.nodes:
            return EMPTY_ROOT
        root = self.nodes[-1]
        for node in reversed(self.nodes[:-1]):
            root = node_hash(node, root)
        return root


def root_of(leaves: Iterable[bytes]) -> bytes:
    """The root over leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()


def check_inclusion(leaf: bytes, index: int, size: int, root: bytes, proof: Sequence[bytes]) -> None:
    """Checks that ``leaf`` stands at ``index`` of the tree of ``size`` leaves with this root (RFC 9162, 2.1.3.2).

    Raises :class:`ProofError`: ``index-beyond-size``, ``wrong-length`` or ``new-root``.
    """
    if not 0 <= index < size:
        raise ProofError(f"leaf {index} is not in a tree of {size}; ask for another proof", code="index-beyond-size")
    inner, border = _path_lengths(index, size)
    _need_length(proof, inner + border)
    implied = leaf
    for height, sibling in enumerate(proof[:inner]):
        implied = node_hash(sibling, implied) if index >> height & 1 else node_hash(implied, sibling)
    for sibling in proof[inner:]:
        implied = node_hash(sibling, implied)
    if implied != root:
        raise _other_root("new-root")


def check_consistency(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Checks that the tree of ``old`` leaves is a beginning of that of ``new`` (RFC 9162, 2.1.4.2).

    Raises :class:`ProofError`: ``wrong-length``, ``sizes-reversed``, ``old-root`` or ``new-root``.
    """
    if old == 0:
        # Everything grows out of nothing: the proof is empty, and so is every tree without leaves.
        _need_length(proof, 0)
        if old_root != EMPTY_ROOT:
            raise _other_root("old-root")
        if new == 0 and new_root != EMPTY_ROOT:
            raise _other_root("new-root")
        return
    implied_old, implied_new = implied_roots(old, old_root, new, proof)
    if implied_old != old_root:
        raise _other_root("old-root")
    if implied_new != new_root:
        raise _other_root("new-root")


def implied_roots(old: int, old_root: bytes, new: int, proof: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The two roots that a consistency proof implies for trees of ``old`` and ``new`` leaves.

    Raises :class:`ProofError`: ``sizes-reversed``, ``nothing-shown`` (``old`` is 0) or ``wrong-length``.
    """
    if old > new:
        raise ProofError(
            f"a tree of {old} leaves is no beginning of one of {new}; exchange them", code="sizes-reversed"
        )
    if old == 0:
        raise ProofError("a proof from the empty tree shows nothing; none is needed", code="nothing-shown")
    if old == new:
        _need_length(proof, 0)
        return old_root, old_root
    skipped = (old & -old).bit_length() - 1
    inner, border = _path_lengths(old - 1, new)
    inner -= skipped
    is_power = old == 1 << skipped
    _need_length(proof, inner + border + (0 if is_power else 1))
    start, rest = (old_root, proof) if is_power else (proof[0], proof[1:])
    implied_old = implied_new = start
    path = (old - 1) >> skipped
    for height, sibling in enumerate(rest[:inner]):
        if path >> height & 1:
            implied_old = node_hash(sibling, implied_old)
            implied_new = node_hash(sibling, implied_new)
        else:
            implied_new = node_hash(implied_new, sibling)
    for sibling in rest[inner:]:
        implied_old = node_hash(sibling, implied_old)
        implied_new = node_hash(sibling, implied_new)
    return implied_old, implied_new


def _path_lengths(index: int, size: int) -> tuple[int, int]:
    inner = (index ^ (size - 1)).bit_length()
    return inner, bin(index >> inner).count("1")


def _need_length(proof: Sequence[bytes], expected: int) -> None:
    if len(proof) != expected:
        raise ProofError(
            f"the proof has {len(proof)} hashes where these sizes call for {expected}; ask for another",
            code="wrong-length",
        )


def _other_root(code: str) -> ProofError:
    which = "older root" if code == "old-root" else "root"
    return ProofError(f"the proof does not lead to the {which}; it belongs to another tree or entry", code=code)


#: Answers the root of the full subtree of 2^height leaves that begins at leaf index << height.
Subtree = Callable[[int, int], bytes]


def range_root(begin: int, end: int, subtree: Subtree) -> bytes:
    """The root over leaves ``begin`` to before ``end``, where ``begin`` is a multiple of the largest power of two below
    the range's length, as in every tree."""
    if begin == end:
        return EMPTY_ROOT
    length = end - begin
    if length & (length - 1) == 0:
        height = length.bit_length() - 1
        return subtree(height, begin >> height)
    split = 1 << (length - 1).bit_length() - 1
    return node_hash(range_root(begin, begin + split, subtree), range_root(begin + split, end, subtree))


def prove_inclusion(index: int, size: int, subtree: Subtree) -> list[bytes]:
    """The inclusion proof of leaf ``index`` in the tree of ``size``, leaf's sibling first (RFC 6962, 2.1.1)."""
    begin, end = 0, size
    proof: list[bytes] = []
    while end - begin > 1:
        split = begin + (1 << (end - begin - 1).bit_length() - 1)
        if index < split:
            proof.append(range_root(split, end, subtree))
            end = split
        else:
            proof.append(range_root(begin, split, subtree))
            begin = split
    return proof[::-1]


def prove_consistency(first: int, second: int, subtree: Subtree) -> list[bytes]:
    """The consistency proof from ``first`` leaves to ``second`` (RFC 6962, 2.1.2)."""
    if first in (0, second):
        return []
    begin, end, whole = 0, second, True
    proof: list[bytes] = []
    while first != end:
        split = begin + (1 << (end - begin - 1).bit_length() - 1)
        if first <= split:
            proof.append(range_root(split, end, subtree))
            end = split
        else:
            proof.append(range_root(begin, split, subtree))
            begin, whole = split, False
    if not whole:
        proof.append(range_root(begin, end, subtree))
    return proof[::-1]


def page_path(index: int, width: int = TILE_WIDTH) -> str:
    """``<N>[.p/<W>]`` of tlog-tiles: 1234067 is ``x001/x234/067``."""
    digits = str(index)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[place : place + 3] for place in range(0, len(digits), 3)]
    path = "/".join(["x" + group for group in groups[:-1]] + groups[-1:])
    return path if width == TILE_WIDTH else f"{path}.p/{width}"


def tile_path(level: int, index: int, width: int = TILE_WIDTH) -> str:
    """The path of a tile of hashes below a log's prefix."""
    return f"tile/{level}/{page_path(index, width)}"


def entries_path(index: int, width: int = TILE_WIDTH) -> str:
    """The path of a page of entries below a log's prefix."""
    return f"tile/entries/{page_path(index, width)}"


def parse_page_path(path: str) -> tuple[int, int] | None:
    """Index and width that ``<N>[.p/<W>]`` names; ``None`` for any other spelling."""
    name, partial, narrow = path.partition(".p/")
    width = parse_decimal(narrow) if partial else TILE_WIDTH
    if width is None or (partial and not 1 <= width < TILE_WIDTH):
        return None
    groups = name.split("/")
    if len(groups) > 7 or (len(groups) > 1 and groups[0] == "x000"):
        return None
    digits = ""
    for place, group in enumerate(groups):
        if place < len(groups) - 1:
            if group[:1] != "x":
                return None
            group = group[1:]
        if len(group) != 3 or not group.isascii() or not group.isdigit():
            return None
        digits += group
    index = int(digits)
    return (index, width) if index < 1 << 64 else None


def parse_path(path: str) -> tuple[str, int, int, int] | None:
    """Kind (``checkpoint``, ``tile``, ``entries``, ``heads``), level, index and width of a resource below a log's prefix;
    ``None`` for any other spelling."""
    if path == "checkpoint":
        return "checkpoint", 0, 0, 0
    for folder, kind in (("tile/entries/", "entries"), ("heads/", "heads")):
        if path.startswith(folder):
            page = parse_page_path(path[len(folder) :])
            return None if page is None else (kind, 0, *page)
    parts = path.split("/", 2)
    if len(parts) != 3 or parts[0] != "tile":
        return None
    level, page = parse_decimal(parts[1]), parse_page_path(parts[2])
    return None if level is None or level > 63 or page is None else ("tile", level, *page)


def pages(count: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Index and width of every page that holds items ``start`` to before ``count``."""
    for index in range(start // TILE_WIDTH, -(-count // TILE_WIDTH)):
        yield index, min(TILE_WIDTH, count - index * TILE_WIDTH)


def encode_page(entries: Iterable[bytes]) -> bytes:
    """A page: each entry behind its length in 16 bits, big-endian.

    Raises :class:`FormatError` (``entry-too-long``).
    """
    parts: list[bytes] = []
    for entry in entries:
        if len(entry) > MAX_ENTRY_LEN:
            raise FormatError(f"an entry has {len(entry)} bytes; at most {MAX_ENTRY_LEN} fit", code="entry-too-long")
        parts += [len(entry).to_bytes(2, "big"), entry]
    return b"".join(parts)


def decode_page(data: bytes) -> list[bytes]:
    """The entries of a page.

    Raises :class:`FormatError` (``page-cut``).
    """
    entries: list[bytes] = []
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if at + 2 > len(data) or end > len(data):
            raise FormatError("the page ends inside an entry; fetch it again", code="page-cut")
        entries.append(data[at + 2 : end])
        at = end
    return entries


class Tiles:
    """Hashes from tiles, and what follows from them. Nothing in here is believed until :meth:`root` says what was signed."""

    def __init__(self, size: int) -> None:
        """For a tree of ``size`` leaves."""
        self.size = size
        self._tiles: dict[tuple[int, int], list[bytes]] = {}

    def width(self, level: int, index: int) -> int:
        """How many hashes the tree has in this tile; 0 where there is none."""
        return max(0, min(TILE_WIDTH, (self.size >> 8 * level) - index * TILE_WIDTH))

    def add(self, level: int, index: int, data: bytes) -> None:
        """Takes one tile's bytes.

        Raises :class:`FormatError` (``tile-length``).
        """
        if len(data) != 32 * self.width(level, index):
            raise FormatError(
                f"a tile of {len(data)} bytes came for one of {32 * self.width(level, index)}; fetch it again",
                code="tile-length",
            )
        self._tiles[level, index] = [data[at : at + 32] for at in range(0, len(data), 32)]

    def needed(self, heights: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Level and index of the tiles that these subtrees (height, index) are read from."""
        return {self._place(height, index)[:2] for height, index in heights}

    def subtree(self, height: int, index: int) -> bytes:
        """The root of a full subtree; see :data:`Subtree`.

        Raises :class:`KeyError` where its tile was not given.
        """
        level, tile, first, count = self._place(height, index)
        nodes = self._tiles[level, tile][first : first + count]
        if len(nodes) != count:
            raise KeyError((level, tile))
        while len(nodes) > 1:
            nodes = [node_hash(nodes[at], nodes[at + 1]) for at in range(0, len(nodes), 2)]
        return nodes[0]

    def root(self, size: int | None = None) -> bytes:
        """The root over the first ``size`` leaves (all of them unless given)."""
        return range_root(0, self.size if size is None else size, self.subtree)

    @staticmethod
    def _place(height: int, index: int) -> tuple[int, int, int, int]:
        level, above = divmod(height, 8)
        first = index << above
        return level, first // TILE_WIDTH, first % TILE_WIDTH, 1 << above


def subtrees_of(make: Callable[[Subtree], object]) -> list[tuple[int, int]]:
    """Which subtrees (height, index) a proof or a root asks for: runs ``make`` without any hashes."""
    asked: list[tuple[int, int]] = []

    def note(height: int, index: int) -> bytes:
        asked.append((height, index))
        return bytes(32)

    make(note)
    return asked
