"""Every command on a small dataset: what it prints, as text and as JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from command_line import run

DAYS = 6


@pytest.fixture
def air(tmp_path: Path) -> Path:
    """Temperature over time and latitude, with words, packed cells and a group."""
    path = tmp_path / "air.zarr"
    with hs.create(path) as root:
        root.attrs["title"] = "a day's air"
        root.create_array("lat", data=np.array([50.0, 45.0, 40.0]), dims=("lat",), attrs={"units": "degrees_north"})
        time = {"units": "days since 2013-01-01", "calendar": "standard"}
        root.create_array("time", data=np.arange(DAYS, dtype="i4"), dims=("time",), attrs=time)
        cells = np.arange(3.0 * DAYS, dtype="f4").reshape(DAYS, 3)
        cells[5, 2] = np.nan
        root.create_array("t2m", data=cells, dims=("time", "lat"), chunks=(2, 3), units="K")
        packed = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(-1)}
        root.create_array("g/packed", data=np.array([2, -1, 4], "i2"), dims=("lat",), attrs=packed)
        root.create_array("g/name", data=np.array(["a", 'b"', ""], np.dtypes.StringDType()), dims=("lat",))
    return path


def document(*arguments: str | Path) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_info(air: Path) -> None:
    facts = document("info", air)
    assert facts["schema"] == "hyperslab.info/1"
    assert facts["format"] == "zarr3"
    assert facts["dimensions"]["time"] == {"size": DAYS, "unlimited": False}
    arrays = {array["path"]: array for array in facts["arrays"]}
    assert set(arrays) == {"lat", "time", "t2m", "g/packed", "g/name"}
    assert (arrays["t2m"]["shape"], arrays["t2m"]["chunks"], arrays["t2m"]["units"]) == ([DAYS, 3], [2, 3], "K")
    stored = [path for path in (air / "t2m").rglob("*") if path.is_file() and path.name != "zarr.json"]
    assert arrays["t2m"]["nbytes_stored"] == sum(path.stat().st_size for path in stored if path.name != ".lock")
    text = run("info", air).stdout
    assert "/t2m" in text and "float32" in text and "time: 6" in text and "a day's air" in text


@pytest.mark.parametrize("suffix", [".nwb.zarr", ".h5"])
def test_info_shows_the_seconds_of_series(tmp_path: Path, suffix: str) -> None:
    """By their rate, their timestamps, or those of another series; nothing where there are none."""
    path = tmp_path / f"lab{suffix}"
    made: Any = h5py.File(path, "w") if suffix == ".h5" else hs.create(path)
    with made as root:
        for name in ("rated", "stamped", "linked", "bare"):
            series = root.create_group(f"acquisition/{name}")
            series.attrs["neurodata_type"] = "TimeSeries"
            series["data"] = np.arange(6000, dtype="i2").reshape(3000, 2)
        root["acquisition/rated/starting_time"] = 2.5
        root["acquisition/rated/starting_time"].attrs["rate"] = 30_000.0
        root["acquisition/stamped/timestamps"] = np.arange(3000) ** 2 / 8
        if suffix == ".h5":
            root["acquisition/linked/timestamps"] = h5py.SoftLink("/acquisition/stamped/timestamps")
        else:
            root["acquisition/linked"].create_link("timestamps", "/acquisition/stamped/timestamps")
    arrays = {array["path"]: array.get("seconds") for array in document("info", path)["arrays"]}
    stamps = {"first": 0.0, "last": 2999**2 / 8, "rate": None, "from": "/acquisition/stamped/timestamps"}
    rate = {"first": 2.5, "last": 2.5 + 2999 / 30_000, "rate": 30_000.0, "from": "/acquisition/rated/starting_time"}
    place = "linked" if suffix == ".h5" else "stamped"  # a link of HDF5 is followed by its library
    linked = stamps | {"from": f"/acquisition/{place}/timestamps"}
    wanted = {"rated": rate, "stamped": stamps, "linked": linked, "bare": None}
    assert {name: arrays[f"acquisition/{name}/data"] for name in wanted} == wanted
    assert [path for path, seconds in arrays.items() if seconds] == [
        path for path in arrays if path.endswith("/data") and "bare" not in path
    ]
    lines = run("info", path).stdout.splitlines()
    assert "seconds of /acquisition/rated/data: 2.5 to 2.59996666667, 30000 samples a second" in lines
    assert f"seconds of /acquisition/linked/data: 0 to 1124250.125, by {linked['from']}" in lines


def test_tree(air: Path) -> None:
    nodes = document("tree", air)["nodes"]
    assert {node["path"]: node["kind"] for node in nodes}["g/packed"] == "array"
    lines = run("tree", air).stdout.splitlines()
    assert lines[0] == "/" and "├── t2m (time: 6, lat: 3) float32" in lines
    assert run("tree", air / "t2m").stdout == "t2m (time: 6, lat: 3) float32\n"


def test_dump(air: Path) -> None:
    text = run("dump", air).stdout
    lines = text.splitlines()
    assert lines[0] == "netcdf air {" and lines[-1] == "}"
    for line in (
        "\ttime = 6 ;",
        "\tfloat t2m(time, lat) ;",
        '\t\tt2m:units = "K" ;',
        '\t\ttime:units = "days since 2013-01-01" ;',
        '\t\t:title = "a day\'s air" ;',
        " lat = 50, 45, 40 ;",
        " time = 0, 1, 2, 3, 4, 5 ;",
        "  0, 1, 2,",
        "  15, 16, NaN ;",
        "group: g {",
        "  \tshort packed(lat) ;",
        "  \t\tpacked:_FillValue = -1s ;",
        "   packed = 2, _, 4 ;",
        '   name = "a", "b\\"", "" ;',
        "  } // group g",
    ):
        assert line in lines, line
    header = run("dump", air, "-h").stdout
    assert "data:" not in header and "float t2m" in header
    only = run("dump", air, "--array", "lat").stdout
    assert " lat = 50, 45, 40 ;" in only and "15, 16" not in only
    assert document("dump", air, "-h")["cdl"] == header.rstrip("\n")


def test_get_prints_labels_beside_cells(air: Path) -> None:
    result = run("get", air, "t2m", "-s", "lat=45.0", "-s", "time=2013-01-02..2013-01-04")
    assert result.exit_code == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["time", "t2m"]
    assert [row[-1] for row in rows[1:]] == ["4.0", "7.0", "10.0"]
    assert rows[1][0].startswith("2013-01-02")
    assert run("get", air, "t2m", "-s", "lat=0", "-s", "time=-1").stdout == "15.0\n"


@pytest.mark.parametrize(
    ("selection", "values"),
    [
        (["lat=50.0..45.0", "time=0"], [0.0, 1.0]),
        (["lat=0..2", "time=@'2013-01-01'"], [0.0, 1.0]),
        (["lat=@45", "time=0..6..2"], [1.0, 7.0, 13.0]),
        (["lat=2", "time=4..6"], [14.0, None]),
        (["lat=45.0", "time=2013-01-03"], 7.0),
    ],
)
def test_get_selects(air: Path, selection: list[str], values: Any) -> None:
    flags = [word for text in selection for word in ("-s", text)]
    assert document("get", air, "t2m", *flags)["values"] == values


@pytest.mark.parametrize(
    ("chosen", "course"),
    [
        ("lat=40.0..50.0", "lat descends from 50.0 to 40.0"),
        ("time=2013-01-04..2013-01-02", "time ascends from 2013-01-01T00:00:00 to 2013-01-06T00:00:00"),
        ("time=4..2", "its positions go from 0 to 5"),
        ("lat=90.0..80.0", "lat descends from 50.0 to 40.0"),
    ],
)
def test_an_empty_range_is_told_on_stderr(air: Path, chosen: str, course: str) -> None:
    """xarray gives no cells either, and no error."""
    result = run("get", air, "t2m", "-s", chosen)
    assert result.exit_code == 0 and result.stdout.split() == ["time", "lat", "t2m"]
    assert result.stderr == f"{chosen} is an empty range: {course}\n"
    assert run("get", air, "t2m", "-s", chosen, "-q").stderr == ""
    assert document("get", air, "t2m", "-s", chosen)["values"] in ([], [[]] * DAYS)
    with xr.open_zarr(air, consolidated=False) as theirs:
        dim, _, bounds = chosen.partition("=")
        start, stop = (float(bound) if dim == "lat" else bound for bound in bounds.split(".."))
        if len(str(start)) > 1:
            assert theirs.t2m.sel({dim: slice(start, stop)}).size == 0


def test_get_nearest_decoded_and_the_only_array(air: Path) -> None:
    assert document("get", air, "t2m", "-s", "lat=46.1", "-s", "time=1", "--nearest")["values"] == 4.0
    assert document("get", air, "g/packed")["values"] == [2, -1, 4]
    assert document("get", air, "g/packed", "--decoded")["values"] == [11.0, None, 12.0]
    assert document("get", air, "g/name")["values"] == ["a", 'b"', ""]
    several = run("get", air)
    assert several.exit_code == 2 and "g/packed" in several.stderr


def test_get_writes_text_as_npy(air: Path, tmp_path: Path) -> None:
    result = run("get", air, "g/name", "-o", tmp_path / "name.npy")
    assert result.exit_code == 0, result.stderr
    assert np.load(tmp_path / "name.npy", allow_pickle=False).tolist() == ["a", 'b"', ""]


def test_get_writes_files(air: Path, tmp_path: Path) -> None:
    flags = ("get", air, "t2m", "-s", "lat=45.0..40.0", "-s", "time=0..2", "-o")
    wanted = [[1.0, 2.0], [4.0, 5.0]]
    assert run(*flags, tmp_path / "a.npy").exit_code == 0
    assert np.load(tmp_path / "a.npy", allow_pickle=False).tolist() == wanted
    assert run(*flags, tmp_path / "a.csv").exit_code == 0
    assert (tmp_path / "a.csv").read_text().splitlines()[:2] == ["time,lat,t2m", "2013-01-01T00:00:00,45.0,1.0"]
    assert run(*flags, tmp_path / "a.json").exit_code == 0
    assert json.loads((tmp_path / "a.json").read_text())["values"] == wanted
    for name in ("a.nc", "a.zarr"):
        result = run(*flags, tmp_path / name)
        assert result.exit_code == 0, result.stderr
        assert result.stdout == ""
        with hs.open(tmp_path / name) as root:
            assert root["t2m"].dims == ("time", "lat")
            assert root["t2m"][...].tolist() == wanted
            assert root["lat"][...].tolist() == [45.0, 40.0]
            assert root["time"].attrs["units"] == "days since 2013-01-01"
    taken = run(*flags, tmp_path / "a.npy")
    assert taken.exit_code == 4
    odd = run(*flags, tmp_path / "a.xyz")
    assert odd.exit_code == 2 and ".npy" in odd.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (("get", "AIR", "t2"), 3, "did you mean 't2m'?"),
        (("get", "AIR", "t2m", "-s", "latt=1"), 2, "did you mean 'lat'?"),
        (("get", "AIR", "t2m", "-s", "lat=46.0"), 2, "45.0"),
        (("get", "AIR", "t2m", "-s", "lat=9"), 2, ""),
        (("get", "AIR", "g"), 2, "packed"),
        (("get", "AIR", "t2m", "-s", "lat"), 2, "dim=value"),
        (("plan", "AIR", "t2n"), 3, "t2m"),
        (("convert", "AIR", "AIR"), 2, "choose another target"),
        (("convert", "AIR", "x.zarr", "--chunks", "time"), 2, "time=100"),
        (("convert", "AIR", "x.zarr", "--chunks", "none"), 2, "lat=50 (-1: the whole), or --chunks auto"),
        (("convert", "AIR", "x.zarr", "--shards", "foo"), 2, "(-1: the whole), or --shards auto or many or none"),
        (("convert", "AIR", "x.zarr", "--shards", "time=0"), 2, "--shards 'time=0'; write --shards time=100"),
        (("convert", "AIR", "x.zarr", "--shards", "time=-2"), 2, "--shards 'time=-2'; write --shards time=100"),
        (("convert", "AIR", "x.zarr", "--memory", "lots"), 2, "--memory 1GB"),
        (("convert", "AIR", "x.nc", "--scheduler", "tcp://127.0.0.1:1"), 8, "several processes"),
        (("convert", "AIR", "x.zarr", "--codec", "nonsense"), None, "nonsense"),
        (("convert", "AIR", "x.zarr", "--format", "nonsense"), 8, "zarr3"),
        (("info", "nowhere.zarr"), 3, ""),
    ],
)
def test_errors_are_one_line_with_a_hint(
    air: Path, arguments: tuple[str, ...], code: int | None, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(air.parent)
    result = run(*(str(air) if argument == "AIR" else argument for argument in arguments))
    assert result.exit_code == code if code is not None else result.exit_code in (2, 8)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert hint in result.stderr
    assert [path.name for path in air.parent.iterdir()] == ["air.zarr"]


def test_convert(air: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.zarr"
    flags = ("--chunks", "time=3,lat=-1", "--shards", "time=6", "--codec", "gzip:1", "-s", "lat=50.0..45.0", "--verify")
    made = document("convert", air, target, *flags)
    assert made["schema"] == "hyperslab.convert/1"
    assert made["verified"]["cells"] == 12 + 2 + 6 + 2 + 2
    with hs.open(target) as root:
        assert (root["t2m"].shape, root["t2m"].chunks, root["t2m"].shards) == ((6, 2), (3, 2), (6, 2))
        assert dict(root.attrs) == {"title": "a day's air"}
    document("convert", target, tmp_path / "plain.zarr", "--shards", "none")
    plain = hs.open(tmp_path / "plain.zarr")["t2m"]
    assert (plain.chunks, plain.shards) == ((3, 2), None)
    assert "small chunks in shards" in " ".join(run("convert", "--help").stdout.split())
    told = run("convert", air, tmp_path / "two.zarr", "--format", "zarr2")
    assert told.exit_code == 0 and told.stdout == "" and "5 arrays" in told.stderr
    silent = run("convert", air, tmp_path / "three.zarr", "-q")
    assert (silent.exit_code, silent.stdout, silent.stderr) == (0, "", "")


def test_plan(air: Path) -> None:
    price = document("plan", air, "t2m", "-s", "time=2013-01-01..2013-01-03", "-s", "lat=45.0")
    assert (price["chunks"], price["shape"], price["nbytes"]) == (2, [3], 12)
    assert "2 chunks" in run("plan", air, "t2m", "-s", "time=0..3").stdout


def test_formats() -> None:
    formats = {entry["name"]: entry for entry in document("formats")["formats"]}
    assert {"zarr2", "zarr3", "netcdf"} <= set(formats)
    assert formats["zarr3"]["writable"] and "shards" in formats["zarr3"]["features"]
    current, draft = formats["nczarr"]["variants"]
    assert (current["name"], draft["options"]) == ("current", {"dialect": "draft"})
    assert not current["features"]["structured types"] and draft["features"]["structured types"]
    assert "draft" in current["notes"]["structured types"]
    assert "netcdf" in run("formats").stdout and "dialect=draft" in run("formats").stdout


def test_doctor() -> None:
    told = document("doctor")
    libraries = {entry["name"]: entry for entry in told["libraries"]}
    assert libraries["numpy"]["version"] == np.__version__ and libraries["numpy"]["state"] == "ok"
    assert told["formats"]["zarr3"] == "read, write"
    assert told["system"]["hyperslab"] == hs.__version__
    assert told["system"]["blosc, lz4, zstd"].startswith("decoded by libblosc2 ")
    assert "numpy" in run("doctor").stdout


def test_doctor_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sesame")
    assert "sesame" not in run("doctor").stdout + run("doctor", "--json").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes(shell: str, air: Path) -> None:
    def said(instruction: str, words: str = "", word: str = "", count: int = 0) -> str:
        environment = {**os.environ, "_HYPERSLAB_COMPLETE": instruction, "COMP_WORDS": words, "COMP_CWORD": str(count)}
        environment["COMP_WORDS"] = words.replace(" ", "\n") if shell == "bash" else words  # as its script joins them
        environment["COMP_CWORD"] = word if shell == "fish" else str(count)
        program = [sys.executable, "-c", "from hyperslab.cli import main; main(prog_name='hyperslab')"]
        ended = subprocess.run(program, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert not ended.returncode and not ended.stderr, ended.stderr
        return ended.stdout

    assert "_HYPERSLAB_COMPLETE" in said(f"{shell}_source")
    assert "convert" in said(f"{shell}_complete", "hyperslab con", "con", 1)
    if shell == "fish":  # click's script for it takes what is behind a comma for another text
        assert said("fish_complete", "hyperslab con", "con", 1).count(",") == 1
        assert said("fish_complete", "hyperslab info --fo", "--fo", 2).count(",") == 1
    assert "--storage-option" in said(f"{shell}_complete", "hyperslab info --st", "--st", 2)
    assert "t2m" in said(f"{shell}_complete", f"hyperslab get {air} t", "t", 3)
    assert "t2m" in said(f"{shell}_complete", f"hyperslab info {air} -v t", "t", 4)
    assert "time=" in said(f"{shell}_complete", f"hyperslab get {air} t2m -s ti", "ti", 5)
    assert "netcdf" in said(f"{shell}_complete", "hyperslab convert a b --format ne", "ne", 5)
    assert "file" in said(f"{shell}_complete", "hyperslab convert a", "a", 2)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_takes_a_name_with_spaces_as_one_word(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("wind speed", data=np.arange(2))
    (tmp_path / "hyperslab").write_text(f'#!/bin/sh\nexec {sys.executable} -m hyperslab "$@"\n')
    (tmp_path / "hyperslab").chmod(0o755)
    script = """
eval "$(_HYPERSLAB_COMPLETE=bash_source hyperslab)"
compopt() { :; }
COMP_WORDS=(hyperslab get a.zarr "$1") COMP_CWORD=3
_hyperslab_completion hyperslab
printf '[%s]' "${COMPREPLY[@]}"
"""
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for typed, completed in (("w", r"[wind\ speed]"), ("wind\\ s", r"[wind\ speed]"), ('"wi', "[wind speed]")):
        command = ["bash", "-c", script, "bash", typed]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert (ended.stdout, ended.stderr) == (completed, "")


def test_a_reader_that_goes_away_is_no_error(air: Path) -> None:
    command = f"{sys.executable} -m hyperslab dump {air} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "netcdf air {\n"
    assert done.stderr == ""
    assert done.returncode in (0, 141)


def test_an_array_by_itself_is_described_in_full(air: Path) -> None:
    facts = document("info", air / "t2m")
    assert (facts["url"], facts["format"]) == (str(air / "t2m"), "zarr3")
    assert run("info", air / "t2m").stdout.startswith(f"{air / 't2m'}: zarr3, ")
    header = run("dump", air / "t2m", "-h").stdout.splitlines()
    assert header[:5] == ["netcdf t2m {", "dimensions:", "\ttime = 6 ;", "\tlat = 3 ;", "variables:"]


@pytest.mark.parametrize("chosen", ["time=2013", "time=2013..2015", "time=6", "time=-7"])
def test_a_year_typed_as_a_position_is_told_how_to_be_a_label(air: Path, chosen: str) -> None:
    result = run("get", air, "t2m", "-s", chosen)
    assert result.exit_code == 2
    assert "time has 6 positions" in result.stderr and "write @" in result.stderr


@pytest.mark.parametrize("chosen", ["@2013", "@2013..@2014"])
def test_a_forced_year_is_a_label_of_times(air: Path, chosen: str) -> None:
    assert document("get", air, "t2m", "-s", f"time={chosen}", "-s", "lat=0")["shape"] == [DAYS]


@pytest.mark.parametrize("chosen", ["time=0..100", "time=-100..2", "time=5..0..-1", "time=..2"])
def test_ranges_of_positions_are_clipped_as_slices_are(air: Path, chosen: str) -> None:
    assert run("get", air, "t2m", "-s", chosen).exit_code == 0


@pytest.mark.parametrize("chosen", ["2013-01-03", "2013-01-02..2013-01-03", "2013-01-03..", "2013-01-03T00:00"])
@pytest.mark.parametrize("near", [[], ["--nearest"]])
def test_times_that_are_not_sorted_say_so(tmp_path: Path, chosen: str, near: list[str]) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", data=np.arange(3.0), dims=("time",))
        root.create_array("time", data=np.array([132, 12, 36]), dims=("time",), units="hours since 2013-01-01")
    wrong = run("get", tmp_path / "a.zarr", "t", "-s", f"time={chosen}", *near)
    assert wrong.exit_code == 2 and "time is not sorted" in wrong.stderr and "closest cell" not in wrong.stderr
    right = run("get", tmp_path / "a.zarr", "t", "-s", "time=2013-01-02", *near)
    assert right.stdout.split() == ["time", "t", "2013-01-02T12:00:00", "2.0"]


def test_nearest_says_what_it_took_and_errors_name_the_option(air: Path) -> None:
    wrong = run("get", air, "t2m", "-s", "lat=44.0", "-s", "time=0")
    assert wrong.exit_code == 2 and "--nearest takes the closest cell" in wrong.stderr
    right = run("get", air, "t2m", "-s", "lat=44.0", "-s", "time=0", "--nearest")
    assert right.stdout == "1.0\n"
    assert "the nearest label to lat=44.0 is 45.0" in right.stderr


def test_get_never_speaks_of_an_option_that_it_lacks(air: Path, tmp_path: Path) -> None:
    (tmp_path / "out.npy").write_bytes(b"mine")
    result = run("get", air, "t2m", "-o", tmp_path / "out.npy")
    assert result.exit_code == 4 and "--overwrite" not in result.stderr
    assert (tmp_path / "out.npy").read_bytes() == b"mine"


def test_one_is_no_plural(air: Path) -> None:
    assert "1 chunk in 1 request:" in run("plan", air, "t2m", "-s", "time=0").stdout


def test_a_folder_with_links_in_a_circle_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "X11").symlink_to(".")
    result = run("info", tmp_path)
    assert result.exit_code == 5 and "no dataset" in result.stderr


def test_a_name_that_promises_another_format_is_not_made_a_folder(air: Path, tmp_path: Path) -> None:
    for name in ("air.h5", "air.csv", "air.GRIB", "air.foo", "air.v2"):
        result = run("convert", air, tmp_path / name)
        assert result.exit_code == 8 and "--format" in result.stderr
        assert not (tmp_path / name).exists()
    assert run("convert", air, tmp_path / "air.h5", "--format", "netcdf").exit_code == 0
    assert run("info", tmp_path / "air.h5").stdout.split(": ")[1].startswith("netcdf")


def test_a_name_without_an_ending_is_made_a_folder_of_zarr(
    air: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("two", "of.2024", ".hidden", "new.ZARR"):
        told = run("convert", air.name, name)
        assert told.stderr.startswith(f"air.zarr -> {name} (zarr3): 5 arrays")


def test_an_array_by_itself_is_no_netcdf_file(air: Path, tmp_path: Path) -> None:
    result = run("convert", air / "t2m", tmp_path / "t2m.nc")
    assert result.exit_code == 8 and "(--path t2m), or write the array with get -o" in result.stderr
    assert not list(tmp_path.glob("*t2m.nc*"))


@pytest.mark.parametrize("chosen", ["time=1900..1910", "time=2013", "time=6"])
def test_convert_refuses_positions_that_no_cell_has(air: Path, tmp_path: Path, chosen: str) -> None:
    result = run("convert", air, tmp_path / "out.zarr", "-s", chosen)
    assert result.exit_code == 2
    assert "time has 6 positions" in result.stderr and "write @" in result.stderr
    assert not (tmp_path / "out.zarr").exists()
    assert run("convert", air, tmp_path / "out.zarr", "-s", "time=4..100").exit_code == 0
    with hs.open(tmp_path / "out.zarr") as root:
        assert root["t2m"].shape == (2, 3)


def test_convert_takes_a_forced_year_as_a_label_of_times(air: Path, tmp_path: Path) -> None:
    assert run("convert", air, tmp_path / "out.zarr", "-s", "time=@2013..@2014").exit_code == 0
    with hs.open(tmp_path / "out.zarr") as root:
        assert root["t2m"].shape == (DAYS, 3)
    wrong = run("convert", air, tmp_path / "none.zarr", "-s", "time=@1900")
    assert wrong.exit_code == 2 and not (tmp_path / "none.zarr").exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "blosc:lz4:5 + crc32c"),
        ({"codec": "shuffle+gzip:4"}, "shuffle + gzip:4 + crc32c"),
        ({"codec": "zstd:7", "shards": (4,), "chunks": (2,)}, "zstd:7 + crc32c"),
        ({"codec": "none"}, "crc32c"),
    ],
)
def test_info_tells_codecs_in_a_word(tmp_path: Path, options: dict[str, Any], word: str) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("a", data=np.arange(8.0), **options)
    row = run("info", tmp_path / "a.zarr").stdout.splitlines()[-1]
    assert f"  {word}  " in row
    assert "bytes" in document("info", tmp_path / "a.zarr")["arrays"][0]["codec"]


def test_info_tells_a_codec_of_which_a_parameter_is_left_out_as_the_option_takes_it(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        root.create_array("a", data=np.arange(8.0), codec="blosc:lz4:9")
    path = tmp_path / "a.zarr/a/.zarray"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "compressor": {"id": "blosc", "clevel": 9}}))
    assert "  blosc::9  " in run("info", tmp_path / "a.zarr").stdout
    assert run("convert", tmp_path / "a.zarr", tmp_path / "b.zarr", "--codec", "blosc::9").exit_code == 0
    assert "  blosc:lz4:9 + crc32c  " in run("info", tmp_path / "b.zarr").stdout


def test_info_says_none_where_cells_lie_as_they_are(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        root.create_array("a", data=np.arange(8.0), codec="none")
    assert "  none  " in run("info", tmp_path / "a.zarr").stdout


def test_info_tells_arrays_of_which_only_a_copy_is_left(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nczarr", dialect="draft") as root:
        root.create_array("gone", data=np.arange(3), dims=["x"])
        root.create_array("left", data=np.arange(3), dims=["x"])
    shutil.rmtree(tmp_path / "a.nczarr" / "gone")
    told = run("info", tmp_path / "a.nczarr")
    assert told.exit_code == 0, told.stderr
    assert [line.split()[-1] for line in told.stdout.splitlines() if line.startswith("/gone")] == ["?"]
    assert "/left" in told.stdout


def test_info_tells_what_cannot_be_read(air: Path) -> None:
    assert document("info", air)["unreadable"] == []
    for path in ("g", *(f"more/{name}" for name in "abcdef")):
        with hs.open(air, "r+") as root:
            root.create_array(f"{path}/x", data=np.arange(3.0))
        broken = air / path / "zarr.json"
        broken.write_bytes(broken.read_bytes()[:-9])
    found = document("info", air)["unreadable"]
    assert [node["path"] for node in found] == ["g", *(f"more/{name}" for name in "abcdef")]
    told = run("info", air)
    assert told.exit_code == 0 and "/t2m" in told.stdout
    lines = told.stdout.splitlines()
    first = lines.index(f"cannot be read (hyperslab check {air} tells what is wrong):")
    assert lines[first + 1] == f"  /g: {found[0]['message']}" and "no JSON" in lines[first + 1]
    assert lines[first + 6] == "  and 2 more"


def test_what_repair_cannot_mend_is_restored_from_a_copy(air: Path, tmp_path: Path) -> None:
    broken = air / "t2m/zarr.json"
    broken.write_bytes(broken.read_bytes()[:-9])
    for command in ("repair", "get"):
        assert "put the document back from a copy" in run(command, air, *(["t2m"] if command == "get" else [])).output
    with hs.create(tmp_path / "a.b2nd") as root:
        root.create_array("t", data=np.arange(100.0))
    whole = (tmp_path / "a.b2nd").read_bytes()
    for length in (len(whole) // 2, 120):
        (tmp_path / "a.b2nd").write_bytes(whole[:length])
        assert run("get", tmp_path / "a.b2nd", "t").output.endswith("; restore the file from a copy\n")


def test_get_writes_a_coordinate_alone(air: Path, tmp_path: Path) -> None:
    for suffix in (".nc", ".zarr"):
        assert run("get", air, "lat", "-o", tmp_path / f"lat{suffix}").exit_code == 0
        with hs.open_group(tmp_path / f"lat{suffix}") as root:
            assert list(root) == ["lat"]
            assert root["lat"][:].tolist() == hs.open_group(air)["lat"][:].tolist()
