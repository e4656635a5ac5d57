"""The generations of NCZarr, told by where the extra keys are, never by the version that a document names."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from hyperslab.formats.metadata_dialect import Docs


class Generation(StrEnum):
    """Who wrote a store. ``PURE`` is plain Zarr v2: no NCZarr metadata."""

    DRAFT = "draft of 2018"
    V1 = "netcdf-c 4.8.0"
    V2A = "netcdf-c 4.8.1 to 4.9.0"
    V2B = "netcdf-c 4.9.1 to 4.9.2"
    V2C = "netcdf-c 4.9.3 and later"
    PURE = "plain Zarr"

    @property
    def is_older(self) -> bool:
        """Return whether netcdf-c wrote it in a layout that it no longer writes; such stores are read, not changed."""
        return self in (Generation.V1, Generation.V2A, Generation.V2B)


PROVENANCE = "_NCProperties"
SUPERBLOCK, GROUP, ARRAY, TYPES = "_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr"
"""NCZarr's own objects, as they are called since 4.9.1."""
DRAFT_ONLY = (".zdims", ".zattr_type", ".zattrs_type", ".ztypedefs")
"""Documents of a root that make it the draft's, together with provenance."""


def generation_of(root: Docs) -> Generation:
    """The generation of the dataset with these documents of the root; ``PURE`` where nothing marks another.

    The superblock decides; provenance alone never does, for netcdf-c writes it into plain stores too.
    """
    attributes, group = root.get(".zattrs", {}), root.get(".zgroup", {})
    if SUPERBLOCK in attributes:
        return Generation.V2C
    if SUPERBLOCK in group:
        return Generation.V2B
    if SUPERBLOCK.upper() in group:
        return Generation.V2A
    if ".nczarr" in root:
        return Generation.V1
    if ".zdataset" in root:
        return Generation.DRAFT
    if PROVENANCE in attributes and not root.keys().isdisjoint(DRAFT_ONLY):
        return Generation.DRAFT
    return Generation.PURE


def provenance_of(attributes: Mapping[str, Any]) -> dict[str, str]:
    """The pairs of ``_NCProperties``, such as ``{"version": "2", "netcdf": "4.10.1", "nczarr": "2.0.0"}``."""
    said = attributes.get(PROVENANCE)
    if not isinstance(said, str):
        return {}
    pairs = (part.partition("=") for part in said.replace("|", ",").split(","))
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}
