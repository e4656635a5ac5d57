"""The dimensions of one array: what its positions are called. They are the schema's, with its own length and start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from hyperslab.chunks.source import Block
from hyperslab.errors import SelectionError
from hyperslab.model.schemas import AnyDimensionSchema, DimensionSchema, Scale
from hyperslab.model.schemas.dimensions import as_nanoseconds, microseconds


@dataclass(frozen=True, repr=False)
class Dimension:
    """One dimension of an array: a name, a length, and labels or a scale or neither. Its step is one cell."""

    name: str
    size: int
    labels: tuple[str, ...] | tuple[float, ...] | None = None
    scale: Scale | None = None

    @property
    def step(self) -> int:
        """Cells from one position to the next: always 1."""
        return 1

    def values(self, positions: range) -> list[Any]:
        """Return the names of positions: labels, values of the scale in as many decimals as it has, or ints."""
        if self.labels is not None:
            return [self.labels[place] for place in positions]
        if self.scale is None:
            return list(positions)
        return [self.scale.value(place) for place in positions]

    def coordinate(self, positions: range) -> Block:
        """Return the same as an array."""
        return np.array(self.values(positions)) if len(positions) else np.array([], self._kind)

    @property
    def _kind(self) -> str:
        if self.labels is not None:
            return "U1" if isinstance(self.labels[0], str) else "f8"
        return "i8" if self.scale is None else "f8"

    @property
    def as_dict(self) -> dict[str, Any]:
        """The dimension as plain values."""
        said: dict[str, Any] = {"name": self.name, "size": self.size, "step": self.step}
        if self.labels is not None:
            said["labels"] = self.labels
        if self.scale is not None:
            said["scale"] = self.scale._asdict()
        return said

    def __repr__(self) -> str:
        said = f", labels={self.labels}" if self.labels is not None else ""
        said += f", scale={self.scale}" if self.scale is not None else ""
        return f"Dimension(name={self.name!r}, size={self.size}, step=1{said})"


@dataclass(frozen=True)
class TimeDimension:
    """One dimension whose positions are moments: ``start_value + i * step``, in UTC."""

    name: str
    size: int
    step: timedelta
    start_value: datetime

    def values(self, positions: range) -> list[Any]:
        """Return the moments of these positions, as datetimes of UTC. SelectionError beyond the years 1 to 9999."""
        try:
            return [self.start_value + place * self.step for place in positions]
        except OverflowError:
            remedy = "such positions have no datetime; select them by position and read()"
            raise SelectionError(f"{self.name!r} reaches beyond the year 9999", remedy=remedy) from None

    def coordinate(self, positions: range) -> Block:
        """Return the moments as datetime64[ns], of UTC; in microseconds where nanoseconds do not reach."""
        places = np.arange(positions.start, positions.stop, positions.step, dtype=np.int64)
        return as_nanoseconds(
            (microseconds(self.start_value) + places * (self.step // timedelta(microseconds=1))).view("M8[us]")
        )

    @property
    def as_dict(self) -> dict[str, Any]:
        """The dimension as plain values."""
        start = self.start_value.isoformat()
        return {"name": self.name, "size": self.size, "step": self.step, "start_value": start}


def dimension(schema: AnyDimensionSchema, values: Mapping[str, Any], size: int) -> Dimension | TimeDimension:
    """Return the dimension of an array that is so long, by the ``values`` of its attributes; times without start are
    none."""
    if isinstance(schema, DimensionSchema):
        return Dimension(schema.name, size, schema.labels, schema.scale)
    start = schema.start_of(values)
    return Dimension(schema.name, size) if start is None else TimeDimension(schema.name, size, schema.step, start)


def labels_text(schema: AnyDimensionSchema, most: int) -> str:
    """Return a few words on the labels of positions, of listed labels the first ``most``: ``from 90.0 by -0.25
    (lat)``."""
    if not isinstance(schema, DimensionSchema):
        start = schema.start_value
        return f"from {start if isinstance(start, str) else start.isoformat()} by {schema.step}"
    if schema.scale is not None:
        named = f" ({schema.scale.name})" if schema.scale.name else ""
        return f"from {schema.scale.start_value} by {schema.scale.step}{named}"
    labels = schema.labels or ()
    return ", ".join([*map(str, labels[:most]), *([f"… ({len(labels)})"] if len(labels) > most else [])])
