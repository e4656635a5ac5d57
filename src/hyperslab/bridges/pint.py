"""pint: a Quantity as plain cells with the text of its units, and back, for which alone pint is imported."""

from __future__ import annotations

from typing import Any

from hyperslab.bridges.extras import imported, library


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
