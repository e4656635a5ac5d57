"""From what a user asks of a new array to the spec in the format's own spelling; the dimensions of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from operator import mod
from typing import Any, Literal

import numpy as np

from hyperslab.array import references
from hyperslab.array.lazy_cells import is_any_sparse, is_dask_array
from hyperslab.array.narrowing import to_array
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.auto import (
    MANY,
    ShardLengths,
    auto_shards,
    check_shards,
    longest_chunk,
    parse_shards,
    shards_of_many,
)
from hyperslab.codecs.checksums import WORDS as CHECKSUMS
from hyperslab.codecs.registry import parse_codec
from hyperslab.errors import AlreadyExists, Invalid, Unsupported, WrongType
from hyperslab.formats.base import Feature, FormatTraits
from hyperslab.formats.metadata_json.cells import to_fill_cell
from hyperslab.model.cells import longest_text
from hyperslab.model.dims import Dimension, axis_names, values_of_axes
from hyperslab.model.dtypes import DataType, VlenString, as_data_type, describe, is_fixed, numpy_dtype, tagged_fields
from hyperslab.model.guessing import meant
from hyperslab.model.paths import check_name, outward, split
from hyperslab.model.spec import ArraySpec, Chunks, Codec


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The arguments of ``create_array``."""

    shape: Any = None
    dtype: Any = None
    dims: Any = None
    chunks: Any = "auto"
    shards: Any = None
    codec: Any = "default"
    checksum: bool | None = None
    fill_value: Any = None
    units: str | None = None
    attrs: Mapping[str, Any] | None = None
    data: Any = None
    sparse: bool = False
    densify: bool = False

    @property
    def lists_cells(self) -> bool:
        """Return True if the data is sparse, or a dask array whose blocks are."""
        return is_any_sparse(self.data)

    def wanted_shards(self, traits: FormatTraits) -> ShardLengths | Literal["auto", "many"] | None:
        """Return the lengths of shards, ``"auto"``, ``"many"`` for shards where chunks would be many small files, None
        for none. Invalid for what says nothing about shards.

        Without a word of the caller's it is ``"many"`` where all cells are here, in a format of which that is known.
        Nobody knows how others come: a write of less than a shard has all of it read and written anew, and programs
        that know no locks of ours lose cells when they write different chunks of one shard at a time.
        """
        shards = parse_shards(self.shards)
        if shards is None:
            return MANY if self.data is not None and traits.shards_many else None
        return None if shards is False else shards

    @property
    def in_blocks(self) -> bool:
        """Return True if the data is a dask array, which is not computed to find out what it is."""
        return is_dask_array(self.data)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Wish:
        """Return the wish of these arguments; Invalid for a name that none of them has."""
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                raise Invalid(f"create_array has no argument {name!r}", remedy=meant(name, names))
        return cls(**options).resolve_data()

    def resolve_data(self) -> Wish:
        """Return the wish with data whose shape is known; of a Quantity these are its magnitude, with its units beside
        them."""
        from hyperslab.bridges.dask import compute_chunk_sizes
        from hyperslab.bridges.pint import plain

        wish = self
        data, units = plain(self.data)
        if units is not None:
            other = self.units if self.units is not None else (self.attrs or {}).get("units")
            if other not in (None, units):
                message = f"units {other!r} for a Quantity of {units!r}"
                raise Invalid(message, remedy=f"convert it, to({other!r}), or leave its units to say it")
            wish = replace(self, data=data, units=units)
        return replace(wish, data=compute_chunk_sizes(wish.data)) if wish.in_blocks else wish


def array_spec(wish: Wish, session: OpenDataset, group: str = "") -> ArraySpec:
    """Return the spec of the wish, of an array in ``group``; Invalid when its parts contradict each other, Unsupported
    when the format lacks it."""
    lists_cells = wish.lists_cells
    data = wish.data
    if not (data is None or wish.in_blocks or lists_cells):
        data = to_array(data, None if wish.dtype is None else as_data_type(wish.dtype))
    if wish.shape is None and data is None:
        raise Invalid("a new array needs a shape, or data", remedy="give shape= or data=")
    shape = data.shape if data is not None and wish.shape is None else _lengths(wish.shape)
    dtype = as_data_type(_dtype(wish.dtype, data))
    dims = _dims(wish.dims, len(shape))
    itemsize = numpy_dtype(dtype).itemsize
    writer = session.writer()
    auto = writer.auto_chunks(shape, itemsize)
    wanted = wish.wanted_shards(session.format.traits)
    chunks = _cut(wish.chunks, shape, dims, _fitted(wish, auto) if wish.in_blocks and wanted in (None, MANY) else auto)
    shards: Chunks | None = None
    if wanted == MANY:
        if Feature.SHARDS in session.format.features and is_fixed(dtype):
            shards = _shards_of_many(session, group, shape, dims, chunks, itemsize)
    elif wanted is not None:
        shards = _shards(wanted, shape, dims, chunks, itemsize)
        session.format.require_shards()
        if wish.chunks is None or wish.chunks is True or wish.chunks == "auto":
            _require_whole_chunks(shards, chunks)
    sparse = wish.sparse or (lists_cells and not wish.densify)
    if sparse:
        _require_sparse(session)
    codecs = parse_codec(wish.codec, numpy_dtype(dtype))
    if wish.checksum and (not codecs or codecs[-1].name not in CHECKSUMS):
        codecs = (*codecs, Codec("crc32c"))
    layout: dict[str, Any] = {} if shards is None else {"shards": shards}
    layout |= _widths(dtype, data)
    attrs = (
        room_for_text(session, dtype, data)
        | references.attrs_from(session, wish.attrs or {})
        | ({"units": wish.units} if wish.units is not None else {})
    )
    spec = ArraySpec(
        shape=shape,
        dtype=dtype,
        dims=dims,
        chunks=chunks,
        codecs=codecs,
        fill_value=_fill(wish) if sparse else wish.fill_value,
        attrs=attrs,
        sparse="COO" if sparse else None,
        layout=layout if wish.checksum is None else layout | {"checksum": wish.checksum},
    )
    try:
        return writer.new_array(spec)  # first, since a format may say better what is wrong
    except (TypeError, OverflowError):
        try:
            to_fill_cell(spec.fill_value, dtype)
        except (TypeError, ValueError, OverflowError):
            message = f"fill_value={spec.fill_value!r:.60} is no cell of type {describe(dtype)}"
            raise Invalid(message, remedy="give a cell of this type, or make the array of another dtype") from None
        raise


def _shards(
    wanted: ShardLengths | Literal["auto"],
    shape: tuple[int, ...],
    dims: tuple[str | None, ...],
    chunks: Chunks,
    itemsize: int,
) -> Chunks:
    """Return the shards that the caller wants: where a dimension is not named, as long as a chunk; where all of it is
    wanted, to the end of its last chunk."""
    cuts = tuple(cut for cut in chunks if isinstance(cut, int))
    if len(cuts) < len(chunks):
        raise Invalid("shards need chunks of one size per dimension", remedy="give one length for each")
    if wanted == "auto":
        return auto_shards(shape, cuts, itemsize)
    whole = tuple(-(-max(length, 1) // cut) * cut for length, cut in zip(shape, cuts, strict=True))
    shards = _cut(wanted, whole, dims, cuts, "shard")
    check_shards(shards, cuts)
    return shards


def _require_whole_chunks(shards: Chunks, chunks: Chunks) -> None:
    """Raise Invalid where the chunks that nobody chose do not fit into the shards."""
    if any(map(mod, longest_chunk(shards), longest_chunk(chunks))):
        message = f"shards of {shards} hold no whole number of chunks of {chunks}, which nobody chose"
        raise Invalid(message, remedy="give chunks too, of lengths that divide those of the shards")


def _shards_of_many(
    session: OpenDataset,
    group: str,
    shape: tuple[int, ...],
    dims: tuple[str | None, ...],
    chunks: Chunks,
    itemsize: int,
) -> tuple[int, ...] | None:
    """Return the shards of an array that would be many small files; None for any other, and for varying chunks."""
    cuts = tuple(cut for cut in chunks if isinstance(cut, int))
    if len(cuts) < len(chunks) or shards_of_many(shape, cuts, itemsize) is None:
        return None
    unlimited = unlimited_dimensions(session, group)
    return shards_of_many(shape, cuts, itemsize, [axis for axis, dim in enumerate(dims) if dim in unlimited])


def room_for_text(session: OpenDataset, dtype: DataType, data: object) -> dict[str, Any]:
    """Return the attributes that a format wants of an array of such text, where it has to know how long that is; none
    where the data are not at hand."""
    is_bounded = session.format.traits.bounds_text and isinstance(dtype, VlenString)
    if not is_bounded or not isinstance(data, np.ndarray):
        return {}
    return dict(session.writer().room_for_text(longest_text(data)))


def _widths(dtype: DataType, data: object) -> dict[str, dict[str, int]]:
    """Return how many characters the longest text of each field has, for formats that store rows with room for so
    many."""
    if not isinstance(dtype, np.dtype) or not dtype.hasobject or not isinstance(data, np.ndarray):
        return {}
    texts = [name for name, kind in tagged_fields(dtype) if isinstance(kind, VlenString)]
    columns = {name: data[name].flat for name in texts if data.dtype.names and name in data.dtype.names}
    return {"widths": {name: max(map(len, map(str, cells)), default=0) for name, cells in columns.items()}}


def _require_sparse(session: OpenDataset) -> None:
    if Feature.SPARSE not in session.format.features:
        remedy = "densify=True (--allow-loss when converting) stores all cells"
        raise Unsupported(f"format {session.format.name} has no {Feature.SPARSE.value}", url=session.url, remedy=remedy)


def _fill(wish: Wish) -> object:
    """Return what the cells of a sparse array are that are not listed."""
    from hyperslab.bridges.sparse import fill_of

    return fill_of(wish.data)[()] if wish.fill_value is None and wish.lists_cells else wish.fill_value


def _fitted(wish: Wish, auto: tuple[int, ...]) -> tuple[int, ...]:
    from hyperslab.bridges.dask import fitted

    return fitted(wish.data.chunks, auto) if len(wish.data.chunks) == len(auto) else auto


def _dtype(dtype: Any, data: Any) -> object:
    if dtype is not None:
        return dtype
    if data is None:
        return np.dtype("f8")
    if data.dtype == object and not isinstance(data, np.ndarray):
        raise Invalid("cells that are objects of which nothing is known yet", remedy="give dtype=, such as str")
    if data.dtype != object:
        return data.dtype
    return str if all(isinstance(cell, str) for cell in data.flat) else references.type_of(data) or data.dtype


def _lengths(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, np.ndarray):  # as a rule cells: those of np.arange(3) would make a shape of (0, 1, 2)
        remedy = "give cells by data=; lengths that stand in an array by shape=tuple(...)"
        raise WrongType("an array of NumPy as the shape of a new array", remedy=remedy)
    lengths = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if any(not isinstance(n, int | np.integer) or n < 0 for n in lengths):
        raise Invalid(f"{shape!r} is not a shape", remedy="give whole numbers of at least 0")
    return tuple(int(n) for n in lengths)


def _dims(dims: Any, ndim: int) -> tuple[str | None, ...]:
    names = (None,) * ndim if dims is None else (dims,) if isinstance(dims, str) else tuple(dims)
    if len(names) != ndim:
        raise Invalid(f"{len(names)} dimension names for {ndim} dimensions", remedy="give a name, or None, for each")
    if odd := [name for name in names if not isinstance(name, str | None)]:
        raise Invalid(f"{odd[0]!r} is no name of a dimension", remedy="give a text, or None, for each")
    return names


def _cut(
    lengths: Any, shape: tuple[int, ...], dims: tuple[str | None, ...], auto: tuple[int, ...], what: str = "chunk"
) -> Chunks:
    """Return lengths of chunks, or ``what`` else: auto, one for all axes, per axis (-1 or None: the whole axis), or by
    dimension name, or its place (``dim_0``)."""
    match lengths:
        case None | True | "auto":
            return auto
        case str():
            remedy = "give 'auto', lengths, or a mapping of dimension names to lengths"
            raise Invalid(f"chunks={lengths!r}", remedy=remedy)
        case Mapping():
            known = dict.fromkeys([*filter(None, dims), *axis_names(dims)])
            unknown = [name for name in lengths if name not in known]
            if unknown:
                raise Invalid(f"no dimension {unknown[0]!r}", remedy=meant(unknown[0], known))
            # None means the whole axis
            wanted = values_of_axes({name: -1 if cut is None else cut for name, cut in lengths.items()}, dims)
            lengths = [auto[axis] if cut is None else cut for axis, cut in enumerate(wanted)]
    cuts = (lengths,) * len(shape) if isinstance(lengths, int) else tuple(lengths)
    if len(cuts) != len(shape):
        raise Invalid(f"{len(cuts)} {what} lengths for {len(shape)} dimensions", remedy="give one for each")
    return tuple(_one_cut(cut, length) for cut, length in zip(cuts, shape, strict=True))


def _one_cut(cut: object, length: int) -> int | tuple[int, ...]:
    if cut is None or (isinstance(cut, int) and cut == -1):
        return max(length, 1)
    if isinstance(cut, int | np.integer):
        if cut < 1:
            raise Invalid(f"a chunk length of {cut}", remedy="chunk lengths are at least 1, or -1 for the whole axis")
        return int(cut)
    if not isinstance(cut, Iterable) or not all(isinstance(size, int | np.integer) for size in cut):
        raise Invalid(f"a chunk length of {cut!r}", remedy="chunk lengths are whole numbers, or tuples of them")
    return tuple(int(size) for size in cut)


# -- dimensions that a group knows -------------------------------------------------------------------------------------


def dimensions_of(session: OpenDataset, path: str) -> dict[str, Dimension]:
    """Return declared dimensions first, in order, then those of the arrays; a size is the longest among its arrays,
    where these have several the declared one.

    A dimension that is declared further out is as unlimited as it is there: the nearest group outward counts.
    """
    found = _declared(session, path)
    lengths: dict[str, set[int]] = {}
    for _, array in session.arrays(path):
        for dim, size in zip(array.dims, array.shape, strict=True):
            if dim:
                lengths.setdefault(dim, set()).add(size)
    outer: dict[str, Dimension] = {}
    if lengths.keys() - found.keys():
        while path:
            path, _ = split(path)
            outer = _declared(session, path) | outer  # the nearest of each name
    for dim, several in lengths.items():
        declared = found.get(dim)
        fixed = declared is not None and not declared.unlimited and declared.size in several
        known = declared or outer.get(dim)
        size = declared.size if declared is not None and fixed else max(several)
        found[dim] = Dimension(dim, size, known is not None and known.unlimited)
    return found


def unlimited_dimensions(session: OpenDataset, path: str) -> set[str]:
    """Return the names that mean unlimited dimensions in a group, as it or the nearest one outward declares them."""
    found: dict[str, Dimension] = {}
    for group in outward(path):
        found = _declared(session, group) | found
    return {name for name, dim in found.items() if dim.unlimited}


def declare(session: OpenDataset, path: str, name: str, size: int | None) -> Dimension:
    """Declare a dimension in a group; without a size an unlimited one of length 0."""
    writer = session.writer()
    session.require(Feature.UNLIMITED if size is None else Feature.DIMENSIONS, f"no dimension {name!r} is declared")
    if size is not None and (type(size) is not int or size < 0):
        raise Invalid(f"a dimension of length {size!r}", remedy="give a whole number, or none for an unlimited one")
    made = Dimension(check_name(name), size or 0, size is None)
    with session.add_place_to_errors(path), session.lock_node(path):
        session.refresh(path)
        spec = session.reader.node(path)
        if not spec.is_group:
            raise Invalid("an array declares no dimensions", remedy="declare it in the group of the array")
        if any(dim.name == name for dim in spec.dims):
            raise AlreadyExists(f"the group has a dimension {name!r}", remedy="choose another name")
        writer.put(path, spec.evolve(dims=(*spec.dims, made)))
    return made


def _declared(session: OpenDataset, path: str) -> dict[str, Dimension]:
    spec = session.reader.node(path)
    return {dim.name: dim for dim in spec.dims} if spec.is_group else {}
