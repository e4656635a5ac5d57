"""A power cut after any call of a change of the schema: the collection has the old one or the new one, and one that was
acknowledged stays."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

from programs import ran

CHILD = """
import os, sys
import numpy as np
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema
from power import Medium

PLACE, COPY = os.path.join(sys.argv[1], "x"), os.path.join(sys.argv[1], "copy")
ATTRIBUTES = [AttributeSchema("k", int, True), AttributeSchema("note", str, False)]
client = Client(PLACE)
air = client.create_collection("air", ArraySchema([DimensionSchema("x", 2)], int, ATTRIBUTES))
for k in range(3):
    air.create({"k": k}, {"note": f"n{k}"})
medium, allowed = Medium(PLACE, COPY), [{"note"}]


def check():
    for flushed_alone in (True, False):
        medium.build(flushed_alone)
        with Client(COPY, mode="r") as copy:
            found = copy.get_collection("air")
            names = {each.name for each in found.schema.custom_attributes}
            assert names in allowed, (names, allowed, flushed_alone)
            for array in found:
                k, custom = array.primary_attributes["k"], array.custom_attributes
                assert set(custom) == names
                assert all(custom[name] == f"n{k}" for name in names & {"note", "remark"})
                assert custom.get("quality", 5) == 5
            assert len(found) == 3
            for name in names & {"note", "remark"}:
                assert [array.primary_attributes["k"] for array in found.query({name: "n1"})] == [1]


medium.watch(check)
for change, names in (
    (lambda: air.rename_attribute("note", "remark"), {"remark"}),
    (lambda: air.add_attribute(AttributeSchema("quality", int, False, 5)), {"remark", "quality"}),
    (lambda: air.remove_attribute("remark"), {"quality"}),
):
    allowed.append(names)
    change()
    del allowed[0]
    medium.look(check)
print(len(allowed))
"""


def test_a_change_of_the_schema_survives_a_power_cut() -> None:
    with TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        child = ran(CHILD, folder)
    assert (child.returncode, child.stdout.split()) == (0, ["1"]), child.stderr[-3000:]
