"""Whole copies that dead writers left beside a dataset: they are told by a check, and removed by a repair."""

from __future__ import annotations

import os
from collections.abc import Iterator

from hyperslab.checks.findings import Finding, found
from hyperslab.checks.report import Mend, not_mended
from hyperslab.errors import Problem
from hyperslab.stores.leftovers import Leftover, leftovers_of, remove_leftover
from hyperslab.stores.location import Location


def examine_leftovers(where: Location) -> Iterator[Finding]:
    """Return a finding for each; none where the dataset lies on no disk of this machine."""
    for each in leftovers_of(where.path) if where.path is not None else ():
        problem = _problem(each)
        yield found(problem.node, problem.kind, problem.message)


def mend_leftovers(where: Location, *, dry_run: bool) -> Iterator[Mend]:
    """Remove them."""
    for each in leftovers_of(where.path) if where.path is not None else ():
        problem = _problem(each)
        try:
            if not dry_run:
                remove_leftover(each.path)
        except OSError as error:
            yield not_mended(problem, f"it cannot be removed: {error.strerror or error}")
        else:
            yield Mend(problem.node, problem.kind, problem.message, "remove it", not dry_run)


def _problem(left: Leftover) -> Problem:
    size = f" of {left.nbytes} bytes" if left.nbytes else ""
    message = f"a copy{size} beside the dataset, by a writer that is gone [file={os.path.basename(left.path)}]"
    return Problem("", "temporary", message)
