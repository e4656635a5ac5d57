"""Processes that look at pieces give what this one finds, errors too; one that has died is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.chunks.locations import ChunkLocations
from hyperslab.errors import HyperslabError
from hyperslab.formats.join.pieces import look_at_piece, open_piece, read_tree
from hyperslab.formats.join.workers import FAILURES, PieceWorker, count_workers
from hyperslab.stores.location import Location


def pieces(folder: Path, count: int, rows: int = 9) -> list[Location]:
    """Files of a few rows."""
    for number in range(count):
        labels = {"t": ("t", np.arange(rows), {"units": f"days since {2000 + number}-01-01"})}
        cells = np.full((rows, 300), number, "f4")
        encoding = {"a": {"chunksizes": (1, 300), "zlib": True}}
        xr.Dataset({"a": (("t", "x"), cells)}, labels).to_netcdf(
            folder / f"{number:03d}.nc", unlimited_dims="t", encoding=encoding
        )
    return [Location.of(path) for path in sorted(folder.glob("*.nc"))]


def test_what_a_worker_finds(tmp_path: Path) -> None:
    places = pieces(tmp_path, 3)
    Path(places[1].target).write_bytes(b"\x89HDF\r\n\x1a\n damaged")
    reader, _ = open_piece(places[0])
    template = read_tree(reader, places[0].url)
    reader.close()
    worker = PieceWorker(template)
    first, damaged, last = worker.look(places)
    assert isinstance(damaged, HyperslabError) and damaged.url == places[1].url
    for place, found in ((places[0], first), (places[2], last)):
        assert not isinstance(found, HyperslabError)
        reader, _ = open_piece(place)
        here = look_at_piece(reader, place.url, template, locates=True)
        reader.close()
        assert (found.url, found.shapes, found.cuts, found.attrs) == (here.url, here.shapes, here.cuts, here.attrs)
        there, mine = found.stored["a"], here.stored["a"]
        assert isinstance(there, ChunkLocations) and isinstance(mine, ChunkLocations)
        assert there.files == mine.files and there.codecs == mine.codecs
        np.testing.assert_array_equal(there.offsets, mine.offsets)
    worker.close()
    with pytest.raises((*FAILURES, ValueError)):  # its pipes are closed
        worker.look(places)
    worker.close()


def test_a_worker_imports_nothing_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = pieces(tmp_path, 2)
    reader, _ = open_piece(places[0])
    template = read_tree(reader, places[0].url)
    reader.close()
    canary = f"open({str(tmp_path / 'canary')!r}, 'w').close()"
    for name in ("numpy", "h5py", "pickle", "hyperslab"):
        (tmp_path / f"{name}.py").write_text(canary)
    monkeypatch.chdir(tmp_path)
    worker = PieceWorker(template)
    assert not any(isinstance(found, HyperslabError) for found in worker.look(places))
    worker.close()
    assert not (tmp_path / "canary").exists()


def test_places_for_workers(tmp_path: Path) -> None:
    few = [Location.of(tmp_path / "a.nc")]
    assert count_workers(few) == 0
    assert count_workers([Location.of("https://example.org/a.nc")] * 1000) == 0


def test_the_first_piece_that_does_not_fit_is_named(tmp_path: Path) -> None:
    places = pieces(tmp_path, 220, 2)
    for number in (90, 150):
        Path(places[number].target).write_bytes(b"\x89HDF\r\n\x1a\n damaged")
    with pytest.raises(HyperslabError) as caught:
        hs.virtual([place.target for place in places], tmp_path / "all.json", along="t")
    assert caught.value.url == places[90].url
