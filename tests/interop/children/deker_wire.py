"""Python values as JSON and back, the same in every environment: what deker and hyperslab are asked, and what they say.

Needs NumPy alone, and Python 3.9. Whatever has no form of its own is kept where it is, and told by its number.
"""

from __future__ import annotations

import builtins
import datetime
from collections.abc import Callable
from typing import Any

import numpy as np

MODULES = {"builtins": builtins, "numpy": np, "datetime": datetime}
Keep = Callable[[Any], Any]
"""Makes JSON of what has no form here, and back."""


def encode(value: Any, keep: Keep) -> Any:
    """JSON of a value; of what has no form, what ``keep`` makes of it."""
    if value is None or type(value) in (bool, int, str):
        return value
    for name, (kind, spell, _) in FORMS.items():
        if isinstance(value, kind) and _is_plain(value):
            return {"$": name, "v": spell(value, keep)}
    return keep(value)


def decode(said: Any, found: Keep) -> Any:
    """The value that was encoded; of what was kept, what ``found`` makes of it."""
    if not isinstance(said, dict):
        return said
    return FORMS[said["$"]][2](said["v"], found) if said["$"] in FORMS else found(said)


def _is_plain(value: Any) -> bool:
    """Whether no class of the peer's is met: neither as it is, nor as the type of a named tuple."""
    return value.__module__ in MODULES if isinstance(value, type) else not hasattr(value, "_fields")


def _dtype(dtype: Any) -> str:
    """By its character, for two types may have one size."""
    return dtype.str if dtype.kind in "SUmMV" else dtype.byteorder.replace("|", "=") + dtype.char


def _array(value: Any, keep: Keep) -> Any:
    if value.dtype == object:
        return [list(value.shape), "O", _many(value.ravel(), keep)]
    return [list(value.shape), _dtype(value.dtype), np.ascontiguousarray(value).tobytes().hex()]


def _array_back(said: Any, found: Keep) -> Any:
    shape, dtype, cells = said
    if dtype != "O":
        return np.frombuffer(bytearray.fromhex(cells), dtype).reshape(shape)
    out = np.empty(len(cells), object)
    out[:] = _many_back(cells, found)
    return out.reshape(shape)


def _many(values: Any, keep: Keep) -> Any:
    return [encode(each, keep) for each in values]


def _many_back(said: Any, found: Keep) -> list[Any]:
    return [decode(each, found) for each in said]


FORMS: dict[str, tuple[Any, Callable[[Any, Keep], Any], Callable[[Any, Keep], Any]]] = {
    "dtype": (np.dtype, lambda value, _: _dtype(value), lambda said, _: np.dtype(said)),
    "array": (np.ndarray, _array, _array_back),
    "numpy": (np.generic, lambda value, keep: _array(np.asarray(value), keep), lambda s, f: _array_back(s, f)[()]),
    "float": (float, lambda value, _: repr(value), lambda said, _: float(said)),
    "complex": (complex, lambda value, _: repr(value), lambda said, _: complex(said)),
    "datetime": (
        datetime.datetime,
        lambda value, _: value.isoformat(),
        lambda said, _: datetime.datetime.fromisoformat(said),
    ),
    "date": (datetime.date, lambda value, _: value.isoformat(), lambda said, _: datetime.date.fromisoformat(said)),
    "timedelta": (
        datetime.timedelta,
        lambda value, _: [value.days, value.seconds, value.microseconds],
        lambda said, _: datetime.timedelta(*said),
    ),
    "type": (
        type,
        lambda value, _: [value.__module__, value.__name__],
        lambda said, _: getattr(MODULES[said[0]], said[1]),
    ),
    "slice": (
        slice,
        lambda value, keep: _many((value.start, value.stop, value.step), keep),
        lambda s, f: slice(*_many_back(s, f)),
    ),
    "dots": (type(...), lambda _, __: None, lambda _, __: ...),
    "tuple": (tuple, _many, lambda said, found: tuple(_many_back(said, found))),
    "list": (list, _many, _many_back),
    "dict": (
        dict,
        lambda value, keep: [[encode(key, keep), encode(each, keep)] for key, each in value.items()],
        lambda said, found: {decode(key, found): decode(each, found) for key, each in said},
    ),
}
