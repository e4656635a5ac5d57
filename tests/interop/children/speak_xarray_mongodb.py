"""Real xarray_mongodb, as a command.

``write URL DATABASE PREFIX OPTIONS [NAME...]`` puts objects of ``mongo_objects`` (all, or the named) and prints their
ids by name. ``read URL DATABASE PREFIX FOLDER LOAD ID...`` prints what there is to say of each by id, or an error in
the peer's own words, and leaves the cells in ``FOLDER/ID.npz``, numbered as the variables are. OPTIONS and LOAD are
JSON: the arguments of ``XarrayMongoDB``, and of its ``get``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bson import ObjectId
from mongo_objects import cells, describe, objects
from xarray_mongodb import XarrayMongoDB  # before any client is made

from pymongo import MongoClient  # isort: skip


def write(store: Callable[..., XarrayMongoDB], options: str, *names: str) -> dict[str, str]:
    """The ids."""
    collection = store(**json.loads(options))
    found = {}
    for name, each in objects().items():
        if not names or name in names:
            key, future = collection.put(each)
            if future is not None:
                future.compute()
            found[name] = str(key)
    return found


def read(store: Callable[..., XarrayMongoDB], folder: str, load: str, *keys: str) -> dict[str, Any]:
    """The descriptions."""
    collection = store()
    found = {}
    for key in keys:
        try:
            each = collection.get(ObjectId(key), json.loads(load))
            description, arrays = describe(each), cells(each)
        except Exception as error:  # the peer's own words are what is asked for
            found[key] = {"error": f"{type(error).__name__}: {error}"}
            continue
        assert list(arrays) == list(description["variables"])
        numbered = {f"a{number}": array for number, array in enumerate(arrays.values())}
        np.savez(Path(folder, f"{key}.npz"), **numbered)
        found[key] = description
    return found


if __name__ == "__main__":
    work, url, database, prefix, *arguments = sys.argv[1:]
    with MongoClient[Any](url) as client:
        said = {"write": write, "read": read}[work](
            lambda **options: XarrayMongoDB(client[database], prefix, **options), *arguments
        )
    print(json.dumps(said))
