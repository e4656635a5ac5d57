"""Rules about the documents of a dataset: what they find is mended after a new look, under the lock of the root."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from hyperslab.errors import Problem
from hyperslab.formats.rules import Finding, Rules, Subject
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.model.paths import child
from hyperslab.stores.base import Store


@dataclass(frozen=True, slots=True)
class DocumentMend:
    """What mends a finding about documents. ``about``: which of several findings of a kind on one node it is, by which
    a new look knows it again. ``change``: what is stored instead; None where nothing mends it."""

    about: str = ""
    change: Callable[[], DocumentChange] | None = None


def document_finding(
    problem: Problem,
    about: str = "",
    action: str | None = None,
    change: Callable[[], DocumentChange] | None = None,
    **more: Any,
) -> Finding:
    """Return a finding about documents; ``more``: other members of :class:`~hyperslab.formats.rules.Finding`."""
    return Finding(problem, action, detail=DocumentMend(about, change), **more)


class DocumentSurvey(ABC):
    """One look at a dataset, whose documents speak of one another or are mended together."""

    @abstractmethod
    def docs(self, path: str) -> Docs:
        """Return the documents of a node as they are stored."""

    @abstractmethod
    def as_understood(self, path: str) -> tuple[Docs | None, set[str]]:
        """Return the documents of a node as they are understood, None where they cannot be written so; and the kinds of
        problems that they have even then."""


def warning_finding(survey: DocumentSurvey, path: str, problem: Problem, about: str) -> Finding:
    """Return a problem that the reader of a node survives, with the change that writes its documents as they are
    understood where that mends it. Formats that mend some of these problems by more than one document do so for all
    of them, in place of the rule of all documents."""
    docs, left = survey.as_understood(path)
    if docs is None or problem.kind in left:
        return document_finding(problem, about)
    change = DocumentChange({path: docs})
    return document_finding(problem, about, "write the documents as they are understood", lambda: change)


def chunk_keys(store: Store, path: str) -> Iterator[str]:
    """Return the keys of an array's folder that are no documents of Zarr v2."""
    prefix = child(path, "")
    return (key for key in store.list(path) if not key[len(prefix) :].startswith("."))


S = TypeVar("S", bound=DocumentSurvey)
TakeSurvey = Callable[[], AbstractContextManager[S]]
Search = Callable[[S], Iterable[Finding]]


def make_findings(
    dataset: object, survey: S, look: TakeSurvey[S], rules: Rules, paths: Iterable[str], *, deep: bool
) -> Iterator[Finding]:
    """Yield what the rules find in a survey of the nodes at ``paths``, with what mends it. A mend looks again:
    ``look`` makes a survey of ``dataset``, which is open for writing then, for as long as it is needed."""
    searches: list[Search[S]] = [
        partial(find, path=path) for path in paths for find in rules.finders(Subject.NODE, deep=deep)
    ]
    searches += rules.finders(Subject.DATASET, deep=deep)
    for search in searches:
        for finding in search(survey):
            mend: DocumentMend = finding.detail
            if not finding.take and mend.change is None:
                finding = replace(finding, action=None)
            elif not finding.take and mend.change is not None:
                act = partial(_mend, dataset, look, search, finding)
                finding = replace(finding, act=act, keep=tuple(_replaced(survey, mend.change(), finding)))
            yield rules.with_rule(finding)


def _replaced(survey: DocumentSurvey, change: DocumentChange, finding: Finding) -> Iterator[str]:
    """Yield the keys of the documents that will be others."""
    for path, docs in change.docs.items():
        old = survey.docs(path)
        for name in old:
            place = child(path, name)
            if docs.get(name) != old[name] or place == finding.key:
                yield place
    for path in change.gone:
        yield from (child(path, name) for name in survey.docs(path))


def _mend(dataset: Any, look: TakeSurvey[S], search: Search[S], finding: Finding) -> None:
    """Look again, and mend what is still so."""
    same = (finding.problem.node, finding.problem.kind, finding.detail.about)
    with dataset.lock_node(""), look() as survey:
        for again in search(survey):
            if (again.problem.node, again.problem.kind, again.detail.about) == same:
                if again.detail.change is not None:
                    dataset.mend(again.detail.change())
                return
