"""A dataset that is rewritten (a node is deleted, moved or renamed) keeps all that it holds, or the change is refused.

What the model does not show is planted as another program would store it: keys of documents, members of attributes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from format_variants import VARIANTS
from hyperslab.errors import HyperslabError
from hyperslab.model.attrs import equal_attrs

PLANTED = {"must_understand": False, "by": ["others", {"deep": [1, None, 1.5, "é"]}]}
DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".nczarr", ".ncgroup", ".ncvar", ".zdims", ".ztypedefs")
KEYED = [name for name, variant in VARIANTS.items() if variant.keyed]
CHANGES: dict[str, Callable[[hs.Group], None]] = {
    "del": lambda root: root.__delitem__("gone"),
    "del a group": lambda root: root.__delitem__("folder"),
    "move": lambda root: root.move("gone", "kept/there"),
    "rename": lambda root: root.move("gone", "renamed"),
    "rename a group": lambda root: root.move("folder", "directory"),
}


def made(name: str, folder: Path) -> Path:
    """A dataset with what stays and what goes, in groups too."""
    variant = VARIANTS[name]
    options = {"format": "hdmf" if name.startswith("hdmf") else "nczarr" if name.startswith("nczarr") else name}
    path = folder / f"a{variant.suffix}"
    with hs.create(path, **(options | variant.options)) as root:
        for place in ("stays", "gone", "kept/inner", "folder/inner"):
            attrs = {"units": "K", "note": place}
            root.create_array(place, data=np.arange(4, dtype="i4"), dims=["x"], chunks=(2,), attrs=attrs)
        root.attrs["title"] = "t"
    return path


def documents(root: Path) -> dict[str, Any]:
    """Every JSON document of a dataset by its key, without what is consolidated in it."""
    found = {}
    for file in sorted(root.rglob("*")):
        if file.name in DOCUMENTS:
            document = json.loads(file.read_text("utf-8"))
            document.pop("consolidated_metadata", None)
            found[str(file.relative_to(root))] = document
    return found


def plant(root: Path) -> None:
    """Keys of somebody else in every document, and in the attributes of those that hold them."""
    for key, document in documents(root).items():
        document["planted"] = PLANTED
        if isinstance(document.get("attributes"), dict):
            document["attributes"]["planted"] = PLANTED
        (root / key).write_text(json.dumps(document), "utf-8")


def lost(document: Any) -> Iterator[str]:
    """What was planted in a document and is not there any more."""
    if as_json(document.get("planted")) != PLANTED:
        yield "planted"
    if isinstance(document.get("attributes"), dict) and as_json(document["attributes"].get("planted")) != PLANTED:
        yield "attributes/planted"


def as_json(value: Any) -> Any:
    """A value, or what its text says: in netCDF, and so in NCZarr, an attribute that is an object is JSON text."""
    return json.loads(value) if isinstance(value, str) else value


@pytest.mark.covering
@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("name", KEYED)
def test_documents_keep_what_others_put_there(tmp_path: Path, name: str, how: str) -> None:
    root = made(name, tmp_path)
    plant(root)
    before = {str(file): file.read_bytes() for file in root.rglob("*") if file.is_file()}
    try:
        with hs.open_group(root, "r+") as group:
            CHANGES[how](group)
    except HyperslabError:
        assert {str(file): file.read_bytes() for file in root.rglob("*") if file.is_file()} == before
        return
    after = documents(root)
    assert {key: list(lost(document)) for key, document in after.items() if list(lost(document))} == {}
    with hs.open_group(root) as group:
        assert group["stays"][:].tolist() == group["kept/inner"][:].tolist() == [0, 1, 2, 3]
        assert dict(group["stays"].attrs)["note"] == "stays"


VALUES: dict[str, Any] = {
    "complex": 1 + 2j,
    "bytes": b"\0\xff",
    "none": None,
    "nested": {"a": [1, {"x": 2.5}]},
    "typed": np.array([1, 2], "u2"),
    "nan": float("nan"),
    "mixed": [1, "a", None],
    "single": np.float32(1.5),
    "text": "é\n",
}
FILES = [name for name in VARIANTS if name != "mongo"]


@pytest.mark.parametrize("name", FILES)
def test_what_is_shown_of_the_others_stays(tmp_path: Path, name: str) -> None:
    variant = VARIANTS[name]
    named = {"bcolz": "blaze"}.get(name, name.split()[0])
    names = ["main", "x", "y"] if variant.one else ["g/a", "g/b", "g/c"]
    path = tmp_path / f"a{variant.suffix}"
    with hs.create(path, **({"format": named} | variant.options)) as root:
        cells = {"main": (np.arange(6.0).reshape(2, 3), ["x", "y"]), "x": (np.arange(2.0), ["x"])}
        for place in names:
            data, dims = cells.get(place, (np.arange(3.0), ["y"]))
            array = root.create_array(place, data=data, dims=dims)
            for key, value in VALUES.items():
                with suppress(HyperslabError):  # what the format has no attribute for
                    array.attrs[key] = value
    before = shown(path, names[:2])
    with hs.open_group(path, "r+") as root:
        del root[names[2]]
    after = shown(path, names[:2])
    for place in names[:2]:
        assert equal_attrs(before[place][0], after[place][0])
        assert before[place][1:] == after[place][1:]
    with hs.open_group(path) as root:
        assert names[2] not in root


def shown(path: Path, names: list[str]) -> dict[str, tuple[Any, ...]]:
    """What is seen of some arrays: attributes, cells, type, chunks and dimensions."""
    with hs.open_group(path) as root:
        arrays = {name: root[name] for name in names}
        return {
            name: (dict(array.attrs), array[:].tolist(), array.dtype, array.chunks, array.dims)
            for name, array in arrays.items()
        }
