"""The two places that one call names (convert, diff), each with its storage options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.errors import Invalid
from hyperslab.stores.location import Location

Options = Mapping[str, Any] | None
# Places of this machine, which one mapping for both sides leaves alone.
_OWN = ("file", "zip", "memory", "store", "icechunk+file")


def two_sides(first: Any, second: Any, options: Options | tuple[Options, Options]) -> tuple[Location, Location]:
    """Return the places, the first of which may be a pattern (:meth:`Location.matching`). A pair of options is for the
    first and the second; one mapping is for those not of this machine.

    Invalid when it is something else, or a place of this machine is given some.
    """
    match options:
        case None | Mapping():
            plain = Location.matching(first), Location.of(second)
            alone = [not options or where.scheme in _OWN for where in plain]
            return (
                plain[0] if alone[0] else Location.of(first, options),
                plain[1] if alone[1] else Location.of(second, options),
            )
        case (None | Mapping() as one, None | Mapping() as other) if isinstance(options, tuple):
            return _own_side(Location.matching(first, one), one), _own_side(Location.of(second, other), other)
    raise Invalid("storage_options are one mapping, or a pair (tuple) of them", remedy="give None for a side without")


def _own_side(where: Location, options: Options) -> Location:
    if options and where.scheme in _OWN and where.scheme not in ("zip", "icechunk+file"):
        names = ", ".join(options)
        raise Invalid(f"a place of this kind has no storage options ({names})", url=where.url, remedy="leave them out")
    return where
