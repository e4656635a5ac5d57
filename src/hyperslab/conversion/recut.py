"""Chunks that were asked for or that the source has, and those that the target has instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hyperslab.conversion.copying import ArrayCopy
from hyperslab.conversion.translate import Cutting
from hyperslab.model.spec import Chunks


def recut_notes(copies: Sequence[ArrayCopy], cutting: Cutting) -> Iterator[str]:
    """Of each array, but coordinates, that is cut otherwise than was asked for, or than the source is where nothing was
    asked: how it is cut."""
    if cutting.chunks == "auto":
        return
    for copy in copies:
        names = [copy.source_spec.dims[axis] for axis in copy.picked.kept]
        given = copy.target_spec.inner_chunks or copy.target_spec.chunks
        shape = copy.target_spec.shape
        if names == [copy.path.rpartition("/")[2]] or len(given) != len(names) or 0 in shape:
            continue
        cut = _within(given, shape)
        told = _unmet(cutting.chunks, names, shape, cut) if isinstance(cutting.chunks, Mapping) else _other(copy, cut)
        if told:
            yield f"/{copy.path} has chunks of {' x '.join(map(str, given))} ({told})"


def _unmet(asked: Mapping[str, int], names: list[str | None], shape: tuple[int, ...], cut: list[Any]) -> str:
    """The lengths that were asked for, when one is another."""
    wanted = [asked.get(name, -1) if name is not None else -1 for name in names]
    wished = [min(size, length) if size != -1 else length for size, length in zip(wanted, shape, strict=True)]
    if not any(name in asked and size != given for name, size, given in zip(names, wished, cut, strict=True)):
        return ""
    return "asked: " + ",".join(f"{name}={size}" for name, size in zip(names, wished, strict=True) if name in asked)


def _other(copy: ArrayCopy, cut: list[Any]) -> str:
    """The chunks of a source that is cut, when the target's are others."""
    spec = copy.source_spec
    chunks = spec.inner_chunks or spec.chunks
    before = _within(tuple(chunks[axis] for axis in copy.picked.kept), copy.target_spec.shape)
    if before in (cut, list(copy.target_spec.shape)):
        return ""
    return f"source: {' x '.join(map(str, before))}"


def _within(chunks: Chunks, shape: tuple[int, ...]) -> list[Any]:
    """No chunk is longer than its dimension."""
    return [min(cut, length) if isinstance(cut, int) else cut for cut, length in zip(chunks, shape, strict=True)]
