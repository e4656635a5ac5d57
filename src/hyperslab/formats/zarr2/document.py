"""``.zarray``, ``.zgroup`` and ``.zattrs``: to specs and back. Pure.

Both directions take the documents of one node as a mapping of their names to JSON objects. What another writer put into
``.zarray`` or ``.zgroup`` beyond the format is kept in ``spec.layout`` and written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.codecs.chain import try_chain
from hyperslab.errors import Unsupported
from hyperslab.formats.bounded_memo import BoundedMemo
from hyperslab.formats.codec_kinds import serial_codec, with_serial
from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.metadata_json.cells import as_fill, same_fill
from hyperslab.formats.metadata_json.extended_metadata import (
    ExtendedMetadata,
    marked_type,
    needs_mark,
    plain_type,
    read_attributes,
    read_indexes,
    write_attributes,
    write_indexes,
)
from hyperslab.formats.zarr2.codecs import read_codecs, write_codecs
from hyperslab.formats.zarr2.dtypes import read_dtype, read_fill, write_dtype, write_fill
from hyperslab.model.dtypes import DataType, Opaque, describe, numpy_dtype
from hyperslab.model.spec import ArraySpec, GroupSpec

ARRAY, GROUP, ATTRIBUTES = ".zarray", ".zgroup", ".zattrs"
DIMENSIONS = "_ARRAY_DIMENSIONS"
Docs = Mapping[str, Mapping[str, Any]]
UNWRITTEN = "fill_is_unwritten"
"""In ``ArraySpec.layout``: the fill value is what unwritten cells read as, and cells that are equal to it count."""
_SEPARATORS = (".", "/")


def parse(docs: Docs, node: str = "") -> GroupSpec | ArraySpec:
    """The spec of a node; FormatError lists every problem when there can be none."""
    problems = Problems(node)
    spec = read(docs, problems)
    problems.raise_if_fatal()
    return spec


def read(docs: Docs, problems: Problems) -> GroupSpec | ArraySpec:
    """The spec of a node; what is wrong goes to ``problems``."""
    stored = docs.get(ATTRIBUTES, {})
    if ARRAY in docs:
        return read_array(docs[ARRAY], stored, problems)
    doc = docs.get(GROUP, {})
    _check_version(doc, problems)
    attrs, marks = read_attributes(stored)
    return GroupSpec(attrs=attrs, dims=marks.dims, types=marks.types, layout={"zarr2": doc})


def _check_version(doc: Mapping[str, Any], problems: Problems) -> None:
    if "zarr_format" not in doc:
        problems.warn("zarr_format", "zarr_format is missing; 2 is assumed")
    elif doc["zarr_format"] != 2:
        problems.fatal("zarr_format", f"zarr_format is {brief(doc['zarr_format'])}, not 2")


def read_array(doc: Mapping[str, Any], stored: Mapping[str, Any], problems: Problems) -> ArraySpec:
    """The spec of a ``.zarray`` with the attributes that are stored beside it; what is wrong goes to ``problems``."""
    _check_version(doc, problems)
    shape = problems.lengths("shape", doc.get("shape"), 0) or ()
    chunks = problems.lengths("chunks", doc.get("chunks"), 1, None if problems.is_fatal else len(shape)) or (1,) * len(
        shape
    )
    codecs = read_codecs(doc, len(shape), problems)
    attrs, marks = read_attributes(stored)
    dtype, fill = _cells(doc, codecs, marks, problems)
    if doc.get("dimension_separator", ".") not in _SEPARATORS:
        problems.undecodable("separator", f"dimension_separator is {brief(doc['dimension_separator'])}, not '.' or '/'")
    dims = _dims(attrs, len(shape), problems)
    return ArraySpec(
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        dims=dims,
        codecs=codecs,
        fill_value=fill,
        attrs=attrs,
        indexes=read_indexes(marks.indexes, dims, shape) if marks.indexes else {},
        problem=problems.undecodable_reason,
        layout={"zarr2": doc} | ({UNWRITTEN: True} if marks.unwritten else {}),
    )


def _cells(doc: Mapping[str, Any], codecs: Any, marks: ExtendedMetadata, problems: Problems) -> tuple[DataType, Any]:
    try:
        dtype = marked_type(read_dtype(doc.get("dtype"), codecs), marks.dtype)
    except TypeError as error:
        problems.undecodable("dtype", f"dtype: {error}")
        return Opaque(1, brief(doc.get("dtype"))), None
    try:
        fill = read_fill(doc.get("fill_value"), dtype)
        # as zarr-python has it: times that were never written are none, and not the first one of their calendar
        return dtype, np.array("NaT", numpy_dtype(dtype))[()] if fill is None and _is_time(dtype) else fill
    except (TypeError, OverflowError) as error:
        problems.fatal("fill_value", f"fill_value for cells of type {describe(dtype)}: {error}")
        return dtype, None


def _is_time(dtype: DataType) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "mM"


def _dims(attrs: dict[str, Any], ndim: int, problems: Problems) -> tuple[str | None, ...]:
    """The names of the dimensions, taken out of the attributes; names that do not fit stay there."""
    names = attrs.get(DIMENSIONS)
    if names is None:
        return ()
    if not isinstance(names, list) or len(names) != ndim or not all(isinstance(n, str | None) for n in names):
        problems.warn("dimensions", f"{DIMENSIONS} is {brief(names)}, which names no {ndim} dimensions; ignored")
        return ()
    del attrs[DIMENSIONS]
    return tuple(names)


def render(spec: GroupSpec | ArraySpec) -> dict[str, dict[str, Any]]:
    """The documents of a node; Unsupported names what Zarr v2 cannot hold."""
    old: Mapping[str, Any] = spec.layout.get("zarr2", {})
    if isinstance(spec, GroupSpec):
        return {
            ATTRIBUTES: write_attributes(spec.attrs, ExtendedMetadata(spec.dims, None, spec.types)),
            GROUP: {"zarr_format": 2, **{key: value for key, value in old.items() if key != "zarr_format"}},
        }
    attrs = dict(spec.attrs)
    if not spec.shape or any(name is not None for name in spec.dims):
        attrs = {DIMENSIONS: list(spec.dims)} | {name: value for name, value in attrs.items() if name != DIMENSIONS}
    # xarray takes the pair of a complex _FillValue for two values that both mean missing
    hidden = ["_FillValue"] if spec.numpy_dtype.kind == "c" and "_FillValue" in attrs else []
    was = _was(old)
    dtype = needs_mark(spec.dtype) if was is None or was.dtype != spec.dtype else None
    marks = ExtendedMetadata(
        dtype=dtype, indexes=write_indexes(spec.indexes, spec.dims), unwritten=UNWRITTEN in spec.layout
    )
    return {ATTRIBUTES: write_attributes(attrs, marks, hidden=hidden), ARRAY: render_array(spec, old)}


def _as_it_was(old: Mapping[str, Any]) -> ArraySpec | None:
    return read_array(old, {}, Problems("")) if old else None


_was = BoundedMemo(_as_it_was)


def render_array(spec: ArraySpec, old: Mapping[str, Any]) -> dict[str, Any]:
    """``.zarray``: the old one's words where they still mean the same, its unknown keys, its order of keys."""
    was = _was(old)
    if any(not isinstance(cut, int) for cut in spec.chunks):
        raise Unsupported("format zarr2 has no chunks of varying size", remedy="give one length per dimension")
    same_type = was is not None and plain_type(was.dtype) == plain_type(spec.dtype)
    kept = dict(old)
    kept |= {"zarr_format": 2, "shape": list(spec.shape), "chunks": list(spec.chunks)}
    if not same_type:
        kept["dtype"] = write_dtype(spec.dtype)
    if was is None or not same_type or not same_fill(was.fill_value, spec.fill_value):
        kept["fill_value"] = write_fill(spec.fill_value, spec.dtype)
    if was is None or was.codecs != spec.codecs:
        kept |= write_codecs(spec.codecs, len(spec.shape))
    return kept if old else kept | {"dimension_separator": "."}


def new_array(wish: ArraySpec) -> ArraySpec:
    """A user's wish in this format's spelling. No fill value is null, so that xarray masks no zeros; no checksum.

    What the codecs cannot do to such cells is Invalid now, not when the first chunk is written.
    """
    if wish.layout.get("shards") is not None:
        raise Unsupported("format zarr2 has no shards", remedy="use format zarr3")
    fill = wish.fill_value
    if fill is None and _is_time(wish.dtype):
        fill = np.array("NaT", numpy_dtype(wish.dtype))[()]
    codecs = with_serial(wish.codecs, serial_codec(wish.dtype))
    layout = {name: wish.layout[name] for name in ("zarr2", UNWRITTEN) if name in wish.layout}
    spec = wish.evolve(codecs=codecs, fill_value=as_fill(fill, wish.dtype), layout=layout, problem=None)
    found = _parsed(render(spec))
    try_chain(found)
    return found


def _parsed(docs: Docs) -> ArraySpec:
    spec = parse(docs)
    if not isinstance(spec, ArraySpec):
        raise TypeError("no array")
    return spec


def chunk_keys(spec: ArraySpec) -> Callable[[Coords], str]:
    """The key of a chunk by its coordinates: ``0.3.1``, or ``0/3/1`` with the separator ``/``."""
    separator = spec.layout.get("zarr2", {}).get("dimension_separator", ".")
    if not spec.shape:
        return lambda coords: "0"
    return lambda coords: separator.join(map(str, coords))
