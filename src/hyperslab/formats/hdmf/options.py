"""How a dataset of HDMF is opened or made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hyperslab.errors import Invalid
from hyperslab.formats.choices import check_choices, check_truth

_CHOICES = {"profile": ("v2", "v3"), "object_codec": ("json2", "pickle")}


@dataclass(frozen=True, slots=True, kw_only=True)
class HDMFOptions:
    """``profile`` of a new dataset: on Zarr v2 or on Zarr v3. ``object_codec``: what references are stored with in
    profile v2; releases of hdmf-zarr up to 0.13 read rows with references only from ``pickle``, which is never executed
    here. ``region_attributes``: write region references in attributes of profile v2, which those releases cannot open.
    ``allow_external``: folders and URLs that links may lead to besides the folder of the dataset, True for all.
    """

    profile: Literal["v2", "v3"] = "v2"
    object_codec: Literal["json2", "pickle"] = "json2"
    region_attributes: bool = False
    allow_external: Sequence[str] | bool = ()

    def __post_init__(self) -> None:
        check_choices(self, _CHOICES)
        check_truth("region_attributes", self.region_attributes)
        if isinstance(self.allow_external, str):
            object.__setattr__(self, "allow_external", (self.allow_external,))
        allowed = self.allow_external
        if not isinstance(allowed, bool | Sequence) or (
            not isinstance(allowed, bool) and not all(isinstance(place, str) for place in allowed)
        ):
            raise Invalid(f"allow_external={allowed!r}", remedy="folders and URLs, or True for all")
        if not isinstance(allowed, bool):
            object.__setattr__(self, "allow_external", tuple(allowed))
