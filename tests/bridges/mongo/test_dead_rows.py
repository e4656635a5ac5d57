"""SIGKILL before each command of an append: when the object grows afterwards, no row of the dead one shows."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pymongo import MongoClient

import hyperslab as hs
from programs import forking

sys.path.insert(0, str(Path(__file__).parent))
from writers_to_kill import Where, change_until_killed, days, put, save

if TYPE_CHECKING:
    from servers.mongo import Mongo

_PATIENCE = 60
WAYS = ("resize", "append", "save")


@pytest.fixture
def database(mongo: Mongo) -> Iterator[str]:
    name = mongo.database()
    yield name
    with MongoClient[Any](mongo.url, directConnection=True) as client:
        client.drop_database(name)


def grow(where: Where, way: str) -> int:
    """Make the object longer; how many of its rows were written."""
    if way == "append":
        where.objects.append("a", days(5, 1), "time")
    elif way == "save":
        hs.save(where.url("a"), days(5, 1), append_dim="time", **where.options)
    with hs.open_group(where.url("a"), "r+", **where.options) as root:
        for name in ("t", "time"):
            root[name].resize((13, *root[name].shape[1:]))
    return 5 if way == "resize" else 6


def is_killed(where: Where, change: str, number: int, way: str) -> bool:
    """Kill an append before a command, grow the object, and look at its rows; False where nothing was killed."""
    (save if change == "save_rows" else put)(where, "a", "five")
    writer = forking().Process(target=change_until_killed, args=(change, where, number, False))
    writer.start()
    writer.join(_PATIENCE)
    assert writer.exitcode in (0, -signal.SIGKILL)
    if not writer.exitcode:
        return False
    with hs.open_group(where.url("a")) as root:
        length = root["t"].shape[0]
    if length == 5:
        known = grow(where, way)
        with hs.open_group(where.url("a")) as root:
            found, fill = root["t"][...], np.asarray(root["t"].fill_value)
        np.testing.assert_array_equal(found[:known], days(0, known)["t"].values)
        np.testing.assert_array_equal(found[known:], np.full((13 - known, 6), fill), err_msg=f"at {number}")
    return True


@pytest.mark.soak  # each change after a kill waits for the lease of the dead
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", ["compatible", "extended"])
@pytest.mark.parametrize("change", ["append", "save_rows"])
def test_rows_of_a_killed_append_are_never_data(
    mongo: Mongo, database: str, change: str, layout: str, way: str
) -> None:
    number = 0
    while is_killed(Where(mongo.url, database, f"x{number}", layout, 64), change, number, way):
        number += 1
    assert number > 1
