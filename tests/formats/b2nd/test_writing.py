"""Making and changing b2nd files: round trips, growth and shrinking, labels, what is refused, crashes and rivals."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, Thread
from typing import Any

import blosc2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab as hs
from hyperslab.errors import AlreadyExists, Conflict, Invalid, ReadOnly, Unsupported
from hyperslab.formats.b2nd import FORMAT
from hyperslab.formats.b2nd.writer import new_regions
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.location import Location
from programs import ran


def made(path: Path, values: np.ndarray[Any, Any], **more: Any) -> Path:
    with hs.create(path) as root:
        root.create_array("v", data=values, **more)
    return path


@pytest.mark.parametrize("shape", [(7, 4), (600, 500)])
def test_an_array_with_coordinates_and_attributes(tmp_path: Path, shape: tuple[int, int]) -> None:
    values = np.random.default_rng(1).random(shape).astype("f4")
    with hs.create(tmp_path / "a.b2nd") as root:
        root.attrs["title"] = "both"
        root.create_array("air", data=values, dims=("y", "x"), chunks=(3, 200), fill_value=-1.0)
        root.create_array("x", data=np.arange(shape[1]) * 0.5, dims=("x",), attrs={"units": "m"})
        root.create_array("y", data=np.array([f"row {i}" for i in range(shape[0])]), dtype=str, dims=("y",))
        root.create_array("lat", data=values * 2, dims=("y", "x"))
        root["air"].attrs["coordinates"] = "lat"
    array = hs.open(tmp_path / "a.b2nd")
    assert (array.name, array.dims, array.fill_value) == ("air", ("y", "x"), -1)
    assert np.array_equal(array[...], values)
    assert np.array_equal(array.sel(y="row 3", x=1.0), values[3, 2])
    assert list(array.to_xarray().coords) == ["x", "y", "lat"]
    with hs.open_group(tmp_path / "a.b2nd") as root:
        assert root.attrs["title"] == "both"
        assert np.array_equal(root["lat"][...], values * 2)
    assert os.listdir(tmp_path) == ["a.b2nd"]


@given(st.data())
@settings(max_examples=12)
def test_growing_and_shrinking_is_that_of_numpy(data: st.DataObject) -> None:
    import tempfile

    lengths = st.tuples(st.integers(0, 9), st.integers(0, 9))
    shape = data.draw(lengths)
    cut = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    expected = np.arange(shape[0] * shape[1], dtype="i4").reshape(shape)
    with tempfile.TemporaryDirectory() as folder:
        path = made(Path(folder) / "a.b2nd", expected, chunks=cut, fill_value=-7)
        for _ in range(2):
            with hs.open_group(path, "r+") as root:
                for _ in range(2):
                    new = data.draw(lengths)
                    root["v"].resize(new)
                    grown = np.full(new, -7, "i4")
                    kept = tuple(slice(0, min(a, b)) for a, b in zip(new, expected.shape, strict=True))
                    grown[kept] = expected[kept]
                    expected = grown
                    rows = np.full((data.draw(st.integers(0, 3)), new[1]), 5, "i4")
                    root["v"].append(rows)
                    expected = np.concatenate([expected, rows])
                    assert np.array_equal(root["v"][...], expected)
            assert np.array_equal(hs.open_array(path)[...], expected)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=3))
def test_fresh_cells_are_each_named_once(lengths: list[tuple[int, int]]) -> None:
    old, new = (tuple(part) for part in zip(*lengths, strict=True))
    seen = np.zeros(new, int)
    for part in new_regions(old, new):
        seen[part] += 1
    inside = np.zeros(new, int)
    inside[tuple(slice(0, length) for length in old)] = 1
    assert np.array_equal(seen, 1 - inside)


def test_a_large_array_grows_from_nothing_and_moves_to_a_file(tmp_path: Path) -> None:
    rows = np.arange(300_000, dtype="f8").reshape(3, 100_000)
    with hs.create(tmp_path / "a.b2nd") as root:
        array = root.create_array("v", shape=(0, 100_000), dtype="f8", chunks=(1, 50_000))
        for row in rows:
            array.append(row[None])
        assert np.array_equal(array[...], rows)
    assert np.array_equal(hs.open(tmp_path / "a.b2nd")[...], rows)
    with hs.open_group(tmp_path / "a.b2nd", "r+") as root:
        root["v"].append(rows)
        root["v"].append(rows[:1])
    assert np.array_equal(hs.open(tmp_path / "a.b2nd")[...], np.concatenate([rows, rows, rows[:1]]))


def test_nothing_is_published_by_a_block_that_fails(tmp_path: Path) -> None:
    path = made(tmp_path / "a.b2nd", np.arange(400_000.0), chunks=(1000,))
    with pytest.raises(ZeroDivisionError), hs.open_group(path, "r+") as root:
        root["v"][:5] = 9
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), hs.create(tmp_path / "b.b2nd") as root:
        root.create_array("v", data=np.arange(400_000.0))
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["a.b2nd"]
    assert np.array_equal(hs.open(path)[:6], np.arange(6))


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = made(tmp_path / "a.b2nd", np.arange(40_000.0), chunks=(1000,))
    before = path.read_bytes()
    script = f"""
import os, hyperslab as hs
root = hs.open_group({str(path)!r}, "r+")
root["v"][:500] = 9
os._exit(9)
"""
    assert ran(script).returncode == 9
    assert path.read_bytes() == before


@pytest.mark.parametrize("durable", [True, False])
def test_only_a_durable_file_waits_for_the_medium(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with hs.create(tmp_path / "a.b2nd", durable=durable) as root:
        root.create_array("v", data=np.arange(4.0))
    assert bool(synced) is durable


def test_a_reader_keeps_its_version_while_a_writer_replaces_it(tmp_path: Path) -> None:
    path = made(tmp_path / "a.b2nd", np.arange(40_000.0), chunks=(1000,))
    array = hs.open(path)
    with hs.open_group(path, "r+") as root:
        root["v"][...] = -1
        assert array[5] == 5
    assert array[7] == 7
    assert hs.open(path)[7] == -1


def test_of_two_writers_the_second_is_told(tmp_path: Path) -> None:
    path = made(tmp_path / "a.b2nd", np.arange(10.0))
    first, second = hs.open_group(path, "r+"), hs.open_group(path, "r+")
    first["v"][0] = 1
    second["v"][1] = 5
    first.close()
    with pytest.raises(Conflict, match="another writer"):
        second.close()
    assert hs.open(path)[:2].tolist() == [1, 1]
    assert os.listdir(tmp_path) == ["a.b2nd"]


def test_what_it_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="a, b"), hs.create(tmp_path / "a.b2nd") as root:
        root.create_array("a", data=np.arange(3))
        root.create_array("b", data=np.arange(3))
    with hs.create(tmp_path / "b.b2nd") as root:
        for wish, message in [
            ({"codec": "zstd"}, "codec zstd"),
            ({"codec": "shuffle+blosc"}, "shuffle"),
            ({"checksum": True}, "checksum"),
            ({"shards": (10,)}, "shards"),
            ({"chunks": ((2, 8),)}, "varying"),
        ]:
            with pytest.raises(Unsupported, match=message):
                root.create_array("v", shape=(10,), **wish)
        with pytest.raises(Unsupported, match="text"):
            root.create_array("v", shape=(2, 2), dtype=str)
        with pytest.raises(Unsupported, match="groups"):
            root.create_group("g")
    assert os.listdir(tmp_path) == []
    with pytest.raises(Unsupported, match="text"), hs.create(tmp_path / "c.b2nd") as root:
        root.create_array("v", data=np.array(["a", "bcd"]), dtype=str)
    with pytest.raises(Unsupported, match="TreeStore"):
        hs.create(tmp_path / "d.b2z", format="b2nd")
    with pytest.raises(Unsupported, match="local"):
        hs.create("memory://b2nd-there", format="b2nd")


def test_opening_modes(tmp_path: Path) -> None:
    path = made(tmp_path / "a.b2nd", np.arange(10))
    with pytest.raises(AlreadyExists):
        hs.create(path)
    with pytest.raises(ReadOnly):
        hs.open(path)[0] = 1
    with hs.create(path, overwrite=True) as root:
        root.create_array("w", data=np.arange(3))
    assert hs.open(path).name == "w"
    with hs.open_group(path, "a") as root:
        root["w"].attrs["n"] = 1
    assert hs.open(path).attrs["n"] == 1
    other = tmp_path / "b.dat"
    with hs.create(other, format="b2nd") as root:
        root.create_array("v", data=np.arange(4))
    assert hs.open(other)[...].tolist() == [0, 1, 2, 3]


def test_reads_in_threads_and_in_a_forked_child(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    values = np.random.default_rng(2).random((400, 1000))
    array = hs.open(made(tmp_path / "a.b2nd", values, chunks=(50, 300)))
    assert np.array_equal(array[...], values)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda i: np.array_equal(array[i::7, 5:900:3], values[i::7, 5:900:3]), range(20)))
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(array[...], values) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_dropping_a_coordinate(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.b2nd") as root:
        root.create_array("v", data=np.arange(3), dims=("x",))
        root.create_array("x", data=np.arange(3) * 2.0, dims=("x",))
    with hs.open_group(tmp_path / "a.b2nd", "r+") as root:
        del root["x"]
    with hs.open_group(tmp_path / "a.b2nd") as root:
        assert list(root) == ["v"]


def test_threads_that_each_look_the_array_up_take_turns(tmp_path: Path) -> None:
    writer: Any = FORMAT.open(Location.of(tmp_path / "a.b2nd"), "x")
    writer.put("v", ArraySpec(shape=(4, 3), dtype=np.dtype("i4"), chunks=(4, 3)))
    first, second = (writer.chunks("v") for _ in range(2))
    entered = Event()

    def enter() -> None:
        with second.lock([(0, 0)], None):
            entered.set()

    other = Thread(target=enter)
    with first.lock([(0, 0)], None):
        other.start()
        assert not entered.wait(0.1)
    other.join()
    assert entered.is_set()
    writer.close()


def test_metalayers_of_others_are_attributes(tmp_path: Path) -> None:
    """Nothing, bytes and tuples too, and words of ours with values of another kind."""
    path = str(tmp_path / "a.b2nd")
    cells = np.arange(12.0).reshape(3, 4)
    array = blosc2.asarray(cells, urlpath=path, mode="w")
    wanted = {"none": None, "raw": b"\x00\xff", "pair": [1, 2], "coords": {"lat": 40.1}, "group": "g", "name": 3}
    for key, value in wanted.items():
        array.schunk.vlmeta[key] = tuple(value) if key == "pair" else value
    del array
    assert dict(hs.open(path).attrs) == wanted
    np.testing.assert_array_equal(hs.open(path)[...], cells)
    for ending in (".zarr", ".blp", ".b2nd"):
        hs.convert(path, tmp_path / f"b{ending}", verify=True)
        assert dict(hs.open_group(tmp_path / f"b{ending}")["data"].attrs) == wanted, ending
    with hs.open_group(path, "r+") as root:
        root["data"][0] = -1
    array = blosc2.open(path)
    assert array.schunk.vlmeta["pair"] == (1, 2)
    with hs.open_group(path, "r+") as root:
        root["data"].attrs["more"] = 1
    assert dict(hs.open(path).attrs) == wanted | {"more": 1}
    array = blosc2.open(path)
    assert array.schunk.vlmeta["raw"] == b"\x00\xff"
