"""Open what the command line names; a wrong name is answered with the nearest right one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal

import click

from hyperslab import api
from hyperslab.array import Array
from hyperslab.cli.naming import arrays_of, instead, listing, named_dims
from hyperslab.cli.selection import TypedSelection, with_dates
from hyperslab.errors import Invalid, LabelError, NodeNotFound, SelectionError
from hyperslab.formats.base import HoldsOne
from hyperslab.group import Group
from hyperslab.model.guessing import meant

url_argument = click.argument("url")
path_argument = click.argument("path", default="")
selection_option = click.option(
    "-s", "--select", "selections", multiple=True, metavar="DIM=VALUE", help="A label, position or range; repeatable."
)


def open_dataset(
    url: str,
    storage: Mapping[str, Any] | None,
    format: str | None = None,
    allow: Sequence[str] | bool = (),
) -> Group | Array:
    """The dataset at ``url``, read-only, with all that it holds; ``storage``: its storage options; ``allow``: places
    that links may lead to."""
    options: dict[str, Any] = {"allow_external": allow} if allow else {}
    node = api.open(url, format=format, storage_options=storage, **options)
    return Group(node._session, "") if isinstance(node._session.reader, HoldsOne) else node


def find_array(root: Group | Array, path: str) -> Array:
    """The array at ``path``; with no path the only array there is."""
    if isinstance(root, Array):
        if path.strip("/"):
            raise Invalid(f"the dataset is one array, it has no /{path.strip('/')}", remedy="leave the path out")
        return root
    if not path.strip("/"):
        return _only_array(root)
    try:
        node = root[path]
    except NodeNotFound as error:
        error.remedy = instead(root, path.strip("/"))
        raise
    if isinstance(node, Group):
        raise Invalid(f"/{path.strip('/')} is a group", remedy=listing(node))
    return node


@contextmanager
def corrected(path: str, url: str, storage: Mapping[str, Any] | None) -> Iterator[None]:
    """Where the block finds nothing at ``path`` of the dataset at ``url``, say what may have been meant."""
    try:
        yield
    except NodeNotFound as error:
        if path.strip("/") and error.node is not None and error.node.strip("/") == path.strip("/"):
            root = open_dataset(url, storage)
            error.remedy = instead(root, path.strip("/")) if isinstance(root, Group) else error.remedy
        raise


def _only_array(root: Group) -> Array:
    reader = root._session.reader
    main = reader.main if isinstance(reader, HoldsOne) else None
    pairs = arrays_of(root)
    mains = (array for path, array in pairs if (path == main if main is not None else array.dims != (array.name,)))
    found = list(islice(mains, 2))
    if len(found) != 1:
        raise Invalid("the dataset holds several arrays: name one", remedy=listing(root))
    return found[0]


def selection_key(array: Array, selection: TypedSelection, nearest: bool = False) -> tuple[Any, ...]:
    """The positional key that the selection means for this array, one entry per dimension.

    A dimension without a name has positions alone.
    """
    names = named_dims(array.dims)
    selection = with_dates(selection, dict(zip(names, array.shape, strict=True)))
    for dim in selection.dims:
        if dim not in names:
            raise Invalid(f"no dimension {dim!r}", node=array.path, remedy=meant(dim, names))
        if dim in selection.sel and dim not in array.dims:
            raise Invalid(f"{dim} has no labels", node=array.path, remedy=f"give positions, such as {dim}=0..10")
    for dim, item in selection.isel.items():
        _refuse_beyond(dim, item, array.shape[names.index(dim)])
    key = _label_key(array, selection.sel, nearest) if selection.sel else []
    key += [slice(None)] * (array.ndim - len(key))
    return tuple(selection.isel.get(dim, item) for dim, item in zip(names, key, strict=True))


def within(root: Group | Array, selection: TypedSelection) -> TypedSelection:
    """Return the selection with dates as labels; refuse a position that some array with that dimension has not."""
    pairs = [(dim, size) for _, array in arrays_of(root) for dim, size in zip(array.dims, array.shape, strict=True)]
    selection = with_dates(selection, {dim: size for dim, size in sorted(pairs, key=lambda pair: pair[1]) if dim})
    for dim, size in pairs:
        if dim in selection.isel:
            _refuse_beyond(dim, selection.isel[dim], size)
    return selection


def _refuse_beyond(dim: str, item: Any, size: int) -> None:
    """A position that no cell has is mostly a label that was typed as a whole number, such as a year."""
    first = item.start if isinstance(item, slice) else item
    forwards = not isinstance(item, slice) or item.step is None or item.step > 0
    if first is not None and forwards and not -size <= first < size and (first > 0 or not isinstance(item, slice)):
        raise SelectionError(
            f"{dim} has {size} positions, {first} is none of them",
            remedy=f"whole numbers are positions; write @{first} for the label {first}",
        )


def _label_key(array: Array, labels: dict[str, Any], nearest: bool) -> list[Any]:
    """The key of the labels; whole numbers (``@1900``) are years or words where the dimension has no numbers."""
    method: Literal["nearest"] | None = "nearest" if nearest else None
    try:
        return list(array.sel_key(labels, method=method))
    except LabelError as error:
        error.remedy = _typed(error.remedy)
        words = as_words(labels)
        if words == labels:
            raise
        try:
            return list(array.sel_key(words, method=method))
        except LabelError:
            raise error from None


def as_words(labels: Mapping[str, Any]) -> dict[str, Any]:
    """The labels with whole numbers as words, as years are."""
    return {dim: _as_words(label) for dim, label in labels.items()}


def _as_words(label: Any) -> Any:
    if isinstance(label, slice):
        return slice(_as_words(label.start), _as_words(label.stop), label.step)
    return str(label) if isinstance(label, int) else label


def _typed(remedy: str | None) -> str | None:
    """The remedy as it is typed here."""
    return remedy.replace('sel(..., method="nearest")', "--nearest") if remedy else remedy
