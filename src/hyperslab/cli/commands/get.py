"""``hyperslab get``: a labelled part of an array, to stdout or a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from hyperslab.array import Array
from hyperslab.array.decoded import is_packed
from hyperslab.array.plain_values import cell_text
from hyperslab.cli.arguments import (
    SelectionOptions,
    TypedSelection,
    change_units,
    describe_empty_ranges,
    find_array,
    find_cells,
    open_dataset,
    parse_selections,
)
from hyperslab.cli.options import (
    allow_option,
    at_option,
    choice_options,
    packing_option,
    path_argument,
    selection_options,
    storage_option,
    units_option,
    url_argument,
)
from hyperslab.cli.output import format_columns, json_option, json_text, print_json, print_remark
from hyperslab.conversion import labelled_part
from hyperslab.conversion.csv_text import CsvBlock, cell_type, csv_cell, open_csv, write_csv
from hyperslab.errors import AlreadyExists, Invalid, NodeNotFound, SelectionError
from hyperslab.group import Group
from hyperslab.group.cf_variables import name_companions
from hyperslab.group.choice import Choice, choose_of
from hyperslab.group.walk import arrays_of
from hyperslab.model.amounts import counted
from hyperslab.model.calendars import parse_moment
from hyperslab.model.dims import axis_names
from hyperslab.stores.building import building

if TYPE_CHECKING:
    from hyperslab.conversion.selection import Selector
    from hyperslab.group.table_columns import Cells, TableColumn

# Cells of an array, or rows of a table, that a terminal gets; -o writes all of them to a file.
_SCREEN = 1000
# Rows of a table that are in memory while all are written to a file.
_ROWS = 1 << 14
# Letters of a cell of a table that a terminal gets, so that spikes of a unit leave room for the other columns.
_CELL = 60
# In which a label and a typed time of another zone are compared: zones are told of times of the real calendars alone.
_CALENDAR = "proleptic_gregorian"
_FILES = (".npy", ".csv", ".json", ".nc", ".zarr")


@click.command("get", epilog="Example: hyperslab get air.zarr t2m -s time=2013-01-01 -s lat=50.0..40.0 -o t2m.csv")
@url_argument
@path_argument
@selection_options
@choice_options(companions=True)
@units_option
@click.option("--decoded", is_flag=True, help="Apply CF scale, offset, missing values and time.")
@click.option("-o", "--output", help="A new file: .npy, .csv, .json, .nc or .zarr.")
@packing_option
@at_option()
@storage_option()
@allow_option()
@json_option
def get_command(
    url: str,
    path: str,
    selections: tuple[str, ...],
    choice: Choice,
    manner: SelectionOptions,
    units: dict[str, str],
    decoded: bool,
    output: str | None,
    packing: str,
    at: str | None,
    storage_option: dict[str, object] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> None:
    """Get a part of the array PATH, chosen by labels and positions: DIM=VALUE or DIM=START..STOP[..STEP]; or rows of a
    table of HDMF or of a data frame: row=START..STOP. With -v, -x or --where: of several arrays.

    A whole number is a position, a float, a date or a word a label; @850 forces a label. Ranges by label include
    their stop, ranges by position do not.
    """
    check_ending(output)
    root = open_dataset(url, storage_option, allow=allow_external, at=at, packing=packing)
    selection = parse_selections(selections)
    arrays = choose_measured(root, path, choice) if choice else []
    if not arrays and (table := find_table(root, path)) is not None:
        if decoded or manner.nearest or units:
            remedy = "leave --decoded, --nearest, --units out"
            raise Invalid("rows of a table are decoded", node=path, remedy=remedy)
        give_rows(table, url, path, selection, output=output, as_json=as_json)
        return
    arrays = arrays or [find_array(root, path)]
    root, arrays = change_units(root, arrays, units)
    if units:
        # Stored numbers of packed cells are the same in every unit; a file has the scale that makes the unit of them.
        decoded = decoded or not (output or "").endswith((".nc", ".zarr"))
    selector = find_cells(arrays, selection, manner)
    parts = [_choose_part(root, array, selector, selections, decoded, output) for array in arrays]
    if len(parts) == 1:
        print_other_labels(parts[0], selection)
    give_out_several(parts, url, output=output, as_json=as_json, alone=choice.alone)


def _choose_part(
    root: Group | Array,
    array: Array,
    selector: Selector,
    selections: tuple[str, ...],
    decoded: bool,
    output: str | None,
) -> labelled_part.LabelledPart:
    """Return the part of an array that is typed; say what is to be known of it on stderr."""
    key = selector.key(array)
    part = labelled_part.open_part(root, array, key, decoded=decoded, shifted=selector.shifts(array))
    part = replace(part, other_keys=_keys_along(selector))
    for remark in describe_empty_ranges(array, key, selections):
        print_remark(remark)
    if not decoded and not (output or "").endswith((".nc", ".zarr")) and is_packed(array):
        print_remark(
            f"the cells of /{array.path} are packed, these are the stored numbers; --decoded gives the physical ones"
        )
    elif not decoded and output is None and (missing := _count_missing(part)):
        print_remark(f"missing cells ({missing:,}) stand as {cell_text(_fill(part))}; --decoded shows them as nan")
    return part


def _keys_along(selector: Selector) -> dict[tuple[str | None, int], Any]:
    """Return what is selected along all dimensions, by their name and length."""
    return {
        (dim, size): item
        for array in selector.arrays
        for dim, size, item in zip(array.dims, array.shape, selector.key(array), strict=True)
    }


def _fill(part: labelled_part.LabelledPart) -> Any:
    """Return the number that stands for cells that are missing, None where the attributes name none."""
    fill = part.array.attrs.get("_FillValue", part.array.attrs.get("missing_value"))
    is_number = isinstance(fill, int | float | np.number) and part.values.dtype.kind in "iuf"
    return np.asarray(fill).astype(part.values.dtype)[()] if is_number and fill == fill else None


def _count_missing(part: labelled_part.LabelledPart) -> int:
    fill = _fill(part)
    return 0 if fill is None else int(np.count_nonzero(part.values == fill))


def choose_measured(root: Group | Array, path: str, choice: Choice) -> list[Array]:
    """Return the arrays at and below the group PATH that are chosen, without those that are coordinates of others among
    them: these stand beside the cells as their labels."""
    group = root[path] if isinstance(root, Group) and path.strip("/") else root
    if isinstance(group, Array):
        raise Invalid(
            "variables are chosen of a group, this is an array", url=root.url, node=path, remedy="leave PATH or -v out"
        )
    arrays = [array for _, array in choose_of(group, list(arrays_of(group)), choice)]
    dims = {dim for array in arrays if array.dims != (array.name,) for dim in array.dims}
    return [array for array in arrays if not (array.dims == (array.name,) and array.name in dims)]


def find_table(root: Group | Array, path: str) -> dict[str, TableColumn] | None:
    """Return the columns of the table at a path; None where something else is, or nothing."""
    with suppress(NodeNotFound):
        node = root[path] if isinstance(root, Group) and path.strip("/") else root
        if isinstance(node, Group):
            from hyperslab.group.tables import find_columns  # on use: with it come zones of time

            return find_columns(node._session, node.path)
    return None


def give_rows(
    columns: dict[str, TableColumn],
    url: str,
    path: str,
    selection: TypedSelection,
    *,
    output: str | None,
    as_json: bool,
) -> None:
    """Write rows of a table to a CSV or JSON file, print them as JSON, or show them. Invalid for another selection than
    ``row=a..b``."""
    rows, node = _choose_rows(columns, path, selection), path.strip("/") or None
    if output and not output.endswith((".csv", ".json")):
        remedy = "end the name with .csv or .json, or name a column"
        raise Invalid("a table is saved as .csv or .json", node=node, remedy=remedy)
    heads = list(columns)

    def read(some: range) -> list[Cells]:
        return [column.read(some.start, some.stop) for column in columns.values()]

    def block(some: range) -> CsvBlock:
        cells = read(some)
        return CsvBlock(heads, zip_longest(*cells), list(map(cell_type, cells)))

    if as_json or (output and output.endswith(".json")):
        records = [dict(zip(heads, row, strict=True)) for row in zip_longest(*read(rows))]
        document: dict[str, Any] = {"url": url, "path": path.strip("/"), "columns": heads, "rows": records}
        if output and output.endswith(".json"):
            with _new_file(output) as temporary:
                Path(temporary).write_bytes(json_text("get", **document).encode())
        if as_json:
            print_json("get", **document)
    if output and output.endswith(".csv"):
        with _new_file(output) as temporary, open_csv(temporary) as text:
            starts = range(0, max(len(rows), 1), _ROWS)
            write_csv(text, (block(rows[start : start + _ROWS]) for start in starts), lambda: block(rows))
    if output:
        print_remark(f"{counted(len(rows), 'row')} of /{path.strip('/')} in {output}")
    elif not as_json:
        _show_rows(rows, block)


def _choose_rows(columns: dict[str, TableColumn], path: str, selection: TypedSelection) -> range:
    """Return the rows of a table that are selected by ``row=a..b``; Invalid, SelectionError."""
    node = path.strip("/") or None
    total = max((column.length for column in columns.values()), default=0)
    item: Any = selection.isel.get("row", slice(None))
    if selection.sel or selection.isel.keys() - {"row"} or (isinstance(item, slice) and item.step not in (None, 1)):
        remedy = "write -s row=0..50; of a data frame hyperslab.read_frame(..., loc=slice(start, stop)) takes labels"
        raise Invalid("rows of a table are chosen by position alone", node=node, remedy=remedy)
    if isinstance(item, int) and not -total <= item < total:
        raise SelectionError(f"the table has {total} rows, {item} is none of them", node=node, remedy="choose another")
    return range(total)[item] if isinstance(item, slice) else range(total)[item : item + 1 or None]


def _show_rows(rows: range, block: Callable[[range], CsvBlock]) -> None:
    """Print rows of a table in columns; on a terminal the first ones, long cells cut."""
    is_screen = sys.stdout.isatty()
    shown = block(rows[:_SCREEN] if is_screen else rows)
    texts = [[csv_cell(cell) for cell in row] for row in shown.rows]
    cut = [[shorten_cell(text) for text in row] for row in texts] if is_screen else texts
    click.echo(format_columns([shown.heads, *cut]))
    if len(texts) < len(rows):
        print_remark(f"{counted(len(rows) - len(texts), 'more row')}; -o writes them all to a file")
    elif cut != texts:
        print_remark("cells that end in … are cut; -o writes all of them to a file")


def shorten_cell(text: str) -> str:
    """Return text of a cell of a table as a terminal gets it: cut, with an ellipsis, where it is long."""
    return text if len(text) <= _CELL else f"{text[: _CELL - 2]} …"


def print_other_labels(part: labelled_part.LabelledPart, selection: TypedSelection) -> None:
    """Say which label a cell has where it is another one than was typed: of a position, for lat=0 may mean the equator,
    and of the neighbour that --nearest finds."""
    words = {word: value for word, value in (selection.isel | selection.sel).items() if not isinstance(value, slice)}
    others = [word for word in words if word not in part.array.dims]
    for dim in [dim for dim in axis_names(part.array.dims) if dim not in part.dims] if words else ():
        # a word of CF, such as latitude, is the only other one that can mean the dimension
        word = dim if dim in words else others[0] if len(others) == 1 else None
        found = part.coordinates.get(dim)
        if word is None or found is None or _is_label_of(found.labels[()], words[word]):
            continue
        label = cell_text(found.labels[()])
        if word in selection.sel:
            print_remark(f"the nearest label to {word}={words[word]} is {label}")
        elif found.labels.dtype.kind in "iuf":
            print_remark(f"{word}={words[word]} is a position, its label is {label}")


def _is_label_of(label: object, typed: object) -> bool:
    """Return True if a label is what was typed: the number, or the text, of which a date may be the first part; or the
    moment, typed in another zone."""
    if isinstance(label, np.number) and isinstance(typed, int | float):
        return bool(label == (np.asarray(typed).astype(label.dtype) if label.dtype.kind == "f" else typed))
    text = cell_text(label)
    if text.startswith(str(typed).replace(" ", "T")):
        return True
    moment, period = parse_moment(text), parse_moment(str(typed))
    if moment is None or period is None:
        return False
    here, start = moment.start(_CALENDAR), period.start(_CALENDAR)
    if here is None or start is None:
        return False
    return here == start or (period.resolution != "instant" and start <= here < period.stop(_CALENDAR))


def give_out(
    schema: str,
    part: labelled_part.LabelledPart,
    path: str,
    url: str,
    *,
    output: str | None,
    as_json: bool,
    alone: bool = False,
) -> None:
    """Write a part of the array at ``path`` to a file, print it as JSON under the name ``schema``, or show it."""
    if output:
        write(part, output, url, alone=alone)
        print_remark(f"{counted(part.size, 'cell')} of /{path} in {output}")
    if as_json:
        print_json(schema, url=url, **part.as_json())
    elif not output:
        text, left = as_text(part, _SCREEN if sys.stdout.isatty() else None)
        click.echo(text)
        if left:
            print_remark(f"{left} more cells; -o writes them all to a file")


def give_out_several(
    parts: list[labelled_part.LabelledPart],
    url: str,
    *,
    output: str | None,
    as_json: bool,
    alone: bool,
) -> None:
    """Write parts of several arrays to one file, print them as JSON, or show them: as one table where all have the same
    labels, else one below the other."""
    if len(parts) == 1:
        path = parts[0].array.path
        give_out("get", parts[0], path, url, output=output, as_json=as_json, alone=alone)
        return
    if output:
        with _new_file(output) as temporary:
            if output.endswith((".nc", ".zarr")):
                print_companions(labelled_part.save_dataset(parts, temporary, alone=alone))
            elif output.endswith(".csv"):
                labelled_part.save_csv(parts, temporary)
            else:
                Path(temporary).write_bytes(_render_several(parts, output, url))
        names = ", ".join(f"/{part.array.path}" for part in parts)
        print_remark(f"{counted(sum(part.size for part in parts), 'cell')} of {names} in {output}")
    if as_json:
        print_json("get", url=url, arrays=[part.as_json() for part in parts])
    if output or as_json:
        return
    limit = _SCREEN if sys.stdout.isatty() else None
    if labelled_part.are_alike(parts):
        rows = ([cell_text(cell) for cell in row] for row in islice(labelled_part.joined_rows(parts), limit))
        click.echo(format_columns([labelled_part.joined_heads(parts), *rows]))
        left = 0 if limit is None else max(parts[0].size - limit, 0)
    else:
        tables, left = [], 0
        for part in parts:
            text, more = as_text(part, limit)
            tables.append(text if part.dims else f"{part.array.name}  {text}")
            left += more
        click.echo("\n\n".join(tables))
    if left:
        print_remark(f"{left} more cells; -o writes them all to a file")


def _render_several(parts: list[labelled_part.LabelledPart], output: str, url: str) -> bytes:
    """Return the bytes of a .json file of several parts."""
    if output.endswith(".npy"):
        raise Invalid("a .npy file holds one array", remedy="take .nc, .zarr, .csv or .json, or name one array")
    return json_text("get", url=url, arrays=[part.as_json() for part in parts]).encode()


def as_text(part: labelled_part.LabelledPart, limit: int | None) -> tuple[str, int]:
    """Return a scalar as itself, others in columns of at most `limit` lines, and how many cells were left out."""
    if not part.dims:
        return cell_text(part.values[()]), 0
    rows = [[*part.heads, part.array.name or "value"]]
    rows += ([cell_text(cell) for cell in row] for row in islice(labelled_part.table_rows(part), limit))
    return format_columns(rows), 0 if limit is None else max(part.size - limit, 0)


def check_ending(output: str | None) -> None:
    """Raise Invalid for the name of a file that does not tell what to write."""
    if output and not output.endswith(_FILES):
        remedy = f"end it with one of {', '.join(_FILES)}"
        raise Invalid(f"{output!r} has no ending that says what to write", remedy=remedy)


def print_companions(names: list[str]) -> None:
    """Say what came along with what was chosen."""
    if names:
        print_remark(name_companions(names))


def write(part: labelled_part.LabelledPart, output: str, url: str, *, alone: bool = False) -> None:
    """Write the part to a file of the kind that its name says; complete or not there."""
    with _new_file(output) as temporary:
        if output.endswith((".nc", ".zarr")):
            print_companions(labelled_part.save_dataset([part], temporary, alone=alone))
        elif output.endswith(".csv"):
            labelled_part.save_csv([part], temporary)
        else:
            Path(temporary).write_bytes(render(part, output, url))


@contextmanager
def _new_file(output: str) -> Iterator[str]:
    """Give the name under which a new file is built; it gets its own at the end of the block."""
    try:
        with building(output) as temporary:
            yield temporary
    except AlreadyExists as error:
        error.remedy = "choose another name, or remove it first"
        raise


def render(part: labelled_part.LabelledPart, output: str, url: str) -> bytes:
    """Return the bytes of a .npy or .json file."""
    if output.endswith(".json"):
        return json_text("get", url=url, **part.as_json()).encode()
    return labelled_part.as_npy(part)
