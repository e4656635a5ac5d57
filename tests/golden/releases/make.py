"""Write one small dataset in every format and variant, with its truth: ``python tests/golden/releases/make.py``.

A release does this once, before its tag. What it wrote stays for ever, and every later release reads it
(test_releases.py). A dataset is an archive, ``<version>/<variant>.tar.gz``; of MongoDB it has the documents of both
collections as extended JSON. The truth, ``<version>/<variant>.json``, is what the release itself read, cell by cell.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

import hyperslab as hs
from hyperslab.array.plain_values import to_json_value

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))


def make_dataset(source: str) -> None:
    """Write the dataset that every format gets as far as it holds it: types, gaps, words, groups, times, attributes."""
    with hs.create(source, format="zarr3") as root:
        root.attrs.update({"title": "kept for ever", "Conventions": "CF-1.11", "edition": 3})
        time = np.arange(0, 144, 24)
        root.create_array("time", data=time, dims=("time",), attrs={"units": "hours since 2013-01-01", "axis": "T"})
        root.create_array("lat", data=np.array([50.0, 40.0]), dims=("lat",), attrs={"units": "degrees_north"})
        air = (np.arange(12, dtype="f4") / 4).reshape(6, 2)
        air[2, 1] = np.nan
        options = {"dims": ("time", "lat"), "chunks": (4, 2)}
        root.create_array("air", data=air, attrs={"units": "K", "coordinates": "time lat"}, **options)
        packed = np.array([[1, -7], [3, 4], [5, 6], [-999, 8], [9, 10], [11, 12]], "i2")
        scale = {"scale_factor": np.float64(0.01), "add_offset": 273.15, "_FillValue": np.int16(-999)}
        root.create_array("packed", data=packed, attrs=scale, fill_value=-999, **options)
        gaps = root.create_array("gaps", shape=(6, 2), dtype="u1", fill_value=7, **options)
        gaps[:4] = np.arange(8).reshape(4, 2)  # the second chunk was never written
        words = np.array(["wind", "déjà", "", "雪", "a b", "z"], np.dtypes.StringDType())
        root.create_array("words", data=words, dims=("time",))
        site = root.create_group("site")
        site.create_array("height", data=np.int64(817))
        site.create_array("is_open", data=np.array([True, False, True]), dims=("door",), chunks=(2,))


def make_array(url: str, **options: object) -> None:
    """Write the dataset of a format that holds one array."""
    air = xr.DataArray(
        np.arange(12, dtype="f4").reshape(6, 2) / 4, dims=("time", "lat"), name="air", attrs={"units": "K"}
    )
    air = air.assign_coords(lat=[50.0, 40.0])
    hs.save(url, air, chunks={"time": 4}, **options)


def read_truth(url: str) -> dict[str, object]:
    """Return every array and group below a place: its attributes, and of arrays type, dimensions and cells."""
    found: dict[str, object] = {}
    with hs.open_group(url) as root:
        nodes = [root]
        while nodes:
            node = nodes.pop()
            attrs = {name: to_json_value(value) for name, value in sorted(node.attrs.items())}
            if isinstance(node, hs.Group):
                found[f"/{node.path}"] = {"attrs": attrs}
                nodes += [node[name] for name in node]
                continue
            cells = to_json_value(np.asarray(node[...]))
            about = {"dtype": str(node.dtype), "dims": node.dims, "shape": node.shape, "cells": cells}
            found[f"/{node.path}"] = {"attrs": attrs, **about}
    return json.loads(json.dumps(found, sort_keys=True, default=str))


def dump_mongo(url: str) -> str:
    """Return the documents of a database as a line of extended JSON each, with the name of their collection."""
    from bson.json_util import CANONICAL_JSON_OPTIONS, dumps
    from pymongo import MongoClient

    with MongoClient(url) as client:
        database = client.get_default_database()
        names = sorted(database.list_collection_names())
        pairs = ((name, each) for name in names for each in database[name].find())
        lines = (
            dumps({"collection": name, "document": each}, json_options=CANONICAL_JSON_OPTIONS) for name, each in pairs
        )
        return "\n".join(lines) + "\n"


def load_mongo(url: str, text: str) -> None:
    """Put the documents of :func:`dump_mongo` into a database."""
    from bson.json_util import CANONICAL_JSON_OPTIONS, loads
    from pymongo import MongoClient

    with MongoClient(url) as client:
        database = client.get_default_database()
        for line in text.splitlines():
            found = loads(line, json_options=CANONICAL_JSON_OPTIONS)
            database[found["collection"]].insert_one(found["document"])


def main() -> None:
    """Write all of this version, which must not be there yet."""
    from format_variants import VARIANTS
    from servers.mongo import running_mongod

    target = HERE / hs.__version__
    target.mkdir()
    with tempfile.TemporaryDirectory() as folder, running_mongod() as server:
        source = str(Path(folder, "source.zarr"))
        make_dataset(source)
        for name, variant in VARIANTS.items():
            place = Path(folder, name.replace(" ", "-"), f"data{variant.suffix}")
            place.parent.mkdir()
            url = f"{server.url}/{server.database()}#state" if name == "mongo" else str(place)
            if variant.one:
                make_array(url, **variant.options)
            else:
                hs.convert(source, url, allow_loss=True, **variant.options)
            truth = json.dumps(read_truth(url), sort_keys=True, indent=1, ensure_ascii=False)
            (target / f"{place.parent.name}.json").write_text(truth + "\n")
            if name == "mongo":
                (place.parent / "documents.jsonl").write_text(dump_mongo(url.partition("#")[0]))
            shutil.make_archive(str(target / place.parent.name), "gztar", place.parent)


if __name__ == "__main__":
    main()
