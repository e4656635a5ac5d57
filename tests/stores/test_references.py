"""kerchunk's references: those that kerchunk wrote read as their sources; nothing outside is read unless allowed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import iris_sample_data
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import FormatError, NotFound, ReadOnly, StorageError, Unsupported
from hyperslab.stores.references import ReferenceStore

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers.files import serving

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "kerchunk").glob("*.json"))
SOURCES = Path(iris_sample_data.path)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name.partition(".")[0])
def test_what_kerchunk_wrote_reads_as_its_source(tmp_path: Path, golden: Path) -> None:
    source = SOURCES / golden.name.removesuffix(".json")
    shutil.copy(golden, tmp_path)
    shutil.copy(source, tmp_path)
    with xr.open_dataset(source) as expected:
        got = xr.open_dataset(tmp_path / golden.name, engine="hyperslab")
        assert {name: got[name].dims for name in got} == {name: expected[name].dims for name in expected}
        marks = [name for name in expected.variables if not expected[name].ndim]  # a grid mapping is its own fill value
        xr.testing.assert_equal(got.drop_vars(marks), expected.drop_vars(marks))


def written(folder: Path, target: str, **more: Any) -> Path:
    """References to 12 numbers in ``target``, as version 1."""
    array = {
        "zarr_format": 2,
        "shape": [12],
        "chunks": [4],
        "dtype": "<i4",
        "compressor": None,
        "filters": None,
        "order": "C",
        "fill_value": 0,
    }
    refs = {
        ".zgroup": '{"zarr_format": 2}',
        "a/.zarray": array,
        "a/.zattrs": "{}",
        "a/0": [target, 8, 16],
        "a/1": [target, 24, 16],
        "a/2": "base64:CAAAAAkAAAAKAAAACwAAAA==",
    }
    path = folder / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs} | more))
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with ``cells.bin``: 8 bytes, then 0 to 7 as int32."""
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "cells.bin").write_bytes(b"head" * 2 + np.arange(8, dtype="<i4").tobytes())
    return folder


def test_inline_ranges_and_templates(place: Path) -> None:
    url = written(place, "{{ u }}.bin", templates={"u": "cells"})
    root = hs.open(url)
    assert root.format == "zarr2"
    np.testing.assert_array_equal(root["a"], np.arange(12))
    store = ReferenceStore(str(url))
    assert store.get_ranges("a/1", [(0, 4), (-4, 0)]) == [b"\4\0\0\0", b"\7\0\0\0"]
    assert store.get("a/3") is None
    assert store.size("a/0") == 16
    assert list(store.list("a")) == ["a/.zarray", "a/.zattrs", "a/0", "a/1", "a/2"]
    assert hs.open(f"reference://{url}")["a"][5] == 5


def test_it_is_read_only(place: Path) -> None:
    with pytest.raises(ReadOnly, match="references"):
        hs.open(written(place, "cells.bin"), "r+")


def test_convert_makes_them_a_dataset(place: Path) -> None:
    hs.convert(written(place, "cells.bin"), place / "real.zarr", verify=True)
    np.testing.assert_array_equal(hs.open(place / "real.zarr")["a"], np.arange(12))


@pytest.mark.parametrize(
    "way", ["../outside.bin", "{absolute}", "file://{absolute}", "link.bin", "sub/../../outside.bin"]
)
def test_other_places_are_read_only_when_allowed(place: Path, way: str) -> None:
    outside = place.parent / "outside.bin"
    shutil.copy(place / "cells.bin", outside)
    (place / "link.bin").symlink_to(outside)
    url = written(place, way.format(absolute=outside))
    with pytest.raises(StorageError, match="outside"):
        hs.open(url)["a"][...]
    for refused in (False, [], str(place), ["/nowhere"], "/nowhere"):  # the letter / of a text names no folder
        with pytest.raises(StorageError, match="outside"):
            hs.open(url, storage_options={"allow_external": refused})["a"][...]
    for allowed in (True, [str(place.parent)], str(place.parent)):
        root = hs.open(url, storage_options={"allow_external": allowed})
        np.testing.assert_array_equal(root["a"], np.arange(12))


@pytest.mark.parametrize("way", ["../x", "%2e%2e/x", ".%2E/x", "%252e%252e/x", "..\\\\x", "\\ta/../x"])
def test_dots_do_not_lead_out_of_what_is_allowed(place: Path, way: str) -> None:
    url = written(place, f"http://127.0.0.1:1/open/{way}")
    with pytest.raises(StorageError, match="outside"):
        hs.open(url, storage_options={"allow_external": ["http://127.0.0.1:1/open"]})["a"][...]


def test_targets_on_a_server(place: Path) -> None:
    with serving(place) as web:
        url = written(place, f"{web}/cells.bin")
        with pytest.raises(StorageError, match="outside"):
            hs.open(url)["a"][...]
        with pytest.raises(StorageError, match="outside"):
            hs.open(url, storage_options={"allow_external": ["http://elsewhere"]})["a"][...]
        root = hs.open(url, storage_options={"allow_external": [web]})
        np.testing.assert_array_equal(root["a"], np.arange(12))


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("{", FormatError, "JSON"),
        ("[1]", FormatError, "JSON"),
        ('{"version": 1, "refs": {}, "gen": []}', Unsupported, "rules"),
        ('{"a": 5}', FormatError, "'a' leads to no chunk"),
        ('{"zarr_format": 3, "node_type": "group"}', FormatError, "open the folder"),
        ('{"version": 1, "refs": {}, "templates": []}', FormatError, "no dataset"),
        ('{"version": 1, "refs": {}, "templates": [1]}', FormatError, "templates"),
        ('{".zgroup": "base64:é"}', FormatError, "base64"),
        ('{"a": ["{{ u.f() }}", 0, 1]}', Unsupported, "computes"),
        ('{"a": ["{{ u }}", 0, 1]}', FormatError, "template 'u'"),
    ],
)
def test_what_makes_no_sense(place: Path, text: str, error: type[Exception], words: str) -> None:
    (place / "bad.json").write_text(text)
    with pytest.raises(error, match=words):
        hs.open(place / "bad.json")


def test_a_target_that_changed(place: Path) -> None:
    url = written(place, "cells.bin")
    (place / "cells.bin").write_bytes(b"short")
    with pytest.raises(StorageError, match="ends within"):
        hs.open(url)["a"][...]
    (place / "cells.bin").unlink()
    with pytest.raises(StorageError, match="No such file"):
        hs.open(url)["a"][...]
    with pytest.raises(NotFound):
        hs.open(place / "missing.json")
    with pytest.raises(FormatError, match="bytes"):
        hs.open(url, storage_options={"limit": 10})
