"""Options of a format: those that there are, of a few words, or true or false; anything else is refused at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hyperslab.errors import Invalid


def check_known(format: str, given: Iterable[str], known: Sequence[str], url: str) -> None:
    """Invalid for the name of an option that the format does not have."""
    unknown = [name for name in given if name not in known]
    if unknown:
        remedy = f"there are {', '.join(known[:-1])} and {known[-1]}"
        raise Invalid(f"format {format} has no option {unknown[0]!r}", url=url, remedy=remedy)


def check_choices(given: object, choices: Mapping[str, Sequence[Any]]) -> None:
    """Invalid for an attribute that is none of its choices; None among them is what nobody asks for by name."""
    for name, known in choices.items():
        value = getattr(given, name)
        if value not in known:
            shown = ", ".join(repr(choice) for choice in known if choice is not None)
            raise Invalid(f"{name}={value!r}", remedy=f"choose one of {shown}")


def check_truth(name: str, value: Any) -> None:
    """Invalid for what is neither true nor false."""
    if not isinstance(value, bool):
        raise Invalid(f"{name}={value!r}", remedy=f"it is true or false ({name}:=true on the command line)")
