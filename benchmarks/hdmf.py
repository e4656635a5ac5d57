"""HDMF on Zarr: NWB files, and references as old peers pickled them, read without running the pickle."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import numpy as np

from benchmarks import nwb
from benchmarks.harness import OURS, Contender, Row, Target
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.model.dtypes import ObjectRef
from hyperslab.model.spec import Codec

TITLE = "HDMF"
_REFERENCES = 100_000
_BOUND = "a reader of pickles in Python, which knows references alone and runs nothing; `json.loads` is C."


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Files of NWB; pickled references: each to a node of its own, and many to few nodes."""
    yield from nwb.rows(folder, side)
    yield pickled_references("each to a node of its own", _REFERENCES)
    yield pickled_references("to 100 nodes", 100)


def pickled_references(which: str, nodes: int) -> Row:
    """A chunk of pickled references, decoded to cells, beside ``json.loads`` of the same objects."""
    objects = [_reference(number % nodes) for number in range(_REFERENCES)]
    chunk, text = _pickled(objects), json.dumps(objects, separators=(",", ":"))
    decode = build_chain([Codec("reference_pickle")], ChunkLayout(ObjectRef(), (_REFERENCES,))).decode
    contenders = [Contender(OURS, partial(decode, chunk)), Contender("json.loads", partial(json.loads, text))]

    def check(name: str, found: Any) -> bool:
        last = found[-1]
        path, ids = (last.path, last.object_id) if name == OURS else (last["path"], last["object_id"])
        return len(found) == _REFERENCES and (path, ids) == (objects[-1]["path"], objects[-1]["object_id"])

    return Row(
        f"{_REFERENCES:,} pickled references, {which}", contenders, check, (Target("json.loads", 1 / 3, _BOUND),)
    )


def _reference(node: int) -> dict[str, str]:
    """The four keys in the peer's order."""
    return {
        "source": ".",
        "path": f"/processing/behavior/units/group_{node}/data",
        "object_id": str(UUID(int=node * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)),
        "source_object_id": str(UUID(int=1)),
    }


def _pickled(objects: list[dict[str, str]]) -> bytes:
    """The chunk as the peer wrote it: by the stock pickler, with a class of its name."""
    kind: Any = type("ZarrReference", (dict,), {"__module__": "hdmf_zarr.utils"})
    cells = np.fromiter(map(kind, objects), object, len(objects))
    utils: Any = ModuleType("hdmf_zarr.utils")
    utils.ZarrReference = kind
    known = {name: sys.modules.get(name) for name in ("hdmf_zarr", "hdmf_zarr.utils")}
    sys.modules |= {"hdmf_zarr": ModuleType("hdmf_zarr"), "hdmf_zarr.utils": utils}
    try:
        return pickle.dumps(cells, protocol=5)
    finally:
        for name, module in known.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
