"""Bloscpack files on a web server: the same as here, by few ranges."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blp_files import file_of, golden, manifest, write

import hyperslab as hs
from hyperslab.errors import CorruptChunk, NotFound

sys.path.insert(0, str(Path(__file__).parents[2]))
from servers.files import serving

pytestmark = pytest.mark.sampled(3)

CELLS = np.random.default_rng(0).random((1000, 1001))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("served")
    for name in manifest():
        write(place, golden(name), name.replace("/", "_"))
    write(place, file_of(CELLS, 1 << 17), "large.blp")
    write(place, file_of(CELLS[:, :1000], 1 << 17, offsets=False), "walked.blp")
    write(place, file_of(CELLS, 1 << 17)[:-9], "short.blp")
    return place


@pytest.fixture(scope="module")
def web(folder: Path) -> Iterator[str]:
    with serving(folder) as url:
        yield url


@pytest.mark.parametrize("name", sorted(manifest()))
def test_golden_files_are_the_same(web: str, folder: Path, name: str) -> None:
    here: Any = hs.open(str(folder / name.replace("/", "_")))
    there: Any = hs.open(f"{web}/{name.replace('/', '_')}")
    assert there.shape == here.shape
    assert there[...].tobytes() == here[...].tobytes()


def test_only_what_is_needed_is_read(web: str) -> None:
    with hs.trace() as cost:
        array: Any = hs.open(f"{web}/large.blp")
        np.testing.assert_array_equal(array[3:5, 7:9], CELLS[3:5, 7:9])
    assert cost.requests <= 6
    assert cost.bytes_read < 1 << 20
    with hs.trace() as cost:
        np.testing.assert_array_equal(array[...], CELLS)
    assert cost.requests < 40


@pytest.mark.sampled(0)
def test_a_walk_and_a_file_cut_short(web: str) -> None:
    np.testing.assert_array_equal(hs.open(f"{web}/walked.blp")[...], CELLS[:, :1000])
    array: Any = hs.open(f"{web}/short.blp")
    np.testing.assert_array_equal(array[:500], CELLS[:500])
    with pytest.raises(CorruptChunk, match=r"chunk 61 at byte"):
        array[-1]
    with pytest.raises(NotFound):
        hs.open(f"{web}/nothing.blp")
    assert len(hs.check(f"{web}/short.blp", deep=True)) == 1
