"""Builders into a dataset: every document is written once, after the cells; one consolidation when all is there.

Data that arrive piece by piece are written in whole rows of chunks, in bounded memory; the array grows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from hdmf.build import BuildManager
from hdmf.data_utils import AbstractDataChunkIterator

from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.bridges.hdmf.builder_values import ReferenceMaker, as_cells, infer_type, parse_type, plain_attributes
from hyperslab.bridges.hdmf.datasets import LARGE, HyperslabDataset, read_shape, rows_at_once
from hyperslab.bridges.hdmf.schemas import doc_of
from hyperslab.bridges.hdmf.write_plan import NewDataset, NewGroup, Pointers, WritePlan
from hyperslab.chunks.auto import auto_chunks
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.progress import Progress, ProgressCallback
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.base import Writer
from hyperslab.formats.hdmf.cell_types import is_object
from hyperslab.group import Group
from hyperslab.group.creation import Wish, array_spec
from hyperslab.model.attrs import equal_attrs
from hyperslab.model.dtypes import DataType, numpy_dtype
from hyperslab.model.spec import ArraySpec, GroupSpec

# Datasets of so many bytes wait to be encoded by threads together: smaller ones are written at once, larger ones
# as any array is.
_TINY, _SMALL = 1 << 16, 1 << 20
# Bytes of all datasets that wait, which bounds memory; how many of them a thread takes at a time.
_MAX_WAITING, DATASETS_PER_TASK = 32 << 20, 4


class BuilderWriter:
    """One write of builders into an open dataset. ``mark``: called with each builder that is written. ``manager``: of
    the schemas whose words are written as attributes ``doc``; None: none are."""

    def __init__(
        self,
        root: Group,
        pointers: Pointers,
        mark: Callable[[Any], None],
        manager: BuildManager | None,
        report: ProgressCallback,
    ) -> None:
        self._session = root._session
        self._writer = root._session.writer()
        self._pointers = pointers
        self._mark = mark
        self._manager = manager
        self._report = report
        self._progress = Progress(0, 0, 0, 0)
        self._began = perf_counter()
        self._known_specs: dict[Any, ArraySpec] = {}
        self._small: list[tuple[str, np.ndarray]] = []
        self._waiting_bytes = 0
        self.unfilled: list[tuple[str, Any]] = []
        """Paths and wrappers of datasets without data."""

    def run(self, plan: WritePlan, *, in_turns: bool) -> None:
        """Write all that is planned within a batch of the dataset. ``in_turns``: iterators in turns."""
        datasets = plan.datasets
        self._progress = Progress(0, sum(nbytes_of(item.data) for item in datasets), 0, len(datasets))
        for group in plan.groups:
            self._group(group)
        for link in plan.links:
            with self._session.add_place_to_errors(link.path):
                self._writer.put(link.path, link.link)
            self._mark(link.builder)
        streams = [self._stream(item) for item in datasets if _is_stream(item.data)]
        try:
            for item in datasets:
                if not _is_stream(item.data):
                    self._dataset(item)
        finally:
            self._write_small()  # what has its document has its cells, whatever became of the others
        self._exhaust(streams, in_turns=in_turns)

    def _exhaust(self, streams: Sequence[Stream], *, in_turns: bool) -> None:
        """Write what iterators give, one after the other, or in turns: they may share what they are fed from."""
        queue = deque(streams)
        try:
            while queue:
                stream = queue.popleft()
                if stream.step(self._report_progress):
                    (queue.append if in_turns else queue.appendleft)(stream)
        except BaseException:
            for stream in streams:
                self._undo(stream.path)
            raise

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _attrs(self, builder: Any) -> dict[str, Any]:
        attrs = plain_attributes(builder.attributes, self._pointers.reference)
        if self._manager is not None and "doc" not in attrs and (doc := doc_of(builder, self._manager)) is not None:
            attrs["doc"] = doc
        return attrs

    def _group(self, item: NewGroup) -> None:
        with self._session.add_place_to_errors(item.path):
            attrs = self._attrs(item.builder)
            if item.is_new and item.path:
                self._writer.put(item.path, GroupSpec(attrs=attrs))
            elif self._lacks(item.path, attrs):
                with self._session.lock_node(item.path):  # others may have changed it since
                    spec = self._writer.node(item.path)
                    if spec.is_group and self._lacks(item.path, attrs):  # what others gave it besides stays
                        self._writer.put(item.path, spec.evolve(attrs={**spec.attrs, **attrs}))
        self._mark(item.builder)

    def _lacks(self, path: str, attrs: Mapping[str, Any]) -> bool:
        """Return True for a group without some of the attributes."""
        spec = self._writer.node(path)
        return spec.is_group and not equal_attrs({**spec.attrs, **attrs}, spec.attrs)

    def _dataset(self, item: NewDataset) -> None:
        try:
            with self._session.add_place_to_errors(item.path):
                self._fill(item)
        except BaseException:
            self._undo(item.path)
            raise
        self._mark(item.builder)

    def _undo(self, path: str) -> None:
        """Remove a dataset that is not whole."""
        with suppress(HyperslabError):
            self._writer.drop(path)

    def _fill(self, item: NewDataset) -> None:
        data, builder, refer = item.data, item.builder, self._pointers.reference
        if data is None:
            shape, dtype = read_shape(item.wrapper)
            self._create_array(item, shape, parse_type(dtype) or infer_type(np.empty(0)))
            self.unfilled.append((item.path, item.wrapper))
            return
        dtype = parse_type(builder.dtype) or infer_type(data)
        if not isinstance(data, np.ndarray) and nbytes_of(data) >= LARGE:  # it lies elsewhere: copied in parts
            array = self._create_array(item, tuple(data.shape), dtype)
            cells = data.dataset if isinstance(data, HyperslabDataset) else data
            step = rows_at_once(data)
            for start in range(0, data.shape[0], step):
                part = as_cells(cells[start : start + step], dtype, refer)
                array[start : start + len(part)] = part
                self._report_progress(part.nbytes)
        else:
            # Data of other backends are read whole; references among them stay what they are.
            is_foreign = hasattr(data, "id") and hasattr(data, "file") and not isinstance(data, HyperslabDataset)
            values = as_cells(data[()] if is_foreign else data, dtype, refer)
            self._write(self._create_array(item, values.shape, dtype), values)
            self._report_progress(values.nbytes)
        self._report_progress(0, datasets=1)

    def _write(self, array: Array, values: np.ndarray) -> None:
        """Write all cells: those of one chunk without a plan, and by threads where encoding is most of the work."""
        if values.size == 0:
            return
        if (array.spec.inner_chunks or array.spec.chunks) != values.shape or values.nbytes > _SMALL:
            array[...] = values
        elif values.nbytes < _TINY:
            self._write_batch([(array.path, values)])
        else:
            self._small.append((array.path, values))
            self._waiting_bytes += values.nbytes
            if self._waiting_bytes > _MAX_WAITING:
                self._write_small()

    def _write_small(self) -> None:
        """Write the small datasets that wait."""
        small, self._small, self._waiting_bytes = self._small, [], 0
        batches = (small[start : start + DATASETS_PER_TASK] for start in range(0, len(small), DATASETS_PER_TASK))
        try:
            each_batch(self._write_batch, batches, self._session.settings.threads)
        except BaseException:
            for path, _ in small:  # of which none may be there without its cells
                self._undo(path)
            raise

    def _write_batch(self, batch: Iterable[tuple[str, np.ndarray]]) -> None:
        for path, values in batch:
            with self._session.add_place_to_errors(path):
                source = self._writer.chunks(path)
                source.write((0,) * values.ndim, np.ascontiguousarray(values).reshape(values.shape))

    def _stream(self, item: NewDataset) -> Stream:
        data = item.data
        with self._session.add_place_to_errors(item.path):
            builder_type = item.builder.dtype
            dtype = parse_type(data.dtype if builder_type is None else builder_type) or infer_type(data)
            shape = data.recommended_data_shape() if data.maxshape is None else data.maxshape
            if shape is None:
                raise Invalid("an iterator that gives nothing and says no shape", remedy="give it maxshape=")
            shape = tuple(0 if length is None else int(length) for length in shape)  # what is unknown grows
            settings = dict(item.settings)
            if settings.get("chunks") is None or isinstance(settings["chunks"], str):
                settings["chunks"] = data.recommended_chunk_shape() or auto_chunks(shape, numpy_dtype(dtype).itemsize)
            spec = self._spec(item, shape, dtype, settings)
        self._mark(item.builder)
        return Stream(self._session, item.path, spec, data, self._pointers.reference)

    # -- specs ------------------------------------------------------------------------------------------------------

    def _create_array(self, item: NewDataset, shape: tuple[int, ...], dtype: DataType) -> Array:
        spec = self._spec(item, shape, dtype, item.settings)
        self._writer.put(item.path, spec)
        return Array(self._session, item.path, spec)

    def _spec(
        self, item: NewDataset, shape: tuple[int, ...], dtype: DataType, settings: Mapping[str, Any]
    ) -> ArraySpec:
        """Return the array as the format spells it; arrays that are alike are planned once."""
        labels = item.builder.dimension_labels
        dims = tuple(labels) if labels is not None and len(labels) == len(shape) else None
        if is_object(dtype):  # which are encoded as one
            settings = {**settings, "chunks": tuple(max(length, 1) for length in shape)}
        key = shape, repr(dtype), dims, repr(sorted(settings.items()))
        if key not in self._known_specs:
            wish = Wish(shape=shape, dtype=dtype, dims=dims, **settings)
            self._known_specs[key] = array_spec(wish, self._session)
        known = self._known_specs[key]
        return known.evolve(attrs={**known.attrs, **self._attrs(item.builder)})

    def _report_progress(self, nbytes: int, datasets: int = 0) -> None:
        self._progress = self._progress.advanced(nbytes, datasets, perf_counter() - self._began)
        self._report(self._progress)


def _is_stream(data: Any) -> bool:
    return isinstance(data, AbstractDataChunkIterator) and not isinstance(data, HyperslabDataset)


def nbytes_of(data: Any) -> int:
    """Return the bytes of a dataset's cells, 0 where they are not known before they are read."""
    shape = getattr(data, "maxshape", None) if _is_stream(data) else getattr(data, "shape", None)
    dtype = getattr(data, "dtype", None)
    if not shape or None in shape or not isinstance(dtype, np.dtype | type):
        return 0
    return int(np.dtype(dtype).itemsize * prod(shape))


# -- data that arrive piece by piece -----------------------------------------------------------------------------------

# Bytes of whole chunks that wait before they are written together.
_ENOUGH = 4 << 20
Step = Callable[[int], None]
"""Called with the number of bytes of cells that were written."""


class Stream:
    """One iterator and the array that it fills. Rows that follow each other wait until they fill chunks."""

    def __init__(
        self, session: OpenDataset, path: str, spec: ArraySpec, data: AbstractDataChunkIterator, refer: ReferenceMaker
    ) -> None:
        self._session = session
        self._writer: Writer = session.writer()
        self.path = path
        self._spec = spec
        self._data = data
        self._refer = refer
        self._waiting: list[np.ndarray] = []
        self._start = self._stop = 0
        first = spec.chunks[0] if spec.chunks else 1
        self._chunk = first if isinstance(first, int) else max(first)
        self._writer.put(path, spec)

    def step(self, done: Step) -> bool:
        """Write what the iterator gives next; False when it gives no more, and the array is complete."""
        try:
            piece = next(self._data)
        except StopIteration:
            self._flush(self._stop, done)
            self._writer.put(self.path, self._spec)
            return False
        key = _box(piece.selection, piece.data, self._spec.shape)
        self._grow(tuple(each.stop for each in key))
        values = as_cells(piece.data, self._spec.dtype, self._refer).reshape([each.stop - each.start for each in key])
        is_rows = bool(key) and values.shape[1:] == self._spec.shape[1:] and not any(each.start for each in key[1:])
        if not is_rows:
            self._flush(self._stop, done)
            self._write(key, values, done)
            return True
        if not self._waiting or key[0].start != self._stop:
            self._flush(self._stop, done)
            self._start = key[0].start
        self._waiting.append(values)
        self._stop = key[0].stop
        whole = self._stop // self._chunk * self._chunk
        if whole > self._start and prod(values.shape[1:]) * values.itemsize * (whole - self._start) >= _ENOUGH:
            self._flush(whole, done)
        return True

    def _flush(self, stop: int, done: Step) -> None:
        """Write the rows that wait, up to ``stop``; the others go on waiting."""
        if not self._waiting:
            return
        rows = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        count = stop - self._start
        rest = (slice(0, length) for length in rows.shape[1:])
        self._waiting = [rows[count:]] if count < len(rows) else []
        self._write((slice(self._start, stop), *rest), rows[:count], done)
        self._start = stop

    def _write(self, key: tuple[slice, ...], values: np.ndarray, done: Step) -> None:
        Array(self._session, self.path, self._spec)[key] = values
        done(values.nbytes)

    def _grow(self, bounds: tuple[int, ...]) -> None:
        shape = tuple(max(pair) for pair in zip(self._spec.shape, bounds, strict=True))
        if shape != self._spec.shape:
            if self._waiting and shape[1:] != self._spec.shape[1:]:
                self._flush(self._stop, lambda nbytes: None)
            self._spec = self._spec.evolve(shape=shape)
            self._writer.put(self.path, self._spec)


def _box(selection: Any, data: Any, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return a chunk's selection as a range per axis; Invalid for anything else."""
    parts = selection if isinstance(selection, tuple) else (selection,)
    if Ellipsis in [part for part in parts if part is Ellipsis] or len(parts) > len(shape):
        raise Invalid(f"a chunk at {selection!r}", remedy="give a range per dimension")
    parts = (*parts, *(slice(None),) * (len(shape) - len(parts)))
    sizes = iter(np.shape(data))
    return tuple(_range(part, sizes, length) for part, length in zip(parts, shape, strict=True))


def _range(part: Any, sizes: Iterator[int], length: int) -> slice:
    match part:
        case int() | np.integer():
            return slice(int(part), int(part) + 1)
        case slice(step=None | 1):
            size, start = next(sizes, length), int(part.start or 0)
            return slice(start, start + int(size) if part.stop is None else int(part.stop))
    raise Invalid(f"a chunk at {part!r}", remedy="give a range per dimension")
