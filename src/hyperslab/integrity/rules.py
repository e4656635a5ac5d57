"""The rules of every dataset of documents and chunks under keys, and of what a reader of any format refuses.

To add one: a :class:`~hyperslab.formats.rules.Rule` in the file of such rules, beside the functions that find and mend
it; a row in the table of ``docs/how-to/check-and-repair.md``; a planted damage in ``tests/integrity/planting.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from hyperslab.errors import Problem, StorageError
from hyperslab.formats.rules import Finding, Rule, Rules, Subject
from hyperslab.integrity.chunk_rules import CHUNK_RULES
from hyperslab.integrity.dimension_rules import DIMENSION_RULES
from hyperslab.integrity.document_rules import DOCUMENT_RULES
from hyperslab.stores.location import Location
from hyperslab.stores.unexpected_files import leftovers_of, remove_leftover

# -- whole copies beside a dataset ------------------------------------------------------------------------------------


def find_leftovers(where: Location) -> Iterator[Finding]:
    """Yield the whole copies that dead writers left beside a dataset; none where it lies on no disk of this machine."""
    for each in leftovers_of(where.path) if where.path is not None else ():
        size = f" of {each.nbytes} bytes" if each.nbytes else ""
        message = f"a copy{size} beside the dataset, by a writer that is gone [file={os.path.basename(each.path)}]"
        yield Finding(Problem("", "temporary", message), "remove it", partial(_remove_copy, each.path))


def _remove_copy(path: str) -> None:
    try:
        remove_leftover(path)
    except OSError as error:
        raise StorageError(f"it cannot be removed: {error.strerror or error}") from error


# -- the table --------------------------------------------------------------------------------------------------------

RULES = Rules(
    *DOCUMENT_RULES,
    *DIMENSION_RULES,
    Rule(
        ("temporary",),
        "an unfinished write of a dead writer, or a complete copy that it left beside the dataset; from "
        "another machine only if older than an hour (a copy: than a week)",
        "removed",
        Subject.BESIDE,
        find_leftovers,  # findings bring their deeds, which need no other mend
    ),
    *CHUNK_RULES,
    # what keeps the survey from looking further is found by the survey itself
    Rule(
        ("unreadable-folder", "unreadable-document", "too-deep"),
        "the disk, permissions or a limit prevent reading",
        "not repairable here",
        Subject.NODE,
    ),
    Rule(
        ("unreadable-file", "unreadable-node"),
        "a file, or a node in it, that cannot be opened",
        "not repairable here",
        Subject.NODE,
    ),
    Rule(
        ("not-decoded",),
        "an array whose type, codec or size this installation cannot decode",
        "left alone",
        Subject.ARRAY,
    ),
    Rule(
        ("not-shown",),
        "a note: a part of a file that hyperslab has no equivalent for",
        "left alone",
        Subject.NODE,
    ),
)
