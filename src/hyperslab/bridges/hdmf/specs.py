"""The schemas that a file keeps: read for hdmf's catalogues, and written from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from hdmf.backends.utils import NamespaceToBuilderHelper
from hdmf.spec import SpecReader
from hdmf.spec.write import SpecWriter

from hyperslab.array.session import OpenDataset
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import HoldsSpecifications, Plans, Writer
from hyperslab.formats.hdmf.attribute_names import SPECIFICATIONS
from hyperslab.formats.hdmf.specifications import place_said
from hyperslab.model.dtypes import VlenString
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec

_NAMESPACE = "namespace"
_UNVERSIONED = "unversioned"


class _NamespaceReader(SpecReader):
    """One version of a namespace."""

    def __init__(self, source: str, schemas: Mapping[str, Any]) -> None:
        super().__init__(source=source)
        self._schemas = schemas

    def read_spec(self, spec_path: str) -> Any:
        """The schema of one source."""
        return self._schemas[spec_path]

    def read_namespace(self, ns_path: str) -> Any:
        """What the namespace itself says."""
        return self._schemas[ns_path]["namespaces"]


def load(catalog: Any, session: OpenDataset, namespaces: Iterable[str] | None = None) -> dict[str, Any]:
    """Load the newest version of each namespace that the file keeps (of ``namespaces``) into a catalogue or type map;
    by name, what each includes of which others."""
    kept = specifications(session)
    readers = {}
    for name in kept if namespaces is None else namespaces:
        versions = list(kept[name])
        version = next((each for each in reversed(versions) if each not in (_UNVERSIONED, "None")), versions[-1])
        readers[name] = _NamespaceReader(f"{session.url}:/{place(session)}/{name}/{version}", kept[name][version])
    return dict(catalog.load_namespaces(_NAMESPACE, reader=readers)) if readers else {}


def specifications(session: OpenDataset) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """What the file keeps: namespace, version, source."""
    return session.reader.specifications() if isinstance(session.reader, HoldsSpecifications) else {}


def place(session: OpenDataset) -> str:
    """The group in which the file keeps them, or would."""
    root = session.reader.node("")
    return SPECIFICATIONS if isinstance(root, Link) else place_said(root) or SPECIFICATIONS


class _Texts(SpecWriter):
    """The schemas of a namespace as JSON texts by source."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write_spec(self, spec_file_dict: Any, path: str) -> None:
        """One source."""
        self.texts[path] = json.dumps(spec_file_dict, separators=(",", ":"))

    def write_namespace(self, namespace: Any, path: str) -> None:
        """What the namespace itself says."""
        self.write_spec({"namespaces": [namespace]}, path)


def cache(session: OpenDataset, catalogs: Iterable[tuple[Any, Iterable[str]]]) -> None:
    """Keep these namespaces of catalogues in the file, those versions that it has not yet; the first one counts."""
    writer = session.writer()
    kept = {(name, version) for name, versions in specifications(session).items() for version in versions}
    named: set[str] = set()
    for catalog, names in catalogs:
        for name in names:
            version = catalog.get_namespace(name).version or _UNVERSIONED
            if name not in named and (name, version) not in kept:
                _keep(writer, f"{place(session)}/{name}/{version}", _texts(catalog, name))
            named.add(name)


def without_unused(catalog: Any, builder: Any, name: str) -> list[str]:
    """Return the namespaces of a catalogue; without ``name``, and what builds on it, where no builder of a tree uses
    it."""
    used = {found for each in _namespaces_in(builder) for found in _included(catalog, each)}
    return [each for each in catalog.namespaces if name in used or name not in _included(catalog, each)]


def _namespaces_in(builder: Any) -> set[str]:
    """Return the namespaces that builders of a tree say they are of."""
    found = set()
    waiting = [builder]
    while waiting:
        each = waiting.pop()
        said = each.attributes.get("namespace")
        if isinstance(said, str):
            found.add(said)
        waiting += [*getattr(each, "groups", {}).values(), *getattr(each, "datasets", {}).values()]
    return found


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


def _texts(catalog: Any, name: str) -> dict[str, str]:
    texts = _Texts()
    NamespaceToBuilderHelper.convert_namespace(catalog, name).export(_NAMESPACE, writer=texts)
    return texts.texts


def _keep(writer: Writer, folder: str, texts: Mapping[str, str]) -> None:
    wish = ArraySpec(shape=(), dtype=VlenString(), chunks=(), fill_value="")
    spec = writer.new_array(wish) if isinstance(writer, Plans) else wish
    writer.put(folder, GroupSpec())
    for source, text in texts.items():
        path = f"{folder}/{source}"
        writer.put(path, spec)
        writer.chunks(path).write((), np.array(text, np.dtypes.StringDType()))


def keeps(session: OpenDataset, name: str) -> bool:
    """Return whether the file keeps a namespace."""
    try:
        return name in specifications(session)
    except HyperslabError:
        return False
