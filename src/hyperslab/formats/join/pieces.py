"""The pieces of a joined dataset: looked at in parallel, compared with the first one, put in order by coordinates.

What must be alike in all pieces is what gives cells their meaning: names, dimensions, types, units, packing. Other
attributes (``history``, say) are those of the first piece.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod

import numpy as np

from hyperslab.chunks.locations import ChunkLocations
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.base import Format, Reader
from hyperslab.formats.codec_kinds import inner_codecs, is_compressed
from hyperslab.formats.join.chunks import Place
from hyperslab.formats.join.frames import REMEDY, FrameRows, PieceFrame, check_frame, count_rows, read_frame
from hyperslab.model.amounts import counted
from hyperslab.model.calendars import iso_text
from hyperslab.model.cells import Values, equal_labels
from hyperslab.model.dims import split_units
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.paths import child, split
from hyperslab.model.series import DATA, SERIES_TYPE, STARTING_TIME, TIMESTAMPS, SampleTimes, sample_rate
from hyperslab.model.spec import ArraySpec, Chunks, Codec, GroupSpec
from hyperslab.model.time_units import TimeUnits
from hyperslab.stores.location import Location

LOGGER = logging.getLogger("hyperslab.join")

# How much longer than the longest step between two labels of a piece a step between pieces is, from which on labels
# count as missing: months have 28 to 31 days.
_GAP = 1.5
FEW_BYTES = 2048
"""Arrays of a piece with so few bytes of cells are read at once where locations are asked for: the cells take less room
than what would lead to them, and another look at the piece costs more."""
PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
"""The attributes that make other numbers of the cells."""
FILL = "fill value"
"""The name by which the value of unwritten cells stands among attributes that differ."""
FLAGS = ("flag_values", "flag_masks", "flag_meanings")
"""The attributes that make words of the cells."""
_MEANING = ("units", "calendar", *PACKING, *FLAGS)


@dataclass(frozen=True)
class PieceMetadata:
    """One piece: where it is, its shapes and chunk lengths by path of the array, cells of coordinates of dimensions by
    path, and attributes that differ from those of the first piece (:data:`FILL` among them). ``stored``: by path, where
    the chunks of an array lie, or all of its cells where these are few; only where that was asked for.
    ``compressed``: the codecs of arrays that are compressed, and not in the first piece; ``dtypes``: those of arrays of
    numbers of another type than in the first piece; ``seconds``: of the samples of series of NWB. ``frames``: the rows
    of data frames, by path of the group."""

    url: str
    shapes: Mapping[str, tuple[int, ...]]
    cuts: Mapping[str, Chunks]
    coordinates: Mapping[str, Values]
    attrs: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    stored: Mapping[str, ChunkLocations | Values | None] = field(default_factory=dict)
    compressed: Mapping[str, tuple[Codec, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, NumpyDType] = field(default_factory=dict)
    seconds: Mapping[str, SampleTimes] = field(default_factory=dict)
    frames: Mapping[str, FrameRows] = field(default_factory=dict)


@dataclass(frozen=True)
class Template:
    """The tree of the first piece, which that of all others is like; ``frames``: groups that are data frames."""

    groups: Mapping[str, GroupSpec]
    arrays: Mapping[str, ArraySpec]
    frames: Mapping[str, PieceFrame]


def missing_values(attrs: Mapping[str, object]) -> list[object]:
    """Return the values that mean missing by the attributes of an array."""
    known = (np.atleast_1d(np.asarray(attrs[name])) for name in ("_FillValue", "missing_value") if name in attrs)
    return [value for values in known for value in values.tolist()]


def chunk_lengths(spec: ArraySpec) -> Chunks:
    """Return how an array is cut into chunks, within shards where it has such."""
    return spec.inner_chunks or spec.chunks


def read_tree(reader: Reader, url: str) -> Template:
    """Return the groups and arrays of a dataset. Unsupported for links."""
    groups: dict[str, GroupSpec] = {}
    arrays: dict[str, ArraySpec] = {}
    waiting = [""]
    while waiting:
        path = waiting.pop()
        node = reader.node(path)
        if node.is_group:
            groups[path] = node
            waiting += [child(path, name) for name in reversed(list(reader.children(path)))]
        elif node.is_array:
            arrays[path] = node
        else:
            raise Unsupported("a link in a piece of a joined dataset", url=url, node=path, remedy="convert the piece")
    found = {path: _find_frame(reader, path, groups[path], arrays) for path in groups}
    return Template(groups, arrays, {path: frame for path, frame in found.items() if frame is not None})


def _find_frame(reader: Reader, path: str, group: GroupSpec, arrays: Mapping[str, ArraySpec]) -> PieceFrame | None:
    """Return the data frame that a group is; None for none. FormatError."""

    def read(name: str) -> Values | None:
        spec = arrays.get(child(path, name))
        return None if spec is None else read_cells(reader, child(path, name), spec)

    return read_frame(group.attrs, read)


def read_cells(reader: Reader, path: str, spec: ArraySpec) -> Values:
    """Return all cells of a small array."""
    cells = spec.filled()
    source = reader.chunks(path)
    for coords in source.grid:
        block = source.read(coords)
        if block is not None:
            extent = source.grid.extent(coords)
            cells[extent] = block[tuple(slice(each.stop - each.start) for each in extent)]
    return cells


def coordinate_paths(template: Template) -> dict[str, str]:
    """Return the path of the coordinate of each dimension that has one: the array of its name, the nearest to the
    root."""
    found: dict[str, str] = {}
    for path, spec in sorted(template.arrays.items(), key=lambda entry: entry[0].count("/")):
        name = split(path)[1]
        if spec.dims == (name,) and spec.numpy_dtype.kind in "iufMmUST":
            found.setdefault(name, path)
    return found


def look_at_piece(reader: Reader, url: str, template: Template, *, locates: bool = False) -> PieceMetadata:
    """Return what is known of a piece, once it is known to be like the first one; also where its chunks lie, if
    ``locates``. Invalid, Unsupported."""
    tree = read_tree(reader, url)
    frames = _count_frames(tree, template, url)
    for path in template.arrays.keys() ^ tree.arrays.keys():
        there, here = ("in the first piece", "here") if path in template.arrays else ("here", "in the first piece")
        remedy = "leave the piece out, or select the arrays that all pieces have before they are joined"
        remedy = REMEDY if split(path)[0] in tree.frames else remedy
        raise Invalid(f"an array is {there} and not {here}", url=url, node=path, remedy=remedy)
    attrs: dict[str, Mapping[str, object]] = {}
    labels = dict.fromkeys(coordinate_paths(template).values())
    for path, spec in tree.arrays.items():
        first = template.arrays[path]
        is_referred_to = locates and path not in labels and prod(spec.shape) * spec.numpy_dtype.itemsize > FEW_BYTES
        _check_alike(spec, first, url, path, promotes=not is_referred_to)
        other = {
            name: spec.attrs.get(name) for name in _MEANING if _differs(spec.attrs.get(name), first.attrs.get(name))
        }
        fill = spec.fill_cell()
        if fill.dtype.kind in "biufcmM" and _differs(fill[()], first.fill_cell()[()]):
            other[FILL] = fill[()]
        if other:
            attrs[path] = other
    coordinates = {path: read_cells(reader, path, tree.arrays[path]) for path in labels}
    shapes = {path: spec.shape for path, spec in tree.arrays.items()}
    stored = {
        path: _locate(reader, path, spec)
        for path, spec in tree.arrays.items()
        if locates and path not in coordinates and spec.problem is None
    }
    cuts = {path: chunk_lengths(spec) for path, spec in tree.arrays.items()}
    compressed = {
        path: tuple(inner_codecs(spec.codecs))
        for path, spec in tree.arrays.items()
        if is_compressed(spec.codecs) and not is_compressed(template.arrays[path].codecs)
    }
    dtypes = {path: spec.numpy_dtype for path, spec in tree.arrays.items() if spec.dtype != template.arrays[path].dtype}
    found = {path: read_sample_times(reader, tree, path) for path in tree.arrays if split(path)[1] == DATA}
    seconds = {path: times for path, times in found.items() if times is not None}
    return PieceMetadata(url, shapes, cuts, coordinates, attrs, stored, compressed, dtypes, seconds, frames)


def read_sample_times(reader: Reader, tree: Template, path: str) -> SampleTimes | None:
    """Return when the samples of a series of NWB were taken; None for what is no series, or has no samples or no
    seconds."""
    folder, samples = split(path)[0], tree.arrays[path].shape[:1]
    if SERIES_TYPE not in tree.groups[folder].attrs or samples in ((), (0,)):
        return None
    stamps, start = (tree.arrays.get(child(folder, name)) for name in (TIMESTAMPS, STARTING_TIME))
    if stamps is not None and stamps.shape == samples:
        first, last = (_read_cell(reader, child(folder, TIMESTAMPS), stamps, place) for place in (0, samples[0] - 1))
        return SampleTimes(first, last, None)
    rate = 0.0 if start is None else sample_rate(start)
    if start is None or not rate:
        return None
    first = float(read_cells(reader, child(folder, STARTING_TIME), start))
    return SampleTimes.of_rate(first, rate, samples[0])


def _read_cell(reader: Reader, path: str, spec: ArraySpec, position: int) -> float:
    """Return one number of a line, of which no more than its chunk is read."""
    source = reader.chunks(path)
    (axis,) = source.grid.axes
    chunk = axis.find(position)
    block = source.read((chunk,))
    return float(spec.fill_cell() if block is None else block[position - axis.start(chunk)])


def _count_frames(tree: Template, template: Template, url: str) -> dict[str, FrameRows]:
    """Return the rows of the data frames of a piece that are frames in the first one, too. Invalid for others."""
    for path in tree.frames.keys() & template.frames.keys():
        check_frame(tree.frames[path], template.frames[path], path, url)
    lengths = {path: spec.shape[0] for path, spec in tree.arrays.items() if spec.shape}
    return {path: count_rows(frame, lengths, path, url) for path, frame in tree.frames.items()}


def _locate(reader: Reader, path: str, spec: ArraySpec) -> ChunkLocations | Values | None:
    """Return where the chunks of an array lie, or its cells."""
    if prod(spec.shape) * spec.numpy_dtype.itemsize <= FEW_BYTES:
        return read_cells(reader, path, spec)
    return reader.chunks(path).locations()


def _differs(one: object, other: object) -> bool:
    """Return True where two attributes are not equal; NaN equals NaN."""
    if one is None or other is None:
        return one is not other
    if isinstance(one, str) and isinstance(other, str):
        return one != other
    # Nearly all are alike, in a thousand files of ten arrays each: no function of NumPy for each of them.
    if isinstance(one, np.generic) and type(one) is type(other) and one.tobytes() == other.tobytes():
        return False
    try:
        return not np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)
    except TypeError:
        return one != other


def _check_alike(spec: ArraySpec, first: ArraySpec, url: str, path: str, *, promotes: bool) -> None:
    """Raise Invalid for an array whose dimensions or type are not those of the first piece; numbers may get a common
    type where it ``promotes`` them, but for those that ``_Unsigned`` gives another sign: by bytes of their own type."""
    has_common_type = promotes and all(
        isinstance(each.dtype, np.dtype) and each.dtype.kind in "iuf" and "_Unsigned" not in each.attrs
        for each in (spec, first)
    )
    for what, here, there in (("dimensions", spec.dims, first.dims), ("type", spec.dtype, first.dtype)):
        if here != there and not (what == "type" and has_common_type):
            remedy = "convert the piece, or leave it out"
            raise Invalid(f"{what} {here}, and {there} in the first piece", url=url, node=path, remedy=remedy)
    if spec.problem is not None:
        raise Unsupported(spec.problem, url=url, node=path, remedy="convert the piece with what reads it")


def common_dtype(template: Template, pieces: Sequence[PieceMetadata], path: str) -> NumpyDType | None:
    """Return the type of NumPy that numbers of an array become, of which pieces have several types; None where all have
    one."""
    others = [piece.dtypes[path] for piece in pieces if path in piece.dtypes]
    return np.result_type(template.arrays[path].numpy_dtype, *others) if others else None


def promote(values: Values, dtype: NumpyDType) -> Values:
    """Return numbers as such of the common type. Invalid for whole ones that it does not hold."""
    is_rounded = values.dtype.kind in "iu" and dtype.kind == "f"
    if is_rounded and values.size and max(int(values.max()), -int(values.min())) > _most_exact(dtype):
        message = f"{values.dtype} in some pieces, whose numbers the common type {dtype} would round"
        raise Invalid(message, remedy="convert the pieces to one type")
    return values.astype(dtype, copy=False)


def _most_exact(dtype: NumpyDType) -> int:
    """Return the number up to which floats of a type hold each whole number."""
    return int(2 ** (np.finfo(dtype).nmant + 1))


def promote_spec(spec: ArraySpec, dtype: NumpyDType) -> ArraySpec:
    """Return the spec of an array whose numbers become those of the common type, and attributes that are cells with
    them."""
    attrs = {
        name: np.asarray(value).astype(dtype)[()]
        if isinstance(value, np.generic | np.ndarray) and value.dtype == spec.dtype
        else value
        for name, value in spec.attrs.items()
    }
    fill = None if spec.fill_value is None else spec.fill_cell().astype(dtype)[()]
    return spec.evolve(dtype=dtype, fill_value=fill, attrs=attrs, codecs=())


def open_piece(place: Location, settings: Settings = DEFAULTS) -> tuple[Reader, Format]:
    """Return the reader of a piece, and its format, whatever it is."""
    from hyperslab.formats.opening import choose_format

    format, _, probe = choose_format(place, "r", None)
    reader = format.open(place, "r", settings=settings, remembered=probe if probe.seen else None)
    return reader, reader.variant or format


# -- which dimensions, in which order ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrangement:
    """How pieces are put together: ``dims`` that are joined, the number of the piece at each place along them, and the
    labels of each dimension that has a coordinate, by path."""

    dims: tuple[str, ...]
    numbers: Mapping[Place, int]
    counts: tuple[int, ...]
    labels: Mapping[str, Values]

    def piece_at(self, place: Place) -> int:
        """Return the number of the piece at a place."""
        return self.numbers[place]


def arrange(template: Template, pieces: Sequence[PieceMetadata], along: Sequence[str] | None) -> Arrangement:
    """Return how the pieces lie along the dimensions ``along``; None: those whose labels differ between pieces, else
    the unlimited one; none at all of a single piece. Invalid for pieces that overlap, or do not fill a grid."""
    coordinates = coordinate_paths(template)
    labels = {dim: _all_labels(template, pieces, path) for dim, path in coordinates.items()}
    is_alone = along is None and len(pieces) == 1
    dims = () if is_alone else tuple(along) if along is not None else _differing_dims(template, labels)
    _check_scopes(template, dims, pieces[0].url)
    known = {dim for spec in template.arrays.values() for dim in spec.dims}
    for dim in dims:
        if dim not in known:
            names = ", ".join(sorted(str(name) for name in known if name is not None))
            message, remedy = f"no array has the dimension {dim!r}", f"join along one of {names}"
            if dim in template.arrays and not template.arrays[dim].dims:
                message = f"{dim!r} is one value in each piece, and no dimension of an array"
                remedy = f"give the arrays that dimension (expand_dims of xarray), or join along one of {names}"
            raise Invalid(message, url=pieces[0].url, remedy=remedy)
    for dim, values in labels.items():
        if dim not in dims:
            _check_equal(dim, values, pieces)
    _check_other_lengths(template, pieces, dims)
    orders = [_order_of(dim, labels.get(dim), pieces) for dim in dims]
    places: list[Place] = [()] if is_alone else list(zip(*orders, strict=True))
    numbers = {place: number for number, place in enumerate(places)}
    counts = tuple(max(order) + 1 for order in orders)
    if len(numbers) < len(pieces):
        twice = next(place for place in places if places.count(place) > 1)
        both = [pieces[number].url for number, place in enumerate(places) if place == twice]
        raise Invalid(f"{both[0]} and {both[1]} have the same labels", url=both[1], remedy="leave one of them out")
    if len(numbers) < prod(counts):
        gap = next(place for place in product(*map(range, counts)) if place not in numbers)
        spans = ", ".join(
            f"{dim} piece {each + 1} of {count}" for dim, each, count in zip(dims, gap, counts, strict=True)
        )
        raise Invalid(f"no piece is at {spans}", url=pieces[0].url, remedy="add it, or join along one dimension")
    joined = {}
    for axis, dim in enumerate(dims):
        line = [numbers[tuple(each if i == axis else 0 for i in range(len(dims)))] for each in range(counts[axis])]
        if dim in labels:
            spell = _label_speller(template.arrays[coordinates[dim]].attrs)
            _check_spans(dim, [labels[dim][number] for number in line], [pieces[number].url for number in line], spell)
            joined[coordinates[dim]] = np.concatenate([labels[dim][number] for number in line])
        else:
            _check_seconds(template, dim, [pieces[number] for number in line])
    return Arrangement(dims, numbers, counts, joined)


def _check_seconds(template: Template, dim: str, line: Sequence[PieceMetadata]) -> None:
    """Raise Invalid for a series of NWB along ``dim`` whose samples do not follow those of the pieces before: one
    starting_time, that of the first piece, tells the seconds of all."""
    for path, spec in template.arrays.items():
        so_far = None
        for piece in line if spec.dims[:1] == (dim,) else ():
            times = piece.seconds.get(path)
            if times is not None:
                try:
                    so_far = times if so_far is None else so_far.extend(times)
                except Invalid as error:
                    raise error.locate(url=piece.url, node=path) from None


def _check_scopes(template: Template, dims: Sequence[str], url: str) -> None:
    """Raise Unsupported where a dimension that is joined is declared in several groups: each is one of its own."""
    for dim in dims:
        places = [path for path, group in template.groups.items() if any(each.name == dim for each in group.dims)]
        if len(places) > 1:
            message = f"several dimensions are called {dim!r}, of the groups /{places[0]} and /{places[1]}"
            raise Unsupported(message, url=url, remedy="convert one group of each piece, and join those")


def _all_labels(template: Template, pieces: Sequence[PieceMetadata], path: str) -> list[Values]:
    """Return the labels of each piece, in one type. Invalid."""
    dtype = common_dtype(template, pieces, path)
    return [_labels_of(template, piece, path, dtype) for piece in pieces]


def _labels_of(template: Template, piece: PieceMetadata, path: str, dtype: NumpyDType | None) -> Values:
    """Return the labels of a piece; times as counted in the first one. Invalid."""
    values = piece.coordinates[path]
    if dtype is not None:
        try:
            values = promote(values, dtype)
        except Invalid as error:
            raise error.locate(url=piece.url, node=path) from None
    first, changed = template.arrays[path].attrs, piece.attrs.get(path, {})
    for name in changed.keys() & {"scale_factor", "add_offset", "_Unsigned"}:
        message = f"{name} of labels is {changed[name]!r}, and {first.get(name)!r} in the first piece"
        raise Invalid(message, url=piece.url, node=path, remedy="convert the pieces to one packing")
    if not changed.keys() & {"units", "calendar"}:
        return values
    units, old = first.get("units"), changed.get("units", first.get("units"))
    if not isinstance(units, str) or not isinstance(old, str) or split_units(units) is None:
        remedy = "convert the pieces to the same units"
        raise Invalid(f"units are {old!r}, and {units!r} in the first piece", url=piece.url, node=path, remedy=remedy)
    try:
        calendar = first.get("calendar")
        theirs = TimeUnits(old, changed.get("calendar", calendar))
        return TimeUnits(units, calendar).rebase(values, theirs, missing_values(first))
    except Invalid as error:
        raise error.locate(url=piece.url, node=path) from None


def _differing_dims(template: Template, labels: Mapping[str, Sequence[Values]]) -> tuple[str, ...]:
    found = tuple(
        dim for dim, values in labels.items() if any(not equal_labels(values[0], other) for other in values[1:])
    )
    if found:
        return found
    unlimited = [dim.name for group in template.groups.values() for dim in group.dims if dim.unlimited]
    if len(set(unlimited)) == 1:
        return (unlimited[0],)
    raise Invalid("along which dimension the pieces are joined is not known", remedy="say along=, such as along='time'")


def _check_equal(dim: str, values: Sequence[Values], pieces: Sequence[PieceMetadata]) -> None:
    for piece, other in zip(pieces, values, strict=True):
        if not equal_labels(values[0], other):
            message = f"the labels of {dim} are others than in {pieces[0].url}: the pieces are of several grids"
            raise Invalid(message, url=piece.url, node=dim, remedy=f"join along {dim!r}, or bring them to one grid")


def _check_other_lengths(template: Template, pieces: Sequence[PieceMetadata], dims: Sequence[str]) -> None:
    """Raise Invalid where an array is longer in one piece than in the first along a dimension that is not joined,
    Unsupported where it is cut in other chunks there."""
    for piece in pieces[1:]:
        for path, spec in template.arrays.items():
            axes = [axis for axis, dim in enumerate(spec.dims) if dim not in dims]
            for axis in axes:
                if piece.shapes[path][axis] != spec.shape[axis]:
                    here = counted(piece.shapes[path][axis], "cell")
                    message = f"{here} along {spec.dims[axis]}, {spec.shape[axis]:,} in the first piece"
                    raise Invalid(
                        message, url=piece.url, node=path, remedy="join along this dimension, or leave it out"
                    )
                if len(axes) < len(spec.dims) and piece.cuts[path][axis] != chunk_lengths(spec)[axis]:
                    cut, first = piece.cuts[path][axis], chunk_lengths(spec)[axis]
                    message = f"chunks of {cut} along {spec.dims[axis]}, {first} in the first piece"
                    remedy = f"convert the piece with the chunks of the first, chunks={{{spec.dims[axis]!r}: {first}}}"
                    raise Unsupported(message, url=piece.url, node=path, remedy=remedy)


def _order_of(dim: str, labels: Sequence[Values] | None, pieces: Sequence[PieceMetadata]) -> list[int]:
    """Return the place of each piece along a dimension: by its first label, or as given where there are none."""
    if labels is None or any(values.size == 0 for values in labels):
        return list(range(len(pieces)))
    firsts = np.array([values[0] for values in labels])
    sizes = [values for values in labels if values.size > 1]
    falls = bool(sizes) and bool(sizes[0][-1] < sizes[0][0])
    known = np.unique(firsts)
    places = np.searchsorted(known, firsts)
    return [int(len(known) - 1 - place if falls else place) for place in places]


def _distance(one: Values, other: Values) -> Values:
    """Return how far labels are from each other, unsigned ones too, whose differences have no sign."""
    return np.asarray(np.maximum(one, other) - np.minimum(one, other))


def _label_speller(attrs: Mapping[str, object]) -> Callable[[np.generic], str]:
    """Return what spells a label: a time as a date, anything else as it is."""
    try:
        units = TimeUnits(attrs.get("units"), attrs.get("calendar"))
    except Invalid:
        return str
    if attrs.keys() & {"scale_factor", "add_offset"}:
        return str

    def spell(label: np.generic) -> str:
        if not np.isfinite(label) or label.dtype.kind not in "iuf":
            return str(label)
        # floats are exact to the microsecond, and rounded to it
        return iso_text(int(np.rint(units.instants(np.asarray(label)) / 1000)) * 1000, units.calendar) + zone

    zone = " UTC" if "time_zone" in attrs else ""  # of a data frame with times of a zone
    return spell


def _check_spans(
    dim: str, labels: Sequence[Values], urls: Sequence[str], spell: Callable[[np.generic], str] = str
) -> None:
    """Raise Invalid for labels that overlap; say where some are missing between pieces with a regular step."""
    spans = [values for values in labels if values.size]
    if not spans or spans[0].dtype.kind not in "iufMm":
        return
    falls = any(values.size > 1 and values[-1] < values[0] for values in spans)
    steps = [_distance(values[1:], values[:-1]).max() for values in spans if values.size > 1]
    gaps = []
    for (one, here), (other, there) in pairwise(zip(labels, urls, strict=True)):
        if not one.size or not other.size:
            continue
        if (one[-1] <= other[0]) if falls else (one[-1] >= other[0]):
            message = (
                f"{dim} of {here} goes to {spell(one[-1])}, that of {there} begins at {spell(other[0])}: they overlap"
            )
            raise Invalid(
                message, url=there, node=dim, remedy="leave one of them out, or take parts that do not overlap"
            )
        if steps and _distance(other[0], one[-1]) > max(steps) * _GAP:
            gaps.append((here, there, dim, spell(one[-1]), spell(other[0])))
    if gaps:  # one line, also where each day of a year ends in the evening
        more = f", and in {counted(len(gaps) - 1, 'other place')}" if len(gaps) > 1 else ""
        LOGGER.warning("between %s and %s labels of %s are missing: %s to %s%s", *gaps[0], more)
