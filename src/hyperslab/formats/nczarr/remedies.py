"""Everything that is known to go wrong in NCZarr datasets, looked for in one of them, and how each is mended.

Documents are changed where they are wrong and left alone otherwise, in the words of their generation: also those of
older ones, which are not written else. A mend looks again, under the lock of the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from hyperslab.errors import HyperslabError
from hyperslab.formats.base import Remedy
from hyperslab.formats.keyed_commit import Change, key
from hyperslab.formats.nczarr.damage import of_node
from hyperslab.formats.nczarr.dimension_damage import of_dimensions
from hyperslab.formats.nczarr.list_damage import of_group, of_root
from hyperslab.formats.nczarr.survey import Damage, Dataset, Examiner, Survey
from hyperslab.model.spec import GroupSpec


def remedies(dataset: Dataset) -> Iterator[Remedy]:
    """Every damage of a dataset whose root can be read."""
    try:
        survey = Survey(dataset)
    except HyperslabError:  # said where documents are looked at one by one
        return
    for examiner in _examiners(survey):
        for damage in examiner(survey):
            yield _remedy(dataset, survey, examiner, damage)


def _examiners(survey: Survey) -> Iterator[Examiner]:
    """What looks at parts of a dataset, in the order in which they are mended."""
    yield of_root
    for path, spec in survey.specs.items():
        yield partial(of_node, path=path)
        if isinstance(spec, GroupSpec):
            yield partial(of_group, path=path)
    yield of_dimensions


def _remedy(dataset: Dataset, survey: Survey, examiner: Examiner, damage: Damage) -> Remedy:
    more: dict[str, Any] = {"at": damage.at, "settles": damage.settles}
    if damage.take:
        return Remedy(damage.problem, damage.action, take=damage.take, **more)
    if damage.change is None:
        return Remedy(damage.problem, **more)
    keep = tuple(_replaced(survey, damage.change(), damage))
    return Remedy(damage.problem, damage.action, partial(_mend, dataset, examiner, damage), keep, **more)


def _replaced(survey: Survey, change: Change, damage: Damage) -> Iterator[str]:
    """The keys of the documents that will be others."""
    for path, docs in change.docs.items():
        old = survey.docs(path)
        for name in old:
            place = key(path, name)
            if docs.get(name) != old[name] or place == damage.at:
                yield place
    for path in change.gone:
        yield from (key(path, name) for name in survey.docs(path))


def _mend(dataset: Any, examiner: Examiner, damage: Damage) -> None:
    """Look again, and mend what is still so; ``dataset`` is open for writing."""
    with dataset.lock_node(""):
        survey = Survey(dataset)
        again = next((other for other in examiner(survey) if damage.is_again(other)), None)
        if again is not None and again.change is not None:
            dataset.mend(again.change())
