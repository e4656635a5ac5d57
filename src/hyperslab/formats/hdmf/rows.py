"""Arrays of profile v3 that Zarr v3 stores as something else: references as text, rows of any length as rows of fixed
width, bytes as text. Pure.

To Zarr's own format such an array is given as what is stored (``stored_as``); a codec of ours makes it of the cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.errors import Unsupported
from hyperslab.formats.codec_kinds import SERIAL
from hyperslab.formats.hdmf.objects import check_field
from hyperslab.model.dtypes import (
    DataType,
    ObjectRef,
    RegionRef,
    VlenBytes,
    VlenString,
    describe,
    tagged,
    tagged_fields,
)
from hyperslab.model.spec import ArraySpec, Codec

NARROWEST = 512
"""How many characters hdmf-zarr gives each field of text, or more: so many or more are read as text of any length."""
REFERENCES, ROWS, BYTES = "reference_text", "record_text", "utf8_bytes"
OURS = (REFERENCES, ROWS, BYTES)
_SHARDS = "sharding_indexed"


def with_step(codecs: Sequence[Codec], step: Codec) -> tuple[Codec, ...]:
    """The chain with a step of ours before the one that makes bytes of cells, in shards too."""
    found: list[Codec] = []
    for codec in codecs:
        if codec.name == _SHARDS:
            found.append(Codec(_SHARDS, {**codec.config, "codecs": with_step(codec.config["codecs"], step)}))
            continue
        if codec.name in SERIAL:
            found.append(step)
        found.append(codec)
    return tuple(found)


def without_steps(codecs: Iterable[Codec]) -> tuple[Codec, ...]:
    """The chain that stands in the document."""
    return tuple(
        Codec(_SHARDS, {**codec.config, "codecs": without_steps(codec.config["codecs"])})
        if codec.name == _SHARDS
        else codec
        for codec in codecs
        if codec.name not in OURS
    )


def steps_in(codecs: Iterable[Codec]) -> list[Codec]:
    """The steps of ours in a chain."""
    found = []
    for codec in codecs:
        if codec.name == _SHARDS:
            found += steps_in(codec.config["codecs"])
        elif codec.name in OURS:
            found.append(codec)
    return found


def row_of(stored: DataType, references: Sequence[str], regions: Sequence[str]) -> np.dtype[Any] | None:
    """The rows that stored ones stand for: wide fields of text are references or text of any length; None without."""
    if not isinstance(stored, np.dtype) or stored.names is None:
        return None
    kinds = {name: _kind(name, stored[name], references, regions) for name in stored.names}
    if not any(kinds.values()):
        return None
    return np.dtype(
        [(name, stored[name] if kind is None else tagged(np.dtype(object), kind)) for name, kind in kinds.items()]
    )


def _kind(
    name: str, field: np.dtype[Any], references: Sequence[str], regions: Sequence[str]
) -> ObjectRef | RegionRef | VlenString | None:
    if field.kind != "U" or field.subdtype is not None:
        return None
    if name in regions:
        return RegionRef()
    if name in references:
        return ObjectRef()
    return VlenString() if field.itemsize // 4 >= NARROWEST else None


def widths_of(row: np.dtype[Any], stored: np.dtype[Any]) -> dict[str, int]:
    """How many characters the fields of any length have, by name."""
    return {name: stored[name].itemsize // 4 for name in row.names or () if row[name].hasobject}


def wished_widths(wish: ArraySpec) -> dict[str, int]:
    """How many characters the fields of any length get: as the wish says by ``layout["widths"]`` or in its codec
    ``record_text``, and never fewer than peers give them."""
    said: dict[str, Any] = dict(wish.layout.get("widths", {}))
    for step in steps_in(wish.codecs):
        said |= step.config.get("widths", {})
    names = (name for name in wish.numpy_dtype.names or () if wish.numpy_dtype[name].hasobject)
    return {name: max(NARROWEST, int(said.get(name, 0))) for name in names}


def packed_row(row: np.dtype[Any], widths: Mapping[str, int]) -> np.dtype[Any]:
    """How rows with fields of any length are stored; Unsupported for fields that there is no text of."""
    kinds = dict(tagged_fields(row))
    for name in row.names or ():
        if row[name].hasobject:
            check_field(name, kinds.get(name), bytes_too=False)
    return np.dtype([(name, f"<U{widths[name]}" if name in widths else row[name]) for name in row.names or ()])


def step_for(dtype: DataType, widths: Mapping[str, int]) -> Codec | None:
    """The codec of ours that cells of this type need; None for those that Zarr stores itself."""
    match dtype:
        case ObjectRef() | RegionRef():
            return Codec(REFERENCES)
        case VlenBytes():
            return Codec(BYTES)
        case np.dtype() if dtype.hasobject:
            return Codec(ROWS, {"widths": dict(widths)})
        case _:
            return None


def stored_as(spec: ArraySpec) -> ArraySpec:
    """The array as Zarr's own format is to know it."""
    steps = steps_in(spec.codecs)
    if not steps:
        wanted = step_for(spec.dtype, {})
        as_zarr_has_them = isinstance(spec.dtype, VlenBytes) and "vlen-bytes" in [codec.name for codec in spec.codecs]
        if wanted is not None and not as_zarr_has_them:
            message = f"cells of type {describe(spec.dtype)} without codec {wanted.name}"
            raise Unsupported(message, remedy="leave the codecs out")
        return spec
    codecs = without_steps(spec.codecs)
    if not isinstance(spec.dtype, np.dtype):
        fill = bytes(spec.fill_value or b"").decode() if isinstance(spec.dtype, VlenBytes) else ""
        return spec.evolve(dtype=VlenString(), codecs=codecs, fill_value=fill)
    dtype = packed_row(spec.dtype, steps[0].config["widths"])
    return spec.evolve(dtype=dtype, codecs=codecs, fill_value=np.zeros((), dtype)[()])
