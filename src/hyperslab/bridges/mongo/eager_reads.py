"""Objects read: their document, and the cells of variables that are wanted at once, by one query for all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from bson import ObjectId

from hyperslab.bridges import pint, sparse
from hyperslab.bridges.mongo.origin import Collections
from hyperslab.bridges.mongo.pandas_cells import as_pandas, pandas_description
from hyperslab.errors import MissingChunks, WrongType
from hyperslab.formats.mongo.bson_values import Document, MutableDocument, decode_attr
from hyperslab.formats.mongo.chunk_documents import (
    AssembledChunk,
    ChunkIndex,
    Key,
    Segment,
    assemble_chunk,
    bytes_view,
    format_key,
    parse_segment,
)
from hyperslab.formats.mongo.chunk_writes import UndoView, undo_entries
from hyperslab.formats.mongo.completeness import find_missing
from hyperslab.formats.mongo.document import ARRAY, Meta, Variable, load_meta, object_exists
from hyperslab.formats.mongo.errors import CorruptDocument, DocumentNotFoundError
from hyperslab.formats.mongo.to_spec import attr_codes, padding_fill, unstored_fill, variable_extension
from hyperslab.model.coo import Coo, Numbers

# -- arrays put together while their documents come in ----------------------------------------------------------------
# Each document is copied to its place, and none is kept beside the array. What is not as the object says (other types
# or lengths, doubles, gaps) is left to ``assemble_variable``, which weighs all documents of a variable.


@dataclass(slots=True)
class _PartialChunk:
    """A chunk of which documents are still to come: its cells where they belong, or beside where they lie apart."""

    target: Numbers
    block: Numbers
    left: int
    seen: set[int] = field(default_factory=set)


class StreamedArray:
    """A dense variable of known sizes, in documents of ``size`` bytes; ``cells`` are all there when ``is_whole``."""

    def __init__(self, variable: Variable, size: int) -> None:
        declared = variable.chunks if variable.chunks is not None else tuple((size,) for size in variable.shape)
        self._ends = [list(accumulate((size or 0 for size in sizes), initial=0)) for sizes in declared]
        self._dtype = variable.dtype
        self._size = size
        self._count = prod(map(len, declared)) if variable.chunks is not None else 1
        self._has = variable.has
        self._done: set[ChunkIndex] = set()
        self._begun: dict[ChunkIndex, _PartialChunk] = {}
        self._scratch: list[Numbers] = []
        self._is_odd = False
        self.units: str | None = None

    @cached_property
    def cells(self) -> Numbers:
        """The array, of which there is nothing before its first document comes."""
        return np.empty(tuple(end[-1] for end in self._ends), self._dtype)

    @classmethod
    def suits(cls, variable: Variable) -> bool:
        """Return whether nothing is known against it."""
        return (
            variable.has_known_sizes
            and not variable.sparse
            and variable.embedded is None
            and variable.dtype.itemsize > 0
        )

    @property
    def is_whole(self) -> bool:
        """Return whether every document came once, and was as it was expected."""
        return not self._is_odd and len(self._done) == self._count

    def take(self, segment: Segment) -> None:
        """One more document."""
        if self._is_odd:
            return
        try:
            self._is_odd = not self._fits(segment)
        except (MemoryError, ValueError):  # no such array can be
            self._is_odd = True

    def _fits(self, segment: Segment) -> bool:
        chunk, start, length = segment.key[1], segment.n * self._size, len(segment.data)
        if chunk in self._done or not self._has(chunk) or segment.sparse or segment.dtype != self._dtype:
            return False
        begun = self._begun.get(chunk) or self._begin(chunk)
        end = start + length
        is_cut_so = length == self._size or end == begun.target.nbytes
        if segment.shape != begun.target.shape or not is_cut_so or end > begun.target.nbytes or segment.n in begun.seen:
            return False
        bytes_view(begun.block)[start:end] = np.frombuffer(segment.data, np.uint8)
        begun.seen.add(segment.n)
        begun.left -= length
        self.units = self.units or segment.units
        if not begun.left:
            self._end(chunk, begun)
        return True

    def _begin(self, chunk: ChunkIndex) -> _PartialChunk:
        indices = (0,) * len(self._ends) if chunk is None else chunk
        place: Any = (*(slice(end[i], end[i + 1]) for end, i in zip(self._ends, indices, strict=True)), ...)
        target = self.cells[place]
        self._begun[chunk] = begun = _PartialChunk(target, self._block(target), target.nbytes)
        return begun

    def _block(self, target: Numbers) -> Numbers:
        """Where the bytes of a chunk go; memory that was used before costs less than fresh one."""
        if target.flags.c_contiguous:
            return target
        if self._scratch and self._scratch[-1].shape == target.shape:
            return self._scratch.pop()
        return np.empty(target.shape, target.dtype)

    def _end(self, chunk: ChunkIndex, begun: _PartialChunk) -> None:
        if begun.block is not begun.target:
            begun.target[...] = begun.block
            self._scratch = [begun.block]
        del self._begun[chunk]
        self._done.add(chunk)


# -- arrays put together of all their documents -----------------------------------------------------------------------


Shape = tuple[int, ...]


def assemble_variable(
    name: str,
    variable: Variable,
    chunks: Mapping[ChunkIndex, AssembledChunk],
    background: object = None,
    padding: object = None,
) -> Numbers | Coo:
    """Return all cells, in memory of their own. CorruptDocument.

    Every chunk of the variable is there, but for those that read as ``background``. With a ``padding`` chunks may be of
    another length than the object says, as while it grows: they are cut, or filled up with it.

    What the chunks say of dtype, type and shape counts (R25, R31 to R34): sparse where all of them are and mean the
    same by a cell that is not listed, else dense; of a dtype that holds all of them.
    """
    cuts = _chunk_lengths(name, variable, chunks, lenient=padding is not None)
    shape = tuple(map(sum, cuts))
    ends = [list(accumulate(sizes, initial=0)) for sizes in cuts]
    places = {chunk: _slices_of_chunk(ends, chunk) for chunk in chunks}
    dtype = _common_dtype(name, variable, chunks)
    if _same_sparse(chunks, background if padding is None else padding):
        return _concatenate_coo(
            shape, [(places[chunk], _coo_within(joined, places[chunk])) for chunk, joined in chunks.items()]
        )
    if not chunks and variable.sparse:
        return Coo.of_dense(np.full(shape, background, dtype), background)
    cells: Numbers = np.empty(shape, dtype)
    if padding is not None or background is not None:
        cells[...] = background if padding is None else padding
    for chunk, joined in chunks.items():
        where: Any = (*places[chunk], ...)
        joined.read_common(cells[where])
    return cells


def _coo_within(joined: AssembledChunk, place: tuple[slice, ...]) -> Coo:
    """Return the cells of a sparse chunk that lie within its place."""
    cells = joined.coo()
    shape = tuple(cut.stop - cut.start for cut in place)
    return cells if cells.shape == shape else joined.coo_of_shape(shape, cells.fill)


def _same_sparse(chunks: Mapping[ChunkIndex, AssembledChunk], background: Any) -> bool:
    """Return whether all chunks are sparse, of one dtype, and every cell that none of them lists is the same."""
    kinds = {(joined.sparse, joined.dtype, joined.first.fill) for joined in chunks.values()}
    if len(kinds) != 1:
        return False
    sparse, _, fill = kinds.pop()
    return sparse and (background is None or fill == background.tobytes())


def _common_dtype(name: str, variable: Variable, chunks: Mapping[ChunkIndex, AssembledChunk]) -> np.dtype[Any]:
    dtypes = {joined.dtype for joined in chunks.values()} or {variable.dtype}
    if len(dtypes) == 1:
        return dtypes.pop()
    try:
        return np.result_type(*dtypes)
    except TypeError:
        found = ", ".join(sorted(map(str, dtypes)))
        raise CorruptDocument(f"no dtype holds all chunks of {name!r}", expected=variable.dtype, found=found) from None


def _chunk_lengths(
    name: str, variable: Variable, chunks: Mapping[ChunkIndex, AssembledChunk], *, lenient: bool
) -> tuple[Shape, ...]:
    """Lengths of the chunks along each axis: as the object says, else as chunks are; all that share an index agree,
    unless what the object says counts (``lenient``)."""
    declared = variable.chunks if variable.chunks is not None else tuple((size,) for size in variable.shape)
    cuts: list[list[int | None]] = [list(sizes) for sizes in declared]
    for chunk, joined in chunks.items():
        if len(joined.shape) != len(cuts):
            raise _shape_error(name, chunk, len(cuts), joined.shape)
        for axis, size in enumerate(joined.shape):
            index = chunk[axis] if chunk is not None else 0
            if cuts[axis][index] is None:
                cuts[axis][index] = size
            elif cuts[axis][index] != size and not lenient:
                raise _shape_error(name, chunk, cuts[axis][index], joined.shape)
    return tuple(tuple(size or 0 for size in sizes) for sizes in cuts)


def _shape_error(name: str, chunk: ChunkIndex, expected: object, shape: Shape) -> CorruptDocument:
    return CorruptDocument("a chunk of another shape", expected=expected, found=shape, key=format_key((name, chunk)))


def _slices_of_chunk(ends: list[list[int]], chunk: ChunkIndex) -> tuple[slice, ...]:
    indices = (0,) * len(ends) if chunk is None else chunk
    return tuple(slice(end[index], end[index + 1]) for end, index in zip(ends, indices, strict=True))


def _concatenate_coo(shape: Shape, parts: Sequence[tuple[tuple[slice, ...], Coo]]) -> Coo:
    """Sparse chunks as one."""
    coords = [part.coords + np.array([cut.start for cut in place], np.intp)[:, None] for place, part in parts]
    data = [part.data for _, part in parts]
    return Coo(shape, np.concatenate(coords, axis=1), np.concatenate(data), parts[0][1].fill).canonical()


# -- objects ----------------------------------------------------------------------------------------------------------


Load = bool | Collection[str] | None


class LoadedVariable(NamedTuple):
    """The cells of a variable, a dask array where they are read later, and their units."""

    cells: Any
    units: str | None


def load_object(here: Collections, meta_id: ObjectId) -> Meta:
    """Return the object of an id. DocumentNotFoundError; what its document says of a variable that makes no sense."""
    meta = load_meta(here.meta, meta_id)
    for variable in meta.variables.values():
        if variable.problem is not None:
            raise variable.problem
    return meta


def eager_names(meta: Meta, load: Load) -> list[str]:
    """Return the variables that are read at once. WrongType for what ``load`` cannot be."""
    if not isinstance(load, bool | np.bool_ | None) and (
        isinstance(load, str | bytes) or not isinstance(load, Collection)
    ):
        raise WrongType(f"load={load!r}", remedy="give None, True, False, or a list of names")
    return [name for name in meta.variables if _is_eager(meta, name, load)]


def _is_eager(meta: Meta, name: str, load: Load) -> bool:
    variable = meta.variables[name]
    if variable.embedded is not None or variable.dims == (name,):
        return True
    if pandas_description(meta, name):  # dask has none of pandas' types
        return True
    if load is None:
        return variable.chunks is None
    return bool(load) if isinstance(load, bool | np.bool_) else name in load


def read_variables(here: Collections, meta: Meta, names: Sequence[str]) -> dict[str, LoadedVariable]:
    """Return the cells of these variables. DocumentNotFoundError, CorruptDocument."""
    filled = {name: StreamedArray(meta.variables[name], meta.chunk_size) for name in names if _is_plain(meta, name)}
    found = _segments(here, meta, names, filled)
    loaded = {}
    for name in names:
        own = filled.pop(name, None)
        if own is None:
            loaded[name] = _assemble(meta, name, found.pop(name, {}))
        elif own.is_whole:
            loaded[name] = LoadedVariable(own.cells, meta.variables[name].units or own.units)
        else:
            # The cells that came first go before the variable is fetched again, else both would be in memory.
            del own
            loaded[name] = _assemble(meta, name, _segments(here, meta, [name], {}).get(name, {}))
    if any(unstored_fill(meta, name) is not None for name in names):
        raise_if_gone(here, meta.id)
    return loaded


def raise_if_gone(here: Collections, meta_id: ObjectId) -> None:
    """Raise DocumentNotFoundError where the object is gone: chunks that are not there are no fill values then."""
    if not object_exists(here.meta, meta_id):
        raise DocumentNotFoundError(meta_id)


def _is_plain(meta: Meta, name: str) -> bool:
    return StreamedArray.suits(meta.variables[name]) and unstored_fill(meta, name) is None


def _assemble(meta: Meta, name: str, segments: Mapping[Key, list[Segment]]) -> LoadedVariable:
    chunks = _chunks(meta, name, segments)
    units = meta.variables[name].units or next((each.first.units for each in chunks.values()), None)
    cells = assemble_variable(name, meta.variables[name], chunks, unstored_fill(meta, name), padding_fill(meta, name))
    return LoadedVariable(cells, units)


def _segments(
    here: Collections, meta: Meta, names: Sequence[str], filled: Mapping[str, StreamedArray]
) -> dict[str, dict[Key, list[Segment]]]:
    """Return the chunk documents of all these variables, but for those that are ``filled`` as they arrive.

    Those of chunks that there are not are passed over.
    """
    found: dict[str, dict[Key, list[Segment]]] = {}
    if not names:
        return found
    embedded = {name for name in names if meta.variables[name].embedded is not None}
    old = _fetch_undo(here, meta, names)
    wanted = {"meta_id": meta.id, "name": {"$in": list(names)}}
    segments = (parse_segment(document) for document in here.chunks.find(wanted))
    for segment in (one for one in segments if one.key not in old):
        name = segment.key[0]
        if name in filled:
            filled[name].take(segment)
        elif name in embedded and meta.extension and segment.key[1] is not None:
            continue  # of a change of ours that cuts it into chunks, and is not made yet
        elif name in embedded:
            message = "a variable that stands in the document of its object has chunks too"
            raise CorruptDocument(message, expected=0, found=len(segment.data), key=name)
        else:
            found.setdefault(name, {}).setdefault(segment.key, []).append(segment)
    _add_undo(found, old, filled)
    return found


def _add_undo(
    found: dict[str, dict[Key, list[Segment]]], old: Mapping[Key, list[Segment]], filled: Mapping[str, StreamedArray]
) -> None:
    for key, segments in old.items():
        if key[0] in filled:
            for segment in segments:
                filled[key[0]].take(segment)
        elif segments:
            found.setdefault(key[0], {})[key] = segments


def _fetch_undo(here: Collections, meta: Meta, names: Sequence[str]) -> dict[Key, list[Segment]]:
    """Return the chunks that somebody changes, as they were; those whose change is done by now as they are."""
    known = undo_entries(meta.extension)
    past, found = UndoView(here.meta, meta.id, known), {}
    for name, chunk in (key for key in known if key[0] in names and past.holds(key)):
        found[name, chunk] = past.fetch_all(here.chunks, name, [chunk]).get(chunk, [])
    return found


def _chunks(meta: Meta, name: str, found: Mapping[Key, list[Segment]]) -> dict[tuple[int, ...] | None, AssembledChunk]:
    variable = meta.variables[name]
    if variable.embedded is not None:
        return {None: variable.embedded}
    lenient = unstored_fill(meta, name) is not None
    return {
        chunk: assemble_or_raise(meta.id, (name, chunk), found.get((name, chunk), []))
        for chunk in variable.keys
        if not lenient or (name, chunk) in found
    }


def assemble_or_raise(meta_id: ObjectId, key: Key, segments: Sequence[Segment]) -> AssembledChunk:
    """Return one chunk. DocumentNotFoundError where documents of it are missing, CorruptDocument."""
    try:
        return assemble_chunk(key, segments)
    except MissingChunks:
        raise chunk_not_found(meta_id, key) from None


def chunk_not_found(meta_id: ObjectId, key: Key) -> DocumentNotFoundError:
    """Return the error of a chunk that is not there, or not all of it."""
    return DocumentNotFoundError({"meta_id": meta_id, "name": key[0], "chunk": key[1]})


def raise_if_incomplete(here: Collections, meta_id: ObjectId) -> None:
    """DocumentNotFoundError names the first chunk that is not there, or not all of it; no cells are moved."""
    for key in find_missing(here.meta, here.chunks, meta_id, 1):
        raise chunk_not_found(meta_id, key)


def read_cells(here: Collections, meta: Meta, name: str) -> Numbers | Coo:
    """Return all cells of one variable."""
    cells: Numbers | Coo = read_variables(here, meta, [name])[name].cells
    return cells


# -- xarray objects ---------------------------------------------------------------------------------------------------


def build_object(meta: Meta, loaded: Mapping[str, LoadedVariable], ureg: object) -> xr.Dataset | xr.DataArray:
    """Return the object; units become Quantities of the registry ``ureg``."""
    variables = {
        name: xr.Variable(
            variable.dims,
            as_pandas(_data(loaded[name], ureg), pandas_description(meta, name)),
            _attrs(variable.attrs, variable_extension(meta, name)),
        )
        for name, variable in meta.variables.items()
    }
    coords = {name: variables[name] for name in meta.coords}
    attrs = _attrs(meta.attrs, meta.extension)
    if not meta.is_array:
        return _dataset({name: variables[name] for name in meta.data_vars}, coords, attrs)
    data = variables[ARRAY]
    array = xr.DataArray(data.data, coords, data.dims, attrs=attrs)
    array.name = meta.name  # else one without a name has that of its dask array
    return array


def _dataset(data: dict[str, xr.Variable], coords: dict[str, xr.Variable], attrs: MutableDocument) -> xr.Dataset:
    """xarray takes data with the name of a dimension for a coordinate, unless it is told otherwise afterwards."""
    dims = {dim for variable in (*data.values(), *coords.values()) for dim in variable.dims}
    odd = [name for name in data if name in dims]
    if not odd:
        return xr.Dataset(data, coords, attrs)
    plain = {name: variable for name, variable in data.items() if name not in odd}
    bare = xr.Coordinates({name: data[name] for name in odd}, indexes={})
    return xr.Dataset(plain, bare, attrs).reset_coords(odd).assign_coords(coords)


def _attrs(raw: Document, extension: Document) -> MutableDocument:
    """As BSON has them, but for those whose type we have said besides."""
    codes = attr_codes(extension)
    return {name: decode_attr(value, codes[name]) if name in codes else value for name, value in raw.items()}


def _data(loaded: LoadedVariable, ureg: object) -> Any:
    cells = sparse.from_coo(loaded.cells) if isinstance(loaded.cells, Coo) else loaded.cells
    return cells if loaded.units is None else pint.join(cells, loaded.units, ureg)
