"""Files and folders in a dataset that no format knows, such as the OME-XML beside images, found by listings alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.settings import DEFAULTS
from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.rules import Finding
from hyperslab.formats.zarr.opening import ZarrFormat
from hyperslab.integrity.chunk_rules import find_foreign_entry, find_foreign_names, find_strays
from hyperslab.integrity.node_documents import NodeDocuments, read_stored
from hyperslab.integrity.stored_chunks import open_objects
from hyperslab.integrity.survey import KeyedSurvey
from hyperslab.integrity.views import ArrayView, EntryView, NodeView, Role
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store


def find_foreign_files(session: OpenDataset, paths: Iterable[str]) -> Iterator[Problem]:
    """Yield what lies right in the folders of these groups and arrays and belongs to no format, and folders in them
    that hold no node; nothing of a format that has no documents under keys, nor of a place that lists nothing.

    One listing for each path, and one for each folder that is no node.
    """
    format, store = session.format, session.reader.store
    if not isinstance(format, ZarrFormat) or store is None:
        return
    survey = KeyedSurvey(store, format.metadata_dialect, DEFAULTS, deep=False)
    for path in paths:
        with suppress(HyperslabError):  # a web server lists nothing; damage is told by who reads the node
            spec = session.reader.node(path)
            findings = (
                _in_array(survey, store, path, spec) if spec.is_array else _in_group(survey, session, store, path)
            )
            yield from [finding.problem for finding in findings]


def _in_group(survey: KeyedSurvey, session: OpenDataset, store: Store, path: str) -> Iterator[Finding]:
    view = survey.view
    names, inner = store.list_dir(path)
    if set(view.dialect.nodes).isdisjoint(names):  # it may be a folder of anything
        return
    aside = {stray.key for stray in find_strays(store, path, path)}
    aside |= {child(path, name) for name in session.reader.children(path)}
    names = [name for name in names if child(path, name) not in aside]
    yield from find_foreign_names(NodeView(view, path, names, (), (), NodeDocuments(), Role.GROUP))
    for folder in (key for name in inner if (key := child(path, name)) not in aside):
        names, below = store.list_dir(folder)
        stored = read_stored(store, view.dialect, folder, names)
        role, _ = survey.find_role(folder, stored, names, below)
        yield from find_foreign_names(NodeView(view, folder, (), (), (), stored, role))


def _in_array(survey: KeyedSurvey, store: Store, path: str, spec: ArraySpec) -> Iterator[Finding]:
    dialect = survey.view.dialect
    array = ArrayView(survey.view, path, open_objects(store, path, dialect.key_of(spec), spec, DEFAULTS))
    names, inner = store.list_dir(path)
    strays = {stray.key for stray in find_strays(store, path, path)}
    for name, is_folder in [*((name, False) for name in names), *((name, True) for name in inner)]:
        key = child(path, name)
        if name not in survey.view.known_names and key not in strays:
            yield from find_foreign_entry(EntryView(array, name, key, is_folder, array.names.coords(name)))
