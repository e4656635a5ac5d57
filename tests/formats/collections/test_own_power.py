"""A power cut after any call of a durable creation, on the model of the medium that tiles are tested on."""

from __future__ import annotations

from pathlib import Path

import pytest

from programs import ran

CHILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from hyperslab.chunks.settings import Settings
from hyperslab.stores.location import Location
from own_store import key_of, made, opened, record
from power import Medium

PLACE, COPY = os.path.join(sys.argv[2], "x"), os.path.join(sys.argv[2], "copy")
COUNT = int(sys.argv[3])
made(Location.of(PLACE), settings=Settings(durable=True))
opened(Location.of(PLACE)).create([record(400)])
medium, seen = Medium(PLACE, COPY), set()
old, new = [[record(number) for number in range(first, first + COUNT)] for first in (0, COUNT)]
acknowledged = []


def check():
    for flushed_alone in (True, False):
        medium.build(flushed_alone)
        holding = opened(Location.of(COPY), writable=False)
        found = [each for each in [*old, *new] if holding.id_of(key_of(each)) == each.id]
        assert len(found) % COUNT == 0, len(found)
        assert [holding.record(each.id) for each in found] == found
        assert not (set(map(str, acknowledged)) - set(map(str, found))), (len(acknowledged), len(found))
        listed = {id for part in holding.generations() for id in holding.list_part(part)}
        assert {each.id for each in found} <= listed
        seen.add((flushed_alone, len(acknowledged), len(found)))


medium.watch(check)
writer = opened(Location.of(PLACE), durable=True)
for records in (old, new):
    writer.create(records)
    acknowledged += records
    medium.look(check)
assert {(alone, count, count) for alone in (True, False) for count in (0, COUNT, 2 * COUNT)} <= seen, seen
"""


@pytest.mark.parametrize("count", [1, 3])
def test_an_acknowledged_creation_survives_a_power_cut(tmp_path: Path, count: int) -> None:
    """At any time a key entry leads to a whole document in a part that is listed."""
    child = ran(CHILD, Path(__file__).parent, tmp_path, count)
    assert child.returncode == 0, child.stderr[-3000:]
