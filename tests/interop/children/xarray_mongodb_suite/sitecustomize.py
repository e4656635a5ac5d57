"""Run by every Python that has this folder on PYTHONPATH, spawned ones too, before anything else.

A MongoClient that is told no place goes to the server of MONGO_PORT. Where STANDS_IN names a module, xarray_mongodb
shows its classes, so that the suite of xarray_mongodb tests them.
"""

from __future__ import annotations

import importlib
import os

import pymongo

pymongo.MongoClient.HOST = "127.0.0.1"
pymongo.MongoClient.PORT = int(os.environ["MONGO_PORT"])

if module := os.environ.get("STANDS_IN"):
    theirs, ours = importlib.import_module("xarray_mongodb"), importlib.import_module(module)
    for name in ("XarrayMongoDB", "XarrayMongoDBAsyncIO", "DocumentNotFoundError"):
        setattr(theirs, name, getattr(ours, name))
