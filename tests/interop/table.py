"""The table of docs/formats/zarr.md: who reads which type under which codec, from what was read in this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BEGIN, END = "<!-- interop: made by make interop -->", "<!-- interop: end -->"
Cells = Mapping[tuple[str, str], str]


def tables(cells_of: Mapping[str, Cells], dtypes: Sequence[str], codecs: Sequence[str]) -> str:
    """One table per format. Types that agree share a row, codecs that agree a column; nothing is left out."""
    return "\n\n".join(_table(format, cells, dtypes, codecs) for format, cells in cells_of.items())


def _table(format: str, cells: Cells, dtypes: Sequence[str], codecs: Sequence[str]) -> str:
    rows = _alike(dtypes, lambda dtype: [cells[dtype, codec] for codec in codecs])
    columns = _alike(codecs, lambda codec: [cells[row[0], codec] for row in rows])
    lines = [
        "| " + " | ".join((f"`{format}`", *(_names(column) for column in columns))) + " |",
        "|---" * (len(columns) + 1) + "|",
        *("| " + " | ".join((_names(row), *(cells[row[0], column[0]] for column in columns))) + " |" for row in rows),
    ]
    return "\n".join(lines)


def _alike(names: Sequence[str], look: object) -> list[list[str]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        found.setdefault(tuple(look(name)), []).append(name)  # type: ignore[operator]
    return list(found.values())


def _names(group: Sequence[str]) -> str:
    return " ".join(f"`{name}`" for name in group)


def cell(written: bool, refusing: Sequence[str]) -> str:
    """What stands in a cell: an em dash where hyperslab writes no such array."""
    if not written:
        return "—"
    return "not supported: " + ", ".join(refusing) if refusing else "all"


def in_page(page: str) -> str:
    """What stands between the marks of a page."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def put(page: str, made: str) -> str:
    """The page with this between its marks."""
    head, _, rest = page.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}"
