"""A group's tree as text."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hyperslab.array.session import OpenDataset
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import NAME_PROBLEM
from hyperslab.model.amounts import shape_text
from hyperslab.model.dtypes import describe
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child, split
from hyperslab.model.spec import ArraySpec


def tree_text(session: OpenDataset, path: str) -> str:
    """Return one line per node below ``path``."""
    return "\n".join([f"/{path}", *flattened(_lines(session, path, ""))])


def _lines(session: OpenDataset, path: str, indent: str) -> Generator[Any]:
    names = list(session.reader.children(path))
    # What lies right below and its format does not show, with the reason; without a name where none leads to it.
    omitted = session.reader.omitted(path)
    problems = [problem for problem in omitted if problem.node != path or problem.kind == NAME_PROBLEM]
    hidden = {"" if problem.node == path else split(problem.node)[1]: problem.message for problem in problems}
    for i, name in enumerate([*names, *hidden]):
        last = i == len(names) + len(hidden) - 1
        place = child(path, name)
        text, below = _describe(session, place) if name not in hidden else (f" !! not shown: {hidden[name]}", False)
        yield f"{indent}{'└── ' if last else '├── '}{name}{text}"
        if below:
            yield _lines(session, place, indent + ("    " if last else "│   "))


def _describe(session: OpenDataset, path: str) -> tuple[str, bool]:
    """Return what stands behind a name, and whether there is more below it."""
    try:
        spec = session.reader.node(path)
    except HyperslabError as error:
        return f" !! {error.message}", False
    if spec.is_link:
        return f" -> {spec}", False
    return (array_text(spec), False) if spec.is_array else ("/", True)


def array_text(spec: ArraySpec) -> str:
    """Return what follows the name of an array: its dimensions, its type and what is to be known besides."""
    notes = (" sparse" if spec.sparse else "") + (f" !! {spec.problem}" if spec.problem else "")
    return f" ({shape_text(spec.dims, spec.shape)}) {describe(spec.dtype)}{notes}"
