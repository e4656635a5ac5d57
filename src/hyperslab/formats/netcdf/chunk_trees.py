"""The B-trees in which an HDF5 file keeps where the chunks of a variable lie, read level by level.

The HDF5 library reads them depth first, one node after the other: over a network a round trip each. A node lists its
children, so that all nodes of one level can come together. (HDF5 File Format Specification, III.A.1: version 1, which
netCDF writes.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable

Span = tuple[int, int]

_MARK = b"TREE\x01"  # nodes of type 0 are those of groups
_HEAD = struct.Struct("<4sBBHQQ")
_ADDRESS = 8
_FANOUT = 64  # children of a node: what HDF5 takes where nobody calls H5Pset_istore_k, and netCDF does not
_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"


def has_wide_addresses(head: bytes) -> bool:
    """Return whether an HDF5 file that begins with ``head`` counts addresses from its first byte, in 8 bytes."""
    if not head.startswith(_HDF5_MAGIC) or len(head) < 16:
        return False
    return head[13 if head[8] < 2 else 9] == _ADDRESS


def is_node(data: bytes) -> bool:
    """Return whether a node of such a tree begins here."""
    return data.startswith(_MARK)


def read_below(node: bytes, fetch: Callable[[list[Span]], list[bytes]]) -> None:
    """Fetch all nodes below one, level by level; bytes that are no such node have none.

    Damage is not found here but by the library, which reads the same bytes.
    """
    level, seen = [node], set[Span]()
    while spans := {span for parent in level for span in _children(parent, len(node))} - seen:
        seen |= spans
        level = fetch(sorted(spans))


def _children(node: bytes, size: int) -> list[Span]:
    """Return where the children of a node lie; a leaf has none, since it lists chunks."""
    key, rest = divmod(size - _HEAD.size - _FANOUT * _ADDRESS, _FANOUT + 1)
    if not node.startswith(_MARK) or len(node) != size or rest or key <= 0:
        return []
    _, _, level, count, _, _ = _HEAD.unpack_from(node)
    if not level or count > _FANOUT:
        return []
    starts = range(_HEAD.size + key, _HEAD.size + key + count * (key + _ADDRESS), key + _ADDRESS)
    found = [struct.unpack_from("<Q", node, place)[0] for place in starts]
    return [(address, address + size) for address in found]
