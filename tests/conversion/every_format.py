"""Four real datasets, and each variant of each format that they are brought into: what the test of all pairs shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import sparse
import xarray as xr

import hyperslab as hs
from hyperslab.formats import get_format
from hyperslab.formats.base import Feature
from hyperslab.integrity.comparison import diff
from hyperslab.model.paths import outward, split

Place = str | Path
VARIANTS: dict[str, dict[str, Any]] = {
    "zarr2": {},
    "zarr3": {},
    "nczarr-draft": {"dialect": "draft"},
    "nczarr-current": {"dialect": "current"},
    "hdmf-v2": {"profile": "v2"},
    "hdmf-v3": {"profile": "v3"},
    "bloscpack": {},
    "blaze-blaze": {"layout": "blaze"},
    "blaze-bcolz": {"layout": "bcolz"},
    "b2nd": {},
    "mongo": {},
    "collections": {},
    "deker": {},
    "netcdf": {},
}
"""By name, the options that a new dataset is made with; the format is what stands before the first dash."""
MAIN = {
    "a1b": "air_temperature",
    "atlantic": "salinity",
    "nwb": "acquisition/ts0/data",
    "coo": "small",
}
"""By dataset, the array that formats of one array take."""
ENDS = {"netcdf": ".nc", "bloscpack": ".blp", "b2nd": ".b2nd", "hdmf": ".zarr", "zarr2": ".zarr", "zarr3": ".zarr"}
HOLD_ONE = {name for name in VARIANTS if not get_format(name.split("-")[0]).features & {Feature.ARRAYS}}
ROWS = {"bloscpack", "blaze-blaze", "blaze-bcolz"}
"""Variants whose chunks are whole rows."""
_BLOSC = {"blosclz", "lz4", "lz4hc", "deflate", "zstd"}
_STREAMS = {"deflate", "zstd", "bz2", "lzma"}
COMPRESSES = {
    **dict.fromkeys(("zarr2", "zarr3", "nczarr-draft", "nczarr-current", "hdmf-v2", "hdmf-v3"), _BLOSC | _STREAMS),
    **dict.fromkeys(("bloscpack", "blaze-blaze", "blaze-bcolz", "b2nd"), _BLOSC),
    "collections": _BLOSC | {"deflate", "zstd"},
    "deker": set(),  # gzip, for tiles that are larger than these
    "netcdf": {"deflate", "zstd", "bz2"},
    "mongo": set(),
}
"""By variant, the algorithms that its chunks may be compressed with, by the specifications."""
NEVER = {Feature.DIMENSIONS, Feature.ATTRIBUTES, Feature.TYPED_ATTRIBUTES, Feature.SCALARS, Feature.UNITS}
"""What no format may lack: each has a place for it."""


def features_of(variant: str) -> frozenset[Feature]:
    """What a variant declares that it holds."""
    found = get_format(variant.split("-")[0])
    return found.variant(VARIANTS[variant]).features


@dataclass
class Shelf:
    """Each dataset in each variant, made when it is first asked for."""

    folder: Path
    database: str
    bases: dict[str, Callable[[], Place]] = field(default_factory=dict)
    made: dict[tuple[str, str], Place] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        makers = {"a1b": _a1b, "atlantic": _atlantic, "nwb": _nwb, "coo": _coo}
        self.bases = {name: lambda make=make: make(self) for name, make in makers.items()}

    def place(self, variant: str) -> Place:
        """Where another dataset of a variant may be made."""
        self.count += 1
        if variant == "mongo":
            return f"{self.database}#d{self.count}"
        return self.folder / f"d{self.count}{ENDS.get(variant.split('-')[0], '')}"

    def dataset(self, name: str, variant: str) -> Place:
        """A dataset in a variant."""
        if (name, "") not in self.made:
            self.made[name, ""] = self.bases[name]()
        if (name, variant) not in self.made:
            there = self.place(variant)
            to(self.made[name, ""], there, variant, path_of(name, "", variant))
            self.made[name, variant] = there
        return self.made[name, variant]


def to(source: Place, target: Place, variant: str, path: str) -> Any:
    """Convert, whatever is lost, and compare both sides."""
    options = {"allow_loss": True, "verify": True, **VARIANTS[variant]}
    return hs.convert(source, target, variant.split("-")[0], path=path, **options)


def path_of(name: str, source: str, target: str) -> str:
    """What is converted: all, or the main array where the target holds one and the source holds several."""
    return MAIN[name] if target in HOLD_ONE and source not in HOLD_ONE else ""


def _sample(name: str) -> Path:
    spec = find_spec("iris_sample_data")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "sample_data" / name


def _a1b(shelf: Shelf) -> Place:
    """A field over North America, as far as a test needs it."""
    there = shelf.place("netcdf")
    select = {"time": slice(0, 12), "latitude": slice(0, 20)}
    hs.convert(
        _sample("A1B_north_america.nc"), there, select=select, chunks={"time": 5, "latitude": 8}, codec="shuffle+zlib:3"
    )
    return there


def _atlantic(shelf: Shelf) -> Place:
    """Profiles of the Atlantic."""
    return _sample("atlantic_profiles.nc")


def _nwb(shelf: Shelf) -> Place:
    """An NWB file with a series, one that links to it, trials that refer to it and ragged columns."""
    from nwb_files import small_file

    from hyperslab.hdmf import HyperslabIO

    there = shelf.folder / "mock.nwb.zarr"
    with HyperslabIO(str(there), "w") as io:
        io.write(small_file(), cache_spec=False)
    return there


def _coo(shelf: Shelf) -> Place:
    """Lists of cells, in memory and by blocks, dense ones beside them."""
    cells = np.zeros((20, 13))
    cells[::7, ::5] = np.arange(9).reshape(3, 3) + 0.5
    counts = np.full((20, 13), 7, "i2")
    counts[3, 4] = -1
    dataset = xr.Dataset(
        {
            "small": (("y", "x"), sparse.COO.from_numpy(cells), {"long_name": "few cells", "units": "m"}),
            "counts": (("y", "x"), sparse.COO.from_numpy(counts, fill_value=np.int16(7))),
            "dense": (("x",), np.arange(13, dtype="u2"), {"valid_range": np.array([0, 12], "u2")}),
        },
        coords={"x": np.arange(13) / 4, "y": np.arange(20)},
        attrs={"title": "sparse"},
    )
    there = f"{shelf.database}#coo"
    hs.save(there, dataset)
    return there


# -- what is compared -------------------------------------------------------------------------------------------------


def unexpected(source: Place, target: Place, lost: set[str]) -> list[str]:
    """What differs between two whole datasets at nodes of which nothing was announced; text of one width may become
    text of any length, which holds the same."""
    found = [each for each in diff(source, target) if not any(_is_at(each.node, node) for node in lost)]
    return [str(each) for each in found if not re.fullmatch(r"cells of type string, not <U\d+", each.message)]


def _is_at(node: str, top: str) -> bool:
    return node == top or node.startswith(f"{top}/")


def differing(source: Place, main: str, target: Place, lost: set[str]) -> Iterator[str]:
    """How the arrays of a target of one array differ from those of the source, as seen from its main array."""
    with hs.open_group(source) as ours, hs.open_group(target) as theirs:
        for name in theirs:
            found = theirs[name]
            places = [f"{group}/{name}".strip("/") for group in outward(split(main)[0])]
            place = main if name == split(main)[1] else next(place for place in places if place in ours)
            yield from _array_differs(ours[place], found, name in lost)


def _array_differs(ours: Any, theirs: Any, is_announced: bool) -> Iterator[str]:
    if (ours.shape, ours.dims) != (theirs.shape, theirs.dims):
        yield f"{ours.path}: {ours.shape} {ours.dims} -> {theirs.shape} {theirs.dims}"
    elif ours.dtype != theirs.dtype and not is_announced:
        yield f"{ours.path}: {ours.dtype} -> {theirs.dtype}"
    elif not np.array_equal(np.asarray(ours[...]), np.asarray(theirs[...]), equal_nan=ours.dtype.kind in "fc"):
        yield f"{ours.path}: other cells"
    for key, value in ours.attrs.items():
        if not np.array_equal(theirs.attrs.get(key), value):
            yield f"{ours.path}: attribute {key!r} {value!r} -> {theirs.attrs.get(key)!r}"


def stored_otherwise(source: Place, main: str, target: Place, variant: str, told: tuple[str, ...]) -> Iterator[str]:
    """Arrays of numbers whose chunks or compressor are others, though the target has those of the source. Chunks may be
    others where a format has rows alone, and where there are many tiny ones, if that was told."""
    with hs.open_group(source) as ours, hs.open_group(target) as theirs:
        for path, found in _arrays(theirs):
            place = main if variant in HOLD_ONE else path
            if (
                place not in ours
                or not found.shape
                or found.dtype.kind not in "iuf"
                or found.dtype != ours[place].dtype
            ):
                continue
            before, after = _cut(ours[place]), _cut(found)
            may_differ = variant in ROWS or _are_many_tiny(ours[place])
            is_told = may_differ and any(note.startswith(f"/{path} has chunks") for note in told)
            if before not in (after, list(found.shape)) and not is_told:
                yield f"{path}: chunks {before} -> {after}"
            (algorithm, level), (now, other) = _compressor(ours[place]), _compressor(found)
            differs = now != algorithm or (None not in (level, other) and level != other)
            if algorithm in COMPRESSES[variant] and differs:
                yield f"{path}: {algorithm} {level} -> {now} {other}"


def _arrays(group: Any) -> Iterator[tuple[str, Any]]:
    """Every array below a group, but coordinates."""
    for name in group:
        node = group[name]
        if isinstance(node, hs.Group):
            yield from _arrays(node)
        elif node.dims != (name,):
            yield node.path, node


def _are_many_tiny(array: Any) -> bool:
    count = prod(-(-length // cut) for length, cut in zip(array.shape, _cut(array), strict=True))
    return count > 16 and array.dtype.itemsize * prod(_cut(array)) < 1 << 16


def _cut(array: Any) -> list[Any]:
    return [
        min(cut, length) if isinstance(cut, int) else cut for cut, length in zip(array.chunks, array.shape, strict=True)
    ]


def _compressor(array: Any) -> tuple[str, int | None]:
    """What compresses the chunks of an array, whatever its container is called, and at which level, if that is told."""
    steps = list(array.spec.codecs)
    while steps and steps[-1].name == "sharding_indexed":
        steps = list(steps[-1].config["codecs"])
    for codec in reversed(steps):
        level = codec.config.get("level")
        match codec.name:
            case "gzip" | "zlib":
                return "deflate", level
            case "zstd" | "bz2":
                return codec.name, level
            case "lzma":
                return codec.name, None
            case "blosc":
                name = codec.config["cname"]
                return ("deflate" if name == "zlib" else name), codec.config.get("clevel")
    return "", None
