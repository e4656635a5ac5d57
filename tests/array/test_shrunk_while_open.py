"""Rows that others remove or add while an array is open: no fill value is read as a cell, no label fails in between."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import LabelError, NodeNotFound, Replaced, SelectionError
from hyperslab.stores import MemoryStore, counting

FORMATS = ["zarr2", "zarr3", "sharded", "hdmf"]
HOURS, LEFT = 120, 72


def make_days(place: Path, format: str = "zarr3", chunk: int = 24, fill: float = np.nan) -> str:
    """Make five days of hourly cells, none of them the fill value, and their times."""
    more: dict[str, Any] = {"shards": (2 * chunk, 3)} if format == "sharded" else {}
    with hs.create(place, "zarr3" if format == "sharded" else format) as root:
        times = np.arange(HOURS, dtype="i4") + 1
        units = {"units": "hours since 2026-01-31T23:00"}
        root.create_array("time", data=times, dims=["time"], chunks=(chunk,), attrs=units)
        cells = np.arange(HOURS * 3, dtype="f4").reshape(HOURS, 3) + 1
        root.create_array("t2m", data=cells, dims=["time", "x"], chunks=(chunk, 3), fill_value=fill, **more)
    return str(place)


def remove_two_days(url: str) -> None:
    with hs.open(url, mode="r+") as other:
        for name in ("t2m", "time"):
            other[name].remove(slice("2026-02-04", None), dim="time")


@pytest.mark.parametrize("chunk", [24, 50], ids=["whole chunks", "a part of a chunk"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_reader_sees_that_rows_were_removed(tmp_path: Path, format: str, chunk: int) -> None:
    url = make_days(tmp_path / "d", format, chunk)
    cells = hs.open(url)["t2m"][...]
    opened: list[Any] = [hs.open(url)["t2m"] for _ in range(9)]
    for array in opened:  # what is known of it, and in the cache, is from before
        array.sel(time="2026-02-05")
        array[HOURS - 1, 2]
    times, view = hs.open(url)["time"], opened[0].lazy[-1]
    remove_two_days(url)

    np.testing.assert_array_equal(opened[1][-1], cells[LEFT - 1])
    assert opened[1].shape == (LEFT, 3) and opened[2][...].shape == (LEFT, 3)
    assert times[-1] == LEFT
    for key in ((HOURS - 1, 2), 100):
        with pytest.raises(SelectionError, match=f"out of bounds for axis 0 with size {LEFT}"):
            opened[3][key]
    with pytest.raises(LabelError, match="2026-02-05"):
        opened[4].sel(time="2026-02-05")
    assert opened[5][::-1].shape == (LEFT, 3)
    np.testing.assert_array_equal(
        opened[6].to_sparse(-1).todense() if format != "hdmf" else cells[LEFT - 1], cells[LEFT - 1]
    )
    np.testing.assert_array_equal(view.read(), cells[LEFT - 1])
    # what is one of several reads that belong together does not begin again
    for read in (opened[7].oindex, opened[7].vindex):
        with pytest.raises(Replaced, match=r"rows were removed.*node=/t2m.*open it again"):
            read[[1, 100], [0, 2]]
    np.testing.assert_array_equal(opened[8].vindex[[5, 1], [0, 2]], cells[[5, 1], [0, 2]])


def test_a_reader_sees_that_the_array_is_gone(tmp_path: Path) -> None:
    url = make_days(tmp_path / "d")
    array = hs.open(url)["t2m"]
    array[0]
    with hs.open(url, mode="r+") as other:
        del other["t2m"]
    with pytest.raises(NodeNotFound):
        array[-1]


def test_missing_chunks_cost_one_look_for_each_version_of_the_document(tmp_path: Path) -> None:
    url = str(tmp_path / "d")
    with hs.create(url) as root:
        root.create_array("a", shape=(1000, 2), dtype="f4", chunks=(10, 2), dims=("x", "y"))
        root.create_array("b", shape=(10,), dtype="f4")
    array = hs.open(url)["a"]

    def count_requests() -> int:
        with counting.trace() as trace:
            assert not array[...].any()
        return trace.requests

    once, again = count_requests(), count_requests()
    assert again < once and count_requests() == again
    with hs.open(url, mode="r+") as other:
        other["b"].attrs["note"] = "nothing of a"
    assert count_requests() == again
    with hs.open(url, mode="r+") as other:
        other["a"].append(np.ones((10, 2), "f4"))
    assert count_requests() == once and count_requests() == again
    assert array.shape == (1000, 2), "a reader goes on with the rows that it knows"


@pytest.mark.parametrize("read_before", ["time", "t2m"])
def test_labels_are_found_though_rows_were_appended_between_two_documents(tmp_path: Path, read_before: str) -> None:
    url = make_days(tmp_path / "d")
    root = hs.open(url)
    root[read_before]
    with hs.open(url, mode="r+") as other:
        other["t2m"].append(np.zeros((24, 3), "f4"))
        other["time"].append(np.arange(HOURS + 1, HOURS + 25, dtype="i4"))
    np.testing.assert_array_equal(root["t2m"].sel(time="2026-02-02")[:, 0], 3 * np.arange(24, 48) + 1)
    assert root["t2m"]["2026-02-02T00:00":"2026-02-02T02:00"].shape == (2, 3)


def test_an_array_that_is_longer_than_its_labels_says_so(tmp_path: Path) -> None:
    url = make_days(tmp_path / "d")
    before = hs.open(url)["t2m"]
    with hs.open(url, mode="r+") as other:
        other["t2m"].append(np.zeros((24, 3), "f4"))
    array = hs.open(url)["t2m"]
    assert before.sel(time="2026-02-02").shape == (24, 3)
    for _ in range(2):
        with pytest.raises(SelectionError, match=r"length 120, the dimension 144 \(a writer may be at work"):
            array.sel(time="2026-02-02")
    with hs.open(url, mode="r+") as other:
        other["time"].append(np.arange(HOURS + 1, HOURS + 25, dtype="i4"))
    assert array.sel(time="2026-02-02").shape == (24, 3), "when the writer has come to its end"


def test_labels_wait_for_a_writer_that_has_published_the_array_alone(tmp_path: Path) -> None:
    url = make_days(tmp_path / "d")
    with hs.open(url, mode="r+") as other:
        other["t2m"].append(np.zeros((24, 3), "f4"))
    array = hs.open(url)["t2m"]

    def publish_labels() -> None:
        with hs.open(url, mode="r+") as other:
            other["time"].append(np.arange(HOURS + 1, HOURS + 25, dtype="i4"))

    writer = threading.Timer(0.05, publish_labels)
    writer.start()
    assert array.sel(time="2026-02-02").shape == (24, 3)
    writer.join()


class DeletionOrder(MemoryStore):
    """Keeps the keys of chunks in the order in which they are deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[str] = []

    def delete(self, key: str, *, durable: bool = False) -> None:
        self.deleted.append(key)
        super().delete(key, durable=durable)


def test_rows_are_blanked_from_the_end() -> None:
    """Who reads meanwhile looks at the last cell."""
    store = DeletionOrder()
    with hs.create(store) as root:
        array = root.create_array("v", data=np.arange(100.0) + 1, chunks=(1,), shards=None)
        array.resize(20)
    numbers = [int(key.rpartition("/")[2]) for key in store.deleted if key.startswith("v/c/")]
    assert sorted(numbers) == list(range(20, 100))
    # of the chunks that go at once any comes first
    assert np.mean(numbers[:20]) > np.mean(numbers[20:40]) > np.mean(numbers[40:60]) > np.mean(numbers[60:])


def test_labels_that_were_removed_are_none(tmp_path: Path) -> None:
    """Of a coordinate whose length an open dataset knows from before."""
    url = make_days(tmp_path / "d")
    root: Any = hs.open(url)
    assert (root["time"].shape, root["t2m"][0, 0]) == ((HOURS,), 1)
    remove_two_days(url)
    array = root["t2m"]
    assert array.sel_key({"time": slice("2026-02-02", None)}) == (slice(24, LEFT), slice(None))
    assert array.sel(time=slice("2026-02-02", None)).shape == (LEFT - 24, 3)
    with pytest.raises(LabelError, match="2026-02-05"):
        array.sel(time="2026-02-05")
