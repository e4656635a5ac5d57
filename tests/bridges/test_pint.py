"""Quantities as plain cells with the text of their units, and back: by the same registry or another one."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pint
import pytest
import sparse
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.bridges.pint import is_quantity, join, plain, split

UNITS = ["meter", "second", "kilogram", "kelvin", "degree_Celsius", "percent", "volt", "radian", "byte"]


@given(st.dictionaries(st.sampled_from(UNITS), st.sampled_from([-2, -1, -0.5, 1, 2, 3]), max_size=4))
def test_units_there_and_back(powers):
    registry = pint.get_application_registry()
    unit = registry.Unit(pint.util.UnitsContainer(powers))
    magnitude, text = split(registry.Quantity(np.arange(3.0), unit))
    assert text == str(unit)
    assert join(magnitude, text, registry).units == unit


def test_the_long_form_whatever_the_registry_prints():
    registry = pint.UnitRegistry()
    registry.formatter.default_format = "~P"
    force = registry.Quantity(1.0, "kg * m / s**2")
    assert str(force.units) in ("kg·m/s²", "kg⋅m/s²")  # of pint before 0.26, and since
    assert split(force)[1] == "kilogram * meter / second ** 2"


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(3.0),
        lambda: da.arange(3),
        lambda: sparse.COO(np.eye(2)),
        lambda: da.from_array(sparse.COO(np.eye(2))),
    ],
    ids=["numpy", "dask", "sparse", "dask of sparse"],
)
def test_what_is_measured_stays_what_it_is(make):
    magnitude = make()
    quantity = join(magnitude, "degree_Celsius")
    assert is_quantity(quantity)
    assert split(quantity) == (magnitude, "degree_Celsius") or split(quantity)[0] is magnitude
    assert plain(quantity)[0] is magnitude


def test_dimensionless_is_a_unit_and_a_number_has_none():
    assert plain(pint.Quantity(np.arange(2)))[1] == "dimensionless"
    assert join(1.0, "dimensionless").unitless
    assert plain(np.arange(2))[1] is None
    assert not is_quantity(pint.Unit("m"))


def test_a_registry_of_one_s_own():
    registry = pint.UnitRegistry()
    registry.define("parrot = 3 * meter")
    assert join(2.0, "parrot", registry).to("meter").magnitude == 6.0
    with pytest.raises(pint.UndefinedUnitError):
        join(2.0, "parrot")
