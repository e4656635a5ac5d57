"""A group as a page in a notebook (its dimensions, coordinates, arrays, groups and attributes) and as text. No cell is
read."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from hyperslab.array.html import attributes, cells_html, dims_text, page, section, text
from hyperslab.array.session import OpenDataset
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import NAME_PROBLEM
from hyperslab.model.amounts import shape_text
from hyperslab.model.dtypes import describe
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child, split
from hyperslab.model.spec import ArraySpec

MOST_NODES = 200
"""Nodes whose documents are read for one page, at most."""
MOST_OPEN = 20
"""Sections with more rows start folded."""


def group_html(session: OpenDataset, path: str) -> str:
    """Return the page of a group; groups below it fold, and past :data:`MOST_NODES` nodes the rest is only counted."""
    header = (
        f'<span class="hs-kind">hyperslab.Group</span> <span class="hs-name">/{text(path)}</span> '
        f'<span class="hs-soft">{text(session.format.name)} · {text(session.url)}</span>'
    )
    return page(header, _PageReader(session).contents(path))


@dataclass(slots=True)
class _Found:
    """The nodes right below one group: rows of HTML, and the groups to be shown."""

    coordinates: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    left_out: int = 0


class _PageReader:
    """Reads the documents for one page, within one budget of nodes."""

    def __init__(self, session: OpenDataset) -> None:
        self._session = session
        self._left = MOST_NODES

    def contents(self, path: str) -> str:
        """Return the sections of the group at ``path``, with those of the groups below."""
        try:
            spec = self._session.reader.node(path)
            found = self._look(path)
        except HyperslabError as error:
            return _bad(error)
        unlimited = [dim.name for dim in spec.dims if dim.unlimited] if spec.is_group else []
        declared = {dim.name: dim.size for dim in spec.dims} if spec.is_group else {}
        sizes = {**declared, **{dim: max(size, declared.get(dim, 0)) for dim, size in found.sizes.items()}}
        groups = [
            f'<details><summary class="hs-name">{text(name)}/</summary>'
            f"<div>{self.contents(child(path, name))}</div></details>"
            for name in found.groups
        ]
        notes = {dim: " (unlimited)" if dim in unlimited else "" for dim in sizes}
        dims = [f"<span><b>{text(dim)}</b>: {size:,}{notes[dim]}</span>" for dim, size in sizes.items()]
        side_by_side = f'<div class="hs-dims">{" ".join(dims)}</div>' if dims else ""
        parts = [
            section(f"Dimensions ({len(dims):,})", side_by_side, opened=len(dims) <= MOST_OPEN),
            _rows("Coordinates", found.coordinates),
            _rows("Arrays", found.arrays),
            _rows("Links and damaged nodes", found.others),
            f'<div class="hs-soft">… and {found.left_out:,} more</div>' if found.left_out else "",
            _rows("Groups", groups),
            "" if spec.is_link else attributes(spec.attrs),
        ]
        return "".join(parts)

    def _look(self, path: str) -> _Found:
        found = _Found()
        names = list(self._session.reader.children(path))
        found.left_out = max(len(names) - self._left, 0)
        shown = names[: self._left]
        self._left -= len(shown)
        for name in shown:
            try:
                spec = self._session.reader.node(child(path, name))
            except HyperslabError as error:
                found.others.append(_row(name, _bad(error)))
                continue
            if spec.is_link:
                found.others.append(_row(name, f"→ {text(spec)}"))
            elif spec.is_array:
                (found.coordinates if spec.dims == (name,) else found.arrays).append(_array(name, spec))
                for dim, size in zip(spec.dims, spec.shape, strict=True):
                    if dim is not None:
                        found.sizes[dim] = max(size, found.sizes.get(dim, 0))
            else:
                found.groups.append(name)
        return found


def _rows(title: str, rows: list[str]) -> str:
    return section(f"{title} ({len(rows):,})", "".join(rows), opened=len(rows) <= MOST_OPEN)


def _bad(error: HyperslabError) -> str:
    return f'<span class="hs-bad">{text(error.message)}</span>'


def _row(name: str, value: str) -> str:
    return f'<div class="hs-row"><span class="hs-name">{text(name)}</span> {value}</div>'


def _array(name: str, spec: ArraySpec) -> str:
    """Return one line that unfolds to the array's cells and attributes."""
    index = " hs-index" if spec.dims == (name,) else ""
    label = spec.attrs.get("long_name", spec.attrs.get("standard_name", ""))
    units = spec.units
    about = f'<span class="hs-soft">{text(label, 80)}{f" [{text(units, 40)}]" if units else ""}</span>'
    if spec.problem:
        about = f'<span class="hs-bad">{text(spec.problem, 120)}</span>'
    try:
        body = f"{cells_html(spec)}{attributes(spec.attrs)}"
    except HyperslabError as error:
        body = _bad(error)
    return (
        f'<details class="hs-array"><summary class="hs-row{index}"><span class="hs-name"><u>{text(name)}</u></span>'
        f"<span>{dims_text(spec.dims, spec.shape)}</span><code>{text(describe(spec.dtype))}</code>"
        f"{about}</summary><div>{body}</div></details>"
    )


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
