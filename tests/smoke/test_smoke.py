"""Try an installed hyperslab in a minute: every format that this installation can write, the commands, what older
releases wrote. Needs pytest and hyperslab alone: formats whose libraries are not installed are left out and named."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs

RELEASES = Path(__file__).parents[1] / "golden" / "releases"
SUFFIXES = {
    "zarr2": ".zarr",
    "zarr3": ".zarr",
    "nczarr": ".nczarr",
    "hdmf": ".hdmf.zarr",
    "netcdf": ".nc",
    "collections": "",
    "deker": "",
}
OF_ONE_ARRAY = {"bloscpack": ".blp", "blaze": ".blaze", "b2nd": ".b2nd"}
AIR = (np.arange(24, dtype="f4") / 4).reshape(6, 4)


def write_source(place):
    """A dataset with a labelled array in chunks, and another."""
    with hs.create(place, format="zarr3") as root:
        root.attrs["title"] = "smoke"
        root.create_array("time", data=np.arange(6.0), dims=("time",), attrs={"units": "days since 2013-01-01"})
        root.create_array("air", data=AIR, dims=("time", "x"), chunks=(4, 4), attrs={"units": "K"})
    return place


def run_command(*words, status=0):
    """What a command prints, by the Python that runs this."""
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab", *words], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", SUFFIXES)
def test_a_format_is_written_and_read(name, in_folder):
    target = f"target{SUFFIXES[name]}"
    try:
        hs.convert(write_source("source.zarr"), target, format=name, verify=True)
    except hs.errors.MissingLibrary as error:
        pytest.skip(str(error))
    with hs.open_group(target, mode="r") as root:
        assert np.array_equal(root["air"][...], AIR) and root["air"].attrs["units"] == "K"
    assert not hs.check(target, deep=True)


@pytest.mark.parametrize("name", OF_ONE_ARRAY)
def test_a_format_of_one_array_is_written_and_read(name, in_folder):
    target = f"target{OF_ONE_ARRAY[name]}"
    try:
        hs.convert(write_source("source.zarr"), target, path="air", verify=True)
    except hs.errors.MissingLibrary as error:
        pytest.skip(str(error))
    assert np.array_equal(hs.open_array(target)[...], AIR)


def test_commands(in_folder):
    write_source("source.zarr")
    assert "air" in run_command("info", "source.zarr")
    found = json.loads(run_command("get", "source.zarr", "air", "-s", "time=2013-01-02", "--json"))
    assert found["values"] == AIR[1].tolist()
    run_command("convert", "source.zarr", "target.zarr", "--format", "zarr2", "--chunks", "time=2", "--verify")
    assert run_command("diff", "source.zarr", "target.zarr") == ""
    run_command("info", "nowhere.zarr", status=3)
    assert hs.__version__ in run_command("--version")
    json.loads(run_command("doctor", "--json"))


def test_damage_is_found(in_folder):
    write_source("source.zarr")
    chunk = Path("source.zarr/air/c/0/0")
    raw = bytearray(chunk.read_bytes())
    raw[-1] ^= 255
    chunk.write_bytes(raw)
    with pytest.raises(hs.errors.CorruptChunk):
        hs.open("source.zarr")["air"][...]
    assert hs.check("source.zarr", deep=True)


def test_many_writers_lose_nothing(in_folder):
    with hs.create("many.zarr", format="zarr3") as root:
        root.create_array("cells", shape=(8, 100), dtype="i4", chunks=(8, 100))
    code = "import sys, hyperslab as hs; n = int(sys.argv[1]); hs.open('many.zarr', 'a')['cells'][n] = n + 1"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(row)]) for row in range(8)]
    assert [writer.wait() for writer in writers] == [0] * 8
    assert np.array_equal(hs.open("many.zarr")["cells"][...], np.repeat(np.arange(1, 9), 100).reshape(8, 100))


@pytest.mark.parametrize("archive", sorted(RELEASES.glob("*/*zarr*.tar.gz")), ids=lambda path: path.name)
def test_what_older_releases_wrote_is_read(archive, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (place,) = tmp_path.iterdir()
    truth = json.loads((archive.parent / archive.name.replace("tar.gz", "json")).read_text(encoding="utf-8"))
    cells = [[None if value != value else value for value in row] for row in hs.open(str(place))["air"][...].tolist()]
    assert cells == truth["/air"]["cells"]


def test_the_package_that_is_tried_is_the_one_that_is_imported():
    place = os.environ.get("HYPERSLAB_SMOKE_PLACE", Path(__file__).parents[2])
    assert Path(hs.__file__).is_relative_to(place)
