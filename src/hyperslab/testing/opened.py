"""A format under test: its datasets opened for the time of a block, and wishes in its own spelling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from hyperslab.formats.base import Feature, Format, Plans, Writer
from hyperslab.model.dtypes import DataType
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.location import Location

_F4 = np.dtype("f4")


class OpenedTests:
    """What the tests of one format share."""

    format: ClassVar[Format]

    def need(self, feature: Feature | None) -> None:
        """Skip the test unless the format has the feature."""
        if feature is not None and feature not in self.format.features:
            pytest.skip(f"{self.format.name} has no {feature.value}")

    @property
    def holds_one(self) -> bool:
        """Return whether a dataset of the format is one array with its coordinates."""
        return not self.format.features & {Feature.GROUPS, Feature.ARRAYS}

    def opened(self, place: Location, mode: Any) -> Writer:
        """The dataset, to be closed by the test."""
        return cast(Writer, self.format.open(place, mode))

    @contextmanager
    def writing(self, place: Location, mode: Any = "x") -> Iterator[Writer]:
        """The dataset open for writing for the time of a block."""
        writer = self.opened(place, mode)
        try:
            yield writer
        finally:
            writer.close()

    @contextmanager
    def reading(self, place: Location) -> Iterator[Writer]:
        """The dataset opened anew."""
        with self.writing(place, "r") as reader:
            yield reader

    def wish(self, writer: Writer, dtype: DataType = _F4, **more: Any) -> ArraySpec:
        """A new array's spec in the format's own spelling."""
        given: dict[str, Any] = {"shape": (7, 4), "chunks": (3, 4), "dims": ("y", "x")} | more
        spec = ArraySpec(dtype=dtype, **given)
        return writer.new_array(spec) if isinstance(writer, Plans) else spec
