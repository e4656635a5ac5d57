"""Views of an array: other index dialects (``oindex``, ``vindex``), and lazy ones that compose before a read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hyperslab.array import sparse_io
from hyperslab.array.cells import CellAccess, Positions, ReadPlan
from hyperslab.array.lazy_cells import is_dask_array, is_sparse
from hyperslab.errors import Replaced
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType
from hyperslab.selection.positional import Dialect, compose, outer, select, vectorised
from hyperslab.selection.region import Selection


class Indexer:
    """``array.oindex`` and ``array.vindex``: the same cells under another meaning of the key.

    They do not begin again where the dataset was replaced: who reads several arrays that belong together (xarray's
    engine) would get those of two datasets.
    """

    def __init__(self, cells: CellAccess, dialect: Dialect, positions: Positions) -> None:
        self._cells = cells
        self._dialect = dialect
        self._positions = positions

    def __getitem__(self, key: Any) -> Any:
        return self._cells.read(self._cells.select_cells(key, self._positions, self._dialect))

    def __setitem__(self, key: Any, value: Any) -> None:
        View(self._cells, self._cells.select_cells(key, self._positions, self._dialect)).write(value)


class Lazy:
    """``array.lazy``: ``array.lazy[key]`` is a :class:`View`; nothing is read."""

    def __init__(self, cells: CellAccess, positions: Positions, refresh: Callable[[], Lazy]) -> None:
        self._cells = cells
        self._positions = positions
        self._refresh = refresh

    def __getitem__(self, key: Any) -> View:
        return View(self._cells, self._cells.select_cells(key, self._positions), lambda: self._refresh()[key])


class View:
    """A part of an array that is not yet read; a view of a view is still one plan. Its keys are positions.

    ``refresh``: makes the same view of what has taken the place of the array; None where that may not be read, and in
    a copy that was pickled.
    """

    def __init__(self, cells: CellAccess, selection: Selection, refresh: Callable[[], View] | None = None) -> None:
        self.cells = cells
        """The cells of the whole array."""
        self.selection = selection
        """Which of them the view is."""
        self._refresh = refresh

    def __reduce__(self) -> tuple[object, ...]:
        return View, (self.cells, self.selection)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the part."""
        return self.selection.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions of the part."""
        return len(self.selection.shape)

    @property
    def dtype(self) -> NumpyDType:
        """The dtype of the cells."""
        return self.cells.dtype

    def __getitem__(self, key: Any) -> View:
        return self.compose(key, select)

    @property
    def oindex(self) -> ViewIndexer:
        """Orthogonal indexing of the view: each key along its own axis."""
        return ViewIndexer(self, outer)

    @property
    def vindex(self) -> ViewIndexer:
        """Vectorised indexing of the view: integer arrays run together."""
        return ViewIndexer(self, vectorised)

    def compose(self, key: object, dialect: Dialect) -> View:
        """Return the view of this view under ``key``."""
        refresh = self._refresh
        anew = None if refresh is None else lambda: refresh().compose(key, dialect)
        return View(self.cells, compose(self.selection, key, dialect), anew)

    def read(self, out: Values | None = None) -> Any:
        """Return the cells, as a new array or in ``out`` (of the view's shape); CorruptChunk, MemoryLimit as for the
        array. Where the array was replaced: those of the new one, if the view has the same shape and type there, else
        Replaced."""
        try:
            return self.cells.read(self.selection, out)
        except Replaced:
            now = None if self._refresh is None else self._refresh()
            if now is None or (now.shape, now.dtype) != (self.shape, self.dtype):
                raise
            self.cells, self.selection = now.cells, now.selection
            return self.cells.read(self.selection, out)

    def write(self, value: Any, fields: Any = None) -> None:
        """Store ``value``, broadcast to the view's shape; ``fields``: of a structured array, those that it is for."""
        if isinstance(value, np.ndarray):
            self.cells.write(self.selection, value, fields)
        elif is_sparse(value):
            sparse_io.write(self.cells, self.selection, value, fields)
        elif is_dask_array(value):
            from hyperslab.bridges.dask import write

            write(self, value, fields=fields)
        else:
            self.cells.write(self.selection, value, fields)

    def in_one_thread(self) -> View:
        """Return the same view, read and written by the calling thread alone, as a task does that is one of many. Where
        the array was replaced it fails: the others may have read the old one."""
        return View(self.cells.in_one_thread(), self.selection)

    def plan(self) -> ReadPlan:
        """Return what reading the view would touch."""
        return self.cells.cost(self.selection)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("a view of a dataset's array cannot become an array without a copy")
        return np.asarray(self.read(), dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<hyperslab View of /{self.cells.node} {self.shape}>"


class ViewIndexer:
    """``view.oindex`` and ``view.vindex``."""

    def __init__(self, view: View, dialect: Dialect) -> None:
        self._view = view
        self._dialect = dialect

    def __getitem__(self, key: Any) -> View:
        return self._view.compose(key, self._dialect)
