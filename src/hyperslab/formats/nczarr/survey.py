"""One look at the documents of an NCZarr dataset as they are stored, and what may be wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.keyed_damage import NodeDamage
from hyperslab.formats.metadata_dialect import Docs
from hyperslab.formats.nczarr.context import Context
from hyperslab.formats.nczarr.generation import Generation
from hyperslab.formats.nczarr.spelling import NczarrSpelling
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store

DEEPEST = 100


class SurveyedDataset(Protocol):
    """What is asked of a dataset that is looked at."""

    @property
    def store(self) -> Store: ...
    @property
    def words(self) -> NczarrSpelling: ...
    def node(self, path: str) -> GroupSpec | ArraySpec: ...
    def children(self, path: str) -> Iterable[str]: ...
    def documents(self, path: str) -> Docs | None: ...
    def strays(self, path: str) -> list[Problem]: ...
    def refresh(self, path: str) -> None: ...


__all__ = ["Examiner", "NCZarrSurvey", "NodeDamage", "SurveyedDataset"]

Examiner = Callable[["NCZarrSurvey"], Iterable[NodeDamage]]


class NCZarrSurvey:
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
        """Who wrote the dataset."""
        return self.context.generation

    @property
    def context(self) -> Context:
        """What documents depend on."""
        return self.dataset.words.context

    @property
    def store(self) -> Store:
        """The store that the dataset lies in."""
        return self.dataset.store

    def spec(self, path: str) -> GroupSpec | ArraySpec | None:
        """One node, for which the others are not looked at; None where it cannot be read."""
        try:
            return self.dataset.node(path)
        except HyperslabError:
            return None

    @property
    def specs(self) -> Mapping[str, GroupSpec | ArraySpec]:
        """All nodes by path, groups before what is in them."""
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
        """The arrays by path."""
        return ((path, spec) for path, spec in self.specs.items() if isinstance(spec, ArraySpec))

    def docs(self, path: str) -> Docs:
        """The documents of a node, as they can be written again."""
        if path not in self._docs:
            self._docs[path] = self.dataset.documents(path) or {}
        return self._docs[path]

    def problems(self, path: str) -> list[Problem]:
        """What is noted when a node is parsed."""
        return self.dataset.words.problems(self.docs(path), path)

    def understood(self, path: str) -> tuple[Docs | None, set[str]]:
        """The documents of a node as they are understood, and the kinds of problems that they have even so."""
        if path not in self._understood:
            docs = self.rendered(path, self.spec(path))
            left = [] if docs is None else self.dataset.words.problems(docs, path)
            self._understood[path] = docs, {problem.kind for problem in left}
        return self._understood[path]

    def lists(self, path: str) -> dict[str, list[str]]:
        """The arrays and groups that lie in a group."""
        below = {name: self.specs.get(child(path, name)) for name in self.dataset.children(path)}
        return {
            "arrays": [name for name, spec in below.items() if isinstance(spec, ArraySpec)],
            "groups": [name for name, spec in below.items() if isinstance(spec, GroupSpec)],
        }

    def rendered(self, path: str, spec: Any) -> Docs | None:
        """The documents of a node as it is understood; None where this cannot be written."""
        if self.generation not in (Generation.V2C, Generation.DRAFT):
            return None
        if isinstance(spec, GroupSpec) and self.generation is Generation.V2C:
            lists = {name: names for name, names in self.lists(path).items() if spec.layout.get(name) is None}
            spec = spec.evolve(layout={**spec.layout, **lists})
        try:
            return self.dataset.words.render(spec, path)
        except HyperslabError:
            return None
