"""Attributes as the schema wants them: JSON has one kind of whole number and one of text, a schema has more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hdmf.build import GroupBuilder

Cast = Callable[[Any], Any]
_UNSIGNED = {"uint": "u4", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8"}
_TYPE_KEYS = ("neurodata_type", "data_type")


@dataclass(frozen=True)
class _Wanted:
    """What the schema wants of a node: of its attributes, and of what is right below it without a type of its own."""

    casts: Mapping[str, Cast]
    below: Mapping[str, _Wanted]


_NOTHING = _Wanted({}, {})


class Casting:
    """Casts the attributes of builders by the schemas of a catalogue; what no schema speaks of stays as it is."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._known: dict[tuple[Any, Any], _Wanted] = {}

    def cast(self, builder: Any, wanted: _Wanted = _NOTHING) -> None:
        """A builder, and all below it, in place."""
        attributes = builder.attributes
        kind = next((attributes[key] for key in _TYPE_KEYS if key in attributes), None)
        if kind is not None:
            wanted = self._of(attributes.get("namespace"), kind)
        for name, cast in wanted.casts.items():
            if name in attributes:
                attributes[name] = cast(attributes[name])
        if isinstance(builder, GroupBuilder):
            for each in (*builder.groups.values(), *builder.datasets.values()):
                self.cast(each, wanted.below.get(each.name, _NOTHING))

    def _of(self, namespace: Any, kind: Any) -> _Wanted:
        key = namespace, kind
        if key not in self._known:
            try:
                self._known[key] = _wanted(self._catalog.get_spec(namespace, kind))
            except (KeyError, TypeError, ValueError):  # a type that no schema has
                self._known[key] = _NOTHING
        return self._known[key]


def _wanted(spec: Any) -> _Wanted:
    casts = {each.name: cast for each in spec.attributes if (cast := _cast_to(each.dtype)) is not None}
    nodes = (*getattr(spec, "groups", ()), *getattr(spec, "datasets", ()))
    untyped = [
        each for each in nodes if each.name is not None and each.data_type_def is None and each.data_type_inc is None
    ]
    below = {each.name: _wanted(each) for each in untyped}
    return _Wanted(casts, {name: each for name, each in below.items() if each.casts or each.below})


def _cast_to(dtype: Any) -> Cast | None:
    if dtype in ("long", "int64"):
        return _signed
    if dtype in ("ascii", "bytes"):
        return _bytes
    if isinstance(dtype, str) and dtype in _UNSIGNED:
        least = np.dtype(_UNSIGNED[dtype])
        return lambda value: _unsigned(value, least)
    return None


def _signed(value: Any) -> Any:
    return np.int64(value) if _is_whole(value) and -(2**63) <= value < 2**63 else value


def _unsigned(value: Any, least: np.dtype[Any]) -> Any:
    """The number in the least type that holds it and that the schema allows; lists as arrays."""
    if isinstance(value, list) and value and all(_is_whole(each) and 0 <= each < 2**64 for each in value):
        return np.array(value, np.promote_types(least, np.min_scalar_type(max(value))))
    if not _is_whole(value) or not 0 <= value < 2**64:
        return value
    return np.promote_types(least, np.min_scalar_type(value)).type(value)


def _bytes(value: Any) -> Any:
    return (
        [_bytes(each) for each in value] if isinstance(value, list) else value.encode() if type(value) is str else value
    )


def _is_whole(value: Any) -> bool:
    return type(value) is int
