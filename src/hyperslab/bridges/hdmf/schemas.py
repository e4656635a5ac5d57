"""Read and write the schemas that a file keeps, for hdmf's catalogues, and look up what they say of nodes.

Attributes are cast as the schema wants them: JSON has one kind of whole number and one of text, a schema has more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from hdmf.backends.utils import NamespaceToBuilderHelper
from hdmf.build import BuildManager, GroupBuilder, TypeMap
from hdmf.common import get_type_map as get_common_type_map
from hdmf.spec import SpecReader
from hdmf.spec.write import SpecWriter

from hyperslab.array.session import OpenDataset
from hyperslab.errors import HyperslabError
from hyperslab.formats.hdmf.attributes import SPECIFICATIONS
from hyperslab.formats.hdmf.reader import specifications_path
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import ArraySpec, GroupSpec

_NAMESPACE = "namespace"
_UNVERSIONED = "unversioned"


class _NamespaceReader(SpecReader):
    """One version of a namespace."""

    def __init__(self, source: str, schemas: Mapping[str, Any]) -> None:
        super().__init__(source=source)
        self._schemas = schemas

    def read_spec(self, spec_path: str) -> Any:
        """Return the schema of one source."""
        return self._schemas[spec_path]

    def read_namespace(self, ns_path: str) -> Any:
        """Return the document of the namespace itself."""
        return self._schemas[ns_path]["namespaces"]


def load_schemas(catalog: Any, session: OpenDataset, namespaces: Iterable[str] | None = None) -> dict[str, Any]:
    """Load the newest version of each namespace that the file keeps (of ``namespaces``) into a catalogue or type map;
    by name, what each includes of which others."""
    kept = session.reader.specifications()
    readers = {}
    for name in kept if namespaces is None else namespaces:
        versions = list(kept[name])  # the newest last; words that are no version only where there is no other
        version = next((each for each in reversed(versions) if each not in (_UNVERSIONED, "None")), versions[-1])
        place = f"{session.url}:/{schemas_path(session)}/{name}/{version}"
        readers[name] = _NamespaceReader(place, kept[name][version])
    return dict(catalog.load_namespaces(_NAMESPACE, reader=readers)) if readers else {}


def schemas_path(session: OpenDataset) -> str:
    """Return the group in which the file keeps schemas, or would."""
    root = session.reader.node("")
    return SPECIFICATIONS if root.is_link else specifications_path(root) or SPECIFICATIONS


class _Texts(SpecWriter):
    """The schemas of a namespace as JSON texts by source."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write_spec(self, spec_file_dict: Any, path: str) -> None:
        """Keep the schema of one source as text."""
        self.texts[path] = json.dumps(spec_file_dict, separators=(",", ":"))

    def write_namespace(self, namespace: Any, path: str) -> None:
        """Keep the document of the namespace itself as text."""
        self.write_spec({"namespaces": [namespace]}, path)


def cache_schemas(session: OpenDataset, catalogs: Iterable[tuple[Any, Iterable[str]]]) -> None:
    """Write the namespaces of catalogues into the file, those versions that it lacks; of one name the first counts."""
    writer = session.writer()
    text_array = writer.new_array(ArraySpec(shape=(), dtype=VlenString(), chunks=(), fill_value=""))
    kept = {(name, version) for name, versions in session.reader.specifications().items() for version in versions}
    done: set[str] = set()
    for catalog, names in catalogs:
        for name in names:
            version = catalog.get_namespace(name).version or _UNVERSIONED
            is_kept = name in done or (name, version) in kept
            done.add(name)
            if is_kept:
                continue
            schemas = _Texts()
            NamespaceToBuilderHelper.convert_namespace(catalog, name).export(_NAMESPACE, writer=schemas)
            folder = f"{schemas_path(session)}/{name}/{version}"
            writer.put(folder, GroupSpec())
            for source, text in schemas.texts.items():
                writer.put(f"{folder}/{source}", text_array)
                writer.chunks(f"{folder}/{source}").write((), np.array(text, np.dtypes.StringDType()))


def used_namespaces(catalog: Any, builder: Any, name: str) -> list[str]:
    """Return the namespaces of a catalogue; without ``name``, and what builds on it, where no builder of a tree uses
    it."""
    used: set[str] = set()
    waiting = [builder]
    while waiting:
        each = waiting.pop()
        namespace = each.attributes.get("namespace")  # which it says that it is of
        if isinstance(namespace, str) and namespace not in used:
            used |= _included(catalog, namespace)
        waiting += [*getattr(each, "groups", {}).values(), *getattr(each, "datasets", {}).values()]
    return [each for each in catalog.namespaces if name in used or name not in _included(catalog, each)]


def _included(catalog: Any, name: str) -> set[str]:
    """Return a namespace with those that it builds on."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found and each in catalog.namespaces:
            waiting += [part["namespace"] for part in catalog.get_namespace(each)["schema"] if "namespace" in part]
        found.add(each)
    return found


# -- attributes as a schema wants them ---------------------------------------------------------------------------------

Cast = Callable[[Any], Any]
_UNSIGNED = {"uint": "u4", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8"}
_TYPE_KEYS = ("neurodata_type", "data_type")


@dataclass(frozen=True)
class _CastPlan:
    """The casts of a node's attributes by its schema, and those of nodes right below it without a type of their own."""

    casts: Mapping[str, Cast]
    below: Mapping[str, _CastPlan]


_NOTHING = _CastPlan({}, {})


class AttributeCasting:
    """Casts the attributes of builders by the schemas of a catalogue; what no schema speaks of stays as it is."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._known: dict[tuple[Any, Any], _CastPlan] = {}

    def cast(self, builder: Any, wanted: _CastPlan = _NOTHING) -> None:
        """Cast the attributes of a builder, and of all below it, in place."""
        attributes = builder.attributes
        kind = next((attributes[key] for key in _TYPE_KEYS if key in attributes), None)
        if kind is not None:
            wanted = self._of(attributes.get("namespace"), kind)
        for name, cast in wanted.casts.items():
            if name in attributes:
                attributes[name] = cast(attributes[name])
        if isinstance(builder, GroupBuilder):
            for each in (*builder.groups.values(), *builder.datasets.values()):
                self.cast(each, wanted.below.get(each.name, _NOTHING))

    def _of(self, namespace: Any, kind: Any) -> _CastPlan:
        key = namespace, kind
        if key not in self._known:
            try:
                self._known[key] = _plan_casts(self._catalog.get_spec(namespace, kind))
            except (KeyError, TypeError, ValueError):  # a type that no schema has
                self._known[key] = _NOTHING
        return self._known[key]


def _plan_casts(spec: Any) -> _CastPlan:
    casts = {each.name: cast for each in spec.attributes if (cast := _cast_to(each.dtype)) is not None}
    nodes = (*getattr(spec, "groups", ()), *getattr(spec, "datasets", ()))
    untyped = [
        each for each in nodes if each.name is not None and each.data_type_def is None and each.data_type_inc is None
    ]
    below = {each.name: _plan_casts(each) for each in untyped}
    return _CastPlan(casts, {name: each for name, each in below.items() if each.casts or each.below})


def _cast_to(dtype: Any) -> Cast | None:
    if dtype in ("long", "int64"):
        return _signed
    if dtype in ("ascii", "bytes"):
        return _bytes
    if isinstance(dtype, str) and dtype in _UNSIGNED:
        least = np.dtype(_UNSIGNED[dtype])
        return lambda value: _unsigned(value, least)
    return None


def _signed(value: Any) -> Any:
    return np.int64(value) if type(value) is int and -(2**63) <= value < 2**63 else value


def _unsigned(value: Any, least: np.dtype) -> Any:
    """Return the number in the least type that holds it and that the schema allows; lists as arrays."""
    if isinstance(value, list) and value and all(type(each) is int and 0 <= each < 2**64 for each in value):
        return np.array(value, np.promote_types(least, np.min_scalar_type(max(value))))
    if type(value) is not int or not 0 <= value < 2**64:
        return value
    return np.promote_types(least, np.min_scalar_type(value)).type(value)


def _bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_bytes(each) for each in value]
    return value.encode() if type(value) is str else value


# -- type maps, and what schemas say of a node -------------------------------------------------------------------------

CORE = "core"
"""The namespace of NWB."""


def manager_for(chosen: BuildManager | TypeMap | None, session: OpenDataset | None, *, load: bool) -> BuildManager:
    """Return the manager to build by: `chosen`, or one of pynwb's types for its files, or else of hdmf's."""
    match chosen:
        case BuildManager():
            return chosen
        case TypeMap():
            return BuildManager(chosen)
    is_nwb = "pynwb" in sys.modules
    if session is not None:
        root = session.reader.node("")
        is_nwb = root.is_group and "nwb_version" in root.attrs
        with suppress(HyperslabError):
            is_nwb = is_nwb or CORE in session.reader.specifications()
    get_type_map = get_common_type_map
    if is_nwb:
        with suppress(ImportError):
            from pynwb import get_type_map as get_nwb_type_map

            get_type_map = get_nwb_type_map
    type_map = get_type_map()
    if session is not None and load:
        load_schemas(type_map, session)
    return BuildManager(type_map)


def doc_of(builder: Any, manager: Any) -> str | None:
    """Return the schema's text on a group or dataset; None where no schema has it."""
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
