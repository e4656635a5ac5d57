"""What is wrong with the documents of a dataset, as a format finds it, made into remedies that look again first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from hyperslab.errors import Problem
from hyperslab.formats.base import Remedy
from hyperslab.formats.documents import JsonObject
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.model.paths import child


@dataclass(frozen=True, slots=True)
class NodeDamage:
    """``about``: which of several of its kind on a node. ``change``: what mends it, where something does.

    ``at``: the key that it is about, ``take``: one that goes. ``settles``: kinds of a look at the keys below ``at``
    that are this damage again. ``part``, ``asked`` and ``sound`` are those of :class:`~hyperslab.formats.base.Remedy`.
    """

    problem: Problem
    about: str = ""
    action: str | None = None
    change: Callable[[], DocumentChange] | None = None
    at: str = ""
    take: str = ""
    settles: frozenset[str] = frozenset()
    part: str = ""
    asked: str = ""
    sound: bool = False

    def is_again(self, other: NodeDamage) -> bool:
        """Return whether another look found the same."""
        mine, theirs = self.problem, other.problem
        return (mine.node, mine.kind, self.about) == (theirs.node, theirs.kind, other.about)


class DocumentSurvey(Protocol):
    """One look at a dataset."""

    def docs(self, path: str) -> Docs:
        """Return the documents of a node as they are stored."""
        ...


S = TypeVar("S", bound=DocumentSurvey)
TakeSurvey = Callable[[], AbstractContextManager[S]]


def make_remedies(
    dataset: object, survey: S, look: TakeSurvey[S], examiners: Iterable[Callable[[S], Iterable[NodeDamage]]]
) -> Iterator[Remedy]:
    """Yield what each examiner finds in a survey, with its remedy. A mend looks again, under the lock of the root:
    ``look`` makes a survey of ``dataset``, which is open for writing then, for as long as it is needed."""
    for examiner in examiners:
        for damage in examiner(survey):
            yield _remedy(survey, partial(_mend, dataset, look, examiner, damage), damage)


def _remedy(survey: DocumentSurvey, act: Callable[[], None], damage: NodeDamage) -> Remedy:
    more: JsonObject = {name: getattr(damage, name) for name in ("at", "settles", "part", "asked", "sound")}
    if damage.take:
        return Remedy(damage.problem, damage.action, take=damage.take, **more)
    if damage.change is None:
        return Remedy(damage.problem, **more)
    return Remedy(damage.problem, damage.action, act, tuple(_replaced(survey, damage.change(), damage)), **more)


def _replaced(survey: DocumentSurvey, change: DocumentChange, damage: NodeDamage) -> Iterator[str]:
    """Yield the keys of the documents that will be others."""
    for path, docs in change.docs.items():
        old = survey.docs(path)
        for name in old:
            place = child(path, name)
            if docs.get(name) != old[name] or place == damage.at:
                yield place
    for path in change.gone:
        yield from (child(path, name) for name in survey.docs(path))


def _mend(dataset: Any, look: TakeSurvey[S], examiner: Callable[[S], Iterable[NodeDamage]], damage: NodeDamage) -> None:
    """Look again, and mend what is still so."""
    with dataset.lock_node(""), look() as survey:
        again = next((other for other in examiner(survey) if damage.is_again(other)), None)
        if again is not None and again.change is not None:
            dataset.mend(again.change())
