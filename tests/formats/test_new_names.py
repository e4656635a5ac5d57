"""Which format a new dataset gets by its name alone."""

from __future__ import annotations

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Unsupported
from hyperslab.formats import format_for_new


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("a", "zarr3"),
        ("a.zarr", "zarr3"),
        ("/x.d/a/", "zarr3"),
        ("run.2024", "zarr3"),
        ("grid_0.5deg", "zarr3"),
        (".hidden", "zarr3"),
        ("a.zip", "zarr3"),
        ("s3://my.bucket", "zarr3"),
        ("https://host.org/a?x=b.foo", "zarr3"),
        ("A.NC", "netcdf"),
        ("s3://b/x.nczarr.zip", "nczarr"),
        ("mongodb://host/a.foo", "mongo"),
    ],
)
def test_the_end_of_the_name_tells(url: str, name: str) -> None:
    assert format_for_new(url) == name


@pytest.mark.parametrize("url", ["a.foo", "a.zarr2", "/x/a.npy/", "s3://b/a.csv", "memory://a.foo", "a.foo.zip"])
def test_an_ending_that_promises_something_else_is_refused(url: str) -> None:
    with pytest.raises(Unsupported, match=r"ends in \.(foo|zarr2|npy|csv) .*\.zarr, .*--format"):
        format_for_new(url)


def test_the_model_of_plain_hdf5_is_named() -> None:
    with pytest.raises(Unsupported, match=r"ends in \.h5 .*--format netcdf --option model=HDF5"):
        format_for_new("a.h5")


def test_nothing_is_made_under_such_a_name() -> None:
    with pytest.raises(Unsupported, match=r"\.foo"):
        hs.create("memory://unknown.foo")
    with pytest.raises(Unsupported, match=r"\.foo"):
        hs.save("memory://unknown.foo", np.arange(3))
    assert hs.create("memory://unknown.foo", format="zarr3").format == "zarr3"
