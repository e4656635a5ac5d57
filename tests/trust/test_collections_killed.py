"""SIGKILL at random moments over all that can be done to a collection: nothing is torn, and nobody is blocked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from collection_schemas import client, key, opened, schema

from programs import ran

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")
HERE = Path(__file__).parent


@pytest.mark.sampled(20)
@pytest.mark.parametrize("flavour", ["array", "varray"])
@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.soak)])
def test_killed_at_random(tmp_path: Path, layout: str, flavour: str, kills: int) -> None:
    url = str(tmp_path)
    client(url).create_collection("shared", schema(flavour), layout=layout)  # type: ignore[arg-type]
    done = ran(HERE / "collection_victims.py", url, layout, flavour, kills, kills)
    assert done.returncode == 0, done.stderr[-5000:]
    report = json.loads(done.stdout)
    print(report)
    assert sum(report["cut"].values()) == kills
    assert kills < 100 or len(report["cut"]) >= 8, "too few kinds of deeds were cut short"
    found = opened(url)
    assert all(array.primary_attributes == key(array.primary_attributes["slot"]) for array in found)
