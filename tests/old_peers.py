"""Marks of tests that a library asks too much of in a version that hyperslab takes: what is lacking is its own."""

from __future__ import annotations

from importlib.metadata import version

import netCDF4
import pytest


def needs(library: str, oldest: tuple[int, ...], reason: str) -> pytest.MarkDecorator:
    """Return the mark of a test for ``library`` from ``oldest`` on."""
    parts = tuple(int(part) for part in version(library).split(".")[: len(oldest)])
    return pytest.mark.skipif(parts < oldest, reason=f"{library} before {'.'.join(map(str, oldest))} {reason}")


def _has_filters() -> bool:
    with netCDF4.Dataset("filters", "w", diskless=True) as dataset:
        return bool(dataset.has_zstd_filter() and dataset.has_bzip2_filter())


needs_filters = pytest.mark.skipif(
    not _has_filters(), reason="this netCDF4 has no zstd and bzip2: wheels before 1.7.4, 1.7.5 and 1.7.5.1"
)
reads_zarr = needs("xarray", (2025, 6), "does not read by zarr-python 3.1")
