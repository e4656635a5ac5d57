"""Two at once, one target in a bucket: one of them builds it, the other is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.chunks.progress import Progress
from hyperslab.chunks.settings import Settings
from hyperslab.conversion.pipeline import convert
from hyperslab.errors import Conflict
from hyperslab.formats import get_format
from hyperslab.stores import leases
from hyperslab.stores.location import Location
from hyperslab.stores.object import ObjectStore
from servers.s3 import S3


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with hs.create(tmp_path / "source.zarr") as root:
        root.create_array("a", data=np.arange(100).reshape(10, 10), chunks=(5, 5))
    return tmp_path / "source.zarr"


def _store(url: str, s3: S3) -> ObjectStore:
    store = Location.of(url, s3.options).store(read_only=False, create=True)
    assert isinstance(store, ObjectStore)
    return store


@pytest.mark.sampled(0)
@pytest.mark.parametrize("resume", [False, True])
def test_two_at_once_in_a_bucket_are_refused(
    source: Path, s3: S3, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    """Also while nothing of the first is to be seen; a dataset is not made there either, nor cleared away."""
    monkeypatch.setattr(leases, "LEASE", 1.0)
    monkeypatch.setattr(leases, "BEAT", 0.25)
    options: dict[str, Any] = {"storage_options": s3.options}
    url = f"s3://{s3.bucket()}/x.zarr"
    refused = []

    def report(now: Progress) -> None:
        if refused:
            return
        with pytest.raises(Conflict, match="another conversion or writer") as caught:
            convert(source, url, resume=resume, overwrite=True, **options)
        refused.append(caught.value)
        for mode in ("w", "x"):
            with pytest.raises(Conflict, match="another writer"):
                get_format("zarr3").open(Location.of(url, s3.options), mode, settings=Settings(lock_timeout=0.1))

    convert(source, url, resume=resume, progress=report, **options)
    assert refused and refused[0].url == url
    with hs.open(source) as expected, hs.open(url, **options) as found:
        np.testing.assert_array_equal(found["a"], expected["a"])
    assert not [name for name in _store(url, s3)._below("") if ".lock" in name]


def test_a_dead_conversion_into_a_bucket_holds_up_the_next_one_for_a_lease(
    source: Path, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 1.0)
    url = f"s3://{s3.bucket()}/x.zarr"
    _store(url, s3).swap_lock(".lock", b"somebody who died", None)
    convert(source, url, storage_options=s3.options)
    assert hs.open(url, storage_options=s3.options)["a"].shape == (10, 10)
