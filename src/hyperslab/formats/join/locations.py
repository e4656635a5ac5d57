"""Where the chunks of several pieces lie, as those of one regular grid: what fits, and what does not, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd

import numpy as np

from hyperslab.chunks.locations import ChunkLocations, concatenate
from hyperslab.codecs.registry import CODECS
from hyperslab.errors import Unsupported
from hyperslab.formats.join.axes import JoinAxis, Place
from hyperslab.model.spec import Codec

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
