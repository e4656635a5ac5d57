"""Zarr v3's ``chunk_grid`` (regular, rectilinear) and ``chunk_key_encoding`` (default, v2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from hyperslab.chunks.auto import whole_chunks
from hyperslab.formats.format_errors import LONGEST, Problems, brief
from hyperslab.formats.keys import KeyOf
from hyperslab.model.spec import Chunks

_MOST_CHUNKS = 10**6
_SEPARATORS = {"default": "/", "v2": "."}


def extension(said: Any) -> tuple[str, dict[str, Any]] | None:
    """Name and configuration of an extension point: a bare name, or an object; None when it is neither."""
    if isinstance(said, str):
        return said, {}
    if isinstance(said, dict) and isinstance(said.get("name"), str):
        config = said.get("configuration")
        if config is None or isinstance(config, dict):
            return said["name"], config or {}
    return None


def read_grid(said: Any, shape: tuple[int, ...], problems: Problems) -> Chunks:
    """The chunks of a grid: an int or a tuple of sizes per axis."""
    found = extension(said)
    whole = whole_chunks(shape)
    if found is None:
        problems.fatal("chunk_grid", f"chunk_grid is {brief(said)}, not an object with name and configuration")
        return whole
    name, config = found
    if name == "regular":
        return problems.lengths("chunk_shape", config.get("chunk_shape"), 1, len(shape)) or whole
    if name == "rectilinear":
        return _rectilinear(config, shape, problems) or whole
    problems.undecodable("chunk_grid", f"chunk_grid {name!r} is not known")
    return whole


def _rectilinear(config: dict[str, Any], shape: tuple[int, ...], problems: Problems) -> Chunks | None:
    said = config.get("chunk_shapes")
    if config.get("kind", "inline") != "inline":
        problems.undecodable("chunk_grid", f"a rectilinear chunk_grid of kind {brief(config.get('kind'))} is not known")
        return None
    if not isinstance(said, list) or len(said) != len(shape):
        problems.fatal("chunk_shapes", f"chunk_shapes is {brief(said)}, not a list for {len(shape)} dimensions")
        return None
    cuts = [_axis(cut, length, problems) for cut, length in zip(said, shape, strict=True)]
    return None if problems.is_fatal else tuple(cut or 1 for cut in cuts)


def _axis(said: Any, length: int, problems: Problems) -> int | tuple[int, ...] | None:
    """One axis: a size for all chunks, or a list of sizes and of ``[size, how often]``."""
    if _is_size(said):
        return int(said)
    runs = [(n, 1) if _is_size(n) else tuple(n) if _is_run(n) else None for n in said] if isinstance(said, list) else []
    if not runs or None in runs:
        problems.fatal("chunk_shapes", f"{brief(said)} are no chunk sizes")
        return None
    known = [run for run in runs if run is not None]
    if sum(size * count for size, count in known) < length:
        problems.fatal("chunk_shapes", f"the chunk sizes {brief(said)} do not reach the length {length}")
        return None
    if len(known) == 1 and known[0][1] > 1:
        return int(known[0][0])
    if sum(count for _, count in known) > _MOST_CHUNKS:
        problems.fatal("chunk_shapes", f"more than {_MOST_CHUNKS} chunk sizes are listed for one axis")
        return None
    return tuple(size for size, count in known for _ in range(count))


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value <= LONGEST


def _is_run(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_size, value))


def write_grid(chunks: Chunks) -> dict[str, Any]:
    """The ``chunk_grid`` of such chunks: regular when every axis has one size."""
    if all(isinstance(cut, int) for cut in chunks):
        return {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    shapes = [cut if isinstance(cut, int) else _runs(cut) for cut in chunks]
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


def _runs(sizes: Sequence[int]) -> list[Any]:
    runs = [(size, len(list(group))) for size, group in groupby(sizes)]
    return [size if count == 1 else [size, count] for size, count in runs]


def read_keys(said: Any, problems: Problems) -> tuple[str, str]:
    """Name and separator of a ``chunk_key_encoding``."""
    found = extension("default" if said is None else said)
    if said is None:
        problems.warn("chunk_key_encoding", "chunk_key_encoding is missing; 'default' is assumed")
    if found is None:
        problems.fatal("chunk_key_encoding", f"chunk_key_encoding is {brief(said)}, not an object with a name")
        return "default", "/"
    name, config = found
    if name not in _SEPARATORS:
        problems.undecodable("chunk_key_encoding", f"chunk_key_encoding {name!r} is not known")
        return "default", "/"
    separator = config.get("separator", _SEPARATORS[name])
    if separator not in (".", "/"):
        problems.fatal("chunk_key_encoding", f"the separator of chunk keys is {brief(separator)}, not '.' or '/'")
        return name, "/"
    return name, separator


def chunk_keys(name: str, separator: str, ndim: int) -> KeyOf:
    """The key of a chunk by its coordinates: ``c/0/1`` (default) or ``0.1`` (v2); ``c`` or ``0`` in 0-d arrays."""
    if not ndim:
        return lambda coords: "0" if name == "v2" else "c"
    numbers = separator.join(["%d"] * ndim)
    return (numbers if name == "v2" else f"c{separator}{numbers}").__mod__  # one call in C for each chunk
