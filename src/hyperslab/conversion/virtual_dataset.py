"""``virtual``: references to the chunks of datasets where they lie, as one dataset; no cell of a chunk is copied.

What a conversion to Zarr would write is planned as for one (:mod:`hyperslab.conversion.plan`), losses and all, but
arrays keep the chunks and codecs that they have in the source, and their chunks are named by file and byte. Few cells,
and those that no reader of Zarr could decode where they lie, are stored in the references themselves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any

import numpy as np

from hyperslab import api
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.locations import ChunkLocations
from hyperslab.chunks.progress import Progress, ProgressCallback, reporting
from hyperslab.codecs.registry import parse_codec
from hyperslab.conversion.adapt import TargetNode, accepts
from hyperslab.conversion.copy import SETTINGS, ConversionJob, CopyProgress, copy_arrays
from hyperslab.conversion.losses import Loss
from hyperslab.conversion.opening import dataset_session, place_of_group
from hyperslab.conversion.pipeline import require_disjoint
from hyperslab.conversion.plan import MEMORY, collect_nodes, dry_run, write_documents
from hyperslab.conversion.rechunk import Encoding
from hyperslab.conversion.reference_files import (
    ArrayReferences,
    References,
    refuse_taken_repository,
    spell_compressors_as_filters,
    write_json,
    write_parquet,
    write_repository,
)
from hyperslab.conversion.source_nodes import SourceDamage
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats import get_format
from hyperslab.formats.base import Writer
from hyperslab.formats.codec_kinds import ARRAY
from hyperslab.formats.join.chunks import NO_PLACE, VIRTUAL_REMEDY
from hyperslab.formats.opening import check_replaceable, is_occupied
from hyperslab.formats.single_array.reader import CoordinateCells
from hyperslab.group import Group
from hyperslab.model.amounts import counted, size_text
from hyperslab.model.cells import same_type
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.building import building, refuse_taken
from hyperslab.stores.endpoints import Options
from hyperslab.stores.location import REPOSITORIES, Location, Several
from hyperslab.stores.memory import MemoryStore

_log = logging.getLogger("hyperslab")

# Arrays of so few bytes are stored in the references: they are read as soon as a dataset is opened, and of many files a
# request for each would take longer than all else.
_FEW_BYTES = 16 << 10
# So much of an array is stored there at the most where its chunks cannot be pointed to, or are smaller than what would
# point to them.
_MOST_INLINE = 8 << 20
# Bytes of a reference, as JSON: chunks with fewer are better stored themselves.
_REFERENCE_BYTES = 64
# Bare cells in one piece are cut into chunks of at most so many bytes: what a reader fetches for one cell.
_MOST_CHUNK = 4 << 20
_PACKED = {"zarr2": "zlib:1", "zarr3": "zstd:1"}
"""The codec of cells that are stored in the references, where there are many: every reader of the format has it."""

_WRITERS = {"json": write_json, "parquet": write_parquet}
_SUFFIXES = {".json": "json", ".parquet": "parquet", ".parq": "parquet"}


@dataclass(frozen=True, slots=True)
class VirtualReport:
    """References that were made: to how many chunks, of how many files; ``nbytes``: of the cells that these hold,
    ``inline_nbytes``: of those that are stored beside the references; ``losses``: as of a conversion."""

    source: str
    target: str
    format: str
    arrays: int
    references: int
    files: int
    nbytes: int
    inline_nbytes: int
    seconds: float
    losses: tuple[Loss, ...] = ()

    def __str__(self) -> str:
        text = f"{counted(self.references, 'reference')} to {counted(self.files, 'file')}"
        cells = f"{counted(self.arrays, 'array')} of {size_text(self.nbytes)}"
        return f"{text}, {cells} ({size_text(self.inline_nbytes)} inline), in {self.seconds:.1f} s"


def virtual(
    pieces: api.Target | Group,
    target: api.Target,
    along: str | Sequence[str] | None = None,
    *,
    format: str | None = None,
    relative: bool = True,
    overwrite: bool = False,
    allow_loss: bool = False,
    progress: bool | ProgressCallback | None = None,
    storage_options: Options | tuple[Options, Options] = None,
    **options: Any,
) -> VirtualReport:
    """Write references to the chunks of datasets where they lie, which open as one dataset; no chunk is copied.

    ``pieces``, ``along``: as for ``join``; one dataset, or what ``join`` gave, too. ``target``: a path, whose end says
    the ``format``:
    ``json`` (``.json``) or ``parquet`` (``.parquet``, ``.parq``: a folder), as kerchunk has them; or a repository of
    icechunk, which gets virtual chunks by one commit. ``relative``: files below the folder of the target are named by
    their way from there, else by their whole path. ``overwrite``: replace what is there. ``allow_loss``: leave out, and
    log, what Zarr has no form for. ``storage_options``: of pieces on servers, or a pair, for a repository on one, too.
    ``options`` as for ``open``, of one piece.

    Unsupported names the first file and array whose chunks are no part of one array: in other codecs, cut short, or
    stored as no other reader knows; Invalid for pieces that ``join`` refuses.
    """
    started = time.perf_counter()
    own, other = storage_options if isinstance(storage_options, tuple) else (storage_options, None)
    source, place = Location.matching(place_of_group(pieces), own), Location.of(target, other)
    chosen = choose_format(place, format)
    require_disjoint(source, place)
    if chosen != "icechunk":
        refuse_taken(require_path(place), overwrite)
        if is_occupied(place):
            check_replaceable(place)
    elif not overwrite:
        refuse_taken_repository(place)
    if isinstance(source.target, Several) and len(source.target.places) == 1:
        source = source.target.places[0]
    places = source.target.places if isinstance(source.target, Several) else (source,)
    total = len(places)
    with ExitStack() as stack:
        report = stack.enter_context(reporting(progress, "looking at pieces"))
        opening: dict[str, Any] = {**options}
        if isinstance(source.target, Several):
            opening |= {"along": along, "locates": True, "advance": count_pieces(report, total, started)}
        session = stack.enter_context(dataset_session(source, options=opening))
        if chosen == "icechunk":
            made = _ReferencePlanner(session, place, "zarr3", allow_loss=allow_loss).run()
            message = f"refer to {counted(total, 'piece')}"
            files = write_repository(place, places, made.references, message, own or {}, overwrite=overwrite)
        else:
            made = _ReferencePlanner(session, place, "zarr2", allow_loss=allow_loss).run()
            path = stack.enter_context(building(require_path(place), overwrite=overwrite))
            files = _WRITERS[chosen](path, require_path(place), made.references, relative=relative)
    name = source.url if total == 1 else f"{total} pieces"
    return made.describe(name, place.url, chosen, files, time.perf_counter() - started)


def choose_format(place: Location, format: str | None) -> str:
    """Return the form of references by its name, or by the end of a path. Invalid."""
    if place.scheme in REPOSITORIES and format in (None, "icechunk"):
        return "icechunk"
    found = format or _SUFFIXES.get(place.suffix)
    if found not in _WRITERS:
        known = ", ".join(f"{name} ({suffix})" for suffix, name in _SUFFIXES.items())
        what = f"{format!r} is no form of references" if format else "the name does not say the form of references"
        raise Invalid(what, url=place.url, remedy=f"it is one of {known}, or a repository of icechunk")
    return found


def require_path(place: Location) -> str:
    """Return the path of a target in the local file system. Unsupported for any other."""
    if place.path is None:
        remedy = "write a local file, and copy it there"
        raise Unsupported("references are written to the local file system", url=place.url, remedy=remedy)
    return place.path


def count_pieces(report: ProgressCallback, total: int, started: float) -> Callable[[], None]:
    """Return what reports one more piece, of so many, whenever a thread calls it."""
    numbers = count(1)

    def advance() -> None:
        report(Progress(0, 0, next(numbers), total, time.perf_counter() - started))

    return advance


def _nbytes(spec: ArraySpec) -> int:
    return prod(spec.shape) * spec.numpy_dtype.itemsize


@dataclass(frozen=True, eq=False)
class _VirtualDataset:
    references: References
    nodes: list[TargetNode]
    losses: tuple[Loss, ...]

    def describe(self, source: str, target: str, format: str, files: int, seconds: float) -> VirtualReport:
        """Return the report of references that lead to so many files."""
        arrays = [each.node for each in self.nodes if each.node.is_array]
        return VirtualReport(
            source=source,
            target=target,
            format=format,
            arrays=len(arrays),
            references=sum(len(each.locations) for each in self.references.arrays),
            files=files,
            nbytes=sum(map(_nbytes, arrays)),
            inline_nbytes=sum(map(len, self.references.values.values())),
            seconds=seconds,
            losses=self.losses,
        )


class _ReferencePlanner:
    """Makes the documents and references of one dataset, in a ``format`` of Zarr."""

    def __init__(self, source: OpenDataset, place: Location, format: str, *, allow_loss: bool) -> None:
        self._source = source
        self._place = place
        self._allow_loss = allow_loss
        self._format = get_format(format)

    def run(self) -> _VirtualDataset:
        """Return the references. Unsupported."""
        items, _ = collect_nodes(self._source, self._format, SourceDamage())
        plan = dry_run(
            self._source, items, Encoding(), self._format, self._place, allow_loss=self._allow_loss, memory=MEMORY
        )
        for loss in plan.losses:
            _log.warning("lost in %s: %s", self._format.name, loss)
        store, options = MemoryStore(), {"consolidated": self._format.name == "zarr2"}
        with dataset_session(store, mode="x", format=self._format.name, options=options) as target:
            located: dict[str, ChunkLocations] = {}
            nodes = [self._choose(each, target.writer(), located) for each in plan.nodes]
            write_documents(target, nodes)
            inline = [each for each in nodes if each.source.path not in located]
            copies = ConversionJob(self._format, self._source, inline, MEMORY).copies(target)
            copy_arrays(copies, CopyProgress(copies, lambda now: None), SETTINGS)
            for path, found in located.items():
                self._store_odd(target, path, found)
        values = {key: value for key in store.list() if (value := store.get(key)) is not None}
        if self._format.name == "zarr2":
            spell_compressors_as_filters(values, located)
        arrays = []
        for each in nodes:
            if each.source.path in located and each.node.is_array:
                counts = tuple(
                    -(-length // size)
                    for length, size in zip(each.node.shape, located[each.source.path].shape, strict=True)
                )
                arrays.append(ArrayReferences(each.source.path, counts, located[each.source.path]))
        return _VirtualDataset(References(values, arrays), nodes, plan.losses)

    def _choose(self, plan: TargetNode, writer: Writer, located: dict[str, ChunkLocations]) -> TargetNode:
        """Return an array as its stored chunks are cut and encoded, which are noted in ``located``; as one chunk that
        is stored in the references where they cannot be pointed to, or need not be."""
        spec, origin = plan.node, plan.source.node
        if not spec.is_array or not origin.is_array:
            return plan
        try:
            found = self._locate(plan, spec, origin, writer)
        except HyperslabError as error:
            raise error.locate(url=self._source.url, node=plan.source.path) from error.__cause__
        if found is not None:
            located[plan.source.path], node = found
            return TargetNode(plan.source, node)
        codecs = parse_codec("none" if _nbytes(spec) <= _FEW_BYTES else _PACKED[self._format.name], spec.numpy_dtype)
        wish = spec.evolve(chunks=whole_chunks(spec.shape), codecs=codecs, layout={})
        return TargetNode(plan.source, writer.new_array(wish))

    def _locate(
        self, plan: TargetNode, spec: ArraySpec, origin: ArraySpec, writer: Writer
    ) -> tuple[ChunkLocations, ArraySpec] | None:
        """Return where the chunks lie, and the array that they are of; None for cells that are stored in the
        references. Unsupported for too many of those."""
        nbytes = _nbytes(origin)
        if nbytes <= _FEW_BYTES:
            return None
        source = self._source.reader.chunks(plan.source.origin)
        located, reason = source.locations(), NO_PLACE
        if located is not None and same_type(spec.dtype, origin.dtype, any_order=True):
            if nbytes <= _MOST_INLINE and nbytes < _REFERENCE_BYTES * len(located):
                return None
            located = cut_cells(located, spec.shape)
            wish = self._spell_as_stored(spec, located)
            odd_bytes = len(located.odd) * prod(located.shape) * located.dtype.itemsize
            if self._reads_otherwise(located) or not accepts(wish, writer.new_array):
                reason = f"Zarr has no form for the codecs {'+'.join(codec.name for codec in located.codecs)}"
            elif odd_bytes <= _MOST_INLINE:
                return located, writer.new_array(wish)
            else:
                reason = f"{counted(len(located.odd), 'chunk')} were stored without one of the filters"
        # Labels of a joined dataset are in memory, and in no file as they are here.
        if nbytes > _MOST_INLINE and not isinstance(source, CoordinateCells):
            url = located.files[0].url if located is not None and located.files else self._source.url
            raise Unsupported(reason, url=url, remedy=VIRTUAL_REMEDY)
        return None

    def _spell_as_stored(self, spec: ArraySpec, located: ChunkLocations) -> ArraySpec:
        """Return an array with the chunks and codecs that it has where it lies; the format says by its own codec, or by
        the type of the cells, how these become bytes."""
        codecs = tuple(codec for codec in located.codecs if codec.name != "bytes")
        wish = spec.evolve(chunks=located.shape, codecs=codecs, layout={"checksum": False})
        is_number = isinstance(spec.dtype, np.dtype) and spec.dtype.kind in "iufcmM"
        return wish.evolve(dtype=located.dtype) if is_number else wish

    def _reads_otherwise(self, located: ChunkLocations) -> bool:
        """Return True for filters over cells that are big-endian, which Zarr v3 takes for little-endian ones."""
        filters = any(codec.name in ARRAY - {"transpose"} for codec in located.codecs)
        is_big = located.dtype.newbyteorder(">") == located.dtype
        return filters and is_big and self._format.name == "zarr3"

    def _store_odd(self, target: OpenDataset, path: str, found: ChunkLocations) -> None:
        """Store chunks that were not passed through all codecs, as those would have made them."""
        if not len(found.odd):
            return
        source, stored = self._source.reader.chunks(path), target.reader.chunks(path)
        for coords in map(tuple, found.odd.tolist()):
            block = source.read(coords)
            if block is not None:
                stored.write(coords, block)


def cut_cells(located: ChunkLocations, shape: tuple[int, ...]) -> ChunkLocations:
    """Return large chunks of bare cells as smaller ones, cut along the first axis that has more than one cell."""
    size = prod(located.shape) * located.dtype.itemsize
    if size <= _MOST_CHUNK or not located.is_uncompressed or len(located.odd):
        return located
    cut = list(located.shape)
    for axis, length in enumerate(located.shape):
        row = size // length
        fits = [part for part in range(1, length + 1) if length % part == 0 and part * row <= _MOST_CHUNK]
        cut[axis] = max(fits, default=1)
        size = row * cut[axis]
        if fits:
            break
    counts = tuple(-(-length // part) for length, part in zip(shape, cut, strict=True))
    return located.recut(tuple(cut), counts) if located.can_recut(tuple(cut)) else located
