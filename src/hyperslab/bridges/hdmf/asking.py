"""What the backend asks of hdmf, pynwb and the schemas: type maps, codecs by the peer's names, documentation."""

from __future__ import annotations

import sys
from typing import Any

from hdmf.build import BuildManager, TypeMap

from hyperslab.array.session import OpenDataset
from hyperslab.bridges.hdmf import specs
from hyperslab.errors import Invalid
from hyperslab.model.spec import GroupSpec

_CODECS = {"json2": "json2", "pickle": "pickle"}
CORE = "core"
"""The namespace of NWB."""


def manager_for(given: BuildManager | TypeMap | None, session: OpenDataset | None, *, load: bool) -> BuildManager:
    """The manager to build and construct by. Without one given: of pynwb's types for its files, or where it is in use,
    else of hdmf's; with the schemas that the file keeps."""
    if isinstance(given, BuildManager):
        return given
    if isinstance(given, TypeMap):
        return BuildManager(given)
    type_map = _type_map("pynwb" in sys.modules if session is None else _is_nwb(session))
    if session is not None and load:
        specs.load(type_map, session)
    return BuildManager(type_map)


def _is_nwb(session: OpenDataset) -> bool:
    root = session.reader.node("")
    return (isinstance(root, GroupSpec) and "nwb_version" in root.attrs) or specs.keeps(session, CORE)


def _type_map(nwb: bool) -> TypeMap:
    if nwb:
        try:
            from pynwb import get_type_map
        except ImportError:
            pass
        else:
            return get_type_map()
    from hdmf.common import get_type_map as common

    return common()


def object_codec_of(name: str | None, codec_class: Any) -> str:
    """``json2`` or ``pickle``, also by the class of numcodecs that hdmf-zarr takes: only its id is looked at."""
    if codec_class is None:
        return name or "json2"
    known = _CODECS.get(getattr(codec_class, "codec_id", ""))
    if known is None or name not in (None, known):
        remedy = "give numcodecs.JSON or numcodecs.Pickle, or object_codec='json2' or 'pickle'"
        raise Invalid(f"object_codec_class={codec_class!r}", remedy=remedy)
    return known


def doc_of(builder: Any, manager: Any) -> str | None:
    """What the schema says that a group or dataset is; None where no schema speaks of it."""
    spec = _spec_of(builder, manager)
    return None if spec is None else str(spec.doc)


def _spec_of(builder: Any, manager: Any) -> Any:
    if builder.matched_spec is not None:
        return builder.matched_spec
    name, namespace = manager.get_builder_dt(builder), manager.get_builder_ns(builder)
    if name is not None and namespace is not None:
        return manager.namespace_catalog.get_spec(namespace, name)
    above = None if builder.parent is None else _spec_of(builder.parent, manager)
    if above is None:
        return None
    return above.get_group(builder.name) if hasattr(builder, "groups") else above.get_dataset(builder.name)
