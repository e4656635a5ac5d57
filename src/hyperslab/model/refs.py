"""Links and references as plain values; only the floors above follow them.

``path`` and ``target`` are absolute (``/g1/i2``) in the dataset that ``source`` names (``"."``: the one that they stand
in). ``object_id`` is what the target calls itself and ``source_object_id`` what its dataset does, where that is known:
two values that point at the same place are equal whatever they know of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from hyperslab.errors import BrokenLink, ExternalLinkRefused, Invalid
from hyperslab.model.paths import join
from hyperslab.model.regions import Region


class ResolvesReferences(ABC):
    """An open dataset, as the references that were read from it know it."""

    __slots__ = ()

    @abstractmethod
    def resolve(self, reference: Pointer) -> Any:
        """Return the group or array that it points at."""


@dataclass(frozen=True, slots=True)
class Link:
    """A name that stands for the node ``target`` of dataset ``source``. ``layout``: more that its document says."""

    target: str
    source: str = "."
    object_id: str | None = field(default=None, compare=False)
    source_object_id: str | None = field(default=None, compare=False)
    layout: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    is_array: ClassVar[Literal[False]] = False
    is_group: ClassVar[Literal[False]] = False
    is_link: ClassVar[Literal[True]] = True

    def __str__(self) -> str:
        return _said(self.target, self.source)


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """A value that points at the node ``path`` of dataset ``source``."""

    path: str
    source: str = "."
    object_id: str | None = field(default=None, compare=False)
    source_object_id: str | None = field(default=None, compare=False)
    home: ResolvesReferences | None = field(default=None, compare=False, repr=False)

    def resolve(self) -> Any:
        """Return the group or array that it points at; BrokenLink where there is none, Invalid when it was read
        nowhere."""
        return _resolve(self)

    def __str__(self) -> str:
        return _said(self.path, self.source)


@dataclass(frozen=True, slots=True)
class RegionReference:
    """A value that points at the cells ``region`` of the array ``path`` of dataset ``source``."""

    path: str
    region: Region
    source: str = "."
    object_id: str | None = field(default=None, compare=False)
    source_object_id: str | None = field(default=None, compare=False)
    home: ResolvesReferences | None = field(default=None, compare=False, repr=False)

    def resolve(self) -> Any:
        """Return the array whose cells it points at; errors as for :meth:`ObjectReference.resolve`."""
        return _resolve(self)

    def read(self) -> Any:
        """Return the cells: an array of the region's shape for slices and orthogonal ones, else 1-D; only the chunks
        that hold them are decoded. RegionOutOfBounds when the array has become too small."""
        return self.resolve().read_region(self.region)

    @property
    def isel(self) -> Mapping[str | int, Any]:
        """For slices and orthogonal regions what ``isel`` takes: a slice or a list of positions by dimension."""
        selected: Mapping[str | int, object] = self.resolve().isel_of(self.region)
        return selected

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        cells = self.read()
        return cells if dtype is None else cells.astype(dtype)

    def __str__(self) -> str:
        return f"{_said(self.path, self.source)}[{self.region}]"


Pointer = Link | ObjectReference | RegionReference
HOPS = 64
"""How many links may lead to one another."""
DEEPEST = 1000
"""How many groups deep one may lead: each of them is asked for when there is nothing at the end."""


def path_within(pointer: Pointer) -> str:
    """Return the path of a pointer's target in its dataset; ``..`` is taken for what it says as long as it stays
    inside.

    ExternalLinkRefused where it leads out, BrokenLink where it is no path of a node, or one that is far too long.
    """
    path = pointer.target if isinstance(pointer, Link) else pointer.path
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and not parts:
            message = f"{path!r} leads out of its dataset"
            raise ExternalLinkRefused(message, remedy="name the other dataset as its source")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if len(parts) > DEEPEST:
        raise BrokenLink(f"it leads {len(parts)} groups deep", remedy="remove it")
    try:
        return join("", "/".join(parts))
    except Invalid:
        raise BrokenLink(f"{path!r} is no path of a node") from None


def _said(path: str, source: str) -> str:
    """Return for people the path, behind the dataset that it is in where that is another one."""
    return f"{'' if source in ('', '.') else source}/{path.lstrip('/')}"


def _resolve(reference: ObjectReference | RegionReference) -> object:
    if reference.home is None:
        raise Invalid(f"the reference to {reference.path} was read from no dataset", remedy="root[reference]")
    return reference.home.resolve(reference)


def settle(reference: ObjectReference | RegionReference, home: ResolvesReferences) -> None:
    """Tell a reference that was just read which dataset it stands in."""
    object.__setattr__(reference, "home", home)
