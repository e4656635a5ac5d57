"""The two places that one call names (``convert``, ``diff``), each with its storage options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.errors import Invalid
from hyperslab.stores.location import Location

Options = Mapping[str, Any] | None
_OWN = ("file", "zip", "memory", "store")
"""Places of this machine, which one mapping for both sides leaves alone."""


def two_sides(first: Any, second: Any, options: Options | tuple[Options, Options]) -> tuple[Location, Location]:
    """The places. A pair of options is for the first and the second; one mapping is for those not of this machine.

    Invalid when it is something else, or a place of this machine is given some.
    """
    if options is None or isinstance(options, Mapping):
        return _side(first, options), _side(second, options)
    if isinstance(options, tuple) and len(options) == 2 and all(isinstance(one, Mapping | None) for one in options):
        return _own_side(first, options[0]), _own_side(second, options[1])
    raise Invalid("storage_options are one mapping, or a pair (tuple) of them", remedy="give None for a side without")


def _own_side(target: Any, options: Options) -> Location:
    where = Location.of(target, options)
    if options and where.scheme in _OWN and where.scheme != "zip":
        names = ", ".join(options)
        raise Invalid(f"a place of this kind has no storage options ({names})", url=where.url, remedy="leave them out")
    return where


def _side(target: Any, options: Options) -> Location:
    where = Location.of(target)
    return where if where.scheme in _OWN or not options else Location.of(target, options)
