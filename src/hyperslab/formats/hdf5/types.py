"""The named types of a netCDF-4 file as h5py sees them: committed HDF5 types.

netCDF4-python shows neither opaque types nor those with an opaque or enum field, and no type of an attribute's values.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from hyperslab.model.dtypes import (
    Compound,
    Enum,
    Extension,
    NumpyDType,
    Opaque,
    VlenArray,
    VlenBytes,
    VlenString,
    tag_of,
    tagged,
)
from hyperslab.model.paths import outward

if TYPE_CHECKING:
    import h5py

Place = tuple[str, str]
"""The path of a group and a name declared in it."""
BYTES_TYPE_NAME = "vlen_bytes_t"
"""The name of the type ``ubyte(*)`` whose cells are bytes of any length: one that hardly any variable has, since types
and variables of a group share their names."""
BYTES_TYPE_NAMES = frozenset({BYTES_TYPE_NAME, "bytes"})
"""The names that it has been given so far."""


BOOL = Enum(np.dtype(np.int8), (("FALSE", 0), ("TRUE", 1)), "bool_t")
"""What h5py stores the booleans of NumPy as, with the name that the type has where one is needed."""


def is_bool(kind: Extension | NumpyDType) -> bool:
    """Return True for the enum of booleans, whatever its name."""
    return isinstance(kind, Enum) and (kind.base, kind.members) == (BOOL.base, BOOL.members)


def is_hdf5_bool(handle: object) -> bool:
    """Return True if an HDF5 type is the enum of booleans."""
    from h5py import h5t

    if not isinstance(handle, h5t.TypeEnumID) or handle.get_nmembers() != len(BOOL.members):
        return False
    members = tuple((handle.get_member_name(i).decode(), handle.get_member_value(i)) for i in range(len(BOOL.members)))
    return bool(handle.get_super().equal(h5t.STD_I8LE)) and members == BOOL.members


class NamedTypes:
    """The committed types of an h5py file, by their paths, as types of the model.

    A type that the model lacks is left out: one with arrays of any length in a field, or arrays of any length of other
    things than numbers. One with text of any length in a field has no name in the model, which has such rows.
    """

    def __init__(self, file: h5py.File | None = None, paths: Iterable[str] = ()) -> None:
        self._ids: dict[Place, object] = {}
        self._kinds: dict[Place, Extension] = {}
        if file is not None:
            places = (path.rpartition("/") for path in paths)
            self._ids = {(group, name): file[f"{group}/{name}"].id for group, _, name in places}
        for place, handle in self._ids.items():
            with suppress(TypeError, ValueError, KeyError, RuntimeError, OverflowError):  # damaged, or of no use here
                kind = self._kind(place[0], place[1], handle)
                if kind is not None:
                    self._kinds[place] = kind

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def of(self, group: str) -> dict[str, Extension]:
        """Return the types of one group, by name."""
        return {name: kind for (owner, name), kind in self._kinds.items() if owner == group}

    def unread(self, group: str) -> dict[str, object]:
        """Return the HDF5 types of one group that the model lacks, by name."""
        return {
            name: handle
            for (owner, name), handle in self._ids.items()
            if owner == group and (owner, name) not in self._kinds
        }

    def find(self, group: str, handle: h5py.h5t.TypeID) -> Extension | None:
        """Return the named type that equals an HDF5 type, as seen from a group: the nearest outward, else any.

        netCDF stores the types of attributes without their names, so they are recognised by their structure.
        """
        place = self._place(group, handle)
        return None if place is None else self._kinds.get(place)

    def find_fields(self, group: str, handle: h5py.h5t.TypeCompoundID) -> NumpyDType | None:
        """Return the packed fields of a compound type, named or not; None where one has no type in the model."""
        try:
            fields = self._compound(group, handle)
        except (TypeError, ValueError):  # a field of a size that NumPy lacks, or two of one name
            return None
        return None if fields is None or _holds_long_doubles(fields) else fields

    def _place(self, group: str, handle: object) -> Place | None:
        equal = [place for place, other in self._ids.items() if type(other) is type(handle) and other == handle]
        around = list(outward(group))
        equal.sort(key=lambda place: around.index(place[0]) if place[0] in around else len(around))
        return equal[0] if equal else None

    def describe(self, group: str, handle: object) -> str:
        """Return an HDF5 type in words, behind the name that it has as seen from a group."""
        place = self._place(group, handle)
        text = describe_hdf5_type(handle)
        return text if place is None else f"{place[1]}: {text}"

    def _kind(self, group: str, name: str, handle: object) -> Extension | None:
        from h5py import h5t

        match handle:
            case h5t.TypeEnumID():
                # The values stand at the end of the type's HDF5 message: h5py gives no uint64 above 2**63 - 1.
                count, base = handle.get_nmembers(), handle.get_super().dtype
                values = np.frombuffer(handle.encode()[-base.itemsize * count :], base).tolist() if count else []
                members = ((handle.get_member_name(i).decode(), value) for i, value in enumerate(values))
                return Enum(base.newbyteorder("="), tuple(members), name)
            case h5t.TypeOpaqueID():
                return Opaque(handle.get_size(), name)
            case h5t.TypeVlenID():
                base = self._field(group, handle.get_super())
                if base is None or base.kind not in "iuf" or tag_of(base) is not None:
                    return None
                return VlenBytes() if name in BYTES_TYPE_NAMES and base == np.uint8 else VlenArray(base, name)
            case h5t.TypeCompoundID():
                base = self._compound(group, handle)
                return None if base is None or base.hasobject else Compound(base, name)
        return None

    def _compound(self, group: str, handle: h5py.h5t.TypeID) -> NumpyDType | None:
        """Return the packed fields, in which named types and text of any length are tagged; None where one has no type
        in the model."""
        from h5py import h5t

        fields = []
        for index in range(handle.get_nmembers()):
            member = handle.get_member_type(index)
            is_text = isinstance(member, h5t.TypeStringID) and member.is_variable_str()
            field = tagged(np.dtype(object), VlenString()) if is_text else self._field(group, member)
            if field is None:
                return None
            fields.append((handle.get_member_name(index).decode(), field))
        return np.dtype(fields)

    def _field(self, group: str, handle: h5py.h5t.TypeID) -> NumpyDType | None:
        from h5py import h5t

        match handle:
            case h5t.TypeArrayID():
                base = self._field(group, handle.get_super())
                return None if base is None else np.dtype((base, handle.get_array_dims()))
            case h5t.TypeIntegerID() | h5t.TypeFloatID():
                plain: NumpyDType = handle.dtype.newbyteorder("=")
                return plain
            case h5t.TypeStringID():
                return None if handle.is_variable_str() else np.dtype(f"S{handle.get_size()}")
            case h5t.TypeEnumID() if is_hdf5_bool(handle):
                return np.dtype(bool)
        place = self._place(group, handle)
        kind = self._kind(group, "" if place is None else place[1], handle)
        match kind:
            case Enum(base=base) | Compound(base=base):
                return tagged(base, kind) if kind.name else base
            case Opaque(size=size):
                return tagged(np.dtype((np.void, size)), kind)
        return None


def _holds_long_doubles(dtype: NumpyDType) -> bool:
    """Return True for numbers, or fields, that are as long as this machine's C has them."""
    base = dtype.base
    if base.fields is None:
        return base.char in "gG"
    return any(_holds_long_doubles(field[0]) for field in base.fields.values())


def holds_references(kind: h5py.h5t.TypeID) -> bool:
    """Return True if cells of an HDF5 type are references, or have any in fields or arrays."""
    from h5py import h5t

    match kind:
        case h5t.TypeReferenceID():
            return True
        case h5t.TypeArrayID() | h5t.TypeVlenID():
            return holds_references(kind.get_super())
        case h5t.TypeCompoundID():
            return any(holds_references(kind.get_member_type(index)) for index in range(kind.get_nmembers()))
    return False


def has_nameless_enum(kind: h5py.h5t.TypeID) -> bool:
    """Return True for rows with an enum in a field that is not committed under a name."""
    from h5py import h5t

    if not isinstance(kind, h5t.TypeCompoundID):
        return False
    members = [kind.get_member_type(index) for index in range(kind.get_nmembers())]
    return any(
        (isinstance(each, h5t.TypeEnumID) and not each.committed()) or has_nameless_enum(each) for each in members
    )


def is_misread(kind: h5py.h5t.TypeID, *, inside: bool = False) -> bool:
    """Return True if netCDF-C 4.10 takes cells of an HDF5 type for smaller ones, and reads or writes beyond its memory:
    numbers of 16 or 128 bits; in rows (``inside``) text of several bytes or of any length, and references."""
    from h5py import h5t

    match kind:
        case h5t.TypeFloatID():
            return kind.get_size() not in (4, 8)
        case h5t.TypeStringID():
            return inside and (kind.is_variable_str() or kind.get_size() > 1)
        case h5t.TypeArrayID() | h5t.TypeVlenID():
            return is_misread(kind.get_super(), inside=inside)
        case h5t.TypeCompoundID():
            return any(is_misread(kind.get_member_type(index), inside=True) for index in range(kind.get_nmembers()))
    return holds_references(kind)


def is_representable(kind: h5py.h5t.TypeID) -> bool:
    """Return True if the model has a value for an attribute of this HDF5 type, which has no name."""
    from h5py import h5t

    match kind:
        case h5t.TypeReferenceID() | h5t.TypeVlenID() | h5t.TypeTimeID():
            return False
        case h5t.TypeArrayID():
            return is_representable(kind.get_super())
        case h5t.TypeCompoundID():
            members = [kind.get_member_type(index) for index in range(kind.get_nmembers())]
            return all(
                is_representable(member) and not getattr(member, "is_variable_str", bool)() for member in members
            )
    return True


def is_resizable(attribute: h5py.h5a.AttrID) -> bool:
    """Return True if an attribute's dataspace is an array that may get longer, as no library but this one makes it."""
    extent = attribute.get_space()
    return bool(extent.get_simple_extent_ndims() and extent.get_simple_extent_dims(True) != attribute.shape)


_MAX_LETTERS = 200  # letters: a type of hundreds of fields is not spelled out in a message


def describe_hdf5_type(kind: h5py.h5t.TypeID) -> str:
    """Return an HDF5 type in words, such as ``compound {int32 id; int32(*) parts; string label}``."""
    text = _words(kind)
    return text if len(text) <= _MAX_LETTERS else f"{text[:_MAX_LETTERS]}…"


def _words(kind: h5py.h5t.TypeID) -> str:
    from h5py import h5t

    match kind:
        case h5t.TypeIntegerID() | h5t.TypeFloatID():
            return _number(kind)
        case h5t.TypeStringID():
            return "string" if kind.is_variable_str() else f"char({kind.get_size()})"
        case h5t.TypeReferenceID():
            return "region reference" if kind.equal(h5t.STD_REF_DSETREG) else "object reference"
        case h5t.TypeEnumID():
            return f"enum of {_words(kind.get_super())}"
        case h5t.TypeOpaqueID():
            return f"opaque({kind.get_size()})"
        case h5t.TypeVlenID():
            return f"{_words(kind.get_super())}(*)"
        case h5t.TypeArrayID():
            return f"{_words(kind.get_super())}({', '.join(map(str, kind.get_array_dims()))})"
        case h5t.TypeCompoundID():
            names = (kind.get_member_name(index).decode(errors="replace") for index in range(kind.get_nmembers()))
            fields = (f"{_words(kind.get_member_type(index))} {name}" for index, name in enumerate(names))
            return f"compound {{{'; '.join(fields)}}}"
    return f"a type of {kind.get_size()} bytes that only HDF5 has"


def _number(kind: h5py.h5t.TypeID) -> str:
    try:
        return str(kind.dtype.newbyteorder("="))
    except (TypeError, ValueError):
        return f"number of {8 * kind.get_size()} bits"
