"""A conversion into a bucket whose server fails when everything is in its place."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.stores import leases
from servers.faults import faulty
from servers.s3 import S3


@pytest.mark.sampled(0)
@pytest.mark.parametrize("resume", [False, True])
def test_a_journal_that_stays_is_no_failure(
    s3: S3, tmp_path: Path, resume: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is complete, so the call succeeds; a warning is logged where the journal could not be removed."""
    monkeypatch.setattr(leases, "LEASE", 1.0)
    source, url = tmp_path / "a.zarr", f"s3://{s3.bucket()}/a.zarr"
    with hs.create(source) as root:
        root.create_array("v", data=np.arange(6), chunks=(2,))
    retries = {"max_retries": 1, "retry_timeout": timedelta(seconds=1)}
    with faulty(s3.endpoint) as proxy:
        proxy.choose = lambda method, path: (
            "503" if method in ("DELETE", "POST") and (".hyperslab-convert" in path or "delete" in path) else None
        )
        options = {**s3.options, "endpoint": proxy.url, "retry_config": retries}
        hs.convert(source, url, "zarr3", resume=resume, storage_options=options)
    assert hs.open(url, storage_options=s3.options)["v"][...].tolist() == list(range(6))
    hs.convert(source, url, "zarr3", resume=resume, overwrite=True, storage_options=s3.options)
    assert hs.open(url, storage_options=s3.options)["v"][...].tolist() == list(range(6))
