"""Chunks of an array that lies in several pieces: each is a chunk of one of them, cut at its end. Where they lie."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import gcd

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.locations import ChunkLocations, concatenate
from hyperslab.chunks.source import Block, ChunkReader, ChunkSource, SourceTraits, Within
from hyperslab.codecs.registry import CODECS
from hyperslab.errors import Unsupported
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.model.cells import Values
from hyperslab.model.spec import Chunks, Codec


class JoinChunks(ReadOnlyChunks):
    """The chunks of all pieces. ``open_piece`` gives those of one, which are kept by whoever reads them; ``traits`` are
    those of a piece. ``convert``: makes cells of the whole array of those of a piece, where these are others;
    ``unwritten``: returns the cell of a piece that unwritten ones read as then, in the piece's type. ``locate``: where
    the chunks of a piece lie, if that is known without opening it; ``url_of`` names a piece."""

    def __init__(
        self,
        axes: Sequence[JoinAxis],
        open_piece: Callable[[Place], ChunkSource],
        joints: int,
        traits: SourceTraits,
        convert: Callable[[Place, Block], Block] | None = None,
        unwritten: Callable[[Place], Values] | None = None,
        locate: Callable[[Place], ChunkLocations | None] | None = None,
        url_of: Callable[[Place], str] = str,
    ) -> None:
        self._open_piece = open_piece
        self._locate = locate
        self._url_of = url_of
        self._convert = convert
        self._unwritten = unwritten
        self._joints = joints
        self._axes = axes
        self._starts = [[0, *accumulate(axis.counts())] for axis in axes]
        cuts: Chunks = tuple(axis.chunks() for axis in axes)
        self.grid = Grid.of(tuple(axis.length for axis in axes), cuts)
        # Of each chunk along an axis: its piece, and which chunk of it.
        self._pieces = [
            [(piece, local) for piece, count in enumerate(axis.counts()) for local in range(count)] for axis in axes
        ]
        self.traits = SourceTraits(
            concurrency=traits.concurrency,
            fetches=traits.fetches,
            fetches_across=True,
            reads_parts=traits.reads_parts and convert is None,
            stamped=traits.stamped,
            lists_chunks=traits.lists_chunks and convert is None,
        )

    def _find(self, coords: Coords) -> tuple[Place, Coords]:
        """Return the piece that holds a chunk, and its coordinates there."""
        place = [0] * self._joints
        local = []
        for axis, pieces, each in zip(self._axes, self._pieces, coords, strict=True):
            if axis.joint is None:
                local.append(each)
            else:
                place[axis.joint], inner = pieces[each]
                local.append(inner)
        return tuple(place), tuple(local)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, coords: Coords) -> Block | None:
        place, local = self._find(coords)
        block = self._open_piece(place).read(local)
        if block is None and self._unwritten is not None:
            block = np.full(self.grid.chunk_shape(coords), self._unwritten(place))
        return None if block is None else self.finish(place, coords, block)

    def finish(self, place: Place, coords: Coords, block: Block) -> Block:
        """Return the cells of a piece's chunk as those of the joined array."""
        shape = self.grid.chunk_shape(coords)
        if block.shape != shape:
            block = block[tuple(map(slice, shape))]
        return block if self._convert is None else self._convert(place, block)

    def read_into(self, coords: Coords, out: Block) -> bool:
        place, local = self._find(coords)
        return self.read_piece_into(self._open_piece(place), place, local, coords, out)

    def read_piece_into(self, reader: ChunkReader, place: Place, local: Coords, coords: Coords, out: Block) -> bool:
        """Decode a chunk by what reads a piece's chunks."""
        shape = reader.grid.chunk_shape(local)
        if self._convert is None and shape == out.shape:
            return reader.read_into(local, out)
        cell = None if self._unwritten is None else self._unwritten(place)
        block = np.empty(shape, out.dtype if cell is None else cell.dtype)
        if not reader.read_into(local, block):
            if cell is None:
                return False
            block[...] = cell
        out[...] = self.finish(place, coords, block)
        return True

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Read only the cells ``within`` into ``out``; False when the chunk was never written."""
        if self._convert is not None:
            return super().read_part(coords, within, out)
        place, local = self._find(coords)
        return self._open_piece(place).read_part(local, within, out)

    def fetch(self, coords: Sequence[Coords]) -> ChunkReader:
        """Get what is stored of these chunks, by few requests for each piece."""
        return self.fetch_parts([(each, None) for each in coords])

    def fetch_parts(self, wanted: Sequence[tuple[Coords, Within | None]]) -> ChunkReader:
        """Get parts of chunks, by few requests for each piece."""
        groups: dict[tuple[Place, Coords | None], list[tuple[Coords, Within | None]]] = defaultdict(list)
        found: dict[Coords, tuple[Place, Coords]] = {}
        for coords, within in wanted:
            place, local = found[coords] = self._find(coords)
            source = self._open_piece(place)
            apart = source.grid.outer is not None and not source.traits.fetches_across
            outer = source.grid.outer_of(local) if apart else None
            groups[place, outer].append((local, within if self._convert is None else None))
        readers: dict[tuple[Place, Coords], ChunkReader] = {}
        for (place, _), parts in groups.items():
            reader = self._open_piece(place).fetch_parts(parts)
            readers.update({(place, local): reader for local, _ in parts})
        return PiecesReader(self, found, readers)

    # -- what is there ----------------------------------------------------------------------------------------------

    def stamp(self, coords: Coords) -> object:
        place, local = self._find(coords)
        stamp = self._open_piece(place).stamp(local)
        return None if stamp is None else (place, stamp)

    def _places(self) -> Iterator[Place]:
        counts = [1] * self._joints
        for axis in self._axes:
            if axis.joint is not None:
                counts[axis.joint] = len(axis.lengths)
        return product(*map(range, counts))

    def locations(self) -> ChunkLocations | None:
        """Return where the chunks of all pieces lie, as those of one array that is cut regularly. Unsupported names the
        piece that does not fit; None where its cells are computed of those that are stored."""
        if self._convert is not None:
            return None
        found = {place: self._locate_piece(place) for place in self._places()}
        return join_locations(self._axes, found, self._url_of)

    def _locate_piece(self, place: Place) -> ChunkLocations | None:
        return self._open_piece(place).locations() if self._locate is None else self._locate(place)

    def stored_coords(self) -> Iterator[Coords]:
        for place in self._places():
            for local in self._stored_in(place):
                starts = zip(self._axes, self._starts, strict=True)
                firsts = [0 if axis.joint is None else start[place[axis.joint]] for axis, start in starts]
                yield tuple(first + each for first, each in zip(firsts, local, strict=True))

    def _stored_in(self, place: Place) -> Iterable[Coords]:
        found = None if self._locate is None else self._locate(place)
        if found is None or found.shape != tuple(axis.size_at(place) for axis in self._axes):
            return self._open_piece(place).stored_coords()
        return map(tuple, np.concatenate([found.coords, found.odd]).tolist())

    def stored_sizes(self, coords: Iterable[Coords]) -> int | None:
        """Return the bytes that these chunks take; None where a piece cannot tell."""
        groups: dict[Place, list[Coords]] = defaultdict(list)
        for each in coords:
            place, local = self._find(each)
            groups[place].append(local)
        sizes = [self._open_piece(place).stored_sizes(local) for place, local in groups.items()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def nbytes_stored(self) -> int | None:
        """Return the bytes that all chunks take; None where a piece cannot tell."""
        sizes = [self._open_piece(place).nbytes_stored() for place in self._places()]
        return None if None in sizes else sum(size for size in sizes if size is not None)


class PiecesReader(ChunkReader):
    """Chunks that were fetched of several pieces, to be decoded."""

    def __init__(
        self,
        chunks: JoinChunks,
        found: Mapping[Coords, tuple[Place, Coords]],
        readers: Mapping[tuple[Place, Coords], ChunkReader],
    ) -> None:
        self.grid = chunks.grid
        self._chunks = chunks
        self._found = found
        self._readers = readers

    def read_into(self, coords: Coords, out: Block) -> bool:
        place, local = self._found[coords]
        return self._chunks.read_piece_into(self._readers[place, local], place, local, coords, out)

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Read only the cells ``within`` into ``out``; False when the chunk was never written."""
        if not self._chunks.traits.reads_parts:
            return super().read_part(coords, within, out)
        place, local = self._found[coords]
        return self._readers[place, local].read_part(local, within, out)


# -- where the chunks of all pieces lie --------------------------------------------------------------------------------
# As those of one regular grid: what fits, and what does not, by name.


VIRTUAL_REMEDY = "join the pieces lazily, hs.open([...]), or copy them, hs.convert([...], target)"
NO_PLACE = "its cells are stored in a way that no other reader knows"


def join_locations(
    axes: Sequence[JoinAxis], found: Mapping[Place, ChunkLocations | None], url_of: Callable[[Place], str]
) -> ChunkLocations | None:
    """Return the chunks of all pieces on one grid whose chunks have one shape; None where no piece can tell. Bare cells
    are cut into smaller chunks where that makes them fit. Unsupported names the piece that does not fit."""
    located: dict[Place, ChunkLocations] = {}
    if all(each is None for each in found.values()):
        return None
    for place, each in found.items():
        if each is None:
            raise Unsupported(NO_PLACE, url=url_of(place), remedy=VIRTUAL_REMEDY)
        located[place] = each
    first = next(iter(located.values()))
    for place, each in located.items():
        for what, here, there in (
            ("stored cells", each.dtype, first.dtype),
            ("codecs", _decoding(each.codecs), _decoding(first.codecs)),
        ):
            if here != there:
                message = f"{what} are {_spell(here)}, and {_spell(there)} in the first piece"
                raise Unsupported(message, url=url_of(place), remedy=VIRTUAL_REMEDY)
    shape = _common_shape(axes, located)
    counts = tuple(-(-axis.length // size) for axis, size in zip(axes, shape, strict=True))
    parts: list[ChunkLocations] = []
    files = 0
    for place, each in located.items():
        if not each.can_recut(shape):
            message = f"chunks of {each.shape}, where only {shape} fit all pieces"
            raise Unsupported(message, url=url_of(place), remedy=VIRTUAL_REMEDY)
        inside = tuple(-(-axis.length_at(place) // size) for axis, size in zip(axes, shape, strict=True))
        starts = [axis.cells_at(place).start for axis in axes]
        for axis, (start, size) in enumerate(zip(starts, shape, strict=True)):
            if start % size:
                before = _before(place, axes[axis].joint)
                rows = axes[axis].length_at(before)
                message = f"{rows} cells along axis {axis} are no whole number of chunks of {size}: one is cut short"
                raise Unsupported(message, url=url_of(before), remedy=VIRTUAL_REMEDY)
        firsts = [start // size for start, size in zip(starts, shape, strict=True)]
        parts.append(each.recut(shape, inside).moved(firsts, files))
        files += len(each.files)
    return concatenate(parts, counts)


def _before(place: Place, joint: int | None) -> Place:
    """Return the piece before one along a dimension that is joined."""
    return tuple(each - (axis == joint) for axis, each in enumerate(place))


def _common_shape(axes: Sequence[JoinAxis], located: Mapping[Place, ChunkLocations]) -> tuple[int, ...]:
    """Return the largest shape of chunks that all pieces can be cut to."""
    shapes = np.array([each.shape for each in located.values()]).reshape(len(located), -1)
    if len(axes) == 0:
        return ()
    wanted = [gcd(*column) for column in shapes.T.tolist()]
    if all(each.is_uncompressed for each in located.values()):
        for number, axis in enumerate(axes):
            lengths = axis.lengths[:-1] if axis.joint is not None else ()
            wanted[number] = gcd(wanted[number], *lengths)
        cut = [number for number, size in enumerate(wanted) if (shapes[:, number] != size).any()]
        if cut:  # only the axes behind the last one that is cut stay whole in a run of bytes
            wanted[: cut[-1]] = [1] * cut[-1]
    return tuple(wanted)


def _decoding(codecs: tuple[Codec, ...]) -> list[tuple[str, object]]:
    """Return what must be alike for chunks to be decoded alike: a level, say, need not be."""
    return [
        (codec.name, None if CODECS[codec.name].is_self_describing else dict(codec.config))
        for codec in codecs
        if codec.name in CODECS
    ]


def _spell(value: object) -> str:
    return "+".join(name for name, _ in value) if isinstance(value, list) else str(value)


# -- how the pieces of an array lie along its axes ---------------------------------------------------------------------


Place = tuple[int, ...]
"""Which piece along each dimension that is joined."""


@dataclass(frozen=True)
class JoinAxis:
    """One axis of an array: ``lengths`` of its pieces, cut into chunks of ``sizes`` each, of which the last may reach
    past a piece's end. ``joint``: which joined dimension it is; None for one that all pieces have alike."""

    lengths: tuple[int, ...]
    sizes: tuple[int, ...]
    joint: int | None = None

    @property
    def length(self) -> int:
        """Cells along the whole axis."""
        return sum(self.lengths)

    def cells_at(self, place: Place) -> slice:
        """Return the cells of a piece among those of the whole axis."""
        if self.joint is None:
            return slice(0, self.length)
        start = sum(self.lengths[: place[self.joint]])
        return slice(start, start + self.lengths[place[self.joint]])

    def length_at(self, place: Place) -> int:
        """Return the cells of a piece along the axis."""
        return self.lengths[0 if self.joint is None else place[self.joint]]

    def size_at(self, place: Place) -> int:
        """Return the cells of a chunk of a piece along the axis."""
        return self.sizes[0 if self.joint is None else place[self.joint]]

    def counts(self) -> list[int]:
        """Return the chunks of each piece."""
        return [-(-length // size) for length, size in zip(self.lengths, self.sizes, strict=True)]

    def chunks(self) -> int | tuple[int, ...]:
        """Return how the whole axis is cut: one number where all chunks but the last are equal."""
        size = self.sizes[0]
        if all(other == size for other in self.sizes) and all(length % size == 0 for length in self.lengths[:-1]):
            return size
        cuts: list[int] = []
        for length, size in zip(self.lengths, self.sizes, strict=True):
            whole, rest = divmod(length, size)
            cuts += [size] * whole + [rest] * bool(rest)
        return tuple(cuts)
