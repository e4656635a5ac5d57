"""The shipped suite of formats, in buckets."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hyperslab.formats import zarr2, zarr3
from hyperslab.formats.base import Writer
from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests
from servers.s3 import S3

pytestmark = pytest.mark.sampled(3)


class InABucket(FormatTests):
    """A prefix of a bucket of its own."""

    @pytest.fixture
    def place(self, s3: S3) -> Location:
        return Location.of(f"s3://{s3.bucket()}/new.zarr", s3.options)


@pytest.mark.sampled(0)  # TestZarr3 holds the bucket, tests/formats the documents
class TestZarr2(InABucket):
    format = zarr2.FORMAT


class TestZarr3(InABucket):
    format = zarr3.FORMAT


@pytest.mark.soak  # tests/formats holds the copy to the documents, TestZarr3 the bucket
class TestConsolidated(InABucket):
    format = zarr3.FORMAT

    def opened(self, place: Location, mode: Any) -> Writer:
        return cast(Writer, self.format.open(place, mode, consolidated=mode == "x"))
