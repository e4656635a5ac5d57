"""``_NCProperties``: which library made a dataset, in which dialect (R45)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version


@cache
def provenance(dialect: str) -> str:
    """What a dataset made here says; ``zarr=2`` is the format of its documents."""
    return f"version=2,hyperslab={version('hyperslab')},nczarr={dialect},zarr=2"


def joined(dialect: str, foreign: Mapping[str, str]) -> str:
    """The same, with the pairs of others that had made the dataset."""
    ours = dict(pair.split("=") for pair in provenance(dialect).split(","))
    return ",".join(f"{name}={value}" for name, value in (ours | dict(foreign) | {"nczarr": dialect}).items())
