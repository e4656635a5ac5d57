"""Every array that three versions of netcdf-c wrote: its cells, those that it did not write, its dimensions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_stores import VERSIONS, is_plain, truth, unpack

import hyperslab as hs
from hyperslab.errors import ReadOnly, Unsupported
from hyperslab.model.spec import GroupSpec

NUMBERS = {
    "byte": "i1",
    "ubyte": "u1",
    "short": "<i2",
    "ushort": "<u2",
    "int": "<i4",
    "uint": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
    "float": "<f4",
    "double": "<f8",
    "char": "S1",
}
STORES = [(version, store) for version in VERSIONS for store in truth(version)]
NOT_DECODED = {"szip"}
LEFT_OUT = {("4.9.0", "attrs", "/v")}
"""What the library failed to write."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {version: unpack(version, tmp_path_factory.mktemp("golden")) for version in VERSIONS}


def selection(said: Any) -> Any:
    """``slice(0, 2, None)`` or a tuple of such, of a text."""
    return eval(said, {"slice": slice, "Ellipsis": Ellipsis}) if isinstance(said, str) else ...


@pytest.mark.filterwarnings("ignore:.*little")
@pytest.mark.parametrize(("version", "store"), STORES)
def test_cells(folders: dict[str, Path], version: str, store: str) -> None:
    """Values where something was written, the fill value elsewhere."""
    root = hs.open_group(folders[version] / store, format="nczarr")
    for path, said in truth(version)[store]["vars"].items():
        if (version, store, path) in LEFT_OUT:
            assert path[1:] not in root
            continue
        array = root[path[1:]]
        assert isinstance(array, hs.Array)
        if path[1:] in NOT_DECODED:
            with pytest.raises(Unsupported, match="szip"):
                array[...]
            continue
        where = selection(said.get("sel"))
        if "strings" in said:
            assert np.asarray(array[where]).ravel().tolist() == said["strings"], path
            continue
        found = np.asarray(array[...])
        if "hex_le" not in said:  # never written
            assert np.array_equal(found, np.full(array.shape, array.spec.fill_cell(), found.dtype)), path
            continue
        expected = np.frombuffer(bytes.fromhex(said["hex_le"]), NUMBERS[said["type"]]).reshape(said["shape"])
        if is_plain(version, store) and said["type"] == "char":
            found = found.astype("S1")
        if store == "quantize":  # rounded when it was written
            np.testing.assert_allclose(found, expected, rtol=0.02)
            continue
        assert found[where].tobytes() == expected.astype(found.dtype).tobytes(), path
        rest = np.ones(found.shape, bool)
        rest[where] = False
        assert np.array_equal(found[rest], np.full(rest.sum(), array.spec.fill_cell(), found.dtype)), path


@pytest.mark.filterwarnings("ignore:.*little")
@pytest.mark.parametrize(("version", "store"), [pair for pair in STORES if not is_plain(*pair)])
def test_dimensions(folders: dict[str, Path], version: str, store: str) -> None:
    """Declared where they were, unlimited ones as such, and each array on those that it was given."""
    root = hs.open_group(folders[version] / store)
    assert root.format == "nczarr"
    reader, told = root._session.reader, truth(version)[store]
    for fqn, said in told["dims"].items():
        group, _, name = fqn[1:].rpartition("/")
        spec = reader.node(group)
        assert isinstance(spec, GroupSpec)
        dim = {each.name: each for each in spec.dims}[name]
        size = told.get("final_sizes", {}).get(fqn, said["size"])
        assert (dim.size, dim.unlimited) == (size or 0, bool(said["unlimited"])), fqn
    for path, said in told["vars"].items():
        if (version, store, path) not in LEFT_OUT:
            spec = reader.node(path[1:])
            assert list(spec.layout["dimensions"]) == said["dims"], path
            assert spec.dims == tuple(fqn.rpartition("/")[2] for fqn in said["dims"])


@pytest.mark.parametrize("store", ["groups", "char"])
def test_older_stores_are_only_read(folders: dict[str, Path], store: str) -> None:
    """ReadOnly says so, and what would work."""
    with pytest.raises(ReadOnly, match="convert"):
        hs.open(folders["4.9.0"] / store, "r+")


def test_plain_stores_are_only_read(folders: dict[str, Path]) -> None:
    """They belong to zarr2, and are NCZarr only where that is asked for."""
    assert hs.open(folders["4.10.1"] / "pure").format == "zarr2"
    with pytest.raises(ReadOnly, match="adopt"):
        hs.open(folders["4.10.1"] / "pure", "r+", format="nczarr")


@pytest.mark.parametrize("store", ["unlimited", "groups", "types"])
def test_what_netcdf_c_wrote_grows(folders: dict[str, Path], tmp_path: Path, store: str) -> None:
    """Stores of the present generation are changed in place: nothing that was there is lost."""
    place = shutil.copytree(folders["4.10.1"] / store, tmp_path / store)
    before = hs.open(place).tree()
    root = hs.open(place, "r+")
    root.attrs["more"] = "yes"
    root.create_group("new").create_array("v", data=np.arange(3.0), dims=("k",))
    again = hs.open(place)
    assert again.attrs["more"] == "yes"
    assert before.splitlines()[1] in again.tree().splitlines()
    assert again["new/v"][:].tolist() == [0, 1, 2]
    if store == "unlimited":
        root["b"].append(np.array([5, 6, 7, 8, 9], "i4")[:2])
        assert root.dims["t"].size == hs.open(place)["a"].shape[0]
