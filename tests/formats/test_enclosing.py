"""What is changed by the own place of a group: consolidated metadata of the dataset around it follows."""

from __future__ import annotations

import pickle
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import AlreadyExists, ReadOnly
from servers.s3 import S3
from trees import make_tree


def tree_of(group: hs.Group) -> dict[str, Any]:
    """Return what consolidated metadata, where there is any, says of the nodes of a dataset."""
    found: dict[str, Any] = {}
    for name, node in group.items():
        below = tree_of(node) if isinstance(node, hs.Group) else {}
        shape = None if isinstance(node, hs.Group) else node.shape
        found |= {name: (shape, dict(node.attrs))} | {f"{name}/{path}": each for path, each in below.items()}
    return found


def assert_it_follows(place: Any, **more: Any) -> dict[str, Any]:
    """Assert that consolidated metadata is there and says what the documents do; return the tree."""
    root = hs.open_group(place, **more)
    store: Any = root._session.reader.store
    assert store.get(".zmetadata") or b'"consolidated_metadata"' in store.get("zarr.json")
    found = tree_of(root)
    with hs.open_group(place, "r+", **more) as written:
        writer: Any = written._session.writer()
        writer.consolidate()
    assert tree_of(hs.open_group(place, **more)) == found
    return found


def test_a_group_of_nczarr_is_changed_from_its_root_alone(tmp_path: Path) -> None:
    make_tree(tmp_path / "x.zarr", "nczarr-current")
    with pytest.raises(ReadOnly, match="name the part by path="):
        hs.open_group(tmp_path / "x.zarr/g", "r+")
    assert_it_follows(tmp_path / "x.zarr")


@pytest.mark.parametrize("tree", ["zarr2", "zarr3", "nczarr-draft"])
def test_changes_by_the_place_of_a_group(tmp_path: Path, tree: str) -> None:
    place = tmp_path / "x.zarr"
    make_tree(place, tree)
    with hs.open_group(place / "g", "r+") as group:
        assert group.path == ""
        group.attrs["title"] = "new"
        group["v"].append(np.arange(2))
        group.create_array("w", data=np.ones(2))
        group["inner"].attrs["depth"] = 2
    found = assert_it_follows(place)
    assert found["g"][1]["title"] == "new"
    assert (found["g/v"][0], found["g/w"][0], found["g/inner"][1]["depth"]) == ((5,), (2,), 2)
    with hs.open_group(place / "g/inner", "r+") as group:
        group.create_array("a/b", data=np.ones(2))
        del group["u"]
    with pickle.loads(pickle.dumps(hs.open_group(place / "g", "r+"))) as group:
        group.move("v", "moved")
    found = assert_it_follows(place)
    assert {"g/inner/a/b", "g/moved"} <= found.keys()
    assert not {"g/inner/u", "g/v"} & found.keys()


@pytest.mark.parametrize("tree", ["hdmf-v2", "hdmf-v3"])
def test_of_a_format_that_only_its_root_tells(tmp_path: Path, tree: str) -> None:
    make_tree(tmp_path / "x.zarr", tree)
    with hs.open_group(tmp_path / "x.zarr/g", "r+") as group:
        group.attrs["title"] = "new"
        del group["v"]
    found = assert_it_follows(tmp_path / "x.zarr")
    assert found["g"][1]["title"] == "new"
    assert "g/v" not in found


def test_what_is_made_or_replaced_below_it(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    make_tree(place)
    hs.create(place / "sub").close()
    hs.open(place / "nope", "a").close()
    hs.save(place / "saved", xr.Dataset({"a": ("x", np.arange(3))}))
    hs.save(place / "g", xr.Dataset({"a": ("x", np.arange(3))}), mode="a")
    hs.convert(place / "t", place / "copy")
    found = assert_it_follows(place)
    assert {"sub", "nope", "saved/a", "g/a", "g/v", "copy"} <= found.keys()
    hs.open(place / "t", "w").close()
    hs.save(place / "g", xr.Dataset({"b": ("x", np.arange(3))}), mode="w")
    hs.convert(place / "copy", place / "saved", overwrite=True, resume=True)
    found = assert_it_follows(place)
    assert found["t"][0] is None
    assert "g/b" in found
    assert not {"g/a", "g/v", "saved/a"} & found.keys()
    with pytest.raises(AlreadyExists):
        hs.convert(place / "copy", place / "saved")
    assert assert_it_follows(place) == found


def test_one_without_consolidated_metadata_gets_none(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    hs.create(place).close()
    before = (place / "zarr.json").read_bytes()
    hs.create(place / "sub", consolidated=True).close()
    assert (place / "zarr.json").read_bytes() == before


def test_a_change_that_fails_leaves_it_as_the_documents_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hyperslab.stores.directory import DirectoryStore

    place = tmp_path / "x.zarr"
    make_tree(place)

    def failing(self: DirectoryStore, *given: Any, **options: Any) -> None:
        if self.url.endswith("g"):
            raise AlreadyExists("the disk is full")
        put_many(self, *given, **options)

    put_many = DirectoryStore.put_many
    group = hs.open_group(place / "g", "r+")
    monkeypatch.setattr(DirectoryStore, "put_many", failing)
    with pytest.raises(AlreadyExists):
        group.attrs["title"] = "new"
    monkeypatch.undo()
    assert "title" not in assert_it_follows(place)["g"][1]


@pytest.mark.sampled(0)
def test_in_a_bucket(s3: S3) -> None:
    url, options = f"s3://{s3.bucket()}/x.zarr", {"storage_options": s3.options}
    make_tree(url, **options)
    with hs.open_group(f"{url}/g", "r+", **options) as group:
        group.attrs["title"] = "new"
        group.create_array("w", data=np.ones(2))
    hs.open(f"{url}/t", "w", **options).close()
    hs.convert(f"{url}/g", f"{url}/copy", storage_options=s3.options)
    found = assert_it_follows(url, **options)
    assert found["g"][1]["title"] == "new"
    assert found["t"][0] is None
    assert {"g/w", "copy/w"} <= found.keys()


def test_one_that_is_damaged_stands_in_nobodys_way(tmp_path: Path) -> None:
    make_tree(tmp_path / "x.zarr")
    (tmp_path / "x.zarr/zarr.json").write_bytes(b'{"zarr_format": 3, "node_type": "group", ')
    with hs.open_group(tmp_path / "x.zarr/g", "r+") as group:
        group.attrs["title"] = "new"
    assert hs.open_group(tmp_path / "x.zarr/g").attrs["title"] == "new"


def test_two_writers_of_two_groups_lose_nothing(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    make_tree(place)

    def add(name: str) -> None:
        with hs.open_group(place / name, "r+") as group:
            for number in range(10):
                group.attrs[f"a{number}"] = number

    threads = [Thread(target=add, args=(name,)) for name in ("g", "g/inner")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = assert_it_follows(place)
    assert len(found["g"][1]) == len(found["g/inner"][1]) == 10
