"""What lies on disk, as a short tree: of many entries some, of many folders the largest one opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FEW = 5
"""Entries of a folder that are shown when there are more."""
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the tree: branches, name, bytes."""

    branches: str
    name: str
    nbytes: int

    def text(self, width: int) -> str:
        """Branches and name, the middle of which is left out where they are wider."""
        return self.branches + shortened(self.name, width - len(self.branches))


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    name: str
    nbytes: int
    is_folder: bool


def shortened(text: str, width: int) -> str:
    """The text with its middle left out where it is longer."""
    if len(text) <= width:
        return text
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def stored(place: Path) -> tuple[int, int]:
    """Bytes and number of the files of a dataset; links are not followed."""
    if place.is_file():
        return place.stat().st_size, 1
    sizes = [path.lstat().st_size for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(sizes), len(sizes)


def tree(place: Path) -> list[Line]:
    """The dataset and some of what is in it."""
    if place.is_file():
        return [Line("", place.name, place.stat().st_size)]
    return [Line("", f"{place.name}/", stored(place)[0]), *_below(place, "", _DEPTH)]


def _below(folder: Path, indent: str, depth: int) -> Iterator[Line]:
    entries = _entries(folder)
    opened = max((entry for entry in entries if entry.is_folder), key=lambda entry: entry.nbytes, default=None)
    shown = entries if len(entries) <= _FEW + 1 else _some(entries, opened)
    left = [entry for entry in entries if entry not in shown]
    for entry in shown:
        last = entry is shown[-1] and not left
        yield Line(indent + ("└── " if last else "├── "), entry.name, entry.nbytes)
        if entry is opened and depth:
            yield from _below(entry.path, indent + ("    " if last else "│   "), depth - 1)
    if left:
        yield Line(f"{indent}└── ", f"… {len(left)} more", sum(entry.nbytes for entry in left))


def _some(entries: list[_Entry], opened: _Entry | None) -> list[_Entry]:
    """The first ones, and the folder that is opened wherever it stands."""
    first = entries[: _FEW - 1]
    return first if opened is None or opened in first else [*first[:-1], opened]


def _entries(folder: Path) -> list[_Entry]:
    """Files, then folders; for a folder with one entry stands that one (``0/0/0``). Locks (empty) are left out."""
    found = [_entry(folder, name) for name in sorted(os.listdir(folder), key=_natural)]
    return sorted((entry for entry in found if entry.nbytes or entry.is_folder), key=lambda entry: "/" in entry.name)


def _entry(folder: Path, name: str) -> _Entry:
    path = folder / name
    while path.is_dir() and not path.is_symlink() and len(inside := os.listdir(path)) == 1:
        path /= inside[0]
    is_folder = path.is_dir() and not path.is_symlink()
    nbytes = stored(path)[0] if is_folder else path.lstat().st_size
    return _Entry(path, path.relative_to(folder).as_posix() + "/" * is_folder, nbytes, is_folder)


def _natural(name: str) -> tuple[int, str]:
    """Numbers by their value."""
    return (int(name), name) if name.isdecimal() else (-1, name)
