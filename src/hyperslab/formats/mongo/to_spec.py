"""The variables of an object as the groups and arrays of the one face, and back. Pure.

What the documents of xarray_mongodb do not say stands in the field ``hyperslab``: by variable the cell that chunks
without documents read as (``fill``; in ``fill_value`` where all are stored), chunk lengths that the sizes do not tell,
types of attributes, and the attribute ``coordinates``, which the object says by where its variables stand. Groups are
told there as well (:mod:`~hyperslab.formats.mongo.groups`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.formats.mongo.attributes import decode_attrs
from hyperslab.formats.mongo.document import ARRAY, Meta, Variable
from hyperslab.formats.mongo.groups import groups_of, is_inside, length_of, shown_dims
from hyperslab.formats.mongo.segments import SPARSE
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import ArraySpec, Chunks, GroupSpec

COORDINATES = "coordinates"
_FORBIDDEN = "/\\\0%"


# -- names ------------------------------------------------------------------------------------------------------------


def face_names(meta: Meta) -> dict[str, str]:
    """The names of variables by their names under the one face, in order.

    The variable of a DataArray is called as the DataArray, where that is a name that no coordinate has, else ``data``.
    What is no name of a node (empty, dots, with slashes) is escaped as in URLs.
    """
    found: dict[str, str] = {}
    variables = meta.variables
    groups = groups_of(meta)
    for name in variables:
        if meta.is_array and name == ARRAY:
            wishes = (meta.name, "data")
            free = [wish for wish in wishes if isinstance(wish, str) and _is_usable(wish) and wish not in variables]
            found[(free or [ARRAY])[0]] = name
        elif _is_usable(name) or is_inside(name, groups):
            found[name] = name
        else:
            found[_escaped(name, {*variables, *found})] = name
    return found


def _is_usable(name: str) -> bool:
    return name not in ("", ".", "..") and not any(letter in name for letter in _FORBIDDEN[:3])


def _escaped(name: str, taken: set[str]) -> str:
    dotted = name in (".", "..")
    text = "".join(f"%{ord(c):02X}" if c in _FORBIDDEN or (dotted and c == ".") else c for c in name) or "%"
    while text in taken:
        text += "%"
    return text


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VariableChunks:
    """How an array is cut: chunk lengths under the face, and by axis which of the stored chunks they are where some
    hold nothing (None: all of them)."""

    chunks: Chunks
    stored: tuple[tuple[int, ...] | None, ...]

    def key_of(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        """The indices of a chunk in its documents."""
        return tuple(place if known is None else known[place] for place, known in zip(coords, self.stored, strict=True))

    def coords_of(self, key: tuple[int, ...]) -> tuple[int, ...] | None:
        """The chunk under the face; None for one that is not there, or holds nothing."""
        if len(key) != len(self.stored):
            return None
        places = []
        for place, known in zip(key, self.stored, strict=True):
            if known is not None and place not in known:
                return None
            places.append(place if known is None else known.index(place))
        return tuple(places)


def cut_of(variable: Variable, ours: Mapping[str, Any]) -> VariableChunks:
    """How a variable whose sizes are known is cut."""
    shape = known_sizes(variable.shape)
    if variable.chunks is None:
        chunks: Chunks = whole_chunks(shape)
        stored: tuple[tuple[int, ...] | None, ...] = (None,) * len(shape)
    else:
        cuts = [_cut_axis(known_sizes(sizes)) for sizes in variable.chunks]
        chunks, stored = tuple(cut for cut, _ in cuts), tuple(known for _, known in cuts)
    said = ours.get("chunks")
    if isinstance(said, list) and len(said) == len(shape) and not any(stored):
        chunks = tuple(_said(cut, own, length) for cut, own, length in zip(said, chunks, shape, strict=True))
    return VariableChunks(chunks, stored)


def _said(said: Any, own: int | tuple[int, ...], length: int) -> int | tuple[int, ...]:
    """The length that the maker chose, where one chunk is all there is of the axis."""
    fits = isinstance(own, int) and isinstance(said, int) and said >= max(length, 1) and own >= length
    return int(said) if fits else own


def _cut_axis(sizes: tuple[int, ...]) -> tuple[int | tuple[int, ...], tuple[int, ...] | None]:
    held = tuple(i for i, size in enumerate(sizes) if size)
    full = tuple(sizes[i] for i in held)
    stored = None if len(held) == len(sizes) or not held else held
    if not full:
        return 1, None
    regular = len(set(full[:-1])) <= 1 and full[-1] <= full[0]
    return (full[0] if regular else full), stored


def known_sizes(sizes: tuple[int | None, ...]) -> tuple[int, ...]:
    """Sizes of which each is known by now."""
    return tuple(0 if size is None else size for size in sizes)


def array_spec(meta: Meta, name: str, variable: Variable) -> ArraySpec:
    """The array that a variable, whose sizes are known, is under the one face."""
    ours = ours_of(meta, name)
    attrs = _attrs(meta, name, variable)
    layout = {}
    if variable.units is not None:
        layout = {"units": variable.units, "attribute": "units" in attrs}
        attrs.setdefault("units", variable.units)
    return ArraySpec(
        shape=known_sizes(variable.shape),
        dtype=variable.dtype,
        chunks=cut_of(variable, ours).chunks,
        dims=shown_dims(meta, variable),
        fill_value=fill_of(ours, variable),
        attrs=attrs,
        sparse=SPARSE if variable.sparse else None,
        layout=layout,
    )


def _attrs(meta: Meta, name: str, variable: Variable) -> dict[str, Any]:
    top = meta.is_array and name == ARRAY
    ours = meta.ours if top else ours_of(meta, name)
    raw = meta.attrs if top else variable.attrs
    return _with_coordinates(decode_attrs(raw, codes_of(ours)), ours)


def codes_of(ours: Mapping[str, Any]) -> Mapping[str, Any]:
    """The codes of attributes, none where nothing sensible stands there."""
    codes = ours.get("attr_types")
    return codes if isinstance(codes, Mapping) else {}


def _with_coordinates(attrs: dict[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    said = ours.get(COORDINATES)
    return attrs if said is None or COORDINATES in attrs else {**attrs, COORDINATES: said}


def ours_of(meta: Meta, name: str) -> Mapping[str, Any]:
    """What the field ``hyperslab`` says of a variable."""
    variables = meta.ours.get("variables")
    found = variables.get(name) if isinstance(variables, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def fill_of(ours: Mapping[str, Any], variable: Variable) -> Any:
    """What unwritten cells read as, None where nobody said."""
    raw = ours.get("fill", ours.get("fill_value", variable.fill))
    if not isinstance(raw, bytes) or len(raw) != variable.dtype.itemsize or not raw:
        return None
    return np.frombuffer(raw, variable.dtype)[0]


def group_spec(meta: Meta) -> GroupSpec:
    """The group that an object is under the one face."""
    attrs = {} if meta.is_array else _with_coordinates(decode_attrs(meta.attrs, codes_of(meta.ours)), meta.ours)
    if COORDINATES not in attrs and (unsaid := _unsaid(meta)):
        attrs[COORDINATES] = " ".join(unsaid)
    unlimited = meta.ours.get("unlimited")
    dims = [dim for dim in unlimited if isinstance(dim, str)] if isinstance(unlimited, list) else []
    return GroupSpec(attrs=attrs, dims=tuple(Dimension(dim, length_of(meta, dim), True) for dim in dims))


def _unsaid(meta: Meta) -> list[str]:
    """Coordinates that nothing but their place in the document tells from data."""
    said = {name for each in meta.variables for name in named_in(ours_of(meta, each).get(COORDINATES))}
    said |= {name for each in meta.variables.values() for name in named_in(each.attrs.get(COORDINATES))}
    others = [name for name, one in meta.coords.items() if one.dims != (name,) and name not in said]
    return [name for name in others if name and not any(c.isspace() for c in name)]


def named_in(text: Any) -> list[str]:
    """The names that an attribute lists."""
    return text.split() if isinstance(text, str) else []
