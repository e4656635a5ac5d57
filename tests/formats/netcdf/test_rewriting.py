"""A netCDF file that is written anew keeps all that it holds, or the change is refused; what is not shown is told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

import hyperslab as hs
from cdl.compiling import NEEDS_NCGEN, compiled, ncdump
from hyperslab.errors import Unsupported
from programs import COMMAND, ran

ROWS = """netcdf rows {
types:
  int(*) ragged_t ;
  compound parts_t { int id ; ragged_t parts ; } ;
  compound label_t { int id ; string text ; } ;
dimensions:
\tn = 2 ;
variables:
\tparts_t v(n) ;
\tint plain(n) ;
\t\tlabel_t plain:label = {1, "x"} ;
\tint other(n) ;
data:
 v = {1, {1, 2}}, {2, {3}} ;
 plain = 1, 2 ;
 other = 3, 4 ;
}
"""
CHANGES: dict[str, Callable[[hs.Group], None]] = {
    "del": lambda root: root.__delitem__("other"),
    "move": lambda root: root.move("other", "elsewhere"),
    "rename into a group": lambda root: root.move("other", "g/other"),
}


REWRITING = ("del", "rename into a group")


def change(path: Path, how: str) -> None:
    with hs.open_group(path, "r+") as root:
        CHANGES[how](root)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "rows.cdl").write_text(ROWS, "utf-8")
    return compiled(tmp_path / "rows.cdl", tmp_path / "rows.nc")


@pytest.fixture
def referring(tmp_path: Path) -> Path:
    path = tmp_path / "referring.h5"
    with h5py.File(path, "w", track_order=True) as file:
        file.create_group("deep", track_order=True)
        raw = file.create_dataset("deep/raw", data=np.arange(3.0))
        raw.attrs["table"] = file["deep"].ref
        file["other"] = np.arange(4)
        file["plain"] = np.arange(4)
    return path


@NEEDS_NCGEN
@pytest.mark.parametrize("how", REWRITING)
def test_rows_that_are_not_shown_are_not_lost(rows: Path, how: str) -> None:
    before = rows.read_bytes()
    with pytest.raises(Unsupported, match=r"parts_t: compound \{int32 id; int32\(\*\) parts\}"):
        change(rows, how)
    assert rows.read_bytes() == before


@pytest.mark.parametrize("how", REWRITING)
def test_references_are_not_lost(referring: Path, how: str) -> None:
    before = referring.read_bytes()
    with pytest.raises(Unsupported, match="'table' of HDF5 references"):
        change(referring, how)
    assert referring.read_bytes() == before


@NEEDS_NCGEN
def test_a_variable_that_gets_another_name_leaves_the_rest_as_it_is(rows: Path, referring: Path) -> None:
    change(rows, "move")
    assert {" v = {1, {1, 2}}, {2, {3}} ;", '\t\tlabel_t plain:label = {1, "x"} ;', " elsewhere = 3, 4 ;"} <= set(
        ncdump(rows)
    )
    change(referring, "move")
    with h5py.File(referring) as file:
        assert file[file["deep/raw"].attrs["table"]].name == "/deep"
        assert file["elsewhere"][:].tolist() == [0, 1, 2, 3] and "other" not in file


@pytest.mark.parametrize("model", ["NETCDF4", "NETCDF3_64BIT_OFFSET"])
def test_a_variable_that_gets_another_name_is_not_copied(tmp_path: Path, model: str) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=model) as file:
        file.createDimension("time", None)
        file.createDimension("n", 3000)
        for name in "abc":
            file.createVariable(name, "i4", ("time", "n"))[:4] = np.arange(12000).reshape(4, 3000)
        file["a"].units = "m"
    old = path.read_bytes()
    with hs.open_group(path, "r+") as root:
        root.move("a", "b_that_was_a")
        assert list(root) == ["b_that_was_a", "b", "c"], "it keeps its place"
        root["b_that_was_a"][3, 0] = -1
    with hs.open_group(path) as root:
        assert list(root) == ["b_that_was_a", "b", "c"]
        assert (root["b_that_was_a"].attrs["units"], root["b_that_was_a"][3, :2].tolist()) == ("m", [-1, 9001])
        assert np.array_equal(root["b"][...], np.arange(12000).reshape(4, 3000))
    if model == "NETCDF4":  # netCDF-3 moves what is behind a header that becomes longer
        places = [old.find(np.arange(3000 * row, 3000 * row + 3000, dtype="i4").tobytes()) for row in range(3)]
        new = path.read_bytes()
        assert all(new[at : at + 12000] == old[at : at + 12000] for at in places)
        assert len(new) < len(old) + 5000, "nothing is there twice"


def test_dimensions_of_netcdf_3_get_other_names_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("lat", 3)
        file.createVariable("t", "f4", ("lat",))[:] = [1, 2, 3]
        file.createVariable("lat", "f8", ("lat",))[:] = [10, 20, 30]
        file.createVariable("last", "f8", ("lat",))[:] = [4, 5, 6]
    hs.edit(path, rename_dimensions={"lat": "y"}, rename_variables={"lat": "y", "t": "air"})
    with netCDF4.Dataset(path) as file:
        assert list(file.variables) == ["air", "y", "last"] and list(file.dimensions) == ["y"]
        assert (file["y"][:].tolist(), file["air"][:].tolist(), file["air"].dimensions) == (
            [10, 20, 30],
            [1, 2, 3],
            ("y",),
        )


def test_a_file_that_the_library_cannot_change_is_called_so(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["other"] = file["plain"] = np.arange(4)
    with pytest.raises(Unsupported, match="cannot change this HDF5 file"):
        change(tmp_path / "plain.h5", "del")
    with h5py.File(tmp_path / "plain.h5") as file:
        assert list(file) == ["other", "plain"]


def test_what_holds_them_can_be_removed(referring: Path) -> None:
    with hs.open_group(referring, "r+") as root:
        del root["deep"]
        del root["other"]
    with hs.open_group(referring) as root:
        assert list(root) == ["plain"]


@NEEDS_NCGEN
def test_a_copy_of_what_is_not_wholly_shown_is_refused(rows: Path) -> None:
    with hs.open_group(rows, "r+") as root:
        with pytest.raises(Unsupported, match=r"label_t: compound \{int32 id; string text\}"):
            root.copy("plain", "again")
        root.copy("other", "again")
    assert " again = 3, 4 ;" in ncdump(rows)
    assert " v = {1, {1, 2}}, {2, {3}} ;" in ncdump(rows)


@NEEDS_NCGEN
def test_other_changes_keep_what_is_not_shown(rows: Path) -> None:
    with hs.open_group(rows, "r+") as root:
        root["other"][0] = 7
        root["other"].attrs["units"] = "m"
        root.create_array("new", data=np.arange(2), dims=["n"])
    assert {" v = {1, {1, 2}}, {2, {3}} ;", '\t\tlabel_t plain:label = {1, "x"} ;'} <= set(ncdump(rows))


@pytest.mark.parametrize("how", CHANGES)
def test_all_that_is_shown_is_kept(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.title = "t"
        file.createDimension("unused", 5)
        file.createDimension("time", None)
        file.createDimension("n", 3)
        enum = file.createEnumType("u1", "state_t", {"off": 0, "on": 1})
        file.createVariable("other", "f4", ("n",))[:] = [1.0, 2.0, 3.0]
        kept = file.createVariable(
            "kept", np.dtype(">i2"), ("time", "n"), zlib=True, chunksizes=(2, 3), fill_value=-1, endian="big"
        )
        kept[:] = np.arange(6).reshape(2, 3)
        kept.units = "m"
        file.createVariable("state", enum, ("n",))[:] = [0, 1, 1]
        file.createGroup("g").createVariable("deep", str, ("n",))[:] = np.array(["a", "b", ""], object)
    change(path, how)
    with netCDF4.Dataset(path) as file:
        assert (file.title, len(file.dimensions["unused"]), file.dimensions["time"].isunlimited()) == ("t", 5, True)
        kept = file["kept"]
        assert (kept[:].tolist(), kept.units, kept.chunking(), kept._FillValue) == (
            [[0, 1, 2], [3, 4, 5]],
            "m",
            [2, 3],
            -1,
        )
        assert kept.endian() == "big"
        assert kept.filters()["zlib"]
        assert file["state"][:].tolist() == [0, 1, 1]
        assert file["g/deep"][:].tolist() == ["a", "b", ""]
        where = {"del": None, "move": "elsewhere", "rename into a group": "g/other"}[how]
        assert "other" not in file.variables
        assert where is None or file[where][:].tolist() == [1.0, 2.0, 3.0]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return ran(COMMAND, *arguments)


@NEEDS_NCGEN
@pytest.mark.parametrize("command", ["info", "tree", "dump", "check"])
def test_commands_tell_what_is_not_shown(rows: Path, command: str) -> None:
    done = run(command, str(rows))
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    assert "not-shown" in told if command == "check" else "not shown" in told
    assert "parts_t: compound {int32 id; int32(*) parts}" in told
    assert command == "tree" or "'label'" in told


@NEEDS_NCGEN
def test_json_tells_it_too(rows: Path) -> None:
    facts = json.loads(run("info", str(rows), "--json").stdout)
    assert [node["path"] for node in facts["not_shown"][:1]] == ["v"]
    nodes = json.loads(run("tree", str(rows), "--json").stdout)["nodes"]
    assert any(node["kind"] == "not shown" and node["path"] == "v" for node in nodes)
    report = json.loads(run("check", str(rows), "--json").stdout)
    assert report["sound"]
    assert {note["kind"] for note in report["notes"]} == {"not-shown"}
