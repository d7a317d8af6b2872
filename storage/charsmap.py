"""A normalisation of single characters as the `precompiled_charsmap` that tokenizers reads.

Layout: bytes of the trie (uint32), the trie, then the replacements, each ended by a zero byte. The trie is a double
array over the UTF-8 bytes of the characters: unit `p` leads with byte `c` to unit `p ^ offset(p) ^ c`, whose label is
`c`; a character that ends there has its place among the replacements at `p ^ offset(p)`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLOCK = 256  # a unit's children lie in one block: their places differ in the last byte only
_TRIES = 64  # places looked at from the first free one before that is given up as too crowded
_HAS_LEAF, _LEAF = 1 << 8, 1 << 31
_END = 0  # label of the unit that holds a value

_Node = dict[int, "_Node | int"]


def build_charsmap(replacements: Mapping[str, str]) -> bytes:
    """Return the charsmap that puts each character's replacement, which may be empty, in its place.

    Keys are single characters but for NUL. Deterministic.
    """
    root: _Node = {}
    texts = bytearray()
    for character, text in sorted(replacements.items()):
        node = root
        for byte in character.encode():
            inner = node.setdefault(byte, {})
            assert isinstance(inner, dict)
            node = inner
        node[_END] = len(texts)
        texts += text.encode() + b"\0"
    units = _lay_out(root)
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + bytes(texts)


def _lay_out(root: _Node) -> list[int]:
    """Return the units of a trie, the root first, whole blocks."""
    places = _Places()
    units: dict[int, int] = {0: 0}
    waiting: list[tuple[int, _Node]] = [(0, root)]
    for place, node in waiting:  # grows while it is walked: level by level
        base = places.take(sorted(node))
        units[place] |= (place ^ base) << 10 | (_HAS_LEAF if _END in node else 0)
        for label, inner in sorted(node.items()):
            if isinstance(inner, int):
                units[base ^ label] = _LEAF | inner
            else:
                units[base ^ label] = label
                waiting.append((base ^ label, inner))
    length = (max(units) // _BLOCK + 1) * _BLOCK
    return [units.get(place, 0) for place in range(length)]


class _Places:
    """Which places are taken, the first by the root; and which bases, for two nodes of one would share children."""

    def __init__(self) -> None:
        self._taken = {0}
        self._bases: set[int] = set()
        self._from = 1

    def take(self, labels: list[int]) -> int:
        """Return a base with `base ^ label` free for all labels; they are taken then."""
        base = self._from
        while base in self._bases or any(base ^ label in self._taken for label in labels):
            base += 1
        if base - self._from > _TRIES:
            self._from += 1
        while self._from in self._taken:
            self._from += 1
        self._bases.add(base)
        self._taken |= {base ^ label for label in labels}
        return base
