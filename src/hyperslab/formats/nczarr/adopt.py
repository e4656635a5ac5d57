"""A plain Zarr v2 dataset made NCZarr in place: documents are written anew, chunks stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from hyperslab.chunks.settings import DEFAULTS
from hyperslab.errors import HyperslabError, Invalid, Problem, Unsupported
from hyperslab.formats.documents import JsonMapping
from hyperslab.formats.enclosing import EnclosingDataset
from hyperslab.formats.nczarr import FORMAT
from hyperslab.formats.nczarr.dialect import CONSOLIDATED, NczarrDialect
from hyperslab.formats.nczarr.dimensions import (
    anonymous_name,
    is_anonymous,
    qualified,
    require_netcdf_name,
    split_qualified,
)
from hyperslab.formats.nczarr.generation import Generation, NCZarrOptions
from hyperslab.formats.nczarr.reader import NczarrReader
from hyperslab.formats.zarr.commit import DocumentChange, DocumentCommits
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr.reader import ZarrReader
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import describe
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location

Spec = GroupSpec | ArraySpec


def adopt(
    url: object,
    dialect: Literal["current", "draft"] = "current",
    *,
    storage_options: JsonMapping | None = None,
    durable: bool = True,
    lock_timeout: float = DEFAULTS.lock_timeout,
) -> None:
    """Make NCZarr of the plain Zarr v2 dataset at ``url``, in place: only documents are written.

    Dimensions are those of ``_ARRAY_DIMENSIONS``, declared in the array's group; a name with another length there, and
    an axis without a name, gets one of the root that tells its length. Unsupported names every array that the dialect
    cannot hold, Invalid says that the dataset is NCZarr already; nothing is changed then.
    """
    where = Location.of(url, storage_options)
    store = where.store(read_only=False, create=False)
    try:
        with store.lock_node("", lock_timeout):
            docs, metadata_dialect = _documents(_model(FORMAT.open(where, "r"), where.url), dialect, where.url)
            consolidated = dialect == "draft" or store.get(CONSOLIDATED) is not None
            commits = DocumentCommits(store, metadata_dialect, durable=durable, consolidated=consolidated)
            with EnclosingDataset(where).follow_whole():
                commits.commit(DocumentChange(docs))
    finally:
        store.close()


def _model(reader: ZarrReader, url: str) -> dict[str, Spec]:
    """Return every node of a plain dataset by its path, groups before what is in them."""
    try:
        reader.refresh("")  # consolidated metadata may be older than what others have added
        root = reader.node("")
        if not isinstance(reader, NczarrReader) or reader.generation is not Generation.PURE:
            raise Invalid("this is NCZarr already", url=url, remedy="open it with mode='r+'")
        if root.is_array:
            raise Unsupported("the root is an array, and that of NCZarr a group", url=url, remedy="convert it")
        return dict(_walk(reader, "", root))
    finally:
        reader.close()


def _walk(reader: ZarrReader, path: str, spec: Spec) -> Iterator[tuple[str, Spec]]:
    attrs = {name: np.uint8(value) if isinstance(value, bool) else value for name, value in spec.attrs.items()}
    if spec.is_array:
        yield path, spec.evolve(attrs=attrs)
        return
    below = {name: reader.node(child(path, name)) for name in reader.children(path)}
    lists = {
        kind: tuple(name for name, node in below.items() if isinstance(node, of))
        for kind, of in (("arrays", ArraySpec), ("groups", GroupSpec))
    }
    yield path, spec.evolve(attrs=attrs, layout={**spec.layout, **lists})
    for name, node in below.items():
        yield from _walk(reader, child(path, name), node)


def _with_dimensions(model: Mapping[str, Spec], *, draft: bool) -> dict[str, Spec]:
    """Return the nodes with the dimensions of the arrays declared in their groups."""
    dims: dict[str, dict[str, Dimension]] = {}
    found: dict[str, Spec] = {}
    for path, spec in model.items():
        if spec.is_group:
            dims[path] = {dim.name: dim for dim in spec.dims}
            found[path] = spec
            continue
        names = []
        for fqn, size in zip(spec.layout["dimensions"], spec.shape, strict=True):
            group, name = split_qualified(fqn)
            if is_anonymous(name, size) or dims[group].setdefault(name, Dimension(name, size)).size != size:
                group, name = "", anonymous_name(size, draft=draft)
                dims[""].setdefault(name, Dimension(name, size))
            names.append(qualified(group, name))
        layout = {**spec.layout, "dimensions": tuple(names)}
        found[path] = spec.evolve(dims=tuple(split_qualified(name)[1] for name in names), layout=layout)
    return {
        path: spec.evolve(dims=tuple(dims[path].values())) if spec.is_group else spec for path, spec in found.items()
    }


def _documents(model: Mapping[str, Spec], dialect: Any, url: str) -> tuple[dict[str, Docs], NczarrDialect]:
    """Return the documents of all nodes, the root's last: with them the dataset is NCZarr."""
    whole = _with_dimensions(model, draft=dialect == "draft")

    def group(path: str) -> GroupSpec | None:
        spec = whole.get(path)
        return spec if spec is not None and spec.is_group else None

    metadata_dialect = NczarrDialect(NCZarrOptions(dialect=dialect))
    metadata_dialect.bind_lookups(group, lambda path: {})
    metadata_dialect.learn_generation(None)
    docs, problems = {}, []
    # the root comes last: who dies before leaves a plain dataset
    for path in reversed(whole):
        try:
            docs[path] = _render(whole[path], path, metadata_dialect)
        except HyperslabError as error:
            problems.append(Problem(path, "cannot-hold", error.said))
    if problems:
        shown = "; ".join(map(str, reversed(problems)))
        raise Unsupported(shown, url=url, remedy="convert it, or take out what NCZarr cannot hold")
    return docs, metadata_dialect


def _render(spec: Spec, path: str, metadata_dialect: NczarrDialect) -> Docs:
    """Return the documents of a node; Unsupported or Invalid where the dialect cannot hold it."""
    if metadata_dialect.generation is not Generation.DRAFT:
        declared = [dim.name for dim in spec.dims] if spec.is_group else []
        for name in filter(None, (split_qualified(path)[1], *declared)):
            require_netcdf_name(name, path)
    docs = metadata_dialect.render(spec, path)
    if spec.is_array:
        if spec.problem is not None:
            raise Unsupported(spec.problem)
        metadata_dialect.new_array(spec, path)
        back = metadata_dialect.parse(docs, path)
        if not back.is_array or (back.dtype, back.codecs) != (spec.dtype, spec.codecs):
            raise Unsupported(f"no cells of type {describe(spec.dtype)} under these codecs")
    return docs
