"""The variables of an object as the groups and arrays of the one face, and back. Pure.

What the documents of xarray_mongodb do not say stands in the field ``hyperslab``: by variable the cell that chunks
without documents read as (``fill``; in ``fill_value`` where all are stored), chunk lengths that the sizes do not tell,
types of attributes, and the attribute ``coordinates``, which the object says by where its variables stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.mongo.attributes import decode_attrs, encode_attrs
from hyperslab.formats.mongo.document import ARRAY, Meta, Variable, embed
from hyperslab.formats.mongo.types import dtype_to_text
from hyperslab.model.coo import Coo
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import DataType, describe
from hyperslab.model.spec import ArraySpec, Chunks, GroupSpec

COORDINATES = "coordinates"
SPARSE = "COO"
_FORBIDDEN = "/\\\0%"
_KINDS = "biufcmMUSV"


# -- names ------------------------------------------------------------------------------------------------------------


def face_names(meta: Meta) -> dict[str, str]:
    """The names of variables by their names under the one face, in order.

    The variable of a DataArray is called as the DataArray, where that is a name that no coordinate has, else ``data``.
    What is no name of a node (empty, dots, with slashes) is escaped as in URLs.
    """
    found: dict[str, str] = {}
    variables = meta.variables
    for name in variables:
        if meta.is_array and name == ARRAY:
            wishes = (meta.name, "data")
            free = [wish for wish in wishes if isinstance(wish, str) and _is_usable(wish) and wish not in variables]
            found[(free or [ARRAY])[0]] = name
        elif _is_usable(name):
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
class Cut:
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


def cut_of(variable: Variable, ours: Mapping[str, Any]) -> Cut:
    """How a variable whose sizes are known is cut."""
    shape = _known(variable.shape)
    if variable.chunks is None:
        chunks: Chunks = tuple(max(1, length) for length in shape)
        stored: tuple[tuple[int, ...] | None, ...] = (None,) * len(shape)
    else:
        cuts = [_cut_axis(_known(sizes)) for sizes in variable.chunks]
        chunks, stored = tuple(cut for cut, _ in cuts), tuple(known for _, known in cuts)
    said = ours.get("chunks")
    if isinstance(said, list) and len(said) == len(shape) and not any(stored):
        chunks = tuple(_said(cut, own, length) for cut, own, length in zip(said, chunks, shape, strict=True))
    return Cut(chunks, stored)


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


def _known(sizes: tuple[int | None, ...]) -> tuple[int, ...]:
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
        shape=_known(variable.shape),
        dtype=variable.dtype,
        chunks=cut_of(variable, ours).chunks,
        dims=tuple(dim if isinstance(dim, str) else str(dim) for dim in variable.dims),
        fill_value=fill_of(ours, variable),
        attrs=attrs,
        sparse=SPARSE if variable.sparse else None,
        layout=layout,
    )


def _attrs(meta: Meta, name: str, variable: Variable) -> dict[str, Any]:
    top = meta.is_array and name == ARRAY
    ours = meta.ours if top else ours_of(meta, name)
    raw = meta.attrs if top else variable.attrs
    return _with_coordinates(decode_attrs(raw, _codes(ours)), ours)


def _without_coordinates(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the places of variables say, and the field ``hyperslab`` where they do not."""
    return {name: value for name, value in attrs.items() if name != COORDINATES or not isinstance(value, str)}


def _codes(ours: Mapping[str, Any]) -> Mapping[str, Any]:
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
    attrs = {} if meta.is_array else _with_coordinates(decode_attrs(meta.attrs, _codes(meta.ours)), meta.ours)
    if COORDINATES not in attrs and (unsaid := _unsaid(meta)):
        attrs[COORDINATES] = " ".join(unsaid)
    unlimited = meta.ours.get("unlimited")
    dims = [dim for dim in unlimited if isinstance(dim, str)] if isinstance(unlimited, list) else []
    return GroupSpec(attrs=attrs, dims=tuple(Dimension(dim, _length(meta, dim), True) for dim in dims))


def _unsaid(meta: Meta) -> list[str]:
    """Coordinates that nothing but their place in the document tells from data."""
    said = {name for each in meta.variables for name in _named(ours_of(meta, each).get(COORDINATES))}
    said |= {name for each in meta.variables.values() for name in _named(each.attrs.get(COORDINATES))}
    others = [name for name, one in meta.coords.items() if one.dims != (name,) and name not in said]
    return [name for name in others if name and not any(c.isspace() for c in name)]


def _named(text: Any) -> list[str]:
    return text.split() if isinstance(text, str) else []


def _length(meta: Meta, dim: str) -> int:
    sizes = (zip(each.dims, each.shape, strict=True) for each in meta.variables.values() if each.problem is None)
    return max((size or 0 for pairs in sizes for name, size in pairs if name == dim), default=0)


# -- writing ----------------------------------------------------------------------------------------------------------


def check_type(dtype: DataType) -> np.dtype[Any]:
    """The dtype of cells that documents hold; Unsupported names the others."""
    if not isinstance(dtype, np.dtype) or dtype.kind not in _KINDS or dtype.names or dtype.subdtype:
        remedy = "store numbers, times, or text of a fixed length (astype('U'))"
        raise Unsupported(f"format mongo has no cells of type {describe(dtype)}", remedy=remedy)
    if dtype.newbyteorder("<") != dtype:
        remedy = "cast them: astype(dtype.newbyteorder('='))"
        raise Unsupported(f"format mongo stores little-endian cells alone, not {describe(dtype)}", remedy=remedy)
    dtype_to_text(dtype, "")
    return dtype


def new_array(spec: ArraySpec) -> ArraySpec:
    """A user's wish as documents hold it; codecs are left to the server. Unsupported."""
    check_type(spec.dtype)
    for asked in ("shards", "checksum"):
        if spec.layout.get(asked):
            raise Unsupported(f"format mongo has no {asked}", remedy=f"leave {asked}= out")
    encode_attrs(spec.attrs, {}, {})
    layout = {name: value for name, value in spec.layout.items() if name in ("units", "attribute")}
    return spec.evolve(codecs=(), indexes={}, layout=layout)


def fits_whole(spec: ArraySpec, most: int) -> bool:
    """Whether an array is to be stored in one piece: its only chunk is small, or there is nothing in it."""
    nbytes = spec.numpy_dtype.itemsize * prod(spec.shape)
    one = all(isinstance(cut, int) and cut >= n for cut, n in zip(spec.chunks, spec.shape, strict=True))
    return nbytes == 0 or (one and nbytes <= most)


def variable_of(name: str, spec: ArraySpec, old: Variable | None, codes: Mapping[str, Any], *, whole: bool) -> Variable:
    """The entry of an array. ``old``, ``codes``: what is stored under its name. Unsupported names an attribute."""
    dtype = check_type(spec.dtype).newbyteorder("<")
    values = _without_coordinates(spec.attrs)
    units = spec.layout.get("units")
    if units is not None and not spec.layout.get("attribute"):
        units = values.pop("units", None)  # the document's own, which the attribute shows
    raw, _ = encode_attrs(values, old.attrs if old is not None else {}, codes)
    return Variable(
        dims=tuple(f"{name}_dim_{axis}" if dim is None else dim for axis, dim in enumerate(spec.dims)),
        dtype=dtype,
        shape=spec.shape,
        chunks=None if whole else tuple(map(_sizes, spec.shape, spec.chunks)),
        sparse=spec.sparse is not None,
        attrs=raw,
        units=units if isinstance(units, str) else None,
        fill=spec.fill_cell().astype(dtype).tobytes() if spec.sparse is not None else None,
    )


def _sizes(length: int, cut: int | tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(cut, int):
        whole, rest = divmod(length, cut)
        return (cut,) * whole + ((rest,) if rest or not whole else ())
    sizes = []
    left = length
    for size in cut:
        if left <= 0:
            break
        sizes.append(min(size, left))
        left -= size
    return tuple(sizes) or (0,)


def ours_of_array(
    spec: ArraySpec, variable: Variable, old: Mapping[str, Any], before: Variable | None
) -> dict[str, Any]:
    """What the field ``hyperslab`` is to say of an array, of which it says ``old`` and that was ``before``."""
    values = _without_coordinates(spec.attrs)
    if variable.units is not None and not spec.layout.get("attribute"):
        values.pop("units", None)
    codes = encode_attrs(values, variable.attrs, _codes(old))[1]
    told = cut_of(variable, {}).chunks
    complete = "fill_value" in old and before is not None and before.shape == spec.shape
    found: dict[str, Any] = {"fill_value" if complete else "fill": spec.fill_cell().astype(variable.dtype).tobytes()}
    if told != spec.chunks:
        found["chunks"] = [cut if isinstance(cut, int) else list(cut) for cut in spec.chunks]
    if codes:
        found["attr_types"] = codes
    if isinstance(spec.attrs.get(COORDINATES), str):
        found[COORDINATES] = spec.attrs[COORDINATES]
    return found


def with_group(meta: Meta, spec: GroupSpec) -> Meta:
    """The object with other attributes and unlimited dimensions."""
    ours = dict(meta.ours)
    if not meta.is_array:
        shown = group_spec(meta).attrs.get(COORDINATES)
        values = _without_coordinates(spec.attrs)
        raw, codes = encode_attrs(values, meta.attrs, _codes(meta.ours))
        said = spec.attrs.get(COORDINATES)
        said = said if isinstance(said, str) else None
        _put(ours, COORDINATES, said if said != shown or COORDINATES in meta.ours else None)
        _put(ours, "attr_types", codes or None)
        meta = replace(meta, attrs=raw)
    _put(ours, "unlimited", [dim.name for dim in spec.dims if dim.unlimited] or None)
    return arranged(replace(meta, ours=ours))


def _put(ours: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        ours.pop(name, None)
    else:
        ours[name] = value


def with_array(meta: Meta, name: str, spec: ArraySpec, *, whole: bool) -> Meta:
    """The object with an array made or changed; its cells are left alone. Invalid, Unsupported."""
    old = meta.variables.get(name)
    said = ours_of(meta, name)
    if meta.is_array and name == ARRAY:
        return _with_main(meta, spec, whole=whole)
    if name == ARRAY or (meta.is_array and old is None and spec.dims != (name,)):
        remedy = "give another name, or save a Dataset under a name of its own"
        raise Unsupported(f"format mongo has no array {name!r} here: a DataArray holds one", remedy=remedy)
    if old is None:
        _check_lengths(meta, spec)
    variable = _with_cells(variable_of(name, spec, old, _codes(said), whole=whole), old, spec)
    return with_variable(meta, name, variable, ours_of_array(spec, variable, said, old))


def _with_cells(variable: Variable, old: Variable | None, spec: ArraySpec) -> Variable:
    """An array in one piece keeps the cells that stand in the document, cut off or filled up."""
    if old is None or old.embedded is None or variable.chunks is not None:
        return variable
    if old.embedded.shape == variable.shape and old.embedded.dtype == variable.dtype:
        return replace(variable, embedded=old.embedded, dtype=old.dtype)
    cells = old.embedded.block()
    fill = spec.fill_cell().astype(variable.dtype)
    block = np.full(spec.shape, fill, variable.dtype)
    common = tuple(slice(0, min(a, b)) for a, b in zip(cells.shape, block.shape, strict=True))
    block[common] = cells[common]
    return replace(variable, embedded=embed("", Coo.of_dense(block, fill) if variable.sparse else block))


def _with_main(meta: Meta, spec: ArraySpec, *, whole: bool) -> Meta:
    """A DataArray, whose attributes are those of its one array."""
    variable = variable_of(ARRAY, spec.evolve(attrs={}), None, {}, whole=whole)
    units = {"units": spec.layout["units"]} if "units" in spec.layout else {}
    shown = spec.attrs if spec.layout.get("attribute") else {k: v for k, v in spec.attrs.items() if k not in units}
    kept = _without_coordinates(shown)
    raw, codes = encode_attrs(kept, meta.attrs, _codes(meta.ours))
    if units and not spec.layout.get("attribute"):
        units = {"units": spec.attrs["units"]} if "units" in spec.attrs else {}
    ours = dict(meta.ours)
    _put(ours, "attr_types", codes or None)
    entry = ours_of_array(spec.evolve(attrs={}), variable, ours_of(meta, ARRAY), meta.variables[ARRAY])
    variable = _with_cells(replace(variable, units=units.get("units")), meta.variables[ARRAY], spec)
    return with_variable(replace(meta, attrs=raw, ours=ours), ARRAY, variable, entry)


def _check_lengths(meta: Meta, spec: ArraySpec) -> None:
    known = {
        dim: (size, name)
        for name, each in meta.variables.items()
        for dim, size in zip(each.dims, each.shape, strict=True)
    }
    for dim, size in zip(spec.dims, spec.shape, strict=True):
        if dim in known and known[dim][0] != size:
            message = f"{dim!r} has {size} cells, in {known[dim][1]!r} it has {known[dim][0]}"
            raise Invalid(message, remedy="arrays of one object share their dimensions: give it another name")


def with_variable(meta: Meta, name: str, variable: Variable, ours: Mapping[str, Any]) -> Meta:
    """The object with a variable in its place, or behind the others, and what is ours of it."""
    coords, data = dict(meta.coords), dict(meta.data_vars)
    (coords if name in coords else data)[name] = variable
    said = {**_said_of_all(meta), name: dict(ours)}
    return arranged(replace(meta, coords=coords, data_vars=data, ours={**meta.ours, "variables": said}))


def with_ours(meta: Meta, name: str, **values: Any) -> Meta:
    """The object with other values in what is ours of a variable; None takes one away."""
    entry = {key: value for key, value in {**ours_of(meta, name), **values}.items() if value is not None}
    return replace(meta, ours={**meta.ours, "variables": {**_said_of_all(meta), name: entry}})


def without_variable(meta: Meta, name: str) -> Meta:
    """The object without a variable."""
    coords, data = dict(meta.coords), dict(meta.data_vars)
    (coords if name in coords else data).pop(name)
    said = {each: entry for each, entry in _said_of_all(meta).items() if each != name}
    return replace(meta, coords=coords, data_vars=data, ours={**meta.ours, "variables": said})


def _said_of_all(meta: Meta) -> dict[str, Any]:
    said = meta.ours.get("variables")
    return dict(said) if isinstance(said, Mapping) else {}


def arranged(meta: Meta) -> Meta:
    """The variables that are coordinates by their names, or because another one names them, among the coordinates."""
    said = {name for entry in _said_of_all(meta).values() for name in _named(entry.get(COORDINATES))}
    said |= set(_named(meta.ours.get(COORDINATES)))
    moved = [name for name, one in meta.data_vars.items() if name != ARRAY and (one.dims == (name,) or name in said)]
    coords = {**meta.coords, **{name: meta.data_vars[name] for name in moved}}
    return replace(meta, coords=coords, data_vars={k: v for k, v in meta.data_vars.items() if k not in moved})
