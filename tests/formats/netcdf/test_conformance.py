"""The shipped suite of formats, for each model that holds enough for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab.formats.base import Writer
from hyperslab.formats.netcdf import FORMAT
from hyperslab.formats.netcdf.data_model import to_netcdf_type, to_netcdf_value
from hyperslab.model.attrs import equal
from hyperslab.model.dtypes import DataType
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests

FLOAT = np.dtype("f4")


class TestNetcdf(FormatTests):
    """Numbers in attributes come back typed, and structured types with a name: the two things that netCDF adds."""

    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.nc")

    def wish(self, writer: Writer, dtype: DataType = FLOAT, **more: Any) -> ArraySpec:
        spec = super().wish(writer, dtype, **more)
        return spec.evolve(dtype=to_netcdf_type(spec.dtype, "v"))

    def round_trip_attrs(self, place: Location, kind: str, attrs: dict[str, Any]) -> None:
        held = {name: to_netcdf_value(value, "NETCDF4") for name, value in attrs.items()}
        with self.writing(place) as writer:
            writer.put("n", GroupSpec(attrs=attrs) if kind == "group" else self.wish(writer, attrs=attrs))
        with self.reading(place) as reader:
            found = reader.node("n").attrs  # type: ignore[union-attr]
        assert list(found) == list(held)
        assert not {name: found[name] for name, value in held.items() if not equal(value, found[name])}

    def test_attributes_change_and_go(self, place: Location) -> None:
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer, attrs={"a": 1, "b": "old"}))
            spec = writer.node("v")
            assert isinstance(spec, ArraySpec)
            writer.put("v", spec.evolve(attrs={"b": "new", "c": 2.5}))
            assert writer.node("v").attrs == {"b": "new", "c": np.float64(2.5)}  # type: ignore[union-attr]
        with self.reading(place) as reader:
            assert reader.node("v").attrs == {"b": "new", "c": np.float64(2.5)}  # type: ignore[union-attr]
