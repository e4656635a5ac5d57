"""``repair`` of what HDMF datasets share with all of documents under keys."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from golden_hdmf import opened

import hyperslab as hs

STALE = "hz060_nwb_pickle"
OF_KEYS = {"dimension-sizes", "stale-copy", "missing-document", "unreadable-document"}
"""Kinds of problems that a look at the keys of any Zarr finds."""


def test_a_stale_copy_is_mended(tmp_path: Path, peers: Path) -> None:
    place = tmp_path / "x.zarr"
    shutil.copytree(peers / f"{STALE}.zarr", place)
    mends = list(hs.repair(place, dry_run=False))
    assert mends
    assert all(mend.done for mend in mends)
    assert list(hs.check(place)) == []
    assert "core" in opened(place).specifications()


@pytest.mark.parametrize("store", ["hz0130_builders_json", "hz0140_builders_v3"])
def test_a_lost_document_comes_back_from_the_copy(store: str, tmp_path: Path, peers: Path) -> None:
    """In either profile, links and all."""
    place = tmp_path / "x.zarr"
    shutil.copytree(peers / f"{store}.zarr", place)
    (place / "refs" / ("zarr.json" if "v3" in store else ".zgroup")).unlink()
    assert list(hs.check(place))
    list(hs.repair(place, dry_run=False))
    assert list(hs.check(place)) == []
    assert set(opened(place).children("refs")) == {"objrefs", "compound_ref", "link_to_i2", "link_to_g1"}
