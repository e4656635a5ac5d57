"""Builders to a dataset: every document is written once, after the cells; one consolidation when all is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from hdmf.data_utils import AbstractDataChunkIterator

from hyperslab.array import Array
from hyperslab.bridges.hdmf.attributes import plain
from hyperslab.bridges.hdmf.data_io import shape_of
from hyperslab.bridges.hdmf.lazy import LARGE, HyperslabDataset
from hyperslab.bridges.hdmf.planning import Item, NewDataset, NewGroup, NewLink
from hyperslab.bridges.hdmf.pointers import Pointers
from hyperslab.bridges.hdmf.streams import Stream, exhaust, first_shape, slabs
from hyperslab.bridges.hdmf.types import cells, data_type, infer
from hyperslab.chunks.auto import auto_chunks
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.progress import Progress, Report
from hyperslab.errors import HyperslabError
from hyperslab.formats.hdmf.objects import is_object
from hyperslab.group import Group
from hyperslab.group.creation import Wish, array_spec
from hyperslab.model.attrs import equal_attrs
from hyperslab.model.dtypes import DataType, numpy_dtype
from hyperslab.model.spec import ArraySpec, GroupSpec

Docs = Callable[[Any], str | None]
"""What the schema says of a builder, where that is to be written with it."""
_TINY, _SMALL, _HELD, _BATCH = 1 << 16, 1 << 20, 32 << 20, 4
"""Bytes from which, and up to which, a dataset waits for others to be written by threads; of all that wait; how many a
thread takes at a time."""


class BuilderWriter:
    """One write of builders into an open dataset."""

    def __init__(self, root: Group, pointers: Pointers, mark: Callable[[Any], None], doc: Docs, report: Report) -> None:
        self._root = root
        self._session = root._session
        self._writer = root._session.writer()
        self._pointers = pointers
        self._mark = mark
        self._doc = doc
        self._report = report
        self._progress = Progress(0, 0, 0, 0)
        self._began = perf_counter()
        self._known: dict[Any, ArraySpec] = {}
        self._small: list[tuple[str, np.ndarray[Any, Any]]] = []
        self._held = 0
        self.unfilled: list[tuple[str, Any]] = []
        """Paths and wrappers of datasets without data."""

    def run(self, items: Iterable[Item], *, together: bool) -> None:
        """Write all of it. ``together``: iterators in turns. Within a batch of the dataset."""
        plan = list(items)
        datasets = [item for item in plan if isinstance(item, NewDataset)]
        self._progress = Progress(0, sum(map(_nbytes, datasets)), 0, len(datasets))
        for item in plan:
            if isinstance(item, NewGroup):
                self._group(item)
        for item in plan:
            if isinstance(item, NewLink):
                with self._session.located(item.path):
                    self._writer.put(item.path, item.link)
                self._mark(item.builder)
        streams = [self._stream(item) for item in datasets if _is_stream(item.data)]
        try:
            for item in datasets:
                if not _is_stream(item.data):
                    self._dataset(item)
        finally:
            self._write_small()  # what has its document has its cells, whatever became of the others
        try:
            exhaust(streams, self._done, together=together)
        except BaseException:
            for stream in streams:
                self._undo(stream.path)
            raise

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _attrs(self, builder: Any) -> dict[str, Any]:
        found = plain(builder.attributes, self._pointers.reference)
        doc = None if "doc" in found else self._doc(builder)
        return found if doc is None else {**found, "doc": doc}

    def _group(self, item: NewGroup) -> None:
        with self._session.located(item.path):
            attrs = self._attrs(item.builder)
            if item.is_new and item.path:
                self._writer.put(item.path, GroupSpec(attrs=attrs))
            else:
                self._change(item.path, attrs)
        self._mark(item.builder)

    def _change(self, path: str, attrs: Mapping[str, Any]) -> None:
        """Attributes of a group that is there; what others gave it besides stays."""
        if not self._lacks(path, attrs):
            return
        with self._session.locked(path):  # others may have changed it since
            spec = self._writer.node(path)
            if isinstance(spec, GroupSpec) and self._lacks(path, attrs):
                self._writer.put(path, spec.evolve(attrs={**spec.attrs, **attrs}))

    def _lacks(self, path: str, attrs: Mapping[str, Any]) -> bool:
        spec = self._writer.node(path)
        return isinstance(spec, GroupSpec) and not equal_attrs({**spec.attrs, **attrs}, spec.attrs)

    def _dataset(self, item: NewDataset) -> None:
        try:
            with self._session.located(item.path):
                self._fill(item)
        except BaseException:
            self._undo(item.path)
            raise
        self._mark(item.builder)

    def _undo(self, path: str) -> None:
        """Take a dataset out again that is not whole."""
        with suppress(HyperslabError):
            self._writer.drop(path)

    def _fill(self, item: NewDataset) -> None:
        data, builder, refer = item.data, item.builder, self._pointers.reference
        if data is None:
            shape, dtype = shape_of(item.wrapper)
            self._made(item, shape, data_type(dtype) or infer(np.empty(0)))
            self.unfilled.append((item.path, item.wrapper))
            return
        dtype = data_type(builder.dtype) or infer(data)
        if _is_large(data):
            array = self._made(item, tuple(data.shape), dtype)
            for rows in slabs(data):
                part = cells(_part(data, rows), dtype, refer)
                array[rows] = part
                self._done(part.nbytes)
            self._finished()
            return
        values = cells(_whole(data), dtype, refer)
        array = self._made(item, values.shape, dtype)
        self._write(array, values)
        self._done(values.nbytes)
        self._finished()

    def _write(self, array: Array, values: np.ndarray[Any, Any]) -> None:
        """All cells; those of one chunk without a plan, and by threads where encoding is the most of it."""
        if values.size == 0:
            return
        if (array.spec.inner_chunks or array.spec.chunks) != values.shape or values.nbytes > _SMALL:
            array[...] = values
        elif values.nbytes < _TINY:
            self._write_batch([(array.path, values)])
        else:
            self._small.append((array.path, values))
            self._held += values.nbytes
            if self._held > _HELD:
                self._write_small()

    def _write_small(self) -> None:
        """What was held back of small datasets."""
        small, self._small, self._held = self._small, [], 0
        batches = (small[start : start + _BATCH] for start in range(0, len(small), _BATCH))
        try:
            each_batch(self._write_batch, batches, self._session.settings.threads)
        except BaseException:
            for path, _ in small:  # of which none may be there without its cells
                self._undo(path)
            raise

    def _write_batch(self, batch: Iterable[tuple[str, np.ndarray[Any, Any]]]) -> None:
        for path, values in batch:
            with self._session.located(path):
                source = self._writer.chunks(path)
                source.write((0,) * values.ndim, np.ascontiguousarray(values).reshape(values.shape))

    def _stream(self, item: NewDataset) -> Stream:
        data = item.data
        with self._session.located(item.path):
            said = item.builder.dtype
            dtype = data_type(data.dtype if said is None else said) or infer(data)
            shape = first_shape(data)
            settings = dict(item.settings)
            if settings.get("chunks") is None or isinstance(settings["chunks"], str):
                settings["chunks"] = data.recommended_chunk_shape() or auto_chunks(shape, numpy_dtype(dtype).itemsize)
            spec = self._spec(item, shape, dtype, settings)
        self._mark(item.builder)
        return Stream(self._session, item.path, spec, data, self._pointers.reference)

    # -- specs ------------------------------------------------------------------------------------------------------

    def _made(self, item: NewDataset, shape: tuple[int, ...], dtype: DataType) -> Array:
        spec = self._spec(item, shape, dtype, item.settings)
        self._writer.put(item.path, spec)
        return Array(self._session, item.path, spec)

    def _spec(
        self, item: NewDataset, shape: tuple[int, ...], dtype: DataType, settings: Mapping[str, Any]
    ) -> ArraySpec:
        """The array in the spelling of the format; those that are alike are planned once."""
        labels = item.builder.dimension_labels
        dims = tuple(labels) if labels is not None and len(labels) == len(shape) else None
        if is_object(dtype):  # which are encoded as one
            settings = {**settings, "chunks": tuple(max(length, 1) for length in shape)}
        key = shape, repr(dtype), dims, repr(sorted(settings.items()))
        if key not in self._known:
            wish = Wish(shape=shape, dtype=dtype, dims=dims, **settings)
            self._known[key] = array_spec(wish, self._session)
        known = self._known[key]
        return known.evolve(attrs={**known.attrs, **self._attrs(item.builder)})

    # -- progress ---------------------------------------------------------------------------------------------------

    def _done(self, nbytes: int) -> None:
        self._progress = self._progress.advanced(nbytes, 0, perf_counter() - self._began)
        self._report(self._progress)

    def _finished(self) -> None:
        self._progress = self._progress.advanced(0, 1, perf_counter() - self._began)
        self._report(self._progress)


def _is_stream(data: Any) -> bool:
    return isinstance(data, AbstractDataChunkIterator) and not isinstance(data, HyperslabDataset)


def _is_large(data: Any) -> bool:
    """Return whether data lie elsewhere and are copied in parts."""
    if (
        isinstance(data, np.ndarray)
        or not getattr(data, "shape", ())
        or not isinstance(getattr(data, "dtype", None), np.dtype)
    ):
        return False
    return bool(data.dtype.itemsize * prod(data.shape) >= LARGE)


def _part(data: Any, rows: slice) -> Any:
    return data.dataset[rows] if isinstance(data, HyperslabDataset) else data[rows]


def _whole(data: Any) -> Any:
    """Data that lie elsewhere, read; references among them stay what they are."""
    if isinstance(data, HyperslabDataset) or not hasattr(data, "id") or not hasattr(data, "file"):
        return data
    return data[()]


def _nbytes(item: NewDataset) -> int:
    """Bytes of its cells, where they are known before they are read."""
    data = item.data
    shape = getattr(data, "maxshape", None) if _is_stream(data) else getattr(data, "shape", None)
    dtype = getattr(data, "dtype", None)
    if not shape or None in shape or not isinstance(dtype, np.dtype | type):
        return 0
    return int(np.dtype(dtype).itemsize * prod(shape))
