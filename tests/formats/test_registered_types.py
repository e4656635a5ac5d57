"""Types that another package registers with NumPy keep their name in a format, or are refused: never plain bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

import hyperslab as hs
from format_variants import VARIANTS, Places
from hyperslab.errors import Unsupported

if TYPE_CHECKING:
    from servers.mongo import Mongo

TYPES = (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_registered_type_is_kept_or_refused(mongo: Mongo, tmp_path: Path, variant: str, dtype: type) -> None:
    places, cells = Places(tmp_path, f"{mongo.url}/{mongo.database()}"), np.arange(4).astype(dtype)
    url, options = places.new(variant), VARIANTS[variant].options
    try:
        with hs.create(url, **options) as root:
            root.create_array("x", cells.shape, dtype, dims=("x",))[...] = cells
    except Unsupported as error:
        assert np.dtype(dtype).name in str(error)
        return
    (read,) = (array for _, array in hs.open_group(url).arrays())
    assert read.dtype == np.dtype(dtype)
    assert read[:].tolist() == cells.tolist()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["put", "save"])
def test_mongodb_holds_no_registered_type(mongo: Mongo, dtype: type, name: str) -> None:
    import xarray as xr
    from pymongo import MongoClient

    from hyperslab.mongo import XarrayMongoDB

    ds = xr.Dataset({"t": ("x", np.arange(4).astype(dtype))})
    database = mongo.database()
    with MongoClient[dict[str, object]](mongo.url) as client, pytest.raises(Unsupported, match=np.dtype(dtype).name):
        if name == "put":
            XarrayMongoDB(client[database]).put(ds)
        else:
            hs.save(f"{mongo.url}/{database}#o", ds)
