"""pint: a Quantity as plain cells with the text of its units, and back, for which alone pint is imported."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from hyperslab.bridges.extras import imported, library
from hyperslab.errors import Invalid, Unsupported


def is_quantity(value: Any) -> bool:
    """Return True if the value is a Quantity, of any registry; pint is not imported to find out."""
    pint = imported("pint")
    return pint is not None and isinstance(value, pint.Quantity)


def split(quantity: Any) -> tuple[Any, str]:
    """Return the magnitude as it is (NumPy, dask, sparse), and the units in their long form, as ``str(units)`` has it
    unless the registry says otherwise: ``kilogram * meter / second ** 2``; ``dimensionless`` where there are none."""
    return quantity.magnitude, f"{quantity.units:D}"


def join(magnitude: Any, units: str, registry: Any = None) -> Any:
    """Return the Quantity of a ``registry``, by default pint's application registry.

    What pint says of units that it does not know (``pint.UndefinedUnitError``) passes.
    """
    chosen = library("pint").get_application_registry() if registry is None else registry
    return chosen.Quantity(magnitude, chosen.parse_units(units, as_delta=False))


def plain(value: Any) -> tuple[Any, str | None]:
    """Return the value without its units, and those; None where it is no Quantity."""
    return split(value) if is_quantity(value) else (value, None)


# Powers as CF writes them: "m s-1" is "m * s**-1" to pint.
_POWER = re.compile(r"(?<=[A-Za-z])(-?\d+)")


@lru_cache(maxsize=64)  # a registry takes 0.2 s to make, and each variable of a dataset asks
def affine(units: str, wanted: str, *, is_difference: bool = False) -> tuple[float, float]:
    """Return factor and shift that make numbers in ``wanted`` units of numbers in ``units``, worked out in fractions.

    ``is_difference``: of differences, which have no zero to shift. Invalid for units that pint does not know, and for
    such of different kinds; Unsupported for scales that are no straight lines, as those in decibel.
    """
    pint = library("pint")
    registry = pint.UnitRegistry(non_int_type=Fraction)

    def converted(number: int) -> Any:
        quantity = registry.Quantity(Fraction(number), registry.parse_units(_in_words(units), as_delta=False))
        return quantity.to(registry.parse_units(_in_words(wanted), as_delta=False)).magnitude

    try:
        zero, one, ten = converted(0), converted(1), converted(10)
    except Exception as error:  # pint's own kinds, and those of its parser, have no common one
        remedy = "write both as pint, or UDUNITS, knows them, and of one kind"
        raise Invalid(f"{units!r} cannot become {wanted!r} ({type(error).__name__})", remedy=remedy) from None
    factor = one - zero
    if abs(float(ten - zero) - 10 * float(factor)) > 1e-9 * abs(float(ten)):
        raise Unsupported(f"{units!r} becomes {wanted!r} by no factor", remedy="compute it, and save the result")
    return float(factor), 0.0 if is_difference else float(zero)


def _in_words(units: str) -> str:
    """Return units of CF as pint parses them."""
    parts = [_POWER.sub(r"**\1", part) for part in units.replace(".", " ").split()]
    joined = " ".join(parts)
    return re.sub(r"(?<=[\w)])\s+(?=[\w(])", " * ", joined) or "dimensionless"
