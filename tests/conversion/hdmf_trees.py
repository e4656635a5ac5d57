"""An HDMF dataset with all that leads somewhere, and cells enough to be stopped in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import hyperslab as hs
from hyperslab.model.dtypes import ObjectRef, RegionRef, VlenString, tagged

HDMF: dict[str, Any] = {"chunks": {"x": 100, "n": 16}, "memory": 1 << 19}
"""How it is to be cut and converted, so that there are many boxes."""
_OBJECT = np.dtype(object)
ROW = np.dtype(
    [
        ("id", "i4"),
        ("label", tagged(_OBJECT, VlenString())),
        ("ref", tagged(_OBJECT, ObjectRef())),
        ("cells", tagged(_OBJECT, RegionRef())),
    ]
)


def make(path: Path, profile: str = "v2") -> Path:
    """Cells, references, regions, rows, links inside, out of it and to nowhere; a neighbour that some lead to."""
    with hs.create(path.parent / "other.zarr", format="hdmf") as other:
        other.attrs["object_id"] = "id-other"
        outer = other.create_array("e", data=[1.0, 2.0], attrs={"object_id": "id-e"}).ref
        with hs.create(path, format="hdmf", profile=profile) as root:
            root.attrs.update({"object_id": "id-root", "neurodata_type": "NWBFile"})
            cells = np.arange(900 * 90, dtype="f8").reshape(900, 90)
            d = root.create_array("g/d", data=cells, chunks=(50, 90), dims=("x", "y"), attrs={"object_id": "id-d"})
            root["g"].attrs["d"] = d.ref
            root["g"].attrs["outer"] = outer
            refs = [d.ref, root["g"].ref, None, outer] * 40
            root.create_array("g/refs", data=refs, chunks=16, dims=("n",))
            regions = [d.regionref[n : n + 3, ::2] if n % 5 else None for n in range(160)]
            root.create_array("g/regions", data=regions, chunks=16, dims=("n",))
            rows = [(n, "é" * n, refs[n], regions[n]) for n in range(160)]
            root.create_array("g/rows", data=rows, dtype=ROW, chunks=16, dims=("n",))
            root.create_array("g/text", data=["", "bé", "日本"] * 20, dtype=str, chunks=7)
            for name, target in (("own", d), ("outer", outer), ("up", root["g"]), ("nowhere", "/g/nothing")):
                root["g"].create_link(name, target)
    return path
