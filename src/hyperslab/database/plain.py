"""The attributes of an array as any file of arrays holds them: numbers, text, lists of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

_LARGEST = 2**63


def plain_attributes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Every attribute that has a value, by name."""
    return {name: plain(value) for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    """A value of an attribute as a number, text or list of numbers; times in ISO 8601, anything else as Python says."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else str(value)
    if isinstance(value, tuple) and value:
        if all(type(item) is int and -_LARGEST <= item < _LARGEST for item in value):
            return list(value)
        if all(type(item) in (int, float) for item in value):
            return [float(item) for item in value]
    return str(value)
