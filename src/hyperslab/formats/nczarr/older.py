"""The documents of older netcdf-c (4.8.0 to 4.9.2), turned into those that it writes today; such stores are only read.

=== ============== ============================================================================================
V1  4.8.0          separate objects ``.nczarr`` (root), ``.nczgroup``, ``.nczarray``, ``.nczattr``
V2a 4.8.1 to 4.9.0 ``_NCZARR_SUPERBLOCK`` and ``_NCZARR_GROUP`` in ``.zgroup``, ``_NCZARR_ARRAY`` in ``.zarray``,
                   ``_NCZARR_ATTR`` in ``.zattrs``
V2b 4.9.1 to 4.9.2 the same places, names in lower case
=== ============== ============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.formats.metadata_dialect import Docs
from hyperslab.formats.nczarr.generation import ARRAY, GROUP, SUPERBLOCK, TYPES

_NEW_NAMES = {"dims": "dimensions", "vars": "arrays", "dimrefs": "dimension_references"}
_OBJECTS = {".nczarr": SUPERBLOCK, ".nczgroup": GROUP, ".nczarray": ARRAY, ".nczattr": TYPES}
_OWN = frozenset(_OBJECTS.values())


def as_current(docs: Docs) -> Docs:
    """The documents of a node with NCZarr's own objects in ``.zattrs``, under today's names."""
    own: dict[str, Any] = {}
    plain: Docs = {}
    for name, doc in docs.items():
        if name in _OBJECTS:
            own[_OBJECTS[name]] = _renamed(doc)
            continue
        plain[name] = {key: value for key, value in doc.items() if key.lower() not in _OWN}
        own |= {key.lower(): _renamed(value) for key, value in doc.items() if key.lower() in _OWN}
    return {**plain, ".zattrs": {**plain.get(".zattrs", {}), **own}}


def _renamed(said: Any) -> Any:
    if not isinstance(said, Mapping):
        return said
    return {_NEW_NAMES.get(key, key): value for key, value in said.items()}
