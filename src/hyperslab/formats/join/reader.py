"""The reader of a joined dataset: one tree, whose arrays lie in many pieces."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.locations import ChunkLocations
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.base import Format, Reader
from hyperslab.formats.codec_kinds import inner_codecs
from hyperslab.formats.format_errors import node_not_found
from hyperslab.formats.frame_description import ATTRIBUTE as FRAME
from hyperslab.formats.frame_description import row_parts
from hyperslab.formats.join.chunks import JoinAxis, JoinChunks, Place
from hyperslab.formats.join.frames import REMEDY, join_descriptions
from hyperslab.formats.join.pieces import (
    FILL,
    FLAGS,
    PACKING,
    Arrangement,
    PieceMetadata,
    Template,
    arrange,
    chunk_lengths,
    common_dtype,
    missing_values,
    promote,
    promote_spec,
)
from hyperslab.formats.join.workers import look_at_pieces
from hyperslab.formats.single_array.reader import CoordinateCells
from hyperslab.model.cells import Values
from hyperslab.model.dims import split_units
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.paths import child, split
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec, Node
from hyperslab.model.time_units import TimeUnits
from hyperslab.stores.location import Location

# Pieces that are open at once, of which each may hold a file: a process may have a thousand. One that gives way is
# closed when nobody reads it any more. One of netCDF takes three descriptors and 1.3 MB; to open it again takes 6 ms,
# so that a column over 400 of them takes 2.4 s, and 0.3 s where all stay open.
_MOST_OPEN = 128
# Of pieces whose chunks are only located nothing is read twice, and to be open has its price, too: no more than are
# looked at at once.
_MOST_LOCATED = 16


class PieceReaders:
    """Opens pieces by their numbers, and keeps some open; for several threads."""

    def __init__(self, open_reader: Callable[[int], Reader], most: int = _MOST_OPEN) -> None:
        self._open = open_reader
        self._most = most
        self._readers: OrderedDict[int, Reader] = OrderedDict()
        self._sources: dict[tuple[int, str], ChunkSource] = {}
        self._lock = threading.Lock()

    def reader(self, number: int) -> Reader:
        """Return a piece's reader."""
        with self._lock:
            found = self._readers.get(number)
            if found is not None:
                self._readers.move_to_end(number)
                return found
        opened = self._open(number)
        with self._lock:
            found = self._readers.setdefault(number, opened)
            if found is not opened:  # another thread was faster
                opened.close()
            while len(self._readers) > self._most:
                gone, _ = self._readers.popitem(last=False)
                self._sources = {key: source for key, source in self._sources.items() if key[0] != gone}
            return found

    def chunks(self, number: int, path: str) -> ChunkSource:
        """Return the chunks of an array of a piece."""
        found = self._sources.get((number, path))
        if found is None:
            found = self.reader(number).chunks(path)
            with self._lock:
                if number in self._readers:
                    self._sources[number, path] = found
        return found

    def close(self) -> None:
        """Close all that are open."""
        with self._lock:
            readers, self._readers, self._sources = self._readers, OrderedDict(), {}
        for reader in readers.values():
            reader.close()


class JoinReader(Reader):
    """Pieces as one dataset. ``along``: the dimensions that are joined, None where they are to be found out.
    ``decodes``: floats are made of cells that pieces pack differently. ``locates``: note where
    their chunks lie; ``settings``: of those that ``open_reader`` opens, ``formats``: those of the pieces that it has
    opened."""

    def __init__(
        self,
        places: Sequence[Location],
        open_reader: Callable[[int], Reader],
        along: Sequence[str] | None,
        *,
        decodes: bool,
        locates: bool = False,
        settings: Settings = DEFAULTS,
        advance: Callable[[], None] = lambda: None,
        formats: Sequence[Format] = (),
    ) -> None:
        self._formats = formats
        self._url = " + ".join(place.url for place in places)
        self._readers = PieceReaders(open_reader, _MOST_LOCATED if locates else _MOST_OPEN)
        self._locates = locates
        self._settings = settings
        self._places = places
        try:
            self._look(along, 0, advance)
            first = self._arrangement.piece_at((0,) * len(self._arrangement.dims))
            if first and any(piece.attrs for piece in self._pieces):
                # Units and attributes are those of the first piece in order, whichever was named first, unless its
                # units cannot hold the times of all.
                with suppress(Invalid):
                    self._look(self._arrangement.dims, first)
            self._changes = _find_changes(self._template, self._pieces, self._arrangement, decodes=decodes)
        except BaseException:
            self.close()
            raise
        self._nodes: dict[str, Node] = {}

    def _look(self, along: Sequence[str] | None, first: int, advance: Callable[[], None] = lambda: None) -> None:
        template, pieces = look_at_pieces(
            self._places,
            self._readers.reader,
            first,
            locates=self._locates,
            settings=self._settings,
            advance=advance,
        )
        self._arrangement = arrange(template, pieces, along)
        self._template, self._pieces = template, pieces

    @property
    def stored_format(self) -> Format | None:
        """Return the format of the pieces; None where they have several."""
        return self._formats[0] if len(self._formats) == 1 else None

    # -- the tree ---------------------------------------------------------------------------------------------------

    def children(self, path: str) -> list[str]:
        if path in self._template.arrays:
            return []
        if path not in self._template.groups:
            raise node_not_found(path, self._url)
        nodes = (*self._template.arrays, *self._template.groups)
        return [split(node)[1] for node in nodes if node and split(node)[0] == path]

    def node(self, path: str) -> Node:
        if path not in self._nodes:
            self._nodes[path] = self._make_node(path)
        return self._nodes[path]

    def _make_node(self, path: str) -> Node:
        group = self._template.groups.get(path)
        if group is not None:
            lengths = self._lengths()
            dims = tuple(
                dim if dim.name not in lengths else type(dim)(dim.name, lengths[dim.name], dim.unlimited)
                for dim in group.dims
            )
            return group.evolve(dims=dims, layout={}, attrs=self._group_attrs(path, group))
        first = self._template.arrays.get(path)
        if first is None:
            raise node_not_found(path, self._url)
        if path in self._arrangement.labels:
            values = self._arrangement.labels[path]
            chunks = whole_chunks(values.shape)
            codecs = self._codecs(path, first)
            spec = first.evolve(shape=values.shape, chunks=chunks, codecs=codecs, layout={}, indexes={})
            dtype = common_dtype(self._template, self._pieces, path)
            return spec if dtype is None else promote_spec(spec, dtype)
        if not self._is_joined(first):
            return first.evolve(layout={})
        axes = self._axes(path, first)
        shape = tuple(axis.length for axis in axes)
        cuts, codecs = tuple(axis.chunks() for axis in axes), self._codecs(path, first)
        spec = first.evolve(shape=shape, chunks=cuts, codecs=codecs, layout={}, indexes={})
        change = self._changes.get(path)
        return spec if change is None else change.spec(spec)

    def _group_attrs(self, path: str, group: GroupSpec) -> Mapping[str, object]:
        """Return the attributes of a group: those of the first piece, a data frame with the rows of all. Without the
        description where the arrays are none any more: in some pieces there is none, or cells were decoded."""
        frame = self._template.frames.get(path)
        if frame is None:
            return group.attrs
        names = [part["variable"] for part in row_parts(frame.description)]
        arrays = {name: child(path, name) for name in names if child(path, name) in self._template.arrays}
        dims = {dim for array in arrays.values() for dim in self._template.arrays[array].dims}
        joint = next((joint for joint, dim in enumerate(self._arrangement.dims) if dim in dims), None)
        if joint is None:
            return group.attrs
        rest = {name: value for name, value in group.attrs.items() if name != FRAME}
        line = [self._pieces[self._arrangement.piece_at(place)] for place in self._line(joint)]
        is_decoded = any(isinstance(self._changes.get(array), DecodedCells) for array in arrays.values())
        if is_decoded or any(path not in piece.frames for piece in line):
            return rest
        found = {name: common_dtype(self._template, self._pieces, array) for name, array in arrays.items()}
        dtypes = {name: str(dtype) for name, dtype in found.items() if dtype is not None}
        rows, urls = [piece.frames[path] for piece in line], [piece.url for piece in line]
        return rest | {FRAME: json.dumps(join_descriptions(frame, rows, dtypes, urls))}

    def _codecs(self, path: str, first: ArraySpec) -> tuple[Codec, ...]:
        """Return the codecs of the chunks of an array in the first piece, or in one that compresses it."""
        found = (piece.compressed[path] for piece in self._pieces if path in piece.compressed)
        return next(found, tuple(inner_codecs(first.codecs)))

    def _is_joined(self, spec: ArraySpec) -> bool:
        return any(dim in self._arrangement.dims for dim in spec.dims)

    def _lengths(self) -> dict[str, int]:
        """Return the length of each joined dimension."""
        found: dict[str, int] = {}
        for path, first in self._template.arrays.items():
            if self._is_joined(first):
                for dim, axis in zip(first.dims, self._axes(path, first), strict=True):
                    if dim is not None and axis.joint is not None:
                        found.setdefault(dim, axis.length)
        return found

    def _axes(self, path: str, first: ArraySpec) -> list[JoinAxis]:
        """Return how an array is put together, axis by axis."""
        axes = []
        for axis, dim in enumerate(first.dims):
            cut = chunk_lengths(first)[axis]
            if dim not in self._arrangement.dims:
                axes.append(JoinAxis((first.shape[axis],), (_one_length(cut, path, self._url),)))
                continue
            joint = self._arrangement.dims.index(dim)
            line = [self._pieces[self._arrangement.piece_at(place)] for place in self._line(joint)]
            lengths = tuple(piece.shapes[path][axis] for piece in line)
            sizes = tuple(_one_length(piece.cuts[path][axis], path, piece.url) for piece in line)
            self._check_rows(path, axis, joint, lengths, sizes)
            axes.append(JoinAxis(lengths, sizes, joint))
        return axes

    def _check_rows(self, path: str, axis: int, joint: int, lengths: Sequence[int], sizes: Sequence[int]) -> None:
        """Raise Invalid where pieces beside each other in a grid are not of one length, Unsupported where they are cut
        in other chunks."""
        if len(self._arrangement.dims) == 1:
            return
        for place, number in self._arrangement.numbers.items():
            piece, at = self._pieces[number], place[joint]
            if piece.shapes[path][axis] != lengths[at]:
                message = f"{piece.shapes[path][axis]} cells along {self._arrangement.dims[joint]} beside {lengths[at]}"
                raise Invalid(message, url=piece.url, node=path, remedy="give pieces that fill a grid")
            if _one_length(piece.cuts[path][axis], path, piece.url) != sizes[at]:
                message = f"chunks of {piece.cuts[path][axis]} along {self._arrangement.dims[joint]} beside {sizes[at]}"
                raise Unsupported(
                    message, url=piece.url, node=path, remedy="convert the piece with the chunks of others"
                )

    def _line(self, joint: int) -> list[Place]:
        """Return the places along one joined dimension, at the first of all others."""
        joints = range(len(self._arrangement.dims))
        return [tuple(each if i == joint else 0 for i in joints) for each in range(self._arrangement.counts[joint])]

    # -- cells ------------------------------------------------------------------------------------------------------

    def chunks(self, path: str) -> ChunkSource:
        first = self._template.arrays.get(path)
        if first is None:
            raise node_not_found(path, self._url)
        if path in self._arrangement.labels:
            return CoordinateCells(self._arrangement.labels[path])
        if not self._is_joined(first):
            return self._readers.chunks(self._arrangement.piece_at((0,) * len(self._arrangement.dims)), path)
        change = self._changes.get(path)
        joints = len(self._arrangement.dims)
        traits = self._open_piece(path, (0,) * joints).traits
        open_piece = partial(self._open_piece, path)
        convert = None if change is None else change.convert
        unwritten = None if change is None else partial(self._unwritten_cell, path, first)
        axes = self._axes(path, first)
        if self._locates and all(isinstance(piece.stored.get(path), np.ndarray) for piece in self._pieces):
            return CoordinateCells(self._join_cells(path, axes, convert))
        locate = partial(self._locate, path) if self._locates else None
        return JoinChunks(axes, open_piece, joints, traits, convert, unwritten, locate, self.piece_url)

    def _join_cells(
        self, path: str, axes: Sequence[JoinAxis], convert: Callable[[Place, Block], Block] | None
    ) -> Values:
        """Return the cells of an array that were read of all pieces."""
        out: Values | None = None
        for place, number in self._arrangement.numbers.items():
            cells = np.asarray(self._pieces[number].stored[path])
            cells = cells if convert is None else convert(place, cells)
            if out is None:
                out = np.empty(tuple(axis.length for axis in axes), cells.dtype)
            out[tuple(axis.cells_at(place) for axis in axes)] = cells
        assert out is not None  # there are pieces
        return out

    def _locate(self, path: str, place: Place) -> ChunkLocations | None:
        """Return where the chunks of a piece lie; None where it cannot tell."""
        found = self._pieces[self._arrangement.piece_at(place)].stored.get(path)
        # Of pieces that are small, cells may have been noted in place of that.
        return self._open_piece(path, place).locations() if isinstance(found, np.ndarray) else found

    def piece_url(self, place: Place) -> str:
        """Return where a piece is."""
        return self._pieces[self._arrangement.piece_at(place)].url

    def _unwritten_cell(self, path: str, first: ArraySpec, place: Place) -> Values:
        """Return what unwritten cells of a piece read as there."""
        piece = self._pieces[self._arrangement.piece_at(place)]
        return np.asarray(
            piece.attrs.get(path, {}).get(FILL, first.fill_cell()), piece.dtypes.get(path, first.numpy_dtype)
        )

    def _open_piece(self, path: str, place: Place) -> ChunkSource:
        number = self._arrangement.piece_at(place)
        try:
            return self._readers.chunks(number, path)
        except HyperslabError as error:
            raise error.locate(url=self._pieces[number].url, node=path) from error.__cause__

    def close(self) -> None:
        """Close all pieces."""
        self._readers.close()


def _one_length(cut: int | tuple[int, ...], path: str, url: str) -> int:
    if isinstance(cut, int):
        return cut
    if len(set(cut[:-1])) > 1 or (cut and max(cut) > cut[0]):
        raise Invalid("chunks of varying length in a piece", url=url, node=path, remedy="convert the piece")
    return cut[0] if cut else 1


# -- cells that mean something else in some pieces ---------------------------------------------------------------------


class RebasedTimes:
    """Times of an array that pieces count from other epochs, as counted in the first one."""

    def __init__(self, units: TimeUnits, others: Mapping[Place, TimeUnits], missing: Sequence[object]) -> None:
        self._units = units
        self._others = others
        self._missing = missing

    def spec(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of the joined array."""
        return spec

    def convert(self, place: Place, block: Block) -> Block:
        """Return the cells of a piece as counted in the first piece's units. Invalid."""
        old = self._others.get(place)
        return block if old is None else self._units.rebase(block, old, self._missing)


class DecodedCells:
    """Cells of an array that pieces pack differently, as the floats that they mean; missing ones are NaN."""

    def __init__(self, attrs: Mapping[Place, Mapping[str, object]], dtype: NumpyDType) -> None:
        self._attrs = attrs
        self._dtype = dtype

    def spec(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of the joined array."""
        attrs = {name: value for name, value in spec.attrs.items() if name not in PACKING}
        nan = self._dtype.type("nan")
        return spec.evolve(dtype=self._dtype, fill_value=nan, attrs={**attrs, "_FillValue": nan}, codecs=())

    def convert(self, place: Place, block: Block) -> Block:
        """Return the numbers that the cells of a piece mean."""
        attrs = self._attrs[place]
        cells = block.view(f"u{block.dtype.itemsize}") if str(attrs.get("_Unsigned", "")).lower() == "true" else block
        found = cells.astype("f8")
        missing = np.zeros(block.shape, bool)
        for name in ("_FillValue", "missing_value"):
            for value in np.atleast_1d(np.asarray(attrs.get(name, ()))):
                missing |= block == value
        scale, offset = (attrs.get(name) for name in ("scale_factor", "add_offset"))
        if scale is not None:
            found *= float(np.asarray(scale).item())
        if offset is not None:
            found += float(np.asarray(offset).item())
        found[missing] = np.nan
        return found.astype(self._dtype)


class PromotedCells:
    """Numbers of which pieces have several types, as such of the common one; ``then`` as counted in other units."""

    def __init__(self, dtype: NumpyDType, then: RebasedTimes | None) -> None:
        self._dtype = dtype
        self._then = then

    def spec(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of the joined array."""
        return promote_spec(spec, self._dtype)

    def convert(self, place: Place, block: Block) -> Block:
        """Return the cells of a piece in the common type. Invalid."""
        cells = promote(block, self._dtype)
        return cells if self._then is None else self._then.convert(place, cells)


Change = RebasedTimes | DecodedCells | PromotedCells


def _find_changes(
    template: Template, pieces: Sequence[PieceMetadata], arrangement: Arrangement, *, decodes: bool
) -> dict[str, Change]:
    """Return by path how cells of some pieces become those of the whole array. Invalid where they mean others."""
    bounded = {str(spec.attrs["bounds"]): path for path, spec in template.arrays.items() if "bounds" in spec.attrs}
    found: dict[str, Change] = {}
    for path, spec in template.arrays.items():
        if path in arrangement.labels or not any(dim in arrangement.dims for dim in spec.dims):
            continue
        # Bounds are counted in the units of what they bound.
        source = path if "units" in spec.attrs else bounded.get(split(path)[1], path)
        first = {**template.arrays[source].attrs, **spec.attrs}
        changed = {
            place: {**pieces[number].attrs.get(source, {}), **pieces[number].attrs.get(path, {})}
            for place, number in arrangement.numbers.items()
        }
        dtype = common_dtype(template, pieces, path)
        try:
            change = _find_change(spec, first, changed, dtype, decodes=decodes)
        except _OtherMeaning as error:
            url = pieces[arrangement.piece_at(error.place)].url
            remedy = REMEDY if split(path)[0] in template.frames else error.remedy
            raise Invalid(error.message, url=url, node=path, remedy=remedy) from None
        if change is not None:
            found[path] = change
    return found


class _OtherMeaning(Exception):
    """A difference of the piece at a place, with its remedy."""

    def __init__(self, place: Place, message: str, remedy: str) -> None:
        super().__init__(message)
        self.place, self.message, self.remedy = place, message, remedy


def _find_change(
    spec: ArraySpec,
    first: Mapping[str, object],
    changed: Mapping[Place, Mapping[str, object]],
    dtype: NumpyDType | None,
    *,
    decodes: bool,
) -> Change | None:
    """Return how cells of an array become those of the whole one; ``changed``: by piece the attributes that differ from
    the ``first`` ones; ``dtype``: the common type of numbers of several. None where all are alike."""
    for place, name in ((place, name) for place, attrs in changed.items() for name in FLAGS if name in attrs):
        message = f"{name} is {changed[place][name]!r}, and {first.get(name)!r} in the first piece"
        raise _OtherMeaning(
            place, message, "hyperslab edit --set gives a piece the flags of the others, if cells mean these"
        )
    # Each piece tells its own unwritten cells where they are converted anyway; of another type they read otherwise.
    packing = PACKING if dtype is not None else (*PACKING, FILL)
    packed = [(place, name) for place, attrs in changed.items() for name in packing if name in attrs]
    counted = [(place, attrs) for place, attrs in changed.items() if attrs.keys() & {"units", "calendar"}]
    if counted:
        units, calendar = first.get("units"), first.get("calendar")
        place, attrs = counted[0]
        if not isinstance(units, str) or split_units(units) is None or packed:
            message = f"units are {attrs.get('units', units)!r}, and {units!r} in the first piece"
            raise _OtherMeaning(place, message, "convert the pieces to the same units")
        others = {
            place: TimeUnits(attrs.get("units", units), attrs.get("calendar", calendar)) for place, attrs in counted
        }
        rebased = RebasedTimes(TimeUnits(units, calendar), others, missing_values(first))
        return rebased if dtype is None else PromotedCells(dtype, rebased)
    if not packed:
        return None if dtype is None else PromotedCells(dtype, None)
    if not decodes:
        place, name = packed[0]
        there = spec.fill_cell()[()] if name == FILL else first.get(name)
        message = f"{name} is {changed[place][name]}, and {there} in the first piece"
        raise _OtherMeaning(place, message, "join with packing='decoded', which makes floats of all")
    every = {place: {**{name: first.get(name) for name in PACKING}, **attrs} for place, attrs in changed.items()}
    known = {
        place: {name: attrs[name] for name in PACKING if attrs[name] is not None} for place, attrs in every.items()
    }
    widest = spec.numpy_dtype if dtype is None else dtype
    small = widest.itemsize <= 2 and widest.kind in "iu"
    scales = [np.asarray(attrs.get("scale_factor", np.float32(1))).dtype for attrs in known.values()]
    return DecodedCells(known, np.dtype("f4" if small and all(scale == np.float32 for scale in scales) else "f8"))
