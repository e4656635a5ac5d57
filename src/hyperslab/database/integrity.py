"""What is wrong with the collections of a place, as deep as is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from hyperslab.checks.report import Report
from hyperslab.errors import FormatError, HyperslabError, Problem

_CELLS = 4
_ARRAYS = 2


def examine(reader: Any, url: str, level: int, collection: str | None, *, first: bool) -> Report:
    """Every problem of a level, or the ``first`` one, of all collections or of one."""
    found = _problems(reader, level, collection)
    return Report(islice(found, 1) if first else found, url=url, deep=level >= _CELLS)


def _problems(reader: Any, level: int, collection: str | None) -> Iterator[Problem]:
    names = reader.collections() if collection is None else [collection]
    if level >= _ARRAYS and collection is None:
        yield from reader.problems(deep=level >= _CELLS, workers=1)
        return
    for name in names:
        try:
            holding = reader.holding(name)
        except FormatError as error:
            known = error.problems or [Problem(name, "invalid-document", error.said)]
            yield from (replace(problem, node=problem.node or name) for problem in known)
            continue
        except HyperslabError as error:
            yield Problem(name, "unreadable-node", error.said)
            continue
        if level < _ARRAYS:
            yield from getattr(holding, "document_problems", tuple)()
        else:
            yield from (remedy.problem for remedy in holding.remedies(deep=level >= _CELLS) if not remedy.sound)


def write_report(report: Report, to_file: bool | str | os.PathLike[str]) -> Path:
    """The report as a text file, one problem a line."""
    now = f"integrity_report_{datetime.now(UTC):%Y%m%dT%H%M%SZ}.txt"
    name = now if isinstance(to_file, bool) else os.fspath(to_file)
    lines = [str(problem) for problem in report] or ["no problems"]
    path = Path(name)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path
