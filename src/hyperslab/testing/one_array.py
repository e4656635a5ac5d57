"""What a format promises of an array with its coordinates, and one that holds a single array besides."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from hyperslab.errors import Invalid, NodeNotFound, Unsupported
from hyperslab.formats.base import Feature, HoldsOne
from hyperslab.model.dtypes import DataType, VlenString
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location, Probe
from hyperslab.testing.opened import OpenedTests
from hyperslab.testing.samples import cells, same_cells


class OneArrayTests(OpenedTests):
    """Part of :class:`~hyperslab.testing.formats.FormatTests`."""

    def test_the_one_array_keeps_its_name(self, place: Location) -> None:
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer))
        assert self.format.sniff(Probe(place))
        with self.reading(place) as reader:
            assert (list(reader.children("")), list(reader.children("v"))) == (["v"], [])
            with pytest.raises(NodeNotFound):
                list(reader.children("nothing"))
            assert isinstance(reader, HoldsOne) is self.holds_one
            assert not isinstance(reader, HoldsOne) or reader.main == "v"

    def test_no_other_array_and_no_group_beside_the_one(self, place: Location) -> None:
        if not self.holds_one:
            pytest.skip(f"{self.format.name} has groups")
        with self.writing(place) as writer, pytest.raises(Unsupported, match=self.format.name):
            writer.put("g", GroupSpec())
        with pytest.raises(Invalid, match="v, w"), self.writing(place, "w" if place.exists() else "x") as writer:
            writer.put("v", self.wish(writer))
            writer.put("w", self.wish(writer))

    @pytest.mark.parametrize(
        ("dtype", "feature"),
        [(np.dtype("f8"), None), (np.dtype("M8[ns]"), Feature.DATETIME), (VlenString(), Feature.STRINGS)],
    )
    def test_coordinates_stand_beside_their_array(
        self, place: Location, dtype: DataType, feature: Feature | None
    ) -> None:
        self.need(feature)
        self.need(Feature.DIMENSIONS)
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer))
            writer.put("y", self.wish(writer, dtype, shape=(7,), chunks=(7,), dims=("y",), attrs={"axis": "Y"}))
            writer.chunks("y").write((0,), cells(dtype, 7))
        with self.reading(place) as reader:
            assert sorted(reader.children("")) == ["v", "y"]
            assert not isinstance(reader, HoldsOne) or reader.main == "v"
            found, block = cast(ArraySpec, reader.node("y")), reader.chunks("y").read((0,))
            assert (found.shape, found.dims, dict(found.attrs)) == ((7,), ("y",), {"axis": "Y"})
            assert block is not None
            assert same_cells(block, cells(dtype, 7))
