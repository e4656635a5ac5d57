"""Everything that is known to go wrong in datasets of HDMF, looked for in one of them, and how each is mended.

Documents are changed where they are wrong, with consolidated metadata; a mend looks again, under the lock of the root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from hyperslab.chunks.settings import Settings
from hyperslab.errors import Problem
from hyperslab.formats.base import Remedy
from hyperslab.formats.hdmf.cell_damage import of_cells
from hyperslab.formats.hdmf.damage import of_ids, of_node, of_root, of_schema
from hyperslab.formats.hdmf.link_damage import of_links, of_references
from hyperslab.formats.hdmf.lost_attributes import of_attributes
from hyperslab.formats.hdmf.sources import Allowed
from hyperslab.formats.hdmf.survey import HDMFSurvey, Others, Profiled
from hyperslab.formats.hdmf.writer import HdmfDocuments
from hyperslab.formats.keyed_commit import Change
from hyperslab.formats.keyed_damage import NodeDamage, remedies_of
from hyperslab.formats.keyed_dataset import KeyedReader
from hyperslab.stores.base import Store, WritableStore
from hyperslab.stores.location import Location

Examiner = Callable[[HDMFSurvey], Iterable[NodeDamage]]


class _Examined:
    """What is told of a dataset; ``_look`` makes a survey of it as it is stored now."""

    _look: Callable[[], AbstractContextManager[HDMFSurvey]]

    def problems(self, *, deep: bool, workers: int) -> Iterator[Problem]:
        """What is wrong with the documents, but for what each key tells alone; ``deep``: with references in cells."""
        return (remedy.problem for remedy in self.remedies(deep=deep, workers=workers) if not remedy.sound)

    def remedies(self, *, deep: bool, workers: int) -> Iterator[Remedy]:
        """The same, with what mends it."""
        with self._look() as survey:
            yield from remedies_of(self, survey, self._look, _examiners(survey, deep))


class HdmfExamined(_Examined, KeyedReader):
    """The documents of the dataset at ``where``, of which every problem is told; links are followed to where they may
    lead, and to places that are allowed."""

    def __init__(
        self, store: Store, profile: Profiled, settings: Settings, where: Location, allow: Allowed = ()
    ) -> None:
        super().__init__(store, profile, settings)
        self._look = partial(_looking, store, profile, settings, where, allow)


class HdmfMended(_Examined, HdmfDocuments):
    """The same, open for what mends them."""

    def __init__(
        self, store: WritableStore, profile: Profiled, settings: Settings, where: Location, allow: Allowed = ()
    ) -> None:
        super().__init__(store, profile, settings, consolidated=True)
        self._look = partial(_looking, store, profile, settings, where, allow)

    def mend(self, change: Change) -> None:
        """Store documents as they are given, and consolidated metadata."""
        self._commit(change)
        self._forget("")


@contextmanager
def _looking(
    store: Store, profile: Profiled, settings: Settings, where: Location, allow: Allowed
) -> Iterator[HDMFSurvey]:
    """A look at what is stored now."""
    others = Others(settings, allow)
    try:
        yield HDMFSurvey(store, profile, settings, where, others)
    finally:
        others.close()


def _examiners(survey: HDMFSurvey, deep: bool) -> Iterator[Examiner]:
    """What looks at parts of a dataset, in the order in which they are mended."""
    for path in survey.specs:
        yield partial(of_attributes, path=path)
    for path in survey.specs:
        yield partial(of_node, path=path)
        yield partial(of_links, path=path)
        yield partial(of_references, path=path)
        if deep:
            yield partial(of_cells, path=path)
            yield partial(of_schema, path=path)
    yield of_root
    yield of_ids
