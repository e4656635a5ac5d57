"""Errors of codecs within codecs, in a document or when cells are read and written, name the dataset and the array."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import HyperslabError

Document = dict[str, Any]


def _sharding(document: Document) -> Document:
    return next(each for each in document["codecs"] if each["name"] == "sharding_indexed")["configuration"]


def _inner(place: int, name: str, **configuration: Any) -> Callable[[Document], Any]:
    codec = {"name": name, "configuration": configuration}
    return lambda document: _sharding(document)["codecs"].insert(place, codec)


def _filter(id: str, **configuration: Any) -> Callable[[Document], Any]:
    return lambda document: document.update(filters=[{"id": id, **configuration}])


EDITS: dict[str, tuple[str, Callable[[Document], Any]]] = {
    "unknown in a shard": ("shards", _inner(9, "nope")),
    "of a wrong level in a shard": ("shards", _inner(9, "gzip", level=77)),
    "not what was written in a shard": ("shards", _inner(9, "gzip", level=1)),
    "a filter of no type in a shard": ("shards", _inner(0, "numcodecs.delta", dtype="nope")),
    "shards that do not divide": ("shards", _inner(0, "sharding_indexed", chunk_shape=[3], codecs=[{"name": "bytes"}])),
    "unknown of the index": ("shards", lambda document: _sharding(document)["index_codecs"].append({"name": "nope"})),
    "an unknown filter": ("zarr2", _filter("nope")),
    "a filter of no type": ("zarr2", _filter("delta", dtype="nope")),
    "a filter of another type": ("zarr2", _filter("delta", dtype="<i2")),
    "a filter without its parameters": ("zarr2", _filter("quantize")),
    "a compressor of no format": ("zarr2", lambda document: document.update(compressor={"id": "lzma", "format": 99})),
    "cells of JSON": ("zarr2", lambda document: document.update(dtype="|O", filters=[{"id": "json2"}], fill_value=0)),
}
ACTS: dict[str, Callable[[Path], Any]] = {
    "all": lambda place: hs.open(place)["g/x"][...],
    "some": lambda place: hs.open_array(place, path="g/x")[3],
    "write": lambda place: hs.open(place, "r+")["g/x"].__setitem__(slice(1, 3), 5),
}


@pytest.mark.parametrize("case", EDITS)
def test_place_and_remedy(case: str, tmp_path: Path) -> None:
    kind, how = EDITS[case]
    place = tmp_path / "x.zarr"
    with hs.create(place, "zarr2" if kind == "zarr2" else "zarr3") as root:
        shards: dict[str, Any] = {"shards": (4,)} if kind == "shards" else {}
        root.create_array("g/x", data=np.arange(8), chunks=(2,), **shards)
    path = place / "g/x" / (".zarray" if kind == "zarr2" else "zarr.json")
    document = json.loads(path.read_bytes())
    how(document)
    path.write_text(json.dumps(document))
    (place / ".zmetadata").unlink(missing_ok=True)
    for act in ACTS.values():
        with pytest.raises(HyperslabError) as raised:
            act(place)
        error = raised.value
        assert (str(tmp_path) in (error.url or ""), error.node) == (True, "g/x"), str(error)
        assert error.remedy and error.remedy in str(error)
