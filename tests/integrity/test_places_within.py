"""The place of a node within a dataset: check and repair look at that node, in the dataset around it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.database import ArraySchema, Client, DimensionSchema
from hyperslab.errors import FormatError, NodeNotFound, NotFound
from trees import TREES, make_tree

FILES = ("x.nc", "x.zip", "x.zarr", "x.nczarr")


def make(place: Path) -> None:
    with hs.create(place) as root:
        root.create_array("t", data=np.arange(4), dims=["time"])
        root.create_array("g/u", data=np.arange(6.0).reshape(2, 3), dims=["y", "x"])


@pytest.mark.parametrize("name", FILES)
def test_a_node_is_found_in_the_dataset_around_it(tmp_path: Path, name: str) -> None:
    make(tmp_path / name)
    for node in ("t", "g", "g/u"):
        report = hs.check(tmp_path / name / node, deep=True)
        assert (list(report), report.node) == ([], node)
        assert report.url.endswith(name)
        assert pickle.loads(pickle.dumps(report)).node == node
        assert f"/{node} in " in repr(report)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("node", ["tt", "g/v"])
def test_a_node_that_is_not_there_is_named(tmp_path: Path, name: str, node: str) -> None:
    make(tmp_path / name)
    with pytest.raises(NodeNotFound, match=rf"{name} node=/{node}\]; (did you mean|list the group above)") as raised:
        hs.check(tmp_path / name / node)
    assert (raised.value.node, str(raised.value.url).endswith(name)) == (node, True)
    with pytest.raises(NodeNotFound):
        hs.repair(tmp_path / name / node)


def test_two_datasets_are_compared_and_no_nodes_of_files(tmp_path: Path) -> None:
    make(tmp_path / "x.nc")
    with pytest.raises(NotFound, match=r"diff takes whole datasets \[\S*x.nc node=/t\]; .* \(path=, --path\)"):
        hs.diff(tmp_path / "x.nc/t", tmp_path / "x.nc")


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_a_document_names_the_node_that_it_belongs_to(tmp_path: Path, form: str) -> None:
    with hs.create(tmp_path / "x.zarr", form) as root:
        root.create_array("g/u", data=np.arange(6.0), chunks=(6,))
    names = {"zarr2": (".zarray", ".zattrs", ".zgroup"), "zarr3": ("zarr.json",)}[form]
    for name in names:
        for look in (hs.check, hs.repair):
            if name != ".zgroup":
                with pytest.raises(FormatError, match=rf"this document lies within the array {tmp_path}/x.zarr/g/u "):
                    look(tmp_path / "x.zarr/g/u" / name)
            if name != ".zarray":
                with pytest.raises(FormatError, match=rf"this is a document of the dataset {tmp_path}/x.zarr/g "):
                    look(tmp_path / "x.zarr/g" / name)


def test_a_place_in_no_dataset_has_nothing(tmp_path: Path) -> None:
    make(tmp_path / "x.zarr")
    with pytest.raises(NotFound, match="there is nothing"):
        hs.check(tmp_path / "nix/t")


def test_only_what_lies_there_is_told_and_mended(tmp_path: Path) -> None:
    with hs.create(tmp_path / "x.zarr", consolidated=True) as root:
        for name in ("a", "g/b", "g/c"):
            root.create_array(name, data=np.arange(8), chunks=(4,))
    for name in ("a", "g/b", "g/c"):
        (tmp_path / f"x.zarr/{name}/c/1").write_bytes(b"damaged")
    assert [each.node for each in hs.check(tmp_path / "x.zarr/g", deep=True)] == ["g/b", "g/c"]
    (mend,) = hs.repair(tmp_path / "x.zarr/g/b", dry_run=False)
    assert (mend.node, mend.done) == ("g/b", True)
    assert [each.node for each in hs.check(tmp_path / "x.zarr", deep=True)] == ["a", "g/c"]


def test_a_node_gets_its_document_from_consolidated_metadata_of_the_whole(tmp_path: Path) -> None:
    with hs.create(tmp_path / "x.zarr", consolidated=True) as root:
        root.create_array("g/b", data=np.arange(8), chunks=(4,), attrs={"units": "K"})
    (tmp_path / "x.zarr/g/b/zarr.json").write_bytes(b"{")
    assert [each.done for each in hs.repair(tmp_path / "x.zarr/g/b", dry_run=False)] == [True]
    assert hs.open_group(tmp_path / "x.zarr")["g/b"].attrs["units"] == "K"
    assert not hs.check(tmp_path / "x.zarr")


@pytest.mark.parametrize("tree", TREES)
def test_a_node_of_a_sound_dataset_has_no_problem(tmp_path: Path, tree: str) -> None:
    """HDMF's array by its own place was told to have no consolidated metadata, which is the root's."""
    make_tree(tmp_path / "x.zarr", tree)
    for node in ("t", "g", "g/inner/u"):
        assert not hs.check(tmp_path / "x.zarr" / node, deep=True)
        assert not hs.repair(tmp_path / "x.zarr" / node)


@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
def test_places_in_a_root_of_collections(tmp_path: Path, layout: Any) -> None:
    """The folder in which collections lie was told to be one of Zarr without documents, which repair wanted to
    write."""
    with Client(tmp_path / "w.db", layout=layout) as client:
        collection = client.create_collection("weather", ArraySchema([DimensionSchema("x", 4)], dtype=float))
        array = collection.create()
        array[:].update(np.ones(4))
    for place in ("collections", "weather", f"weather/{array.id}", "collections/weather"):
        assert not hs.check(tmp_path / "w.db" / place, deep=True)
        assert not hs.repair(tmp_path / "w.db" / place)
    with pytest.raises(NodeNotFound, match=r"has no array 'nope' \[.* node=/weather/nope\]; "):
        hs.check(tmp_path / "w.db/weather/nope")


def test_the_command_says_what_it_looked_at(tmp_path: Path) -> None:
    make(tmp_path / "x.nc")
    done = CliRunner().invoke(main, ["check", str(tmp_path / "x.nc/t")])
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"/t is a node of {tmp_path}/x.nc: that part of it alone was looked at" in done.stderr
