"""Formats that find their damage say so; what cannot even be opened is told by a check and by a repair alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from format_variants import VARIANTS, Places
from hyperslab.chunks.settings import DEFAULTS
from hyperslab.errors import Problem
from hyperslab.formats.base import Reader
from hyperslab.formats.zarr.opening import ZarrFormat
from hyperslab.integrity.dataset import find_place
from servers.mongo import Mongo


@pytest.mark.parametrize("name", VARIANTS)
def test_the_trait_says_who_finds_damage(name: str, tmp_path: Path, mongo: Mongo) -> None:
    """Without the trait nobody asks the reader, whose rules would be forgotten."""
    url = Places(tmp_path, f"{mongo.url}/{mongo.database()}").new(name)
    with hs.create(url, durable=False, **VARIANTS[name].options) as root:
        root.create_array("a", data=np.arange(4.0), dims=("x",))
    place = find_place(url)
    if isinstance(place.format, ZarrFormat):
        store = place.where.store(read_only=True)
        reader: Reader = place.format.check_reader(store, place.format.metadata_dialect, DEFAULTS, place.where)
    else:
        reader = place.format.open(place.where, "r", settings=DEFAULTS)
    overrides = type(reader).find_damage is not Reader.find_damage
    reader.close()
    assert place.format.traits.finds_damage == overrides


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_cannot_be_opened_is_told_and_left(dry_run: bool, tmp_path: Path) -> None:
    place = tmp_path / "a.blp"
    with hs.create(place, durable=False) as root:
        root.create_array("a", data=np.arange(4.0), dims=("x",))
    place.write_bytes(place.read_bytes()[:10])
    before = place.read_bytes()
    found = [problem for problem in hs.check(place) if isinstance(problem, Problem)]
    mends = hs.repair(place, dry_run=dry_run)
    assert found and [(mend.node, mend.kind, mend.message) for mend in mends] == [
        (problem.node, problem.kind, problem.message) for problem in found
    ]
    assert not any(mend.done for mend in mends)  # type: ignore[attr-defined]
    assert place.read_bytes() == before
