"""Pickled references, read without running anything: only seven names are known, and none of them stands for itself.

Old peers stored references, and rows with text, as pickles of NumPy object arrays. A pickle is a program; this reader
lets it build lists, tuples, text and numbers, and for those names inert values that record what they are told: NumPy's
scalars become plain values by the rules at the end of this file. They are made anew for every pickle, take no
attributes but their own and never hash a key that is no text. What comes out is checked as a whole; no NumPy object is
built from it.
"""

from __future__ import annotations

import pickle
import re
from collections import deque
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import repeat
from math import prod
from operator import attrgetter
from typing import Any, NoReturn

import numpy as np

from hyperslab.codecs.references import KEYS, all_sound, reference_of
from hyperslab.errors import FormatError, UnsafePickle
from hyperslab.model.refs import ObjectReference

# -- the operations that a pickle asks for, before any is run: only those of data, no more than its cells need ---------
#
# The standard library's reader trusts numbers that it finds: a place in its memory far beyond all others takes
# gigabytes, sets of nothing take two hundred times their bytes. So every operation is looked at here first.


_AT_ONCE = 64
_STOP, _EMPTY_DICT, _LONG_BINPUT, _PUT = b".}rp"
_SIZES = {**dict.fromkeys(b"XBT\x8b", 4), **dict.fromkeys(b"\x8d\x8e\x96", 8)}  # bytes of the length that follows
_LINES = {**dict.fromkeys(b"SVILFgp", 1), **dict.fromkeys(b"c", 2)}  # lines of text that follow


@cache  # it takes 5 ms to compile, and few datasets have pickles
def _run_pattern() -> re.Pattern[bytes]:
    """Return what matches operations of fixed length, and those whose length is one byte; the most frequent first."""
    short = b"|".join(b"%s.{%d}" % (re.escape(bytes([length])), length) for length in range(256))
    return re.compile(
        rb"(?s:[()\]NtaesubR012\x81\x85-\x89\x93\x94]|h.|\x8c(?:%s)|K.|[q\x80].|M..|j.{4}|J.{4}|[G\x95].{8}|[CU\x8a](?:%s)){1,%d}+"
        % (short, short, _AT_ONCE)
    )


def scan(data: bytes, most: int) -> list[int]:
    """Return where the pickle makes dictionaries.

    UnsafePickle for an operation that is none of data, for more than about ``most`` of them, for a pickle that is cut
    off and for bytes behind one.
    """
    at, count, end = 0, 0, len(data)
    pattern = _run_pattern()
    found: list[int] = []
    while at < end:
        run = pattern.match(data, at)
        if run is not None:
            count += min(run.end() - at, _AT_ONCE)
            at = run.end()
        elif data[at] == _STOP:
            if at + 1 < end:
                raise UnsafePickle(f"a pickle with {end - at - 1} bytes behind it")
            return found
        else:
            count += 1
            if data[at] == _EMPTY_DICT:
                found.append(at)
            at = _behind(data, at, most)
        if count > most:
            raise UnsafePickle(f"a pickle of more than {most} operations, far more than its cells need")
    raise UnsafePickle("a pickle that is cut off")


def _behind(data: bytes, at: int, most: int) -> int:
    """Return where the next operation is."""
    operation = data[at]
    if operation == _EMPTY_DICT:
        return at + 1
    if size := _SIZES.get(operation):
        return at + 1 + size + int.from_bytes(data[at + 1 : at + 1 + size], "little")
    if operation == _LONG_BINPUT:
        _require_near(int.from_bytes(data[at + 1 : at + 5], "little"), most)
        return at + 5
    if lines := _LINES.get(operation):
        stop = at
        for _ in range(lines):
            stop = data.find(b"\n", stop + 1)
            if stop < 0:
                return len(data)
        if operation == _PUT:
            digits = data[at + 1 : stop]
            _require_near(int(digits) if digits.isdigit() and len(digits) < 10 else -1, most)
        return stop + 1
    raise UnsafePickle(f"a pickle with the operation 0x{operation:02x}, which data do not need")


def _require_near(place: int, most: int) -> None:
    if not 0 <= place <= most:
        raise UnsafePickle("a pickle that uses a place of its memory far beyond the others")


# -- NumPy's scalars in pickles as plain values, made of their bytes by a closed list of types -------------------------


_TYPES = re.compile(r"[iu][1248]|f[248]|b1|U\d{1,6}|S\d{1,6}")
_ORDERS = ("<", ">", "|", "=")


@dataclass(frozen=True, slots=True)
class ScalarLayout:
    """What a pickle says of a dtype: its code (``i4``), the order of its bytes, its fields and their places."""

    code: str
    order: object
    fields: tuple[tuple[ScalarLayout, int], ...]


def scalar_of(layout: ScalarLayout, data: object) -> object:
    """Return the plain value that these bytes are, of a row a tuple; UnsafePickle for all other types and lengths."""
    if type(data) is not bytes or layout.order not in _ORDERS:
        raise UnsafePickle("a pickled scalar without its bytes")
    if layout.fields:
        return tuple(_field(kind, at, data) for kind, at in layout.fields)
    if _TYPES.fullmatch(layout.code) is None:
        raise UnsafePickle(f"a pickled scalar of type {layout.code[:20]}")
    dtype = np.dtype(("" if layout.order == "|" else layout.order) + layout.code)
    if dtype.itemsize != len(data):
        raise UnsafePickle(f"a pickled {layout.code} of {len(data)} bytes")
    try:
        return np.frombuffer(data, dtype)[0].item() if data else dtype.type().item()
    except (ValueError, OverflowError) as error:  # text that is no Unicode
        raise UnsafePickle(f"a pickled {layout.code}: {error}") from None


def _field(kind: ScalarLayout, at: int, data: bytes) -> object:
    length = _TYPES.fullmatch(kind.code) and np.dtype(kind.code).itemsize
    if not length or not 0 <= at <= len(data) - length:
        raise UnsafePickle("a pickled row with a field outside of it, or of an unknown type")
    return scalar_of(kind, data[at : at + length])


_NONE = type(None)
_PLAIN = frozenset({str, int, float, bool, _NONE, bytes})
_DEEPEST = 8  # levels of rows within rows: the layout of each is worked out by a call of its own
_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_FILLS = frozenset({str, int, float, bool, _NONE})


@dataclass(frozen=True, slots=True)
class PickleLimits:
    """How large a pickle may be: its bytes, its cells, operations for each value (a reference takes about 20)."""

    nbytes: int = 64 << 20
    cells: int = 10_000_000
    operations: int = 100


DEFAULTS = PickleLimits()


@dataclass(frozen=True, slots=True)
class Pickled:
    """An array that was pickled: the names of its fields (None: it has none), its shape, the values of each field.

    A value is text, a number, a truth value, bytes, None, an ObjectReference, or a tuple of such values.
    """

    fields: tuple[str, ...] | None
    shape: tuple[int, ...]
    columns: tuple[list[object], ...]


def read_pickled(data: bytes, values: int, limits: PickleLimits = DEFAULTS) -> Pickled:
    """Return the array in a pickle that is to hold so many values (cells times fields).

    UnsafePickle for anything that is no array of references and plain values.
    """
    kinds = _StandIns()
    array = _load(data, kinds, values, limits)
    if type(array) is not kinds.array:
        raise UnsafePickle(f"a pickle of {type(array).__name__}, not of an array")
    state = getattr(array, "state", None)
    if type(state) is not tuple or len(state) != 5:
        raise UnsafePickle("a pickled array without its five parts")
    _, shape, dtype, fortran, cells = state
    if type(shape) is not tuple or not all(type(n) is int and 0 <= n < 2**63 for n in shape) or len(shape) > 64:
        raise UnsafePickle("a pickled array whose shape is no list of lengths")
    if type(cells) is not list or len(cells) != prod(shape):
        raise UnsafePickle(f"a pickled array of shape {shape} that does not list so many values"[:200])
    if fortran is not False:
        raise UnsafePickle("a pickled array in the order of Fortran", remedy="C order is read")
    fields = _fields(dtype, kinds)
    plain = _Plain(kinds, 100 * (len(cells) + 200))
    columns = tuple(map(plain.cells, (cells,) if fields is None else _columns(cells, len(fields))))
    _settle(columns, kinds)
    return Pickled(fields, shape, columns)


def fill_of_pickle(data: bytes) -> str | int | float | bool | None:
    """Return the plain value in a pickle; UnsafePickle for anything else."""
    found = _load(data, _StandIns(), 0, DEFAULTS)
    if type(found) not in _FILLS:
        raise UnsafePickle(f"a pickled fill value that is {type(found).__name__}, no plain value")
    value: str | int | float | bool | None = found
    return value


class _Closed(type):
    """Classes that cannot be called or changed."""

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise UnsafePickle(f"a pickle that calls {cls.__name__}")

    def __setattr__(cls, name: str, value: object) -> NoReturn:
        raise UnsafePickle(f"a pickle that changes {cls.__name__}")


def _refuse_state(self: object, state: object) -> NoReturn:
    raise UnsafePickle(f"a pickle that gives a state to {type(self).__name__}")


class _StandIns:
    """What the five names of one pickle stand for, and its dictionaries."""

    def __init__(self) -> None:
        class ndarray(metaclass=_Closed):
            __slots__ = ("state",)
            state: Any

            def __setstate__(self, state: object) -> None:
                self.state = state

        class dtype(metaclass=_Closed):
            __slots__ = ("code", "state")
            code: Any
            state: Any

            def __setstate__(self, state: object) -> None:
                self.state = state

        class ZarrReference(metaclass=_Closed):
            __slots__ = ObjectReference.__slots__  # so that it can become one, which is far faster than to make one
            __setitem__ = object.__setattr__  # takes the keys that are slots, and hashes nothing that is no text
            __setstate__ = _refuse_state

        class mapping(metaclass=_Closed):
            __slots__ = ("items",)
            items: dict[str, Any]
            __setstate__ = _refuse_state

            def __setitem__(self, key: object, value: object) -> None:
                if type(key) is not str:
                    raise UnsafePickle(f"a pickled dictionary with a key that is {type(key).__name__}")
                self.items[key] = value

        class scalar(metaclass=_Closed):
            __slots__ = ("data", "dtype")
            dtype: Any
            data: Any
            __setstate__ = _refuse_state

        class named(metaclass=_Closed):
            __slots__ = ("call",)
            call: Any
            __setstate__ = _refuse_state

            def __call__(self, *args: object) -> object:
                return self.call(*args)

        self.array: Any = ndarray
        self.dtype: Any = dtype
        self.reference: Any = ZarrReference
        self.mapping: Any = mapping
        self.scalar: Any = scalar
        reconstruct, make_dtype, make_scalar = (object.__new__(named) for _ in range(3))
        reconstruct.call, make_dtype.call, make_scalar.call = self._empty_array, self._dtype, self._scalar
        self.names: dict[tuple[str, str], Any] = {
            **{(module, "_reconstruct"): reconstruct for module in _MULTIARRAY},
            **{(module, "scalar"): make_scalar for module in _MULTIARRAY},
            ("numpy", "ndarray"): ndarray,
            ("numpy", "dtype"): make_dtype,
            ("hdmf_zarr.utils", "ZarrReference"): ZarrReference,
        }

    def _empty_array(self, *args: Any) -> Any:
        if not args or args[0] is not self.array:
            raise UnsafePickle("a pickled array of an unknown kind")
        return object.__new__(self.array)

    def _dtype(self, *args: object) -> object:
        made = object.__new__(self.dtype)
        made.code = args[0] if args else None
        return made

    def _scalar(self, *args: object) -> object:
        made = object.__new__(self.scalar)
        made.dtype, made.data = args if len(args) == 2 else (None, None)
        return made

    def new_mapping(self) -> object:
        """Return an empty dictionary."""
        made = object.__new__(self.mapping)
        made.items = {}
        return made


class _Reader(pickle.Unpickler):
    """The standard reader, with the stand-ins in place of everything that it would import or run."""

    def __init__(self, data: bytes, kinds: _StandIns) -> None:
        super().__init__(BytesIO(data))
        self._kinds = kinds

    def find_class(self, module: str, name: str) -> object:
        """Return the stand-in of a name; UnsafePickle for a name that is none of those."""
        found = self._kinds.names.get((module, name))
        if found is None:
            raise UnsafePickle(f"a pickle that asks for {module[:80]}.{name[:80]}")
        return found

    def persistent_load(self, place: object) -> object:
        """Return a new dictionary: :func:`_load` put this in place of the operation that makes one."""
        return self._kinds.new_mapping()


def _load(data: bytes, kinds: _StandIns, values: int, limits: PickleLimits) -> Any:
    if len(data) > limits.nbytes or values > limits.cells:
        what = f"a pickle of {len(data)} bytes for {values} values"
        raise UnsafePickle(what, remedy=f"at most {limits.nbytes} bytes and {limits.cells} values are read")
    at = 0
    parts = []
    for place in scan(data, limits.operations * (values + 200)):
        parts += [data[at:place], b"NQ"]  # a dictionary of the standard reader would hash any key
        at = place + 1
    try:
        return _Reader(b"".join([*parts, data[at:]]) if parts else data, kinds).load()
    except UnsafePickle:
        raise
    except Exception as error:
        raise UnsafePickle(f"a pickle that is no array of references: {type(error).__name__}: {error}"[:300]) from None


def _fields(dtype: object, kinds: _StandIns) -> tuple[str, ...] | None:
    if type(dtype) is not kinds.dtype:
        raise UnsafePickle("a pickled array without a dtype")
    code, state = getattr(dtype, "code", None), getattr(dtype, "state", None)
    names = state[3] if type(state) is tuple and len(state) > 3 else None
    if names is None and type(code) is str and code == "O8":
        return None
    if type(names) is not tuple or not names or not all(type(name) is str for name in names):
        raise UnsafePickle("a pickled array neither of objects nor of rows")
    return names


@dataclass(slots=True)
class _Plain:
    """Makes plain values of NumPy's scalars and of what tuples and lists hold; ``left``: of how many, for a pickle may
    name one value again and again."""

    kinds: _StandIns
    left: int

    def cells(self, values: list[object]) -> list[object]:
        """Return the values of an array; the same list where all are plain already."""
        types = set(map(type, values))
        if types.isdisjoint({tuple, list, self.kinds.scalar}):
            return values
        return [self._cell(value, 0) for value in values]

    def _cell(self, value: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > _DEEPEST:
            raise UnsafePickle("a pickled array of values within values without an end")
        kind = type(value)
        if kind in (tuple, list):
            return tuple(self._cell(part, depth + 1) for part in value)
        if kind is self.kinds.scalar:
            return self._cell(self._scalar(value), depth + 1)
        if kind is self.kinds.reference and depth:
            return _reference({key: getattr(value, key, None) for key in KEYS})
        if kind is self.kinds.mapping and depth:
            return _reference(value.items)
        if kind not in _PLAIN and kind not in (self.kinds.reference, self.kinds.mapping):
            raise UnsafePickle(f"a pickled array that holds {kind.__name__}")
        return value

    def _scalar(self, value: Any) -> Any:
        """Return a scalar, whose bytes are all that it is; one with objects is pickled as an array of one row."""
        if type(value.data) is not self.kinds.array:
            return scalar_of(self._layout(value.dtype, 0), value.data)
        state = getattr(value.data, "state", None)
        rows = state[4] if type(state) is tuple and len(state) == 5 else None
        if type(rows) is not list or len(rows) != 1:
            raise UnsafePickle("a pickled scalar that is no row")
        return rows[0]

    def _layout(self, dtype: Any, depth: int) -> ScalarLayout:
        """Return the code, order of bytes and fields of a dtype, as plain values."""
        if type(dtype) is not self.kinds.dtype or depth > _DEEPEST:
            raise UnsafePickle("a pickled scalar without a dtype")
        state = getattr(dtype, "state", None)
        if type(dtype.code) is not str or type(state) is not tuple or len(state) < 7:
            raise UnsafePickle("a pickled scalar of an unknown type")
        fields = []
        for name in state[3] if type(state[3]) is tuple else ():
            place = state[4].items.get(name) if type(state[4]) is self.kinds.mapping and type(name) is str else None
            if type(place) is not tuple or len(place) < 2 or type(place[1]) is not int:
                raise UnsafePickle("a pickled row without the places of its fields")
            fields.append((self._layout(place[0], depth + 1), place[1]))
        return ScalarLayout(dtype.code, state[1], tuple(fields))


def _columns(rows: list[Any], count: int) -> tuple[list[Any], ...]:
    if not set(map(type, rows)) <= {tuple} or not set(map(len, rows)) <= {count}:
        raise UnsafePickle(f"a pickled array whose rows are no tuples of {count} fields")
    return tuple(map(list, zip(*rows, strict=True))) if rows else tuple([] for _ in range(count))


def _settle(columns: tuple[list[Any], ...], kinds: _StandIns) -> None:
    """Check every value and make references of those that are to be some, in place."""
    references: list[Any] = []
    for column in columns:
        types = set(map(type, column))
        if wrong := types - _PLAIN - {kinds.reference, kinds.mapping, tuple}:
            raise UnsafePickle(f"a pickled array that holds {sorted(kind.__name__ for kind in wrong)[0]}")
        if kinds.mapping in types:
            column[:] = [_reference(value.items) if type(value) is kinds.mapping else value for value in column]
        if types == {kinds.reference}:
            references += column
        elif kinds.reference in types:
            references += [value for value in column if type(value) is kinds.reference]
    # Make ObjectReferences of stand-ins, which have the same slots; for sound ones without a step of Python each.
    if not _all_sound(references):
        for value in references:
            reference = _reference({key: getattr(value, key, None) for key in KEYS})
            for key in KEYS:
                setattr(value, key, getattr(reference, key))
    for name, said in (("home", None), ("__class__", ObjectReference)):
        deque(map(object.__setattr__, references, repeat(name), repeat(said)), 0)


def _reference(items: dict[str, object]) -> ObjectReference:
    try:
        found = reference_of(items)
    except FormatError as error:
        raise UnsafePickle(f"a pickled array with {error.said}") from None
    if not isinstance(found, ObjectReference):
        raise UnsafePickle("a pickled array with a region, which is stored as JSON alone")
    return found


def _all_sound(stand_ins: list[object]) -> bool:
    try:
        parts = [list(map(attrgetter(key), stand_ins)) for key in KEYS]
    except AttributeError:
        return False
    return all_sound(*parts)
