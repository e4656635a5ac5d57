"""Arguments that name data: a URL, the path of an array, a selection, storage options; wrong names get a suggestion.

Selections are as netCDF people type them: ``time=2013-01..2013-03``, ``lat=50.0..40.0``, ``level=3``.
``dim=start..stop[..step]`` (``:`` serves where no bound holds a colon). A whole number is a position, a float, a date
or a word a label, as is ``20200228`` where no cell has that position; ``dim=@850`` forces a label and quotes a word.
Ranges by label are inclusive, by position exclusive. Storage options are ``NAME=TEXT``, or ``NAME:=JSON`` for what is
no text; each side of a command has its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab import api
from hyperslab.array import Array
from hyperslab.cli.output import print_remark
from hyperslab.errors import HyperslabError, Invalid, NodeNotFound, Unsupported
from hyperslab.formats.enclosing import find_above, find_tree_above
from hyperslab.formats.opening import locate_version
from hyperslab.group import Group
from hyperslab.group.cf_variables import find_named
from hyperslab.group.walk import arrays_of
from hyperslab.model.dims import axis_names
from hyperslab.model.guessing import meant
from hyperslab.stores.location import Location

if TYPE_CHECKING:  # each doubles what info imports, which selects nothing
    from hyperslab.conversion.bounding_box import BoundingBox
    from hyperslab.conversion.selection import Distance, Select, Selector

# Paths that an error lists; of a database fewer, since its names are ids.
_SHOWN = 10
_IN_DATABASES = 2
# Arrays that are compared with a wrong path: a large dataset is not walked to its end for a suggestion.
_LOOKED_AT = 1000


def find_dimensions(arrays: Sequence[Array], word: str) -> list[str]:
    """Return the dimensions of arrays that a word means: the one of that name (:func:`.axis_names`), else what it means
    of each by CF."""
    from hyperslab.group.cf_variables import AxisSearch

    if any(word in (*array.dims, *axis_names(array.dims)) for array in arrays):
        return [word]
    search = AxisSearch()
    return list(dict.fromkeys(axis.dim for array in arrays if (axis := search.find_axis(array, word)) is not None))


def list_array_paths(group: Group) -> str:
    """Return the first arrays at and below a group as text; for a collection how to find one."""
    most = _IN_DATABASES if group._session.format.traits.has_collections else _SHOWN
    some = [path for path, _ in islice(arrays_of(group), most + 1)]
    more = ["…"] if len(some) > most else []
    text = f"there are {', '.join(some[:most] + more) or 'none'}"
    if not group._session.format.traits.has_collections:
        return text
    url, name = group._session.url, group.path.partition("/")[0]
    return f"{text}; see hyperslab db arrays {url} {name}" if name else f"{text}; see hyperslab db list {url}"


def suggest_path(root: Group, path: str) -> str:
    """Return what may have been meant by a path that leads nowhere, from the last group on the way that exists."""
    group, done, parts = root, "", path.split("/")
    while parts:
        if variable := _find_variable(group, "/".join(parts)):
            return f"take /{variable}, the variable of the column {'/'.join(parts)!r}"
        try:
            node = group[parts[0]]
        except NodeNotFound:
            break
        except HyperslabError:
            return "see what hyperslab tree shows"
        done = f"{done}/{parts.pop(0)}".lstrip("/")
        if isinstance(node, Array):
            return f"take /{done} itself: it is an array, with nothing below it"
        group = node
    if parts and (near := get_close_matches(parts[0], list(group), 1)):
        guess = f"{done}/{near[0]}".lstrip("/")
        with suppress(HyperslabError):  # with the rest of the path, where that leads to something
            whole = "/".join([guess, *parts[1:]])
            guess = whole if root[whole] is not None else guess
        return f"did you mean {guess!r}?"
    if group._session.format.traits.has_collections:
        return list_array_paths(group)
    known = [path for path, _ in islice(arrays_of(root), _LOOKED_AT)]
    return meant(path, known) if get_close_matches(path, known, 1) else list_array_paths(root)


def _find_variable(group: Group, column: str) -> str | None:
    """Return the path of the variable of a column of a table, which is called otherwise where a frame's column has no
    name, or one with a slash; None where there is no such column."""
    from hyperslab.group.tables import find_columns  # on use: with it come zones of time

    with suppress(HyperslabError):
        found = (find_columns(group._session, group.path) or {}).get(column)
        return found.arrays[0].path if found is not None and found.arrays else None
    return None


_WHOLE = re.compile(r"[+-]?\d+")
# What other tools take, and is told how it is written here: bounds without a dimension, lists of positions.
_RANGE = re.compile(r"[+-]?\d*(?:\.\.|:)[+-]?\d*")
_LIST = re.compile(r"[+-]?\d+(?:\s*,\s*[+-]?\d+)+")
_SYNTAX = "write dim=value or dim=start..stop[..step], for instance time=2013-01..2013-03 or level=3"


@dataclass(frozen=True, slots=True)
class TypedSelection:
    """A selection by dimension: ``isel`` by position (int or slice), ``sel`` by label (label or slice)."""

    isel: dict[str, object] = field(default_factory=dict)
    sel: dict[str, object] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.isel or self.sel)

    @property
    def dims(self) -> tuple[str, ...]:
        """Return every dimension that is named."""
        return (*self.isel, *self.sel)


def parse_selections(texts: Iterable[str]) -> TypedSelection:
    """Parse several ``dim=…`` texts as one selection; a dimension may be named once."""
    selection = TypedSelection()
    for text in texts:
        dim, mark, value = text.partition("=")
        dim, value = dim.strip(), value.strip()
        if not mark and _RANGE.fullmatch(text.strip()):
            start, stop = re.split(r"\.\.|:", text.strip(), maxsplit=1)
            remedy = f"write the dimension, too: time={start}..{stop} (dim_0={start}..{stop} where it has no name)"
            raise Invalid(f"{text!r} names no dimension", remedy=remedy)
        if not mark or not dim or not value:
            raise Invalid(f"{text!r} is not a selection", remedy=_SYNTAX)
        if dim in selection.dims:
            raise Invalid(f"dimension {dim!r} is selected twice", remedy="name each dimension once")
        if _LIST.fullmatch(value):
            listed = [int(position) for position in value.split(",")]
            span = f"{dim}={min(listed)}..{max(listed) + 1}"
            remedy = f"a selection is one range: {span} (the stop is excluded); quotes make a word of it"
            raise Invalid(f"{text!r} lists positions", remedy=remedy)
        by_label, chosen = parse_value(value)
        (selection.sel if by_label else selection.isel)[dim] = chosen
    return selection


def parse_value(text: str) -> tuple[bool, object]:
    """Return ``(by_label, value)`` of the text after ``dim=``: an int, a label, or a slice of either."""
    # Split at `..`, else at `:` where that is no time of day; quoted text stays whole.
    pieces = re.findall(r"'[^']*'|\"[^\"]*\"|\.\.|:|[^'\".:]+|.", text)
    mark = ".." if ".." in pieces else None if re.search(r"\d[T ]\d\d:\d\d", text) else ":"
    parts = [""]
    for piece in pieces:
        if piece == mark:
            parts.append("")
        else:
            parts[-1] += piece
    parts = [part.strip() for part in parts] if mark in pieces else [text]
    if len(parts) == 1:
        return _bound(parts[0])
    if len(parts) > 3:
        raise Invalid(f"{text!r} has {len(parts) - 1} separators", remedy=_SYNTAX)
    bounds = [_bound(part) if part else None for part in parts[:2]]
    step = None
    if len(parts) == 3 and parts[2]:
        if not _WHOLE.fullmatch(parts[2]) or int(parts[2]) == 0:
            raise Invalid(f"the step {parts[2]!r} is not a whole number other than 0", remedy=_SYNTAX)
        step = int(parts[2])
    kinds = {bound[0] for bound in bounds if bound is not None}
    if len(kinds) == 2:
        typed = zip(parts, bounds, strict=False)
        labels = (mark or "..").join(
            f"@{part}" if bound is not None and not bound[0] else part for part, bound in typed
        )
        remedy = f"{labels} is a range of labels; bounds that are both whole numbers are positions"
        raise Invalid(f"{text!r} mixes a position and a label", remedy=remedy)
    start, stop = (None if bound is None else bound[1] for bound in bounds)
    return kinds == {True}, slice(start, stop, step)


def _bound(text: str) -> tuple[bool, object]:
    """Parse one bound as ``(by_label, value)``."""
    if text.startswith("@") and len(text) > 1:
        return True, _label(text[1:])
    if _WHOLE.fullmatch(text):
        return False, int(text)
    return True, _label(text)


def _label(text: str) -> object:
    """Return a quoted word as itself, a number as int or float, else a word or date."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def split_commas(texts: Iterable[str]) -> list[str]:
    """Return the names in texts that have commas between them."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def open_dataset(
    url: str,
    storage: Mapping[str, object] | None,
    format: str | None = None,
    allow: Sequence[str] | bool = (),
    at: str | None = None,
    cache_bytes: int | None = None,
    packing: str = "same",
) -> Group | Array:
    """Open the whole dataset at `url`, read-only; of the place of a node in a file, or in a root of collections, that
    node. `storage`: its storage options; `allow`: places that links may lead to; `at`: the moment of which it is the
    version; `cache_bytes`: of decoded chunks, None for the usual ones; `packing`: of the datasets that a pattern joins,
    as for :func:`hyperslab.join`.

    NodeNotFound for the place of a node that a dataset has not, NotFound where no dataset is.
    """
    options: dict[str, Any] = {"allow_external": allow} if allow else {}
    options |= {} if cache_bytes is None else {"cache_bytes": cache_bytes}
    if packing != "same" and Location.matching(url, storage).scheme == "several":
        return api.join(url, packing=packing, storage_options=storage, at=at, **options)
    where = locate_version(Location.of(url, storage), at)
    found = find_above(where) or find_tree_above(where)
    if found is not None:
        above, path = found
        options["at"] = where.moment
        return api.open(above.url, format=format, path=path, storage_options=storage, **options)
    options["at"] = at
    node = api.open(url, format=format, storage_options=storage, **options)
    return Group(node._session, "") if node._session.reader.is_single_array else node


def change_units(
    root: Group | Array, arrays: Sequence[Array], units: Mapping[str, str], scheduler: str | None = None
) -> tuple[Group | Array, list[Array]]:
    """Return the root of a dataset and arrays of it, those that `units` names in other units. Unsupported where the
    workers of a cluster (`scheduler`) read the cells."""
    if not units:
        return root, list(arrays)
    if scheduler is not None:
        raise Unsupported("workers of a cluster read cells as they are stored", remedy="leave --units out")
    from hyperslab.conversion.packing import Units, recode_arrays  # on use: with it comes all that copies

    return recode_arrays(root, arrays, [Units(units)])


def find_array(root: Group | Array, path: str) -> Array:
    """Return the array at ``path``; with no path the only array there is."""
    if isinstance(root, Array):
        if path.strip("/"):
            message = f"the dataset is one array, it has no /{path.strip('/')}"
            raise Invalid(message, url=root.url, remedy="leave the path out")
        return root
    if not path.strip("/"):
        main, pairs = root._session.reader.main, arrays_of(root)
        mains = (one for name, one in pairs if (name == main if main is not None else one.dims != (one.name,)))
        found = list(islice(mains, _LOOKED_AT))
        if len(found) > 1:
            found = _without_named(found, root)
        if len(found) != 1:
            raise Invalid("the dataset holds several arrays: name one", url=root.url, remedy=list_array_paths(root))
        return found[0]
    try:
        node = root[path]
    except NodeNotFound as error:
        error.remedy = suggest_path(root, path.strip("/"))
        raise
    if isinstance(node, Group):
        raise Invalid("this is a group", url=root.url, node=path.strip("/"), remedy=list_array_paths(node))
    return node


def _without_named(arrays: list[Array], root: Group) -> list[Array]:
    """Return the arrays that attributes of others do not name, as bounds, areas or grid mappings; all of a dataset of
    more arrays than are looked at."""
    known = [array for _, array in islice(arrays_of(root), _LOOKED_AT)]
    if len(known) == _LOOKED_AT:
        return arrays
    named = find_named(array.spec.attrs for array in known)
    return [array for array in arrays if array.name not in named]


@contextmanager
def suggest_path_on_error(
    path: str, url: str, storage: Mapping[str, object] | None, at: str | None = None
) -> Iterator[None]:
    """Add to an error that nothing is at `path` what may have been meant."""
    try:
        yield
    except NodeNotFound as error:
        if path.strip("/") and error.node is not None and error.node.strip("/") == path.strip("/"):
            root = open_dataset(url, storage, at=at)
            error.remedy = suggest_path(root, path.strip("/")) if isinstance(root, Group) else error.remedy
        raise


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """How labels that no cell has are taken: ``nearest`` for their neighbour, none farther than the ``tolerance`` that
    fits the labels; and the ``box`` that cells lie in."""

    nearest: bool = False
    tolerance: tuple[Distance, ...] = ()
    box: BoundingBox | None = None

    def select(self, chosen: TypedSelection) -> Select:
        """Return the selection of what was typed."""
        from hyperslab.conversion.selection import Select

        return Select(chosen.isel, chosen.sel, self.nearest, self.tolerance, self.box, typed=True)


def parse_box(text: str | None) -> BoundingBox | None:
    """Return the box of four numbers with commas between them. Invalid for anything else."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 4:
        raise Invalid(f"--bbox {text!r}", remedy="write west,south,east,north in degrees: --bbox 5,47,16,55")
    from hyperslab.conversion.bounding_box import BoundingBox

    return BoundingBox.of(numbers)


def parse_tolerance(text: str) -> Distance:
    """Return ``0.5`` as a float, ``3h`` as a timedelta of NumPy. Invalid for anything else."""
    found = _TOLERANCE.fullmatch(text.strip())
    if found is None:
        raise Invalid(f"--tolerance {text!r}", remedy="write a number (0.5), or one of D, h, m, s after it (3h)")
    if not found[2]:
        return float(found[1])
    micros = round(float(found[1]) * _UNIT_MICROSECONDS[found[2]])
    return np.timedelta64(micros, "us")


def parse_range(text: str) -> tuple[float, float]:
    """Return the two numbers of LOW..HIGH; Invalid for anything else."""
    low, mark, high = text.partition("..")
    try:
        span = float(low), float(high)
    except ValueError:
        span = (0.0, 0.0)
    if not mark or not -np.inf < span[0] < span[1] < np.inf:
        raise Invalid(f"--range {text!r}", remedy="write the least and the largest number, such as --range 250..320")
    return span


_TOLERANCE = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?(D|d|h|min|m|s)?")
_UNIT_MICROSECONDS = {"D": 864 * 10**8, "d": 864 * 10**8, "h": 36 * 10**8, "min": 6 * 10**7, "m": 6 * 10**7, "s": 10**6}


def find_cells(
    arrays: Sequence[Array], selection: TypedSelection, manner: SelectionOptions = SelectionOptions()
) -> Selector:
    """Return what finds the cells of arrays that a selection means; say on stderr what is to be known of it."""
    from hyperslab.conversion.selection import Selector

    with ExitStack() as stack:
        for array in arrays[:1]:
            node = array.path if len(arrays) == 1 else None
            stack.enter_context(array._session.add_place_to_errors(node))
        selector = Selector(arrays, manner.select(selection))
        selector.check_tolerance()
    for note in selector.notes:
        print_remark(note)
    return selector


def describe_empty_ranges(array: Array, key: tuple[object, ...], typed: Sequence[str]) -> list[str]:
    """Return a remark for each range that was typed and takes no cell of an array, of which ``key`` is chosen."""
    from hyperslab.conversion.labelled_part import empty_ranges

    texts = {text.partition("=")[0].strip(): text for text in typed}
    found = empty_ranges(array, key, parse_selections(typed).sel)
    return [f"{texts.get(dim, dim)} is an empty range: {course}" for dim, course in found.items()]


def parse_options(texts: Iterable[str], what: str = "a storage option") -> dict[str, object] | None:
    """Parse several texts as one mapping, None when there is none; a name that is repeated has a list of texts."""
    options: dict[str, Any] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        as_json = name.endswith(":")
        name = name.removesuffix(":").strip()
        if not mark or not name:
            raise Invalid(f"{what} without name or value", remedy="write NAME=TEXT or NAME:=JSON")
        found: object = value
        if as_json:
            try:
                found = json.loads(value)
            except ValueError:  # what it says may quote a secret
                remedy = f"write {name}=TEXT for text"
                raise Invalid(f"{what} that is no JSON: {name}", remedy=remedy) from None
        if name not in options:
            options[name] = found
        else:
            before = options[name]
            options[name] = [*(before if isinstance(before, list) else [before]), found]
    return options or None


def parse_lengths(text: str | None, option: str, words: Sequence[str]) -> dict[str, int] | str | None:
    """Parse ``time=100,lat=50`` as a mapping; each of the ``words`` as itself."""
    if text is None or text in words:
        return text
    remedy = f"write {option} time=100,lat=50 (-1: the whole), or {option} {' or '.join(words)}"
    sizes = {}
    for part in text.split(","):
        name, mark, size = part.strip().partition("=")
        if not mark or not name or not (size == "-1" or (size.isdecimal() and int(size))):
            raise Invalid(f"{option} {text!r}", remedy=remedy)
        sizes[name] = int(size)
    return sizes


def parse_names(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse several ``OLD=NEW`` of an option as a mapping; Invalid."""
    found: dict[str, str] = {}
    for text in texts:
        old, mark, new = text.partition("=")
        if not mark or not old.strip() or not new.strip():
            raise Invalid(f"{option} {text!r}", remedy=f"write {option} OLD=NEW")
        if old.strip() in found:
            raise Invalid(f"{old.strip()!r} is named twice", remedy="name each once")
        found[old.strip()] = new.strip()
    return found
