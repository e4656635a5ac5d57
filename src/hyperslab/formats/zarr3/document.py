"""``zarr.json``: to specs and back. Pure.

Both directions take the documents of one node as ``{"zarr.json": document}``. Extension keys that need not be
understood and spellings that mean the same are kept in ``spec.layout`` and written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.formats.bounded_memo import BoundedMemo
from hyperslab.formats.codec_kinds import unknown
from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.keys import KeyOf
from hyperslab.formats.metadata_json.cells import same_fill
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
from hyperslab.formats.zarr3 import missing_value
from hyperslab.formats.zarr3.codecs import read_codecs, write_codecs
from hyperslab.formats.zarr3.dtypes import is_raw, read_dtype, write_dtype
from hyperslab.formats.zarr3.fills import read_fill, write_fill
from hyperslab.formats.zarr3.grid import chunk_keys, extension, read_grid, read_keys, write_grid
from hyperslab.model.dtypes import DataType, Opaque, VlenArray, describe, numpy_dtype
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

NAME = "zarr.json"
COPY = "consolidated_metadata"
Docs = Mapping[str, Mapping[str, Any]]
_KEYS = {
    "group": frozenset({"zarr_format", "node_type", "attributes", COPY}),
    "array": frozenset(
        [
            "zarr_format",
            "node_type",
            "attributes",
            "shape",
            "data_type",
            "chunk_grid",
            "chunk_key_encoding",
            "fill_value",
            "codecs",
            "dimension_names",
            "storage_transformers",
        ]
    ),
}
_NO_LAYOUT: Mapping[str, Any] = {}
_DEFAULT_KEYS = {"name": "default", "configuration": {"separator": "/"}}


def parse(docs: Docs, node: str = "") -> GroupSpec | ArraySpec:
    """The spec of a node; FormatError lists every problem when there can be none."""
    problems = Problems(node)
    spec = read(docs[NAME], problems)
    problems.raise_if_fatal()
    return spec


def read(doc: Mapping[str, Any], problems: Problems) -> GroupSpec | ArraySpec:
    """The spec of a node; what is wrong goes to ``problems``."""
    if doc.get("zarr_format") != 3:
        problems.fatal("zarr_format", f"zarr_format is {brief(doc.get('zarr_format'))}, not 3")
    kind = doc.get("node_type")
    if kind not in ("group", "array"):
        problems.fatal("node_type", f"node_type is {brief(kind)}, not 'group' or 'array'")
        return GroupSpec()
    _check_extensions(doc, kind, problems)
    stored = problems.mapping("attributes", doc.get("attributes", {})) or {}
    layout = {"zarr3": {key: value for key, value in doc.items() if key not in ("attributes", COPY)}}
    if kind == "array":
        return _read_array(doc, stored, problems, layout)
    attrs, marks = read_attributes(stored)
    return GroupSpec(attrs=attrs, dims=marks.dims, types=marks.types, layout=layout)


def _check_extensions(doc: Mapping[str, Any], kind: str, problems: Problems) -> None:
    """A key beyond the specification may be passed over only if it says so."""
    for key, value in doc.items():
        if key in _KEYS[kind] or (isinstance(value, dict) and value.get("must_understand") is False):
            continue
        message = f"the key {key!r} is not known, and says not that it need not be understood"
        if kind == "array":
            problems.undecodable("must_understand", message)
        else:
            problems.fatal("must_understand", message)


def _read_array(
    doc: Mapping[str, Any], stored: Mapping[str, Any], problems: Problems, layout: Mapping[str, Any] = _NO_LAYOUT
) -> ArraySpec:
    shape = problems.lengths("shape", doc.get("shape"), 0)
    if shape is None:
        return ArraySpec(shape=(), dtype=Opaque(1), chunks=())
    chunks = read_grid(doc.get("chunk_grid"), shape, problems)
    read_keys(doc.get("chunk_key_encoding"), problems)
    plain = _read_type(doc, problems)
    codecs = read_codecs(doc.get("codecs"), plain, chunks, problems)
    _check_codecs(doc, codecs, problems)
    attrs, marks = read_attributes(stored if plain is None else missing_value.unspell(stored, plain))
    dtype = Opaque(1, brief(doc.get("data_type"))) if plain is None else marked_type(plain, marks.dtype)
    fill = None if plain is None else _read_fill(doc, dtype, problems)
    if isinstance(dtype, VlenArray):
        codecs = _renamed(codecs, "vlen-bytes", Codec("vlen-array", {"dtype": dtype.base.newbyteorder("<").str}))
    dims = _dims(doc.get("dimension_names"), len(shape), problems)
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
        layout=layout,
    )


def _read_type(doc: Mapping[str, Any], problems: Problems) -> DataType | None:
    try:
        return read_dtype(doc.get("data_type"))
    except TypeError as error:
        problems.undecodable("data_type", str(error))
        return None


def _check_codecs(doc: Mapping[str, Any], codecs: tuple[Codec, ...], problems: Problems) -> None:
    for reason in [] if problems.is_fatal else unknown(codecs):
        problems.undecodable("unknown-codec", reason)
    transformers = doc.get("storage_transformers") or []
    for said in transformers if isinstance(transformers, list) else [transformers]:
        found = extension(said)
        problems.undecodable(
            "storage_transformer", f"storage transformer {brief(found[0] if found else said)} is not known"
        )


def _read_fill(doc: Mapping[str, Any], dtype: DataType, problems: Problems) -> Any:
    if "fill_value" not in doc:
        problems.fatal("fill_value", "fill_value is missing")
        return None
    try:
        return read_fill(doc["fill_value"], dtype)
    except (TypeError, ValueError, OverflowError) as error:
        problems.fatal("fill_value", f"fill_value for cells of type {describe(dtype)}: {error}")
        return None


def _renamed(codecs: tuple[Codec, ...], old: str, new: Codec) -> tuple[Codec, ...]:
    """The chain with another codec from cells to bytes, in shards too."""
    found = []
    for codec in codecs:
        if codec.name == "sharding_indexed":
            inner = {"codecs": _renamed(codec.config["codecs"], old, new)}
            found.append(Codec(codec.name, {**codec.config, **inner}))
        else:
            found.append(new if codec.name == old else codec)
    return tuple(found)


def _dims(names: Any, ndim: int, problems: Problems) -> tuple[str | None, ...]:
    if names is None:
        return ()
    if isinstance(names, list) and len(names) == ndim and all(isinstance(name, str | None) for name in names):
        return tuple(names)
    problems.fatal("dimension_names", f"dimension_names is {brief(names)}, not a name or null for {ndim} dimensions")
    return ()


def render(spec: GroupSpec | ArraySpec) -> dict[str, dict[str, Any]]:
    """The document of a node; Unsupported names what Zarr v3 cannot hold."""
    old: Mapping[str, Any] = spec.layout.get("zarr3", {})
    if isinstance(spec, GroupSpec):
        attributes = write_attributes(spec.attrs, ExtendedMetadata(spec.dims, None, spec.types))
        return {NAME: {"zarr_format": 3, "node_type": "group"} | dict(old) | {"attributes": attributes}}
    spelled, hidden = {}, []
    if missing_value.NAME in spec.attrs:
        said = missing_value.spell(spec.attrs[missing_value.NAME], plain_type(spec.dtype))
        if said is None:
            hidden = [missing_value.NAME]
        else:
            spelled = {missing_value.NAME: said}
    was = _as_it_was(old) if old else None
    dtype = mark_of(spec.dtype) if was is None or was.dtype != spec.dtype else None
    marks = ExtendedMetadata(dtype=dtype, indexes=write_indexes(spec.indexes, spec.dims))
    attributes = write_attributes(spec.attrs, marks, spelled, hidden)
    return {NAME: _render_array(spec, old, was) | {"attributes": attributes}}


_as_it_was = BoundedMemo(lambda old: _read_array(old, {}, Problems("")))


def mark_of(dtype: DataType) -> Any:
    """Cells of variable length and floats of 80 bits are stored as bytes: what they hold must be said."""
    return dtype if isinstance(dtype, VlenArray) or is_raw(dtype) else needs_mark(dtype)


def _render_array(spec: ArraySpec, old: Mapping[str, Any], was: ArraySpec | None) -> dict[str, Any]:
    """The document without attributes: the old one's words where they still mean the same, and its other keys."""
    doc = {"zarr_format": 3, "node_type": "array", "shape": list(spec.shape)} | dict(old)
    doc["shape"] = list(spec.shape)
    same_type = was is not None and plain_type(was.dtype) == _stored_type(spec.dtype)
    if not same_type:
        doc["data_type"] = write_dtype(spec.dtype)
    if was is None or not _still_cuts(old, spec):
        doc["chunk_grid"] = write_grid(spec.chunks)
    doc.setdefault("chunk_key_encoding", _DEFAULT_KEYS)
    if was is None or not same_type or not same_fill(_stored_fill(was), _stored_fill(spec)):
        doc["fill_value"] = write_fill(spec.fill_value, spec.dtype)
    codecs = _renamed(spec.codecs, "vlen-array", Codec("vlen-bytes"))
    if was is None or was.codecs != codecs:
        doc["codecs"] = write_codecs(codecs)
    if was is None or was.dims != spec.dims:
        doc.pop("dimension_names", None)
        if any(name is not None for name in spec.dims):
            doc["dimension_names"] = list(spec.dims)
    return doc


def _still_cuts(old: Mapping[str, Any], spec: ArraySpec) -> bool:
    """Return whether the old grid gives these chunks for the new shape."""
    problems = Problems("")
    return read_grid(old.get("chunk_grid"), spec.shape, problems) == spec.chunks and not problems.is_fatal


def _stored_type(dtype: DataType) -> DataType:
    if is_raw(dtype):
        return np.dtype((np.void, numpy_dtype(dtype).itemsize))
    return read_dtype("bytes") if isinstance(dtype, VlenArray) else plain_type(dtype)


def _stored_fill(spec: ArraySpec) -> Any:
    if isinstance(spec.dtype, VlenArray):
        return spec.fill_value.tobytes()
    return spec.fill_value


def key_of(spec: ArraySpec) -> KeyOf:
    """The key of a chunk by its coordinates."""
    encoding = spec.layout.get("zarr3", {}).get("chunk_key_encoding", _DEFAULT_KEYS)
    return chunk_keys(*read_keys(encoding, Problems("")), len(spec.shape))
