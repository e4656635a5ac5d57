"""Random datasets along random chains of formats and back: equal but for the losses that each step announced."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

import hyperslab as hs
from conversion.chain_model import Told, alone, assert_allowed, mains, settled
from examples import at_most
from hyperslab.errors import Unsupported
from hyperslab.formats import get_format
from hyperslab.formats.base import Feature
from hyperslab.testing.datasets import SampleArray, SampleTree, datasets, write_tree

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "zarr2": ("zarr2", {}),
    "zarr3": ("zarr3", {}),
    "draft": ("nczarr", {"dialect": "draft"}),
    "current": ("nczarr", {"dialect": "current"}),
    "hdmf-v2": ("hdmf", {"profile": "v2"}),
    "hdmf-v3": ("hdmf", {"profile": "v3"}),
    "bloscpack": ("bloscpack", {}),
    "blaze": ("blaze", {}),
    "bcolz": ("blaze", {"layout": "bcolz"}),
    "b2nd": ("b2nd", {}),
    "mongo": ("mongo", {}),
    "collections": ("collections", {}),
    "deker": ("deker", {}),
    "netcdf": ("netcdf", {}),
}
STARTS = ("zarr2", "zarr3", "hdmf-v2", "hdmf-v3")
"""Those that hold the most; the others are come to from these."""
CODECS = {"deker": ("gzip:1",)} | dict.fromkeys(("bloscpack", "blaze", "bcolz", "b2nd"), ("blosc:lz4:5",))
"""Compressors of the variants that do not have those of Zarr."""
_NUMBERS = count()


@pytest.fixture(scope="module")
def bases(mongo: Any) -> Iterator[tuple[Path, str]]:
    """A folder and a database for all chains."""
    folder = Path(mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    yield folder, f"{mongo.url}/{mongo.database()}"
    shutil.rmtree(folder)


def _features(variant: str) -> frozenset[Feature]:
    name, options = VARIANTS[variant]
    return get_format(name).variant(options).features


def _holds_one(variant: str) -> bool:
    return not _features(variant) & {Feature.GROUPS, Feature.ARRAYS}


def _place(variant: str, folder: Path, base: str) -> Any:
    number = next(_NUMBERS)
    return f"{base}#n{number}" if variant == "mongo" else folder / f"n{number}"


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[str], SampleTree]:
    """A dataset, and the variants that it is to be converted to: first the one that it is made in, last that again."""
    first = draw(st.sampled_from(STARTS))
    steps = draw(st.lists(st.sampled_from(sorted(VARIANTS)), min_size=1, max_size=3))
    return [first, *steps, first], draw(datasets(_features(first)))


@pytest.mark.sampled(0)
@settings(max_examples=at_most(12, 40))
@given(chains(), st.data())
def test_chains(bases: tuple[Path, str], chain: tuple[list[str], SampleTree], data: st.DataObject) -> None:
    _walk(bases, chain, data)


@pytest.mark.soak
@settings(max_examples=3000, derandomize=False)
@given(chains(), st.data())
def test_many_chains(bases: tuple[Path, str], chain: tuple[list[str], SampleTree], data: st.DataObject) -> None:
    _walk(bases, chain, data)


def _walk(bases: tuple[Path, str], chain: tuple[list[str], SampleTree], data: st.DataObject) -> None:
    """Along one chain, comparing after each step."""
    steps, tree = chain
    folder = Path(mkdtemp(dir=bases[0]))
    try:
        source = _place(steps[0], folder, bases[1])
        name, options = VARIANTS[steps[0]]
        with hs.create(source, name, durable=False, **options) as root:
            write_tree(root, tree)
        tree = settled(tree, Told(), hs.open_group(source))
        for variant in steps[1:]:
            source, tree = _hop(source, tree, variant, _place(variant, folder, bases[1]), data)
            event(variant)
            if not tree.arrays:
                break
    finally:
        shutil.rmtree(folder)


def _fits_alone(variant: str, one: SampleArray) -> bool:
    """Whether an array is one that a dataset of one array can be."""
    if not isinstance(one.dtype, np.dtype):
        return False
    return variant != "bcolz" or (bool(one.dims) and one.dtype.names is None)


def _hop(source: Any, tree: SampleTree, variant: str, target: Any, data: st.DataObject) -> tuple[Any, SampleTree]:
    """One conversion: refused, and nothing written, where it loses what was not allowed."""
    name, options = VARIANTS[variant]
    asked: dict[str, Any] = dict(options)
    if _holds_one(variant):
        fitting = [path for path in mains(tree) or tree.arrays if _fits_alone(variant, tree.arrays[path])]
        if not fitting:
            return source, SampleTree({}, {})
        asked["path"] = data.draw(st.sampled_from(fitting))
        tree = alone(tree, asked["path"])
    if data.draw(st.booleans()):
        dims = sorted({dim for one in tree.arrays.values() for dim in one.dims if dim is not None})
        asked["chunks"] = {dim: data.draw(st.integers(1, 3)) for dim in dims}
    if Feature.CODECS in _features(variant) and data.draw(st.booleans()):
        asked["codec"] = data.draw(st.sampled_from(CODECS.get(variant, ("zstd:3", "gzip:1"))))
    note(f"-> {variant} {asked}")
    try:
        report = hs.convert(source, target, name, **asked)
        assert not report.losses
    except Unsupported as error:
        assert variant == "mongo" or not target.exists()
        report = hs.convert(source, target, name, allow_loss=True, **asked)
        assert report.losses and all(str(loss) in str(error) for loss in report.losses)
    assert_allowed(report.losses, _features(variant), tree)
    return target, settled(tree, Told.of(report.losses), hs.open_group(target))
