"""Losses of a conversion, said before anything is copied, and the substitutes in the target if they are allowed.

A :class:`Loss` per node and feature. Cells whose values another type can hold keep them (``bool`` becomes ``int8``,
an enum its integers, complex numbers rows of ``r`` and ``i``); what has no such type is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hyperslab.errors import Unsupported
from hyperslab.formats.base import Feature
from hyperslab.model.attrs import Attrs, untagged
from hyperslab.model.cells import same_type
from hyperslab.model.dtypes import (
    Char,
    Compound,
    DataType,
    Enum,
    Extension,
    NumpyDType,
    ObjectRef,
    Opaque,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    describe,
    numpy_dtype,
    tag_of,
)
from hyperslab.model.refs import Link, ObjectReference, RegionReference
from hyperslab.model.spec import ArraySpec, GroupSpec, Node

Features = frozenset[Feature]
FITS = "fits"
"""In the layout of an array of a source: a type that its cells fit into, where the target has not their own."""
COLUMNS = "columns"
"""In the layout of a group that was an array of a source: the feature that the target lacks, and what became of it."""

SAMPLES = "samples"
"""The kind of a loss of rows that name samples of a series by number, which a selection numbers anew."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A ``feature`` of ``node`` that the target cannot hold and, for people, what becomes of it."""

    node: str
    feature: str
    message: str

    def __str__(self) -> str:
        return f"/{self.node}: {self.message}"


CONSEQUENCES: Mapping[Feature, str] = {
    Feature.GROUPS: "The group is left out, with all that is in it.",
    Feature.ARRAYS: "One array is taken with its coordinates: the one that `path=` (`--path`) names.",
    Feature.DIMENSIONS: "The names are lost.",
    Feature.UNLIMITED: "The dimension becomes limited to the length that it has.",
    Feature.ATTRIBUTES: "The attributes are left out.",
    Feature.TYPED_ATTRIBUTES: "The value stays, its type is lost.",
    Feature.STRINGS: "Fixed-length text, as long as the longest cell; left out where there is no such text either.",
    Feature.VLEN: "Bytes become fixed-length bytes, or text where they are UTF-8; rows of numbers are left out.",
    Feature.STRUCTURED: "A group of the array's name with an array of each field; left out where there are no groups.",
    Feature.SUBARRAYS: "A field of n chars becomes text; for any other field the rows become a group of arrays.",
    Feature.USER_TYPES: "The integers, bytes or rows that the cells are; names and members are left out.",
    Feature.CHAR: "Bytes of length 1.",
    Feature.COMPLEX: "Rows of `r` and `i`; a group of the arrays `r` and `i` where there are no structured types.",
    Feature.BOOLEAN: "`int8`: 0 and 1.",
    Feature.DATETIME: "`int64`: the count that the time is stored as.",
    Feature.FLOAT16: "`float32`.",
    Feature.UNICODE: "Text of any length.",
    Feature.FIXED_BYTES: "Text, where all cells are UTF-8; else left out.",
    Feature.BIG_ENDIAN: "The same numbers in the machine's byte order.",
    Feature.SCALARS: "The array is left out.",
    Feature.LINKS: "The link is left out; what it leads to stays where it is.",
    Feature.REFERENCES: "Text: the path that the reference leads to.",
    Feature.SPARSE: "All cells are stored.",
    Feature.LABELS: "The labels are left out, unless a coordinate array has them too.",
    Feature.UNITS: "The units are left out.",
}
"""By feature that a target lacks, the substitute if losses are allowed."""
STORAGE: Mapping[Feature, str] = {
    Feature.CHUNKS: "The array lies in one piece.",
    Feature.VARYING_CHUNKS: "One length per dimension: the longest.",
    Feature.SHARDS: "The chunks of shards are chunks; asking for `shards=` is an error.",
    Feature.CODECS: "Stored as the format stores all.",
    Feature.CHECKSUMS: "No checksum.",
}
"""How cells are stored: no loss, for all of them are the same, and nothing is announced."""

_KINDS = {"c": Feature.COMPLEX, "b": Feature.BOOLEAN, "U": Feature.UNICODE, "S": Feature.FIXED_BYTES}
_KINDS |= {"m": Feature.DATETIME, "M": Feature.DATETIME}

# how a field's bytes are spelled is each format's own affair
_OWN_IN_FIELDS = frozenset({Feature.FIXED_BYTES, Feature.BIG_ENDIAN})


def required_features(dtype: DataType) -> Iterator[Feature]:
    """Yield the features that a format needs for cells of this type."""
    match dtype:
        case np.dtype():
            yield from _required_by_numpy(dtype)
        case VlenString():
            yield Feature.STRINGS
        case Char():
            yield Feature.CHAR
        case VlenBytes() | VlenArray():
            yield Feature.VLEN
        case ObjectRef() | RegionRef():
            yield Feature.REFERENCES
        case Enum() | Opaque():
            yield Feature.USER_TYPES
        case Compound(base=base):
            yield Feature.USER_TYPES
            yield from _required_by_numpy(base)


def _required_by_numpy(dtype: NumpyDType) -> Iterator[Feature]:
    if dtype.subdtype is not None:
        yield Feature.SUBARRAYS
        yield from _required_by_numpy(dtype.subdtype[0])
    elif dtype.names is not None and dtype.fields is not None:
        yield Feature.STRUCTURED
        for name in dtype.names:
            yield from (need for need in _required_by_numpy(dtype.fields[name][0]) if need not in _OWN_IN_FIELDS)
    elif dtype.kind == "O" and (kind := tag_of(dtype)) is not None:
        yield from required_features(kind)
        yield Feature.REFERENCES  # text of any length in rows is where references in rows are, as in HDMF
    else:
        if dtype.kind in _KINDS:
            yield _KINDS[dtype.kind]
        if dtype.kind == "f" and dtype.itemsize == 2:
            yield Feature.FLOAT16
        if dtype.byteorder == ">":
            yield Feature.BIG_ENDIAN


def target_type(dtype: DataType, features: Features) -> DataType | None:
    """Return the type itself where the features hold it, else one that keeps every value, else None."""
    # One byte of text is a char where that is what the format has (netCDF-3).
    if dtype == np.dtype("S1") and Feature.FIXED_BYTES not in features and Feature.CHAR in features:
        return Char()
    if Feature.SUBARRAYS not in features:
        dtype = _chars_to_text(dtype)
    if features.issuperset(required_features(dtype)):
        return dtype
    less = fallback_type(dtype)
    return None if less is None else target_type(less, features)


def target_cell_type(spec: ArraySpec, features: Features) -> DataType | None:
    """Return the type of an array's cells in the target; None where it has none.

    That is the fixed-length type that they were found to fit into, else :func:`target_type`.
    """
    fits: DataType | None = spec.layout.get(FITS)
    return target_type(spec.dtype, features) if fits is None else fits


def _chars_to_text(dtype: DataType) -> DataType:
    """Return the type with n bytes of text in place of n chars in its fields: the same bytes, no sub-array."""
    match dtype:
        case Compound(base=base, name=name):
            return Compound(_char_fields_to_text(base), name)
        case np.dtype(names=names) if names is not None:
            return _char_fields_to_text(dtype)
        case _:
            return dtype


def _char_fields_to_text(dtype: NumpyDType) -> NumpyDType:
    if dtype.subdtype is not None and dtype.base == np.dtype("S1") and len(dtype.shape) == 1 and dtype.shape[0]:
        return np.dtype(f"S{dtype.shape[0]}")
    if dtype.names is None or dtype.fields is None:
        return dtype
    fields = [(dtype.fields[name][0], dtype.fields[name][1]) for name in dtype.names]
    formats = [_char_fields_to_text(kind) for kind, _ in fields]
    if formats == [kind for kind, _ in fields]:
        return dtype
    offsets = [offset for _, offset in fields]
    return np.dtype({"names": dtype.names, "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize})


def fallback_type(dtype: DataType) -> DataType | None:
    """Return the next type that holds the same values with less meaning; None where there is none."""
    match dtype:
        case Enum() | Compound() | Opaque() | Char():
            return numpy_dtype(dtype)
        case np.dtype(byteorder=">"):
            return dtype.newbyteorder("=")
        case np.dtype(kind="b"):
            return np.dtype(np.int8)
        case np.dtype(kind="m" | "M"):
            return np.dtype(np.int64)
        case np.dtype(kind="c", itemsize=8 | 16):
            return np.dtype([("r", f"f{dtype.itemsize // 2}"), ("i", f"f{dtype.itemsize // 2}")])
        case np.dtype(kind="f", itemsize=2):
            return np.dtype(np.float32)
        case np.dtype(kind="U") | ObjectRef() | RegionRef():
            return VlenString()
        case _:
            return None


def losses_of(path: str, node: Node, features: Features) -> Iterator[Loss]:
    """Yield every loss of one node, its cells and attributes."""
    match node:
        case Link():
            if Feature.LINKS not in features:
                yield Loss(path, Feature.LINKS, f"the link to {node} is left out")
        case GroupSpec():
            yield from _group_losses(path, node, features)
            yield from _attribute_losses(path, node.attrs, features)
        case ArraySpec():
            yield from _array_losses(path, node, features)
            yield from _attribute_losses(path, node.attrs, features)


def _group_losses(path: str, spec: GroupSpec, features: Features) -> Iterator[Loss]:
    if path and Feature.GROUPS not in features:
        yield Loss(path, Feature.GROUPS, "the group is left out")
    if COLUMNS in spec.layout:
        yield Loss(path, *spec.layout[COLUMNS])
    if Feature.UNLIMITED not in features:
        for dim in spec.dims:
            if dim.unlimited:
                yield Loss(path, Feature.UNLIMITED, f"dimension {dim.name!r} becomes limited to {dim.size}")
    types = target_named_types(spec.types, features)
    for name, kind in spec.types.items():
        if name not in types:
            lacking = Feature.VLEN if isinstance(kind, VlenArray | VlenBytes) else Feature.USER_TYPES
            yield Loss(path, lacking, f"the type {name!r} is left out")


def _array_losses(path: str, spec: ArraySpec, features: Features) -> Iterator[Loss]:
    target = target_cell_type(spec, features)
    match target:
        case None:
            lacking = next(need for need in required_features(spec.dtype) if need not in features)
            yield Loss(path, lacking, f"cells of type {describe(spec.dtype)}: the array is left out")
        case Char():
            pass
        case VlenString() if spec.numpy_dtype.kind == "U":  # text of any length holds the same as text of one width
            pass
        case _ if not same_type(spec.dtype, target):
            wanted = list(required_features(spec.dtype))
            lacking = next((need for need in wanted if need not in features), wanted[0])
            yield Loss(path, lacking, f"cells of type {describe(spec.dtype)} become {describe(target)}")
    if not spec.shape and Feature.SCALARS not in features:
        yield Loss(path, Feature.SCALARS, "the 0-d array is left out")
    if any(spec.dims) and Feature.DIMENSIONS not in features:
        yield Loss(path, Feature.DIMENSIONS, f"the dimension names {', '.join(str(d) for d in spec.dims)} are lost")
    if spec.sparse is not None and Feature.SPARSE not in features:
        yield Loss(path, Feature.SPARSE, "the sparse array is stored dense")


def unit_losses(path: str, node: Node) -> Iterator[Loss]:
    """Yield the loss of units that an array has besides an attribute ``units`` that says others.

    Only a conversion into the same format, which changes nothing else either, keeps both.
    """
    units = node.layout.get("units") if node.is_array else None
    if units is not None and node.is_array and units != node.attrs.get("units"):
        said = node.attrs.get("units")
        yield Loss(path, Feature.UNITS, f"the units {units!r} are left out, for the attribute units is {said!r}")


def _attribute_losses(path: str, attrs: Attrs, features: Features) -> Iterator[Loss]:
    if not attrs or Feature.ATTRIBUTES not in features:
        if attrs:
            yield Loss(path, Feature.ATTRIBUTES, f"the attributes {', '.join(attrs)} are left out")
        return
    for name, value in attrs.items():
        lacking = _attribute_gap(value, features)
        if lacking is not None:
            yield Loss(path, lacking[0], f"the attribute {name!r}{lacking[1]}")


def target_named_types(types: Mapping[str, Extension], features: Features) -> dict[str, Extension]:
    """Return the named types that the target has a place for."""
    if Feature.USER_TYPES not in features:
        return {}
    vlen = Feature.VLEN in features
    return {name: kind for name, kind in types.items() if vlen or not isinstance(kind, VlenArray | VlenBytes)}


def _attribute_gap(value: object, features: Features) -> tuple[Feature, str] | None:
    """Return what a format lacks to hold this value of an attribute, and what becomes of it there; None: nothing."""
    match value:
        case ObjectReference() | RegionReference():
            return None if Feature.REFERENCES in features else (Feature.REFERENCES, ", a reference, becomes text")
        case np.ndarray() | np.generic() if Feature.TYPED_ATTRIBUTES not in features:
            return Feature.TYPED_ATTRIBUTES, f" loses its type {value.dtype}"
    if not isinstance(value, np.ndarray | np.generic):
        return None
    if (kind := tag_of(value.dtype)) is None or features.issuperset({Feature.USER_TYPES, *required_features(kind)}):
        return None
    becomes = f"becomes {value.dtype}" if _has_plain_type(kind, features) else "is left out"
    return Feature.USER_TYPES, f" of type {describe(kind)} {becomes}"


def _has_plain_type(kind: Extension, features: Features) -> bool:
    """Return True if a format without user types has attributes of the same bytes."""
    match kind:
        case VlenArray() | VlenBytes():
            return False
        case Enum():
            return True
    return Feature.STRUCTURED in features


def target_attrs(attrs: Attrs, features: Features) -> dict[str, object]:
    """Return the attributes as the target will hold them, after the losses that :func:`losses_of` announces."""
    if Feature.ATTRIBUTES not in features:
        return {}
    result = dict(attrs)
    for name, value in attrs.items():
        lacking = _attribute_gap(value, features)
        match lacking and lacking[0]:
            case Feature.TYPED_ATTRIBUTES:
                result[name] = value.tolist()
            case Feature.USER_TYPES if (kind := tag_of(value.dtype)) and _has_plain_type(kind, features):
                result[name] = untagged(value)
            case Feature.REFERENCES:
                result[name] = str(value)
            case Feature.USER_TYPES:
                del result[name]
    return result


def is_left_out(path: str, node: Node, features: Features) -> bool:
    """Return True if the target has no place at all for this node."""
    match node:
        case Link():
            return Feature.LINKS not in features
        case GroupSpec():
            return bool(path) and Feature.GROUPS not in features
        case ArraySpec():
            unheld = target_cell_type(node, features) is None
            return unheld or (not node.shape and Feature.SCALARS not in features)


def losses_error(losses: tuple[Loss, ...], format: str) -> Unsupported:
    """Return the error that lists every loss: nothing was copied."""
    shown = "\n".join(f"  {loss}" for loss in losses)
    remedy = "allow_loss=True (--allow-loss) converts what it can"
    if any(loss.feature == Feature.REFERENCES for loss in losses):
        remedy += (
            "; whole files of NWB or HDMF, from and to HDF5, are converted by export of hyperslab.hdmf.HyperslabIO"
        )
    return Unsupported(f"{format} cannot hold everything:\n{shown}\n", remedy=remedy)
