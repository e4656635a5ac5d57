"""Chunks that were asked for, and those that the target's format made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hyperslab.conversion.copying import ArrayCopy
from hyperslab.conversion.translate import Cutting
from hyperslab.model.spec import Chunks


def recut_notes(copies: Sequence[ArrayCopy], cutting: Cutting) -> Iterator[str]:
    """Of each array, but coordinates, whose chunks are not as long as was asked for: how it is cut instead."""
    asked = cutting.chunks
    if not isinstance(asked, Mapping):
        return
    for copy in copies:
        dims, shape = copy.source_spec.dims, copy.target_spec.shape
        names = [dims[axis] for axis in copy.picked.kept]
        given = copy.target_spec.inner_chunks or copy.target_spec.chunks
        if names == [copy.path.rpartition("/")[2]] or len(given) != len(names) or 0 in shape:
            continue
        wanted = [asked.get(name, -1) if name is not None else -1 for name in names]
        wished = [min(size, length) if size != -1 else length for size, length in zip(wanted, shape, strict=True)]
        pairs = zip(names, wished, _within(given, shape), strict=True)
        if any(name in asked and size != cut for name, size, cut in pairs):
            told = ",".join(f"{name}={size}" for name, size in zip(names, wished, strict=True) if name in asked)
            yield f"/{copy.path} has chunks of {' x '.join(map(str, given))} (asked: {told})"


def _within(chunks: Chunks, shape: tuple[int, ...]) -> list[object]:
    """No chunk is longer than its dimension."""
    return [min(cut, length) if isinstance(cut, int) else cut for cut, length in zip(chunks, shape, strict=True)]
