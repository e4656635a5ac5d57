"""A part that is written as a dataset of its own speaks of no variables that it leaves out; nameless dimensions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.conversion import labelled_part


@pytest.mark.parametrize("ending", [".nc", ".zarr"])
def test_attributes_that_name_other_variables(tmp_path: Path, ending: str) -> None:
    with hs.create(tmp_path / "air.zarr") as root:
        root.create_array("lat", data=np.array([50.0, 45.0]), dims=("lat",), attrs={"bounds": "lat_bnds", "units": "m"})
        root.create_array("lat_bnds", data=np.zeros((2, 2)), dims=("lat", "two"))
        root.create_array("height", data=np.float64(2.0))
        about = {"coordinates": "height lat", "cell_measures": "area: cells", "grid_mapping": "crs", "units": "K"}
        root.create_array("t", data=np.arange(2.0), dims=("lat",), attrs=about)
    out = tmp_path / f"out{ending}"
    result = CliRunner().invoke(main, ["get", str(tmp_path / "air.zarr"), "t", "-o", str(out)])
    assert result.exit_code == 0, result.stderr
    with hs.open(out) as root:
        assert {name: value for name, value in root["t"].attrs.items() if name != "_FillValue"} == {
            "coordinates": "height lat",
            "units": "K",
        }
        about = {name: value for name, value in root["lat"].attrs.items() if name != "_FillValue"}
        assert about == {"bounds": "lat_bnds", "units": "m"}
        assert root["lat_bnds"].shape == (2, 2)
    assert "with them: lat, height, lat_bnds" in result.stderr
    alone = tmp_path / f"alone{ending}"
    result = CliRunner().invoke(main, ["get", str(tmp_path / "air.zarr"), "t", "-o", str(alone), "--alone"])
    assert result.exit_code == 0, result.stderr
    with hs.open(alone) as root:
        assert sorted(root) == ["lat", "t"]


def test_attributes_that_become_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """NetCDF has no attributes within attributes: a line tells which are JSON text there; Zarr has them."""
    with hs.create(tmp_path / "air.zarr") as root:
        root.create_array("t", data=np.arange(2.0), dims=("lat",), attrs={"step": {"size": 2}, "units": "K"})
    remark = "netCDF has no attributes within attributes: of t, JSON text is written for 'step'"
    for ending, value in {".nc": '{"size": 2}', ".zarr": {"size": 2}}.items():
        out = tmp_path / f"out{ending}"
        result = CliRunner().invoke(main, ["get", str(tmp_path / "air.zarr"), "t", "-o", str(out)])
        assert result.exit_code == 0, result.stderr
        assert caplog.messages == ([remark] if ending == ".nc" else [])
        caplog.clear()
        with hs.open(out) as root:
            assert root["t"].attrs["step"] == value


def test_dimensions_without_names_are_called_by_their_place(tmp_path: Path) -> None:
    cells = np.arange(60, dtype="i2").reshape(20, 3)
    with hs.create(tmp_path / "raw.zarr") as root:
        root.create_array("raw", data=cells, attrs={"scale_factor": 0.5})

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, [arguments[0], str(tmp_path / "raw.zarr"), "raw", *arguments[1:]])
        return result.stdout if result.exit_code == 0 else result.stderr

    assert run("get", "-s", "dim_0=4..6", "-s", "dim_1=-1").split() == ["dim_0", "raw", "4", "14", "5", "17"]
    out = tmp_path / "part.npy"
    run("get", "-s", "dim_0=4..6", "--decoded", "-o", str(out))
    assert np.array_equal(np.load(out), cells[4:6] * 0.5)
    assert "in the result of shape (2, 3)" in run("plan", "-s", "dim_0=4..6")
    assert "dim_0 has 20 positions, 20 is none of them" in run("get", "-s", "dim_0=20")
    place = f"{tmp_path}/raw.zarr node=/raw"
    assert f"dim_0 has no labels [{place}]; give positions, such as dim_0=0..10" in run("get", "-s", "dim_0=4.0")
    assert f"no dimension 'dim_2' [{place}]; did you mean 'dim_" in run("get", "-s", "dim_2=1")
    whole = ["convert", str(tmp_path / "raw.zarr"), str(tmp_path / "part.zarr"), "-s", "dim_0=4..6"]
    assert CliRunner().invoke(main, whole).exit_code == 0
    with hs.open(tmp_path / "part.zarr") as root:
        assert np.array_equal(root["raw"][...], cells[4:6])


def test_a_dimension_whose_name_no_array_can_have(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.arange(3), dims=("d:1",))
    result = CliRunner().invoke(main, ["get", str(tmp_path / "a.zarr"), "x", "-s", "d:1=1..3"])
    assert (result.exit_code, result.stdout.split()) == (0, ["d:1", "x", "1", "1", "2", "2"]), result.stderr


def test_one_of_two_dimensions_of_one_name(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("covariance", data=np.arange(9).reshape(3, 3), dims=("pair", "pair"))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["get", str(tmp_path / "a.zarr"), "covariance", *arguments])
        return result.stdout if result.exit_code == 0 else result.stderr

    assert run("-s", "dim_0=1", "-s", "dim_1=2").split() == ["5"]
    assert run("-s", "dim_1=0..1").split() == [
        "dim_0",
        "dim_1",
        "covariance",
        "0",
        "0",
        "0",
        "1",
        "0",
        "3",
        "2",
        "0",
        "6",
    ]
    assert run("-s", "pair=2").split() == ["8"]  # both
    assert "dim_1 has 3 positions, 3 is none of them" in run("-s", "dim_1=3")
    assert "no dimension 'dim_2'" in run("-s", "dim_2=0")


def test_rows_of_a_table(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        units = root.create_group("units", {"colnames": ["times"]})
        units.create_array("id", data=np.arange(3))
        units.create_array("times", data=np.arange(4) / 2)
        units.create_array("times_index", data=np.array([2, 2, 4]))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["get", *arguments])
        return result.stdout if result.exit_code == 0 else result.stderr

    place = f"{tmp_path}/a.zarr"
    assert [line.split(maxsplit=1) for line in run(place, "units").splitlines()] == [
        ["id", "times"],
        ["0", "[0.0, 0.5]"],
        ["1", "[]"],
        ["2", "[1.0, 1.5]"],
    ]
    assert run(place, "units", "-s", "row=2").split() == ["id", "times", "2", "[1.0,", "1.5]"]
    assert run(f"{place}/units", "-s", "row=0..1").split() == ["id", "times", "0", "[0.0,", "0.5]"]
    out = tmp_path / "units.csv"
    run(place, "units", "-s", "row=1..", "-o", str(out))
    assert out.read_text() == 'id,times\n1,[]\n2,"[1.0, 1.5]"\n'
    printed = json.loads(run(place, "units", "-s", "row=1..", "--json"))
    assert (printed["schema"], printed["path"], printed["columns"]) == ("hyperslab.get/1", "units", ["id", "times"])
    assert printed["rows"] == [{"id": 1, "times": []}, {"id": 2, "times": [1.0, 1.5]}]
    run(place, "units", "-s", "row=1..", "-o", str(tmp_path / "units.json"))
    assert json.loads((tmp_path / "units.json").read_text()) == printed
    assert "[node=/units]; write -s row=0..50" in run(place, "units", "-s", "id=2")
    assert "node=" not in run(f"{place}/units", "-s", "id=2")
    assert "the table has 3 rows, 3 is none of them" in run(place, "units", "-s", "row=3")
    assert ".csv" in run(place, "units", "-o", str(tmp_path / "units.npy"))


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of Unix")
def test_a_terminal_gets_some_rows_of_a_table(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_group("units", {"colnames": []}).create_array("id", data=np.arange(1002))
    every = CliRunner().invoke(main, ["get", str(tmp_path / "a.zarr"), "units"])
    assert (len(every.stdout.splitlines()), every.stderr) == (1003, "")
    text, remarks = _on_a_terminal(str(tmp_path / "a.zarr"), "units")
    assert remarks == b"2 more rows; -o writes them all to a file\n"
    assert len(text.splitlines()) == 1001


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of Unix")
def test_a_terminal_gets_the_start_of_a_long_cell(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        units = root.create_group("units", {"colnames": ["times"]})
        units.create_array("id", data=np.arange(2))
        units.create_array("times", data=np.arange(102.0))
        units.create_array("times_index", data=np.array([100, 102]))
    every = CliRunner().invoke(main, ["get", str(tmp_path / "a.zarr"), "units"])
    assert ("99.0]" in every.stdout, every.stderr) == (True, "")
    text, remarks = _on_a_terminal(str(tmp_path / "a.zarr"), "units")
    assert remarks == "cells that end in … are cut; -o writes all of them to a file\n".encode()
    _, first, second = text.decode().splitlines()
    assert (len(first), first[:12], first[-2:]) == (64, "0   [0.0, 1.", " …")
    assert second == "1   [100.0, 101.0]"


def _on_a_terminal(*arguments: str) -> tuple[bytes, bytes]:
    """Return what ``hyperslab get`` prints on a terminal and on stderr."""
    screen, terminal = os.openpty()
    command = [sys.executable, "-m", "hyperslab", "get", *arguments]
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE) as running:
        os.close(terminal)
        text = b""
        with suppress(OSError):  # which is how the end of a terminal is read
            while part := os.read(screen, 4096):
                text += part
        assert running.stderr is not None
        remarks = running.stderr.read()
    os.close(screen)
    return text, remarks


def save_csv(place: Path, *options: str) -> list[str]:
    """Return the lines of a CSV file of ``hyperslab get``."""
    out = place.with_name(f"{len(list(place.parent.iterdir()))}.csv")
    result = CliRunner().invoke(main, ["get", str(place), *options, "-o", str(out)])
    assert result.exit_code == 0, result.stderr
    return out.read_text().splitlines()


def test_csv_in_blocks(tmp_path: Path) -> None:
    """Of more cells than are read at once: in the order of the cells, whatever the chunks are."""
    cells, other = np.random.default_rng(5).normal(size=(2, 70, 1000))
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.arange(1000) / 4, dims=("x",))
        root.create_array("a", data=cells, dims=("y", "x"), chunks=(7, 300))
        root.create_array("b", data=other, dims=("y", "x"), chunks=(70, 10))
        root.create_array("north", data=cells * 2, dims=("y", "x"), units="degrees_north", chunks=(40, 40))
        root.create_array("east", data=other * 2, dims=("y", "x"), units="degrees_east")
        root.create_array("c", data=cells, dims=("y", "x"), attrs={"coordinates": "north east"})
        root.create_array("d", data=cells.reshape(2, 35, 1000), chunks=(2, 35, 300))
    place = tmp_path / "a.zarr"
    ys, xs = np.indices(cells.shape)
    lines = [f"{y},{x / 4},{cell}" for y, x, cell in zip(ys.flat, xs.flat, cells.flat, strict=True)]
    assert save_csv(place, "a") == ["y,x,a", *lines]
    backwards = [line for y in range(69, 0, -1) for line in lines[1000 * y + 30 : 1000 * (y + 1)]]
    assert save_csv(place, "a", "-s", "y=69..0..-1", "-s", "x=30..")[1:] == backwards
    both = [f"{line},{cell}" for line, cell in zip(lines, other.flat, strict=True)]
    assert save_csv(place, "-v", "a,b") == ["y,x,a,b", *both]
    curved = zip(lines, cells.flat, other.flat, strict=True)
    found = save_csv(place, "c")
    assert found[0] == "y,x,north,east,c"
    assert found[1:] == [f"{line.rpartition(',')[0]},{2 * cell},{more * 2},{cell}" for line, cell, more in curved]
    assert [line.split(",")[3] for line in save_csv(place, "d")[1:]] == list(map(str, cells.flat))


@pytest.mark.parametrize("shape", [(3, 3000, 3000), (2, 9_000_000), (40_000_000,), (1000, 1000, 7)])
def test_blocks_of_large_chunks(shape: tuple[int, ...]) -> None:
    """Rows of whole chunks, or parts of them: none has more than 32 MiB of numbers."""
    with hs.create({}) as root:
        array = root.create_array("a", shape=shape, dtype="f8", chunks=shape, fill_value=0)
        part = labelled_part.open_part(root, array, (slice(None),) * len(shape), decoded=False)
        boxes = list(labelled_part.row_boxes(part))
    assert len(boxes) > 1
    first = 0
    for box in boxes:
        lengths = [cut.stop - cut.start for cut in box]
        assert np.ravel_multi_index([cut.start for cut in box], shape) == first
        assert np.prod(lengths) <= 1 << 22
        first += np.prod(lengths)
    assert first == np.prod(shape)


def test_csv_of_what_is_decoded_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time beyond those of NumPy, or half a second, in the last block says how those in the first one are spelled."""
    monkeypatch.setattr(labelled_part, "_BLOCK_CELLS", 2_000)
    days, spans = np.zeros(7_000), np.arange(7_000.0)
    days[-1], spans[-1] = 4e6, 0.5
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("time", data=days, dims=("time",), units="days since 2000-01-01", chunks=(1000,))
        root.create_array("x", data=np.arange(7_000), dims=("time",), chunks=(1000,))
        root.create_array("span", data=spans, units="seconds", attrs={"dtype": "timedelta64[s]"}, chunks=(1000,))
    with hs.open(tmp_path / "a.zarr") as root:
        times, lengths = root["time"].decoded()[...], root["span"].decoded()[...]
    assert save_csv(tmp_path / "a.zarr", "x")[1:] == [f"{time},{n}" for n, time in enumerate(times)]
    assert save_csv(tmp_path / "a.zarr", "span", "--decoded")[1:] == [f"{n},{span}" for n, span in enumerate(lengths)]


def test_csv_is_written_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled_part, "_BLOCK_CELLS", 2_000)  # as if there were thirty times as many rows
    count = 30_000
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.arange(count), dims=("x",), chunks=(2_000,))
        root.create_array("a", data=np.arange(count) + 10**15, dims=("x",), chunks=(2_000,))
        table = root.create_group("t", {"colnames": ["a"]})
        table.create_array("id", data=np.arange(count), chunks=(2_000,))
        table.create_array("a", data=np.arange(count) + 10**15, chunks=(2_000,))
    out = tmp_path / "a.csv"
    for node, few in (("a", "x=0..2"), ("t", "row=0..2")):
        save_csv(tmp_path / "a.zarr", node, "-s", few)  # what is imported for it
        tracemalloc.start()
        try:
            result = CliRunner().invoke(main, ["get", str(tmp_path / "a.zarr"), node, "-o", str(out)])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert result.exit_code == 0, result.stderr
        assert peak < 550_000 < out.stat().st_size, node
        out.unlink()


def test_csv_of_names_that_no_text_has(tmp_path: Path) -> None:
    """Half of a surrogate pair can be written in JSON, and is no letter of UTF-8."""
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.arange(2), dims=("row",))
    document = tmp_path / "a.zarr" / "x" / "zarr.json"
    document.write_text(document.read_text().replace('"row"', r'"r\ud800"'))
    result = CliRunner().invoke(main, ["get", str(tmp_path / "a.zarr"), "x", "-o", str(tmp_path / "x.csv")])
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "x.csv").read_text() == "r\\ud800,x\n0,0\n1,1\n"


def test_labels_that_are_others_than_was_typed(tmp_path: Path) -> None:
    """Who types lat=0 may mean the equator; nothing is said of a cell that has the label, or of a date."""
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("lat", data=np.array([60, 1, 0.1], "f4"), dims=("lat",), units="degrees_north")
        root.create_array("time", data=np.arange(2), dims=("time",), units="days since 2000-01-01")
        root.create_array("level", data=np.array([1, 2, 5]), dims=("level",))
        root.create_array("t", data=np.arange(18).reshape(3, 2, 3), dims=("lat", "time", "level"))
    position = "lat=0 is a position, its label is 60.0\n"
    remarks = {
        ("lat=0",): position,
        ("latitude=0",): position.replace("lat", "latitude", 1),
        ("lat=1",): "",
        ("lat=1.0",): "",
        ("lat=@60",): "",
        ("lat=0..2",): "",
        ("time=1",): "",
        ("time=2000-01-02",): "",
        ("lat=1.0", "--nearest"): "",
        ("lat=3.0", "--nearest"): "the nearest label to lat=3.0 is 1.0\n",
        ("latitude=3.0", "--nearest"): "the nearest label to latitude=3.0 is 1.0\n",
        ("time=2000-01-02", "--nearest"): "",
        ("time=2000-01-01T20:00-04:00",): "",
        ("time=2000-01-02T01:00:00.0+01:00", "--nearest"): "",
        ("time=2000-01-02T00:00+01:00", "--nearest"): (
            "the nearest label to time=2000-01-02T00:00+01:00 is 2000-01-02T00:00:00\n"
        ),
        ("time=2000-02-02", "--nearest"): "the nearest label to time=2000-02-02 is 2000-01-02T00:00:00\n",
        ("time=1", "-s", "lat=0"): position,
        ("level=5.0", "--nearest"): "",
        ("level=5.4", "--nearest"): "the nearest label to level=5.4 is 5\n",
    }
    for options, remark in remarks.items():
        result = CliRunner().invoke(main, ["get", str(tmp_path / "a.zarr"), "t", "-s", *options])
        assert (result.exit_code, result.stderr) == (0, remark), options


def test_the_variable_of_a_column_that_cannot_have_its_name(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"A": [1.0], "A/B": [2.0], "B/C": [3.0], 7: [4.0]})
    hs.write_frame(tmp_path / "f.zarr", frame)
    hs.create(tmp_path / "g.zarr").close()
    hs.write_frame(tmp_path / "g.zarr" / "bars", frame)
    for column, variable, cell in (("A/B", "column_1", "2.0"), ("B/C", "column_2", "3.0"), ("7", "column_3", "4.0")):
        for place, folder in (("f.zarr", ""), ("g.zarr", "bars/")):
            url = str(tmp_path / place)
            result = CliRunner().invoke(main, ["get", url, folder + column])
            assert result.exit_code == 3
            assert f"take /{folder}{variable}, the variable of the column {column!r}" in result.stderr
            assert cell in CliRunner().invoke(main, ["get", url, folder + variable]).stdout


def test_seconds_of_a_series(tmp_path: Path) -> None:
    """Of NWB: on the axis of a picture, and beside the cells."""
    from hyperslab.cli.commands.plot import compose

    with hs.create(tmp_path / "a.zarr", "hdmf") as root:
        series = root.create_group("steady", {"neurodata_type": "TimeSeries"})
        series.create_array("data", data=np.arange(3, dtype="i2"), attrs={"conversion": 0.5, "unit": "V"})
        series.create_array("starting_time", data=np.float64(10), attrs={"rate": 4.0})
        picture = compose(root, series["data"], (slice(None),))
        other = root.create_group("other", {"neurodata_type": "TimeSeries"})
        other.create_array("data", data=np.arange(2))
        other.create_link("timestamps", "/x", source="../../elsewhere.zarr")
    assert (picture.axes[0].label, picture.axes[0].at.tolist()) == ("timestamps (seconds)", [10.0, 10.25, 10.5])
    assert (picture.cells.tolist(), picture.title, picture.label) == ([0.0, 0.5, 1.0], "steady", "steady (V)")
    result = CliRunner().invoke(main, ["get", str(tmp_path / "a.zarr"), "steady/data", "--decoded", "-s", "dim_0=1..2"])
    assert result.stdout.split() == ["timestamps", "data", "10.25", "0.5"], result.stderr
    result = CliRunner().invoke(
        main, ["get", str(tmp_path / "a.zarr"), "other/data"]
    )  # of which nobody knows the seconds
    assert result.stdout.split() == ["dim_0", "data", "0", "0", "1", "1"], result.stderr
