"""What the documents of one node mean depends on: the options, the generation, and the documents of other nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hyperslab.formats.choices import check_choices, check_truth
from hyperslab.formats.nczarr.generation import Generation
from hyperslab.model.spec import ArraySpec, GroupSpec

_CHOICES = {
    "dialect": (None, "current", "draft"),
    "char_encoding": ("netcdf", "zarr"),
    "byteorder": ("auto", "stored", "swapped"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NCZarrOptions:
    """How a dataset is opened or made.

    ``dialect`` of a new dataset (None: current). ``char_encoding``: char cells as netcdf-c knows them (``>S1``), or as
    zarr-python does (``|S1`` with a mark). ``native=False``: truth values, complex numbers and times as netCDF has
    them. ``truncate``: text that is too long is cut. ``byteorder``: of cells of a big-endian dtype; ``auto`` knows the
    versions of netcdf-c that wrote them in little-endian order.
    """

    dialect: Literal["current", "draft"] | None = None
    char_encoding: Literal["netcdf", "zarr"] = "netcdf"
    native: bool = True
    truncate: bool = False
    byteorder: Literal["auto", "stored", "swapped"] = "auto"

    def __post_init__(self) -> None:
        check_choices(self, _CHOICES)
        check_truth("native", self.native)
        check_truth("truncate", self.truncate)


def _nothing_declared(path: str) -> GroupSpec | None:
    return None


def _no_texts(path: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``provenance``: the pairs of the root's ``_NCProperties``. ``group``: the dimensions and types that the group at
    a path declares, None where there is none. ``texts``: how the values of a node's ``.zattrs`` are spelled there.
    ``structured``: the paths of the arrays of a plain dataset whose cells have fields, in order. ``parsed``: what was
    made of ``.zarray`` documents that several arrays share (:func:`~hyperslab.formats.nczarr.cells.read_once`).
    """

    generation: Generation
    options: NCZarrOptions = field(default_factory=NCZarrOptions)
    provenance: Mapping[str, str] = field(default_factory=dict)
    group: Callable[[str], GroupSpec | None] = _nothing_declared
    texts: Callable[[str], Mapping[str, str]] = _no_texts
    structured: Callable[[], Sequence[str]] = tuple
    parsed: dict[tuple[int, Any, bool], ArraySpec] = field(default_factory=dict, compare=False)
