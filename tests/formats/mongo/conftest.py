"""Makes ``golden_documents`` importable for the tests of MongoDB; databases of their own for tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo


@pytest.fixture
def db(mongo: Mongo) -> Iterator[Database[Any]]:
    """A new database of a server that stands alone."""
    from pymongo import MongoClient

    with MongoClient[Any](mongo.url) as client:
        yield client[mongo.database()]


@pytest.fixture
def full(db: Database[Any]) -> Database[Any]:
    """A new database with all golden objects."""
    import golden_documents as golden

    for folder in (golden.REAL, golden.SPECIFIED):
        for kind in ("meta", "chunks"):
            db[f"xarray.{kind}"].insert_many(golden.documents(folder, kind))
    return db
