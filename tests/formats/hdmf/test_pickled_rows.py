"""Rows as hdmf-zarr up to 0.13 pickles them: tuples and NumPy's scalars in an array of objects, and nothing is run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Invalid, UnsafePickle
from hyperslab.model.dtypes import VlenString, tagged
from hyperslab.model.refs import ObjectReference

_WORDS = [{"name": "id", "dtype": "int32"}, {"name": "label", "dtype": "str_"}]
_ROW = np.array([(1, "a"), (2, "b\u00e9")], [("id", "<i4"), ("label", "U5")])
_OBJECTS = np.array([(1, "a"), (2, "b\u00e9")], [("id", "<i4"), ("label", object)])


def stored(place: Path, cells: list[Any], words: Any, codec: str = "pickle") -> Path:
    """The dataset as the peer stores it: ``|O``, whose fields ``zarr_dtype`` names."""
    (place / "rows").mkdir(parents=True)
    values = np.empty(len(cells), object)
    for i, cell in enumerate(cells):
        values[i] = cell
    filters = [{"id": "pickle", "protocol": 5} if codec == "pickle" else {"id": "json2"}]
    array = {"zarr_format": 2, "shape": [len(cells)], "chunks": [len(cells)], "dtype": "|O", "fill_value": 0}
    array |= {"order": "C", "filters": filters, "compressor": None}
    plain = [*map(list, cells), "|O", [len(cells)]] if codec == "json2" else None
    for name, document in {
        ".zgroup": {"zarr_format": 2},
        "rows/.zarray": array,
        "rows/.zattrs": {"zarr_dtype": words},
        ".zattrs": {".specloc": "specifications"},
    }.items():
        (place / name).write_text(json.dumps(document))
    (place / "rows/0").write_bytes(pickle.dumps(values, 5) if plain is None else json.dumps(plain).encode())
    return place


@pytest.mark.parametrize(
    "cells",
    [
        [(1, "a"), (2, "b\u00e9")],
        [[1, "a"], [2, "b\u00e9"]],
        [(np.int32(1), np.str_("a")), (np.int64(2), "b\u00e9")],
        [(np.array(1, ">i4")[()], "a"), (np.uint8(2), np.str_("b\u00e9"))],
        list(_ROW),
        list(_OBJECTS),
    ],
)
def test_rows_with_text_and_no_reference(cells: list[Any], tmp_path: Path) -> None:
    place = stored(tmp_path / "x.zarr", cells, _WORDS)
    with hs.open(place, format="hdmf") as root:
        assert root["rows"][...].tolist() == [(1, "a"), (2, "b\u00e9")]
        assert root["rows"]["label"].tolist() == ["a", "b\u00e9"]
    kinds = {problem.kind for problem in hs.check(place, format="hdmf", deep=True)}
    assert kinds <= {"unconsolidated", "specloc-missing", "root-object-id"}


def test_rows_in_json(tmp_path: Path) -> None:
    place = stored(tmp_path / "x.zarr", [(1, "a"), (2, "b")], _WORDS, "json2")
    assert hs.open(place, format="hdmf")["rows"][...].tolist() == [(1, "a"), (2, "b")]


def test_bytes_numbers_and_truth_values(tmp_path: Path) -> None:
    words = [{"name": name, "dtype": word} for name, word in {"b": "bytes_", "f": "float64", "t": "bool"}.items()]
    cells = [(b"a", 1.5, True), (np.bytes_(b"b"), np.float64(2.5), np.bool_(False))]
    place = stored(tmp_path / "x.zarr", cells, words)
    assert hs.open(place, format="hdmf")["rows"][...].tolist() == [(b"a", 1.5, True), (b"b", 2.5, False)]


def test_structures_within_rows_are_given_as_json(tmp_path: Path) -> None:
    words = [{"name": "id", "dtype": "int32"}, {"name": "in", "dtype": [{"name": "x", "dtype": "str_"}]}]
    place = stored(tmp_path / "x.zarr", [(1, ("a", np.int32(2))), (2, [("b", None)])], words)
    assert hs.open(place, format="hdmf")["rows"]["in"].tolist() == ['["a", 2]', '[["b", null]]']


def test_what_is_written_reads_again(tmp_path: Path) -> None:
    place = stored(tmp_path / "x.zarr", [(1, "a"), (2, "b")], _WORDS)
    with hs.open(place, "r+", format="hdmf") as root:
        root["rows"][1] = (5, "new")
    with hs.open(place, format="hdmf") as root:
        assert root["rows"][...].tolist() == [(1, "a"), (5, "new")]
    hs.convert(place, tmp_path / "y.zarr", format="hdmf", profile="v3", verify=True)
    assert hs.open(tmp_path / "y.zarr")["rows"][...].tolist() == [(1, "a"), (5, "new")]


class _Evil:
    def __reduce__(self) -> Any:
        return exec, ("import builtins; builtins.HDMF_PWNED = 1",)


@pytest.mark.parametrize("cell", [_Evil(), (1, _Evil()), (1, [(_Evil(),)]), np.datetime64(1, "s"), {(1,): 2}, {1, 2}])
def test_anything_else_is_refused(cell: Any, tmp_path: Path) -> None:
    place = stored(tmp_path / "x.zarr", [cell, (2, "b")], _WORDS)
    with pytest.raises(UnsafePickle):
        hs.open(place, format="hdmf")["rows"][...]
    assert not hasattr(__builtins__, "HDMF_PWNED")


def test_values_that_name_one_another_do_not_grow_without_an_end(tmp_path: Path) -> None:
    cell: Any = "x"
    for _ in range(7):
        cell = (cell,) * 60
    place = stored(tmp_path / "x.zarr", [(1, cell)], _WORDS)
    with pytest.raises(UnsafePickle, match="without an end"):
        hs.open(place, format="hdmf")["rows"][...]


def test_references_in_such_rows(tmp_path: Path) -> None:
    words = [{"name": "to", "dtype": "object"}, {"name": "label", "dtype": "str_"}]
    place = stored(tmp_path / "x.zarr", [({"source": ".", "path": "/rows"}, "a"), (None, "b")], words)
    first, second = hs.open(place, format="hdmf")["rows"][...].tolist()
    assert first == (ObjectReference("/rows"), "a") and second == (None, "b")


def test_profile_v3_has_room_for_the_longest_text_of_the_data(tmp_path: Path) -> None:
    row = np.dtype([("id", "<i4"), ("label", tagged(np.dtype(object), VlenString()))])
    with hs.create(tmp_path / "x.zarr", "hdmf", profile="v3") as root:
        root.create_array("rows", data=np.array([(1, "x" * 600), (2, "b")], row))
        assert root["rows"]["label"].tolist() == ["x" * 600, "b"]
        root["rows"][1] = (3, "y" * 600)
        with pytest.raises(Invalid, match="data=, whose longest text decides"):
            root["rows"][1] = (3, "y" * 700)
