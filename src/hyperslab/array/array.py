"""The ``Array`` that users hold. The work is done in selection, ``cells``, ``growth``, ``view`` and ``decoded``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hyperslab.array import growth, sparse_io
from hyperslab.array.attributes import Attributes
from hyperslab.array.cells import CellAccess, ReadPlan, open_cells
from hyperslab.array.decoded import Decoded, StoredArray
from hyperslab.array.indexes import find_newest_index, why_unlabelled
from hyperslab.array.references import reference_to, region_to
from hyperslab.array.region_reading import RegionReferences, read_region
from hyperslab.array.series import name_dims
from hyperslab.array.session import Closable, OpenDataset
from hyperslab.array.view import Indexer, Lazy, View
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import HyperslabError, Invalid, Replaced
from hyperslab.model.amounts import shape_text
from hyperslab.model.cells import Values
from hyperslab.model.dims import Index, axis_names, find_axis, values_of_axes
from hyperslab.model.dtypes import DataType, NumpyDType
from hyperslab.model.guessing import meant
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.regions import Region
from hyperslab.model.spec import ArraySpec, Chunks, Codec
from hyperslab.selection.keys import split_fields
from hyperslab.selection.labels import resolve_key, resolve_sel
from hyperslab.selection.positional import outer, select, select_basic, vectorised
from hyperslab.selection.region import Selection

if TYPE_CHECKING:
    from hyperslab.web.notebook import NotebookExplorer

_INTS = {int}
# A writer that takes rows away, as one does in a loop, may do so again while they are read once more.
_READS_AGAIN = 4


class Array(Closable, StoredArray):
    """An N-dimensional array of a dataset, on disk as in memory.

    ``a[key]`` has NumPy's meaning; floats, text and dates in a key are labels of the dimension, ints are positions.
    """

    def __init__(self, session: OpenDataset, path: str, spec: ArraySpec) -> None:
        self._session = session
        self._path = path
        self._spec = spec
        self._opened: CellAccess | None = None
        self._indexes: dict[str, Index] = {}
        self._unlabelled: set[str] = set()
        # Held while spec and cells are replaced: of several threads that refresh at once none puts back what is older,
        # or cells of another spec. Cells are read and written under their own spec.
        self._refreshing = threading.Lock()

    @cached_property
    def _spec(self) -> ArraySpec:
        """Of one that was unpickled, when it is first used."""
        return self._session.array(self._path)

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> ArraySpec:
        """All that the documents say of the array."""
        return self._spec

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each dimension."""
        return self._spec.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._spec.shape)

    @property
    def size(self) -> int:
        """Cells in all."""
        return prod(self._spec.shape)

    @property
    def dtype(self) -> NumpyDType:
        """The dtype of the cells in memory."""
        return self._spec.numpy_dtype

    @property
    def data_type(self) -> DataType:
        """The type in the model: a NumPy dtype or an extension kind such as ``Enum``."""
        return self._spec.dtype

    @property
    def dims(self) -> tuple[str | None, ...]:
        """The name of each dimension; None for an anonymous one."""
        return self._spec.dims

    @property
    def chunks(self) -> Chunks:
        """The chunk lengths (inside the shards of a sharded array); a tuple of sizes where they vary."""
        return self._spec.inner_chunks or self._spec.chunks

    @property
    def shards(self) -> Chunks | None:
        """The shard lengths, or None."""
        return self._spec.chunks if self._spec.inner_chunks else None

    @property
    def grid(self) -> Grid:
        """How the array is cut."""
        return self._cells.grid

    @property
    def fill_value(self) -> Any:
        """The value that unwritten cells read as."""
        return self._spec.fill_cell()[()]

    @property
    def units(self) -> str | None:
        """The attribute ``units``."""
        return self._spec.units

    @property
    def attrs(self) -> Attributes:
        """The attributes, ordered and typed; changes write through."""
        return Attributes(self._session, self._path)

    @property
    def codec(self) -> tuple[Codec, ...]:
        """The codec chain, in the order of writing."""
        return self._spec.codecs

    @property
    def nbytes(self) -> int:
        """Bytes of all cells in memory."""
        return self.size * self.dtype.itemsize

    @property
    def nbytes_stored(self) -> int | None:
        """Bytes that the chunks take where they are stored; None where the format cannot tell."""
        return self._cells.source.nbytes_stored()

    @property
    def _cells(self) -> CellAccess:
        opened = self._opened  # another thread may refresh
        if opened is None:
            spec = self._spec
            opened = open_cells(self._session, self._path, spec)
            with self._refreshing:
                if spec is self._spec:
                    self._opened = opened
        return opened

    # -- reading ----------------------------------------------------------------------------------------------------

    def _index_of(self, dim: str) -> Index | None:
        indexes = self._indexes  # another thread may refresh, which begins another one
        if dim not in indexes:
            # in vain once, as for levels of an image pyramid, is enough
            waits = self._session.reader.may_shrink and dim not in self._unlabelled
            index = find_newest_index(self._session, self._path, self._spec, dim, waits=waits)
            if index is None:  # a writer may have come to its end when it is looked for again
                self._unlabelled.add(dim)
                return None
            indexes[dim] = index
            self._unlabelled.discard(dim)
        return indexes[dim]

    def _why_unlabelled(self, dim: str) -> str:
        return why_unlabelled(self._session, self._path, self._spec, dim)

    def _positions(self, key: object) -> object:
        """Return the key with its labels replaced by positions; whoever selects by them adds the place to errors."""
        return resolve_key(key, self._spec.dims, self._index_of, self._why_unlabelled)

    def __getitem__(self, key: Any) -> Any:
        """Return the cells that a key selects, as an array of NumPy's, or as a scalar where every dimension has an int.

        Ints are positions; floats, text and times are labels; a stop is exclusive for both. The key of a structured
        array may begin with a field, or a list of them. SelectionError and LabelError (IndexErrors), WrongType,
        MemoryLimit before anything is read, CorruptChunk.
        """
        cells = self._opened or self._cells
        spec = cells.spec
        fields, key = (None, key) if cells.dtype.names is None else split_fields(key)
        if isinstance(fields, str):
            cells = cells.of_field(fields)
        items = key if type(key) is tuple else (key,)
        if cells.keeps_cells and set(map(type, items)) == _INTS and (cell := cells.cached(items)) is not None:
            return cell
        try:
            try:
                selection = select_basic(items, spec.shape)  # nearly always
            except Invalid:  # a slice of labels, perhaps
                selection = None
            result = cells.read(selection or select(self._positions(key), spec.shape))
        # The same as in _read, without its calls and its block: this is the shortest way to one cell.
        except Replaced:  # all, shape and labels too, is read anew from what lies there now
            self.refresh()
            result = self._read(
                lambda spec: select(self._positions(key), spec.shape),
                lambda cells, chosen: (cells.of_field(fields) if isinstance(fields, str) else cells).read(chosen),
            )
        except Invalid as error:
            raise error.locate(url=self._session.url, node=self._path) from error.__cause__
        return result if fields is None else result[fields]

    def sel(
        self,
        indexers: Mapping[str, object] | None = None,
        *,
        method: Literal["nearest"] | None = None,
        tolerance: object = None,
        **labels: Any,
    ) -> Any:
        """Return the cells by label, with xarray's meaning: slices include their stop, ``method="nearest"`` takes a
        neighbour.

        ``tolerance``: how far a neighbour may be, in units of the coordinate (for times a timedelta). A single label
        drops its dimension, a list keeps it. LabelError names the neighbours of a label that is not there; a dimension
        without a coordinate is selected by position. The samples of a series of NWB are labelled in seconds, and
        called ``time``, too.
        """
        wanted = {**(indexers or {}), **labels}

        def choose(spec: ArraySpec) -> Selection:
            dims = name_dims(self._session, self._path, spec, wanted)
            key = resolve_sel(wanted, dims, self._index_of, method, tolerance, self._why_unlabelled)
            return outer(key, spec.shape)

        return self._read(choose)

    def isel(self, indexers: Mapping[str, object] | None = None, **positions: Any) -> Any:
        """Return the cells by position along dimensions; integer arrays run along their own dimension, as in xarray. A
        dimension without a name goes by its place: ``dim_0``, ``dim_1``.

        Invalid when there is no such dimension, SelectionError beyond its end.
        """
        wanted = {**(indexers or {}), **positions}

        def choose(spec: ArraySpec) -> Selection:
            dims = name_dims(self._session, self._path, spec, wanted)
            for name in wanted:
                self._axis(name, dims)
            return outer(tuple(values_of_axes(wanted, dims, slice(None))), spec.shape)

        return self._read(choose)

    def _read(
        self,
        choose: Callable[[ArraySpec], Selection],
        read: Callable[[CellAccess, Selection], Any] = CellAccess.read,
    ) -> Any:
        """Read the cells that ``choose`` finds; where the array was replaced, or rows were removed, once more what it
        finds then. A view, which was made before, does so only where its shape is the same (``View.read``)."""
        with self._session.add_place_to_errors(self._path):
            for _ in range(_READS_AGAIN):
                cells = self._cells
                try:
                    return read(cells, choose(cells.spec))
                except Replaced:
                    self.refresh()
            cells = self._cells
            return read(cells, choose(cells.spec))

    def sel_key(
        self, labels: Mapping[str, object], method: Literal["nearest"] | None = None, tolerance: object = None
    ) -> tuple[Any, ...]:
        """Return the positional key that ``sel`` means: one entry per dimension, each to be taken for itself
        (``oindex``)."""

        def find() -> tuple[Any, ...]:
            dims = name_dims(self._session, self._path, self._spec, labels)
            key: tuple[Any, ...] = resolve_sel(labels, dims, self._index_of, method, tolerance, self._why_unlabelled)
            return key

        with self._session.add_place_to_errors(self._path):
            try:
                return find()
            except Replaced:
                self.refresh()
                return find()

    @property
    def oindex(self) -> Indexer:
        """Orthogonal indexing: each key along its own axis."""
        return Indexer(self._cells, outer, self._positions)

    @property
    def vindex(self) -> Indexer:
        """Vectorised indexing: integer arrays run together."""
        return Indexer(self._cells, vectorised, self._positions)

    @property
    def lazy(self) -> Lazy:
        """``a.lazy[key]`` is a view that composes; ``.read()`` reads it."""
        return Lazy(self._cells, self._positions, self._refreshed_lazy)

    def _refreshed_lazy(self) -> Lazy:
        self.refresh()
        return self.lazy

    async def read_async(self, key: object = ()) -> Any:
        """Read ``a[key]`` in a thread, for asynchronous callers."""
        import asyncio  # takes as long as a tenth of what opening a dataset imports

        return await asyncio.to_thread(self.__getitem__, key)

    def plan(self, key: object = ()) -> ReadPlan:
        """Return the chunks, bytes and requests that ``a[key]`` costs; no cell is read."""
        cells = self._cells
        return cells.cost(cells.select_cells(key, self._positions))

    def decoded(self) -> Decoded:
        """Return the array with CF scale, offset, missing values and time applied when it is read; a series of NWB in
        its unit."""
        return Decoded(self)

    def to_xarray(self, **decoders: Any) -> Any:
        """Return a lazy ``xarray.DataArray`` with the coordinates beside it; ``decoders`` as in
        ``xarray.open_dataset``, also ``chunks``."""
        from hyperslab.bridges.xarray import open_array

        return open_array(self, **decoders)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("an array in a dataset cannot be viewed without a copy")
        return np.asarray(self[()], dtype)

    def __len__(self) -> int:
        if not self._spec.shape:
            raise TypeError("len() of an array without dimensions")
        return self._spec.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Iterate along the first axis, reading a whole row of chunks at a time."""
        length = len(self)
        cut = self.grid.axes[0]
        start = 0
        while start < length:
            index = cut.find(start)
            stop = min(cut.start(index) + cut.size_of(index), length)
            yield from self[start:stop]
            start = stop

    def to_dask(self, chunks: Any = None) -> Any:
        """Return a dask array of the cells as they are stored, one task per chunk (per shard of a sharded array).

        ``chunks``: as dask takes them, or a mapping of dimension names to lengths, where the others keep the stored
        ones. Unsupported when its tasks go to other processes and the dataset is a store object or in memory.
        """
        from hyperslab.bridges.dask import to_dask

        return to_dask(self, chunks)

    def to_sparse(self, key: object = ()) -> Any:
        """Return ``a[key]`` (slices, ints, labels) as a ``sparse.COO``; chunks that are lists of cells never become
        dense.

        Of a dense array it lists the cells that are not its fill value.
        """
        from hyperslab.bridges.sparse import from_coo

        return from_coo(self._read(lambda spec: select(self._positions(key), spec.shape), sparse_io.read))

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """Return another one after each change that can be seen from here: of the documents, or of cells by this
        handle."""
        return "hyperslab", self._path, repr(self._spec.shape), *self._session.state(self._path)

    # -- references and regions ------------------------------------------------------------------------------------

    @property
    def ref(self) -> ObjectReference:
        """A reference to the array: a value of attributes and cells where the format has such."""
        return reference_to(self._session, self.path, self.spec)

    @property
    def regionref(self) -> RegionReferences:
        """``a.regionref[key]`` refers to the cells of ``a[key]``, labels as in ``[]``; growth does not move them.

        SelectionError for a key that no region says, such as a slice that runs backwards.
        """
        from hyperslab.selection.regions import region_of_key

        def make(key: object) -> RegionReference:
            with self._session.add_place_to_errors(self.path):
                region = region_of_key(self._positions(key), self.spec.shape)
            return region_to(self._session, self.path, self.spec, region)

        return RegionReferences(make)

    def read_region(self, region: Region) -> Values:
        """Return the cells of a region: an array of as many dimensions for slices and orthogonal ones, else of one.

        Only the chunks that hold them are decoded. RegionOutOfBounds when the array has become too small for it.
        """

        return read_region(self._cells, region)

    def isel_of(self, region: Region) -> Mapping[str | int, Any]:
        """Return what ``isel`` takes for the same cells: a slice or a list of positions for each dimension, by its name
        or by its number where it has none. Invalid for a region that is no product of axes, RegionOutOfBounds as
        above."""
        from hyperslab.selection.region_bounds import isel_of, require_fits

        try:
            require_fits(region, self.spec.shape)
            return isel_of(region, self.spec.dims)
        except HyperslabError as error:
            raise error.locate(node=self.path, url=self._session.url) from None

    # -- writing ----------------------------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        """Store ``value``, broadcast and cast as NumPy assigns, in the selected cells; also of dask, ``sparse``.

        Chunks that are covered in part keep their other cells, whoever writes at the same time. Errors as for reading;
        Invalid for a value that does not fit, ReadOnly, Conflict after ``lock_timeout``.
        """
        self._session.writer()
        cells = self._cells
        fields, key = (None, key) if cells.dtype.names is None else split_fields(key)
        View(cells, cells.select_cells(key, self._positions)).write(value, fields)

    def fill(self, value: Any) -> None:
        """Set every cell to ``value``, broadcast to the array's shape; ReadOnly unless open for writing."""
        self[...] = value

    def resize(self, shape: int | tuple[int, ...]) -> None:
        """Grow (new cells read as the fill value) or shrink (cells outside are gone, also when it grows again).

        ``shape``: cells along each dimension, as many as before. Invalid for another number of dimensions, ReadOnly
        unless open for writing, Conflict when another writer holds the array for longer than ``lock_timeout``.
        """
        with self._session.add_place_to_errors(self._path):
            growth.resize(self._session, self._path, (shape,) if isinstance(shape, int) else tuple(shape))
        self.refresh()

    def append(self, data: Any, dim: str | int = 0) -> None:
        """Add ``data`` at the end of a dimension (a name, or its place such as ``dim_0``, or an axis), safe against
        other appenders.

        Labels are another array, and cells like others: whether some are there already is asked where rows come with
        theirs, by :func:`hyperslab.save` with ``append_dim`` and by ``hyperslab append``.
        ``data`` has the array's shape but for its length along ``dim``; Invalid when not. ReadOnly unless open for
        writing, Conflict when another writer holds the array for longer than ``lock_timeout``.
        """
        axis = dim if isinstance(dim, int) else self._axis(dim, self.dims)
        try:
            with self._session.add_place_to_errors(self._path):
                growth.append(self._session, self._path, data, axis)
        finally:
            self.refresh()

    def remove(self, where: object, dim: str | int = 0) -> None:
        """Take ``where`` out of a dimension (a name or an axis) and close the gap, as ``numpy.delete`` does.

        ``where``: a position or a slice of positions, as in ``isel``; a label or a slice of labels (its stop counts
        too), as in ``sel``; whole numbers are positions. The coordinate is another array and stays as it is. Later
        cells move down in bounded memory; nobody else may write cells meanwhile. Invalid for what is no range,
        Unsupported in formats whose arrays cannot get shorter, ReadOnly unless open for writing.
        """
        axis = self._axis(dim, self.dims) if isinstance(dim, str) else dim
        if not -self.ndim <= axis < self.ndim:
            raise Invalid(f"no axis {axis} in {self.ndim} dimensions", url=self.url, node=self._path)
        axis %= self.ndim
        key, name = (*(slice(None),) * axis, where), self.dims[axis]
        if name is not None and self._positions(key) is not key:
            key = self.sel_key({name: where})
        try:
            with self._session.add_place_to_errors(self._path):
                growth.remove(self._session, self._path, key[axis], axis)
        finally:
            self.refresh()

    def _axis(self, dim: str, dims: tuple[str | None, ...]) -> int:
        axis = find_axis(dims, dim)
        if axis is None:
            raise Invalid(f"no dimension {dim!r}", url=self.url, node=self._path, remedy=meant(dim, axis_names(dims)))
        return axis

    def refresh(self) -> None:
        """Read shape, attributes and labels again: another writer may have changed them."""
        with self._refreshing:
            self._session.refresh(self._path)
            self._spec = self._session.array(self._path)
            self._opened = None
            self._indexes = {}

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_array, (self._session, self._path)

    def __repr__(self) -> str:
        if self._session.is_unopened:
            return f"<hyperslab Array /{self._path} of {self._session.url}>"
        dims = shape_text(self.dims, self.shape)
        kind = f"{self.dtype} sparse" if self._spec.sparse else str(self.dtype)
        return f"<hyperslab Array /{self._path} ({dims}) {kind}>"

    def explore(self, *, proxy: str | None = None, height: int = 640) -> NotebookExplorer:
        """Return the explorer of the array, which a notebook shows in a frame; its ``url`` is for a browser.

        ``proxy``, ``height``: as for :func:`hyperslab.web.notebook.explore`. MissingLibrary without ``hyperslab[web]``.
        """
        from hyperslab.web.notebook import explore

        return explore(self, proxy=proxy, height=height)

    def _repr_html_(self) -> str:
        from hyperslab.array.html import array_html, is_quickly_sized

        stored = None
        if is_quickly_sized(self._session.url, self.spec):
            with suppress(HyperslabError):
                stored = self.nbytes_stored
        return array_html(self._path, self.spec, stored)


def array_with(session: OpenDataset, path: str, spec: ArraySpec, source: ChunkSource) -> Array:
    """Return the array at ``path`` whose spec and chunks are at hand: its documents are not read again for cells."""
    array = Array(session, path, spec)
    array._opened = open_cells(session, path, spec, source)
    return array


def _restore_array(session: OpenDataset, path: str) -> Array:
    """Return an array that was copied or pickled."""
    array = Array.__new__(Array)
    array._session, array._path, array._opened, array._indexes, array._unlabelled = session, path, None, {}, set()
    array._refreshing = threading.Lock()
    return array
