"""The shipped suite of formats, for both dialects, over a folder, over memory and with consolidated metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from hyperslab.formats.base import Writer
from hyperslab.formats.nczarr import FORMAT
from hyperslab.formats.nczarr.attributes import normalize_value
from hyperslab.model.attrs import equal, equal_attrs
from hyperslab.model.dtypes import Compound, DataType
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore
from hyperslab.testing.formats import FormatTests

FLOAT = np.dtype("f4")
DRAFT = FORMAT.variant({"dialect": "draft"})


def regular_type(dtype: DataType, name: str) -> DataType:
    """A structured type gets a name, since netCDF has no other."""
    return Compound(dtype, name) if isinstance(dtype, np.dtype) and dtype.names else dtype


class NczarrTests(FormatTests):
    """Numbers in attributes come back typed, as netCDF has them, and structured types with a name."""

    def wish(self, writer: Writer, dtype: DataType = FLOAT, **more: Any) -> ArraySpec:
        return super().wish(writer, regular_type(dtype, "v"), **more)

    def round_trip_attrs(self, place: Location, kind: str, attrs: dict[str, Any]) -> None:
        held = {name: normalize_value(value) for name, value in attrs.items()}
        with self.writing(place) as writer:
            writer.put("n", GroupSpec(attrs=attrs) if kind == "group" else self.wish(writer, attrs=attrs))
        with self.reading(place) as reader:
            found = reader.node("n").attrs
        assert list(found) == list(held)
        assert not {name: found[name] for name, value in held.items() if not equal(value, found[name])}

    def test_attributes_change_and_go(self, place: Location) -> None:
        with self.writing(place) as writer:
            writer.put("v", self.wish(writer, attrs={"a": 1, "b": "old"}))
            spec = writer.node("v")
            writer.put("v", spec.evolve(attrs={"b": "new", "c": 2.5}))
            assert equal_attrs(writer.node("v").attrs, {"b": "new", "c": np.float64(2.5)})
        with self.reading(place) as reader:
            assert equal_attrs(reader.node("v").attrs, {"b": "new", "c": np.float64(2.5)})


class TestFolder(NczarrTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.nczarr")


class TestMemory(NczarrTests):
    format = FORMAT

    @pytest.fixture
    def place(self) -> Location:
        return Location.of(MemoryStore())


class TestConsolidated(NczarrTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.nczarr")

    def opened(self, place: Location, mode: Any) -> Writer:
        return cast(Writer, FORMAT.open(place, mode, consolidated=mode == "x"))


class TestDraft(NczarrTests):
    format = DRAFT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.nczarr")


class TestDraftInMemory(NczarrTests):
    format = DRAFT

    @pytest.fixture
    def place(self) -> Location:
        return Location.of(MemoryStore())
