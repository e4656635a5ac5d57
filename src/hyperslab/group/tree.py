"""A group's tree as text."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hyperslab.array.session import Session
from hyperslab.errors import HyperslabError
from hyperslab.model.amounts import shape_text
from hyperslab.model.dtypes import describe
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec


def tree_text(session: Session, path: str) -> str:
    """One line per node below ``path``."""
    return "\n".join([f"/{path}", *flattened(_lines(session, path, ""))])


def _lines(session: Session, path: str, indent: str) -> Generator[Any]:
    names = list(session.reader.children(path))
    for i, name in enumerate(names):
        last = i == len(names) - 1
        place = child(path, name)
        text, below = _describe(session, place)
        yield f"{indent}{'└── ' if last else '├── '}{name}{text}"
        if below:
            yield _lines(session, place, indent + ("    " if last else "│   "))


def _describe(session: Session, path: str) -> tuple[str, bool]:
    """What stands behind a name, and whether there is more below it."""
    try:
        spec = session.reader.node(path)
    except HyperslabError as error:
        return f" !! {error.message}", False
    if isinstance(spec, Link):
        return f" -> {spec}", False
    return (array_text(spec), False) if isinstance(spec, ArraySpec) else ("/", True)


def array_text(spec: ArraySpec) -> str:
    """What follows the name of an array: its dimensions, its type and what is to be known besides."""
    notes = (" sparse" if spec.sparse else "") + (f" !! {spec.problem}" if spec.problem else "")
    return f" ({shape_text(spec.dims, spec.shape)}) {describe(spec.dtype)}{notes}"
