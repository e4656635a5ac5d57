"""One look at the documents of a dataset, which its rules (``rules``, ``dimension_rules``) look at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping

from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.nczarr.dialect import NczarrDialect
from hyperslab.formats.nczarr.generation import Context, Generation
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr.reader import ZarrReader
from hyperslab.formats.zarr.rules import DocumentSurvey
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store

DEEPEST = 100


class SurveyedDataset(ZarrReader):
    """A dataset that is looked at."""

    @property
    @abstractmethod
    def dialect(self) -> NczarrDialect:
        """Return how the documents of the dataset read."""

    @abstractmethod
    def writable_documents(self, path: str) -> Docs | None:
        """Return the documents of a node as they can be written again; None where it has none."""

    @abstractmethod
    def list_mismatches(self, path: str) -> list[Problem]:
        """Return what a group holds and does not list, and what it lists and does not hold."""


class NCZarrSurvey(DocumentSurvey):
    """Documents and specs by path, read when they are asked for. Nodes that cannot be parsed are left out."""

    def __init__(self, dataset: SurveyedDataset) -> None:
        self.dataset = dataset
        dataset.refresh("")
        dataset.node("")
        self._docs: dict[str, Docs] = {}
        self._understood: dict[str, tuple[Docs | None, set[str]]] = {}
        self._specs: dict[str, GroupSpec | ArraySpec] | None = None

    @property
    def generation(self) -> Generation:
        """Return who wrote the dataset."""
        return self.context.generation

    @property
    def context(self) -> Context:
        """Return what the meaning of documents depends on."""
        return self.dataset.dialect.context

    @property
    def store(self) -> Store:
        """Return the store that the dataset lies in."""
        return self.dataset.store

    def spec(self, path: str) -> GroupSpec | ArraySpec | None:
        """Return one node, for which the others are not looked at; None where it cannot be read."""
        try:
            return self.dataset.node(path)
        except HyperslabError:
            return None

    @property
    def specs(self) -> Mapping[str, GroupSpec | ArraySpec]:
        """Return all nodes by path, groups before what is in them."""
        if self._specs is None:
            self._specs = dict(self._walk("", 0))
        return self._specs

    def _walk(self, path: str, depth: int) -> Iterator[tuple[str, GroupSpec | ArraySpec]]:
        try:
            spec = self.dataset.node(path)
            names = list(self.dataset.children(path)) if depth < DEEPEST else []
        except HyperslabError:  # said where documents are looked at one by one
            return
        yield path, spec
        for name in names:
            yield from self._walk(child(path, name), depth + 1)

    @property
    def arrays(self) -> Iterator[tuple[str, ArraySpec]]:
        """Return the arrays by path."""
        return ((path, spec) for path, spec in self.specs.items() if spec.is_array)

    def docs(self, path: str) -> Docs:
        """Return the documents of a node, as they can be written again."""
        if path not in self._docs:
            self._docs[path] = self.dataset.writable_documents(path) or {}
        return self._docs[path]

    def problems(self, path: str) -> list[Problem]:
        """Return what is noted when a node is parsed."""
        return self.dataset.dialect.problems(self.docs(path), path)

    def as_understood(self, path: str) -> tuple[Docs | None, set[str]]:
        if path not in self._understood:
            spec = self.spec(path)
            docs = None if spec is None else self.rendered(path, spec)
            left = [] if docs is None else self.dataset.dialect.problems(docs, path)
            self._understood[path] = docs, {problem.kind for problem in left}
        return self._understood[path]

    def lists(self, path: str) -> dict[str, list[str]]:
        """Return the arrays and groups that lie in a group."""
        below = {name: self.specs.get(child(path, name)) for name in self.dataset.children(path)}
        return {
            "arrays": [name for name, spec in below.items() if spec is not None and spec.is_array],
            "groups": [name for name, spec in below.items() if spec is not None and spec.is_group],
        }

    def rendered(self, path: str, spec: GroupSpec | ArraySpec) -> Docs | None:
        """Return the documents of a node as it is understood; None where this cannot be written."""
        if self.generation not in (Generation.V2C, Generation.DRAFT):
            return None
        if spec.is_group and self.generation is Generation.V2C:
            lists = {name: names for name, names in self.lists(path).items() if spec.layout.get(name) is None}
            spec = spec.evolve(layout={**spec.layout, **lists})
        try:
            return self.dataset.dialect.render(spec, path)
        except HyperslabError:
            return None
