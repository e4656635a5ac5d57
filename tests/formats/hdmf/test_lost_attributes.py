"""Attributes whose file is gone come back from consolidated metadata, with links, references and types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from damaged_hdmf import V2, V3, consolidate, copied

import hyperslab as hs

LOST = ("", "refs", "refs/objrefs", "g1", "dtypes/scalar_text", "dtypes/text")


def stored(place: Path) -> dict[str, Any]:
    return {p.relative_to(place).as_posix(): json.loads(p.read_bytes()) for p in place.rglob(".zattrs")}


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("links", [False, True])
@pytest.mark.parametrize("lost", [(each,) for each in LOST] + [LOST])
def test_they_come_back(lost: tuple[str, ...], links: bool, peers: Path, tmp_path: Path) -> None:
    place, sound = copied(peers, V2, tmp_path), peers / f"{V2}.zarr"
    for node in lost:
        (place / node / ".zattrs").unlink()
    told = [problem for problem in hs.check(place) if problem.kind == "lost-attributes"]
    assert {problem.node for problem in told} == set(lost)
    done = hs.repair(place, dry_run=False, links=links)
    assert {mend.node for mend in done if mend.kind == "lost-attributes" and mend.done} == set(lost)
    if links:  # what they say is completed when they are there again
        assert all(mend.done for mend in hs.repair(place, dry_run=False, links=True))
    assert [problem.kind for problem in hs.check(place)] == [problem.kind for problem in hs.check(sound)]
    if not links:  # which would complete what links say
        assert stored(place) == stored(sound)
    with hs.open_group(place) as a, hs.open_group(sound) as b:
        assert dict(a["refs"].links()) == dict(b["refs"].links()) and dict(a["g1"].attrs) == dict(b["g1"].attrs)


def test_what_consolidated_metadata_does_not_have_either_is_not_missed(peers: Path, tmp_path: Path) -> None:
    place = copied(peers, V2, tmp_path)
    (place / "g1" / ".zattrs").unlink()
    consolidate(place)
    assert not [problem for problem in hs.check(place) if problem.kind == "lost-attributes"]
    (place / ".zmetadata").write_text("{")
    assert not [problem for problem in hs.check(place) if problem.kind == "lost-attributes"]


@pytest.mark.parametrize("store", [V2, V3])
def test_none_are_lost_of_what_is_sound(store: str, peers: Path) -> None:
    assert not [problem for problem in hs.check(peers / f"{store}.zarr") if problem.kind == "lost-attributes"]
