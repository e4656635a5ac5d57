"""Repair of a format that knows itself what mends it (:class:`~hyperslab.formats.base.Repairs`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from hyperslab.checks.places import CheckedDataset
from hyperslab.checks.quarantine import Quarantine
from hyperslab.checks.report import Mend, not_mended
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, ReadOnly
from hyperslab.formats.base import LocksDataset, Remedy, Repairs


def mends_itself(place: CheckedDataset, settings: Settings) -> bool:
    """Return whether the format of a place that can be opened has remedies."""
    try:
        reader = place.format.open(place.where, "r", settings=settings)
    except HyperslabError:
        return False
    try:
        return isinstance(reader, Repairs)
    finally:
        reader.close()


@dataclass(frozen=True, slots=True)
class OwnRepair:
    """One repair. ``folder``: where what is taken out goes, None: nowhere."""

    place: CheckedDataset
    settings: Settings
    folder: str | None

    def run(self, deep: bool, *, dry_run: bool) -> Iterator[Mend]:
        """What would be done, or is done."""
        try:
            reader: Any = self.place.format.open(self.place.where, "r" if dry_run else "r+", settings=self.settings)
        except HyperslabError as error:
            raise error.locate(url=self.place.where.url) from error.__cause__
        try:
            store: Any = getattr(reader, "store", None)  # a file is none, and nothing is taken out of it
            quarantine = None if dry_run else Quarantine(store, self.folder)
            with nullcontext() if dry_run or not isinstance(reader, LocksDataset) else reader.lock_node(""):
                for remedy in list(reader.remedies(deep=deep, workers=self.settings.threads)):
                    yield _mend(remedy, quarantine)
        finally:
            reader.close()


def _mend(remedy: Remedy, quarantine: Quarantine | None) -> Mend:
    problem = remedy.problem
    done = quarantine is not None and remedy.action is not None
    if quarantine is not None and done:
        try:
            quarantine.carry_out(remedy)
        except ReadOnly:
            raise
        except HyperslabError as error:
            return not_mended(problem, error.said)
    return Mend(problem.node, problem.kind, problem.message, remedy.action, done)
