"""The generations of NCZarr, told by where the extra keys are, never by the version that a document names.

=== ============== ============================================================================================
V1  4.8.0          separate objects ``.nczarr`` (root), ``.nczgroup``, ``.nczarray``, ``.nczattr``
V2a 4.8.1 to 4.9.0 ``_NCZARR_SUPERBLOCK`` and ``_NCZARR_GROUP`` in ``.zgroup``, ``_NCZARR_ARRAY`` in ``.zarray``,
                   ``_NCZARR_ATTR`` in ``.zattrs``
V2b 4.9.1 to 4.9.2 the same places, names in lower case
V2c 4.9.3 and on   all of them in ``.zattrs``: see ``current``
=== ============== ============================================================================================

The draft of 2018 has documents of its own: see ``draft``. :class:`Context` is what the meaning of one node's documents
depends on: the options, the generation, and the documents of other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Literal

from hyperslab.formats.base import PROVENANCE
from hyperslab.formats.documents import JsonMapping, JsonObject, text_or_none
from hyperslab.formats.opening import check_bool, check_choices
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.model.spec import ArraySpec, GroupSpec


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
        """Return True for a layout that netcdf-c no longer writes; such stores are read, not changed."""
        return self in (Generation.V1, Generation.V2A, Generation.V2B)


SUPERBLOCK, GROUP, ARRAY, TYPES = "_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr"
"""NCZarr's own objects, as they are called since 4.9.1."""
DRAFT_ONLY = (".zdims", ".zattr_type", ".zattrs_type", ".ztypedefs")
"""Documents of a root that make it the draft's, together with provenance."""


def find_generation(root: Docs) -> Generation:
    """Return the generation of the dataset with these documents of the root; ``PURE`` where nothing marks another.

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


def read_provenance(attributes: JsonMapping) -> dict[str, str]:
    """Return the pairs of ``_NCProperties``, such as ``{"version": "2", "netcdf": "4.10.1", "nczarr": "2.0.0"}``."""
    content = text_or_none(attributes.get(PROVENANCE)) or ""
    pairs = [part.partition("=") for part in content.replace("|", ",").split(",")]
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}


# -- _NCProperties: which library made a dataset ----------------------------------------------------------------------


@cache
def provenance(dialect: str) -> str:
    """Return what a dataset made here says; ``zarr=2`` is the format of its documents."""
    from importlib.metadata import version  # on use: with it come email, sockets and archives

    return f"version=2,hyperslab={version('hyperslab')},nczarr={dialect},zarr=2"


def merge_provenance(dialect: str, foreign: Mapping[str, str]) -> str:
    """Return the same, with the pairs of others that had made the dataset."""
    ours = dict(pair.split("=") for pair in provenance(dialect).split(","))
    return ",".join(f"{name}={value}" for name, value in (ours | dict(foreign) | {"nczarr": dialect}).items())


# -- documents of older netcdf-c --------------------------------------------------------------------------------------
# Turned into those that it writes today; such stores are only read.


NEW_NAMES = {"dims": "dimensions", "vars": "arrays", "dimrefs": "dimension_references"}
OBJECTS = {".nczarr": SUPERBLOCK, ".nczgroup": GROUP, ".nczarray": ARRAY, ".nczattr": TYPES}
_OWN_OBJECTS = frozenset(OBJECTS.values())


def to_current_documents(docs: Docs) -> Docs:
    """Return the documents of a node with NCZarr's own objects in ``.zattrs``, under today's names."""
    own: JsonObject = {}
    plain: Docs = {}
    for name, doc in docs.items():
        if name in OBJECTS:
            own[OBJECTS[name]] = _with_new_names(doc)
            continue
        plain[name] = {key: value for key, value in doc.items() if key.lower() not in _OWN_OBJECTS}
        own |= {key.lower(): _with_new_names(value) for key, value in doc.items() if key.lower() in _OWN_OBJECTS}
    return {**plain, ".zattrs": {**plain.get(".zattrs", {}), **own}}


def _with_new_names(content: object) -> object:
    if not isinstance(content, Mapping):
        return content
    return {NEW_NAMES.get(key, key): value for key, value in content.items()}


# -- options and context ----------------------------------------------------------------------------------------------


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
        check_bool("native", self.native)
        check_bool("truncate", self.truncate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``provenance``: the pairs of the root's ``_NCProperties``. ``group``: the dimensions and types that the group at
    a path declares, None where there is none. ``texts``: how the values of a node's ``.zattrs`` are spelled there.
    ``structured``: the paths of the arrays of a plain dataset whose cells have fields, in order. ``parsed``: what was
    made of ``.zarray`` documents that several arrays share (:func:`~hyperslab.formats.nczarr.cells.read_array_once`).
    """

    generation: Generation
    options: NCZarrOptions = field(default_factory=NCZarrOptions)
    provenance: Mapping[str, str] = field(default_factory=dict)
    group: Callable[[str], GroupSpec | None] = lambda path: None
    texts: Callable[[str], Mapping[str, str]] = lambda path: {}
    structured: Callable[[], Sequence[str]] = tuple
    parsed: dict[tuple[int, Any, bool], ArraySpec] = field(default_factory=dict, compare=False)
