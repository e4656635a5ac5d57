"""Packed, unpacked and quantized cells, and other units: against xarray, netCDF4 and NumPy."""

from __future__ import annotations

import json
import shutil
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import hyperslab as hs
from command_line import run
from hyperslab.conversion import Pack, Round, Units, Unpack, rounding
from hyperslab.conversion.rounding import round_bits, round_digits
from hyperslab.errors import Invalid, NotFound, Unsupported
from hyperslab.stores.memory import MemoryStore

TYPES = ["i1", "u1", "i2", "u2", "i4", "u4"]


def recoded(cells: np.ndarray[Any, Any], *recode: Any, attrs: dict[str, Any] | None = None) -> tuple[Any, str]:
    """An array after a conversion, in memory, and what is said of it."""
    source, target = MemoryStore(), MemoryStore()
    with hs.create(source, "zarr3") as root:
        root.create_array("v", data=cells, dims=["x"], chunks=(3,), attrs=attrs or {})
    report = hs.convert(source, target, "zarr3", recode=recode, verify=True)
    return hs.open_group(target)["v"], "\n".join(report.recoded)


def bound_of(said: str) -> float:
    return 0.0 if "exact" in said else float(said.rpartition("at most ")[2].split(",")[0]) * 1.01  # of three digits


FLOATS = st.one_of(
    arrays_of.arrays("f8", st.integers(0, 9), elements=st.floats(allow_infinity=False)),
    arrays_of.arrays("f4", st.integers(1, 9), elements=st.floats(width=32, allow_infinity=False)),
    arrays_of.arrays("f8", st.integers(1, 9), elements=st.floats(200, 320)),
    arrays_of.arrays("i8", st.integers(1, 9), elements=st.integers(-(2**53), 2**53)),
)


@given(FLOATS, st.sampled_from(TYPES))
@example(np.array([-1.7e308, 1.7e308, np.nan]), "i2")
@example(np.array([5.0, 5.0]), "u1")
@example(np.array([np.nan, np.nan], "f4"), "i2")
def test_no_cell_is_farther_off_than_is_said(cells: np.ndarray[Any, Any], dtype: Any) -> None:
    try:
        array, said = recoded(cells, Pack(dtype))
    except Invalid as error:
        assert "has no scale" in str(error)
        assert np.nanmax(cells) - np.nanmin(cells) < 1e-37  # denormal
        return
    assert array.dtype == np.dtype(dtype)
    attrs = {name: np.asarray(value).astype("f8") for name, value in array.attrs.items() if name != "_FillValue"}
    stored = array[...]
    missing = stored == array.attrs["_FillValue"]
    assert np.array_equal(missing, np.isnan(cells.astype("f8")))
    with np.errstate(over="ignore"):
        found = stored.astype("f8") * attrs.get("scale_factor", 1) + attrs.get("add_offset", 0)
        off = np.abs(found[~missing] - cells.astype("f8")[~missing])
    assert (off <= bound_of(said)).all(), (said, found, cells)
    again, _ = recoded(stored, Unpack(), attrs=dict(array.attrs))
    if "scale_factor" in attrs and again.size:
        assert np.array_equal(np.isnan(again[...]), missing)


def test_xarray_reads_what_is_packed(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    cells = rng.normal(280, 15, (20, 30)).astype("f4")
    cells[3, 4:9] = np.nan
    whole = xr.Dataset({"t": (("time", "lat"), cells, {"units": "K", "valid_range": np.array([200, 330], "f4")})})
    whole = whole.assign_coords(lat=("lat", np.arange(30.0)))
    whole.to_netcdf(tmp_path / "a.nc")
    report = hs.convert(tmp_path / "a.nc", tmp_path / "b.nc", recode=[Pack("i2")], verify=True)
    assert [line.partition(":")[0] for line in report.recoded] == ["/t"]  # not the coordinate
    with xr.open_dataset(tmp_path / "b.nc") as packed, netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["t"].dtype == "i2" and file["lat"].dtype == "f8"
        assert np.array_equal(np.isnan(packed.t), np.isnan(cells))
        span = np.nanmax(cells) - np.nanmin(cells)
        assert float(abs(packed.t - cells).max()) <= bound_of(report.recoded[0]) < span / 65534
        assert file["t"].valid_range.dtype == "i2" and not file["t"][:].mask[0].any()
        wanted = packed.t.load()
    hs.convert(tmp_path / "b.nc", tmp_path / "c.nc", recode=[Unpack()], verify=True)
    with xr.open_dataset(tmp_path / "c.nc", mask_and_scale=False) as unpacked:
        assert unpacked.t.dtype == wanted.dtype and "scale_factor" not in unpacked.t.attrs
        assert np.array_equal(unpacked.t, wanted, equal_nan=True)
        low, high = unpacked.t.attrs["valid_range"]  # as far as packed numbers reach
        assert 200 < low <= wanted.min() and wanted.max() <= high < 330


def test_cells_that_are_not_valid_are_missing_and_told() -> None:
    array, said = recoded(np.array([1.0, 2.0, 9e9]), Pack("i2"), attrs={"valid_max": 100.0})
    assert "1 cells outside their valid range are missing now" in said
    assert (array[...] == array.attrs["_FillValue"]).tolist() == [False, False, True]
    for cells in (np.array([1.0, np.inf]), np.array([0.0, 5e-324])):
        with pytest.raises(Invalid):
            recoded(cells, Pack("i2"))


def test_limits_of_cells_with_a_negative_scale_are_kept() -> None:
    attrs = {"scale_factor": -0.5, "valid_range": np.array([0, 300], "i4")}
    array, said = recoded(np.array([0, 100, 300], "i4"), Pack("i2"), attrs=attrs)
    assert "missing" not in said and np.allclose(array.decoded()[...], [0, -50, -150], atol=0.01)


def test_whole_numbers_that_fit_stay_as_they_are() -> None:
    array, said = recoded(np.array([-5, 7, 120], "i8"), Pack("i1"))
    assert "exact" in said and array[...].tolist() == [-5, 7, 120] and "scale_factor" not in array.attrs
    array, _ = recoded(np.array([0, 10**6], "i4"), Pack("i2"))
    assert "scale_factor" in array.attrs


def test_only_what_is_named_is_packed(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        for name in ("t", "u", "lat"):
            root.create_array(name, data=np.linspace(0, 1, 4), dims=["lat"])
    result = run("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "-v", "u", "--type", "u1", "--verify")
    assert result.exit_code == 0 and "/u: float64 as uint8, scale" in result.stderr, result.stderr
    with hs.open(tmp_path / "b.zarr") as root:
        assert {name: array.dtype.str for name, array in root.arrays()} == {"t": "<f8", "u": "|u1", "lat": "<f8"}
    dry = run("repack", tmp_path / "a.zarr", tmp_path / "c.zarr", "--dry-run")
    assert [line[:2] for line in dry.stdout.splitlines()] == ["/t", "/u"] and not (tmp_path / "c.zarr").exists()
    back = run("unpack", tmp_path / "b.zarr", tmp_path / "d.nc")
    assert back.exit_code == 0 and "/u: uint8 unpacked as float" in back.stderr
    with pytest.raises(NotFound, match="no variable is named 'w'"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "e.zarr", recode=[Pack("i2", ("w",))])
    assert run("repack", tmp_path / "a.zarr", tmp_path / "e.zarr", "--type", "i2", "--bits", "3").exit_code == 2


def test_terms_and_labels_are_unpacked_too(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        packed = {"scale_factor": 0.5, "add_offset": 1.0}
        root.create_array("lev", data=np.arange(3, dtype="i2"), dims=["lev"], attrs={**packed, "formula_terms": "b: b"})
        root.create_array("b", data=np.arange(3, dtype="i2"), dims=["lev"], attrs=packed)
    assert len(hs.convert(tmp_path / "a.nc", tmp_path / "b.nc", recode=[Unpack()]).recoded) == 2
    with hs.open(tmp_path / "b.nc") as root:
        assert root["b"][...].tolist() == root["lev"][...].tolist() == [1.0, 1.5, 2.0]


# -- quantizing --------------------------------------------------------------------------------------------------------


_STORED: dict[str, dict[str, Any]] = {
    "blosc": {"chunks": (16, 12), "codec": "blosc:zstd:7", "fill_value": -5},
    "plain": {"chunks": (10, 48), "codec": "none"},
    "shuffled": {"chunks": (64, 24), "codec": "shuffle+zlib:3", "fill_value": 7},
    "zstd": {"chunks": (64, 48), "codec": "zstd:9", "fill_value": np.nan},
}


def stored(place: Path) -> dict[str, Any]:
    """How each array is stored, but for the one that is repacked."""
    with hs.open_group(place) as root:
        arrays = [array for name, array in root.arrays() if name != "t"]
        return {
            each.name: (each.dtype, each.chunks, each.shards, each.codec, repr(each.fill_value), each.nbytes_stored)
            for each in arrays
        }


@pytest.mark.parametrize("command", [("repack",), ("repack", "--digits", "3")])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_zarr_arrays_that_do_not_change_are_stored_as_they_were(
    tmp_path: Path, format: str, command: tuple[str, ...]
) -> None:
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    cells = np.random.default_rng(1).normal(size=(64, 48)).astype("f4")
    with hs.create(source, format) as root:
        root.create_array("t", data=cells, dims=("y", "x"), chunks=(16, 16))
        for name, how in _STORED.items():
            root.create_array(name, data=cells, dims=("y", "x"), **how)
        if format == "zarr3":
            root.create_array("sharded", data=cells, dims=("y", "x"), chunks=(8, 12), shards=(32, 48), codec="zstd:9")
    first, *options = command
    assert run(first, source, target, "-v", "t", "--format", format, *options).exit_code == 0
    assert stored(target) == stored(source) and len(stored(source)) >= 4


def test_netcdf_variables_that_do_not_change_are_stored_as_they_were(tmp_path: Path) -> None:
    source, target = tmp_path / "a.nc", tmp_path / "b.nc"
    cells = np.random.default_rng(1).normal(size=(64, 48)).astype("f4")
    deflated: dict[str, Any] = {"compression": "zlib", "complevel": 7, "shuffle": True, "fletcher32": True}
    with netCDF4.Dataset(source, "w") as file:
        file.createDimension("y", 64)
        file.createDimension("x", 48)
        file.createVariable("t", "f4", ("y", "x"), compression="zlib")[:] = cells
        file.createVariable("deflated", "f4", ("y", "x"), chunksizes=(16, 12), fill_value=-5, **deflated)[:] = cells
        file.createVariable("whole", "f4", ("y", "x"), contiguous=True)[:] = cells
        file.createVariable("summed", "f4", ("y", "x"), chunksizes=(16, 48), fletcher32=True)[:] = cells
        file.createVariable("unshuffled", "f4", ("y", "x"), compression="zlib", complevel=2, shuffle=False)[:] = cells
    assert run("repack", source, target, "-v", "t").exit_code == 0
    with netCDF4.Dataset(source) as before, netCDF4.Dataset(target) as after:
        assert after["t"].dtype == np.dtype("i2")
        for name in ("deflated", "whole", "summed", "unshuffled"):
            old, new = before[name], after[name]
            assert (new.chunking(), new.filters(), new.ncattrs()) == (old.chunking(), old.filters(), old.ncattrs())
            assert new.get_fill_value() == old.get_fill_value()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("mode", "most"), [("BitRound", 23), ("GranularBitRound", 6)])
def test_the_same_bits_as_netcdf_c(tmp_path: Path, dtype: str, mode: str, most: int) -> None:
    rng = np.random.default_rng(2)
    cells = np.concatenate([rng.normal(0, 10.0**power, 200) for power in range(-20, 21, 4)]).astype(dtype)
    cells = np.concatenate([cells, np.array([0, 1, -1, 10, 99.5, 0.001], dtype)])
    for number in range(1, most + 1, 2):
        path = tmp_path / f"{mode}{number}.nc"
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("x", len(cells))
            theirs = file.createVariable("v", dtype, ("x",), zlib=True, significant_digits=number, quantize_mode=mode)
            theirs[:] = cells
        with netCDF4.Dataset(path) as file:
            wanted, attrs = np.asarray(file["v"][:]), file["v"].__dict__
        ours = round_bits(cells, number) if mode == "BitRound" else round_digits(cells, number)
        assert np.array_equal(ours, wanted), (number, cells[ours != wanted][:5], ours[ours != wanted][:5])
        array, _ = recoded(cells, Round(bits=number) if mode == "BitRound" else Round(digits=number))
        assert np.array_equal(array[...], wanted)
        name = next(name for name in attrs if name.startswith("_Quantize"))
        assert array.attrs[name] == attrs[name] and array.attrs[name].dtype == attrs[name].dtype


@given(arrays_of.arrays("f8", st.integers(1, 9), elements=st.floats(1e-300, 1e300)), st.integers(1, 52))
def test_bits_are_within_half_a_unit(cells: np.ndarray[Any, Any], bits: int) -> None:
    assert (abs(round_bits(cells, bits) - cells) <= cells * 2.0 ** -(bits + 1)).all()


@given(arrays_of.arrays("f8", st.integers(1, 9), elements=st.floats(1e-300, 1e300)), st.integers(1, 12))
def test_digits_are_significant(cells: np.ndarray[Any, Any], digits: int) -> None:
    power = np.floor(np.log10(cells)) + 1
    assert (abs(round_digits(cells, digits) - cells) <= 0.5000001 * 10.0 ** (power - digits)).all()


@pytest.mark.parametrize("digits", range(1, 7))
def test_bits_of_floats_change_where_those_of_doubles_do(digits: int) -> None:
    starts, _ = rounding._spans_of_bits(digits)
    near = np.concatenate([starts.astype("i8") + step for step in range(-3, 4)])
    words = np.concatenate([near[near >= 0], np.arange(0, rounding._INFINITE_4, 997_000)]).astype("u4")
    cells = np.sort(words.view("f4"))
    cells = cells[np.isfinite(cells)]
    bits = rounding._bits_for_digits(cells.astype("f8"), digits)
    expected = np.where(cells == 0, cells, rounding._round_mantissa(cells, bits))
    assert np.array_equal(round_digits(cells, digits), expected)
    parts = [round_digits(part, digits) for part in np.split(cells, range(40, len(cells), 40))]
    assert np.array_equal(np.concatenate(parts), expected), (
        "numbers of one size are rounded by the few bits that they have"
    )


def test_rounding_takes_little_memory() -> None:
    """Of numbers of one size: the result, and no words of 8 bytes for each cell."""
    cells = np.random.default_rng(4).normal(270, 20, 1 << 20).astype("f4")
    for function, number in ((round_digits, 3), (round_bits, 9)):
        function(cells[:100], number)
        tracemalloc.start()
        try:
            function(cells, number)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2.3 * cells.nbytes, (function, peak)


def test_what_is_missing_or_no_number_stays(tmp_path: Path) -> None:
    cells = np.array([1.23456789, np.nan, np.inf, -np.inf, 9.96921e36, 0.0], "f4")
    array, _ = recoded(cells, Round(bits=2), attrs={"_FillValue": np.float32(9.96921e36)})
    assert np.array_equal(array[...][1:], cells[1:], equal_nan=True) and array[0] == 1.25
    for wrong in (Round(bits=24), Round(digits=0), Round(digits=3, bits=3)):
        with pytest.raises(Invalid):
            recoded(cells, wrong)


# -- units -------------------------------------------------------------------------------------------------------------


def test_units_of_floats_and_of_packed_cells() -> None:
    pytest.importorskip("pint")
    array, said = recoded(
        np.array([273.15, 300.0, -1e9]),
        Units({"v": "degC"}),
        attrs={"units": "K", "_FillValue": -1e9, "valid_min": 0.0},
    )
    assert np.allclose(array[...], [0, 26.85, -1e9]) and array.units == "degC" and said == "/v: K -> degC"
    assert array.attrs["valid_min"] == -273.15 and array.attrs["_FillValue"] == -1e9
    packed = {"units": "K", "scale_factor": 0.5, "add_offset": 250.0, "_FillValue": np.int16(-1)}
    cells = np.array([0, 100, -1], "i2")
    array, said = recoded(cells, Units({"*": "degF"}), attrs=packed)
    assert np.array_equal(array[...], cells) and "cells stay" in said
    assert np.allclose(array.decoded()[:2], (np.array([250.0, 300.0]) - 273.15) * 1.8 + 32)
    array, _ = recoded(np.array([36, 72], "i4"), Units({"v": "m s-1"}), attrs={"units": "km/h"})
    assert np.allclose(array.decoded()[...], [10, 20]) and array.dtype == "i4"
    array, _ = recoded(
        np.array([1.0]), Units({"v": "degF"}), attrs={"units": "K", "units_metadata": "temperature: difference"}
    )
    assert np.allclose(array[...], [1.8])
    for units, wanted, kind in (("K", "m", Invalid), ("K", "furlongs of gold", Invalid), (None, "m", Invalid)):
        with pytest.raises(kind):
            recoded(np.array([1.0]), Units({"v": wanted}), attrs={"units": units} if units else {})
    assert issubclass(Unsupported, Exception)


def test_bounds_and_ranges_have_the_new_units_too() -> None:
    pytest.importorskip("pint")
    source, target = MemoryStore(), MemoryStore()
    with hs.create(source, "zarr3") as root:
        about = {"units": "Pa", "bounds": "lev_bnds", "actual_range": np.array([500.0, 1000.0])}
        root.create_array("lev", data=np.array([1000.0, 500.0]), dims=["lev"], attrs=about)
        root.create_array("lev_bnds", data=np.array([[1100.0, 750.0], [750.0, 250.0]]), dims=["lev", "two"])
        inner = root.create_group("inner")
        packed = {"units": "Pa", "bounds": "lev_bnds", "scale_factor": 0.5, "add_offset": 1.0}
        ranges = {"actual_range": np.array([1.0, 6.0]), "valid_min": np.int16(0), "valid_max": 50.0}
        inner.create_array("p", data=np.array([0, 10], "i2"), dims=["lev"], attrs=packed | ranges)
    report = hs.convert(source, target, "zarr3", recode=[Units({"lev": "hPa", "p": "hPa"})], verify=True)
    assert "/lev_bnds: Pa -> hPa" in report.recoded
    with hs.open_group(target) as root:
        assert root["lev"].attrs["actual_range"].tolist() == [5.0, 10.0]
        assert np.allclose(root["lev_bnds"][...], [[11.0, 7.5], [7.5, 2.5]])
        assert "units" not in root["lev_bnds"].attrs
        attrs = root["inner/p"].attrs
        assert np.allclose(attrs["actual_range"], [0.01, 0.06]) and attrs["valid_max"] == 0.5
        assert attrs["valid_min"] == 0 and attrs["valid_min"].dtype == "i2"  # of stored cells, which stay


@pytest.mark.parametrize("change", [Round(digits=3), Units({"v": "degC"})])
def test_text_marks_no_missing_numbers(change: Any) -> None:
    if isinstance(change, Units):
        pytest.importorskip("pint")
    array, _ = recoded(np.array([300.0, np.nan], "f4"), change, attrs={"units": "K", "missing_value": "NA"})
    assert np.isnan(array[1]) and array.attrs["missing_value"] == "NA"
    assert array[0] == (np.float32(26.85) if isinstance(change, Units) else 300)


def test_units_on_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("pint")
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("t", data=np.array([273.15, 300.0]), dims=["x"], units="K")
    result = run("convert", tmp_path / "a.nc", tmp_path / "b.zarr", "--units", "t=degC", "--verify")
    assert result.exit_code == 0 and "/t: K -> degC" in result.stderr, result.stderr
    with hs.open(tmp_path / "b.zarr") as root:
        assert np.allclose(root["t"][...], [0, 26.85])
    assert run("convert", tmp_path / "a.nc", tmp_path / "c.zarr", "--units", "t=m").exit_code == 2


def test_memory_is_bounded(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", shape=(64, 1 << 16), dtype="f4", chunks=(1, 1 << 16), dims=["y", "x"])
        root["t"][...] = np.random.default_rng(3).normal(size=(64, 1 << 16)).astype("f4")  # 16 MiB
    hs.convert(tmp_path / "a.zarr", tmp_path / "warm.zarr", recode=[Pack("i2")], memory=4 << 20)
    tracemalloc.start()
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", recode=[Pack("i2")], memory=4 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20, peak


@pytest.mark.interop
def test_ncpdq_unpacks_what_is_packed_and_the_other_way(tmp_path: Path) -> None:
    cells = np.random.default_rng(4).normal(280, 15, 500).astype("f4")
    xr.Dataset({"t": ("x", cells)}).to_netcdf(tmp_path / "a.nc")
    report = hs.convert(tmp_path / "a.nc", tmp_path / "b.nc", recode=[Pack("i2")])
    subprocess.run(["ncpdq", "-U", tmp_path / "b.nc", tmp_path / "c.nc"], check=True)
    with xr.open_dataset(tmp_path / "c.nc") as theirs:
        assert float(abs(theirs.t - cells).max()) <= bound_of(report.recoded[0])
    subprocess.run(["ncpdq", "-P", "all_new", "-M", "flt_sht", tmp_path / "a.nc", tmp_path / "d.nc"], check=True)
    hs.convert(tmp_path / "d.nc", tmp_path / "e.nc", recode=[Unpack()])
    with xr.open_dataset(tmp_path / "e.nc") as ours, netCDF4.Dataset(tmp_path / "d.nc") as file:
        file.set_auto_maskandscale(False)
        wanted = file["t"][:] * float(file["t"].scale_factor) + float(file["t"].add_offset)
        assert np.allclose(ours.t, wanted, atol=1e-4)
    assert shutil.which("ncpdq")


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_get_and_aggregate_take_units_as_convert_does(name: str, tmp_path: Path) -> None:
    with hs.create(tmp_path / name) as root:
        sea = root.create_group("sea")
        sea.create_array("time", data=[0.0, 1.0, 40.0], dims=["time"], units="days since 2001-01-01")
        sea.create_array("t", data=np.array([273.15, 280.0, 300.0]), dims=["time"], units="K")
        packed = {"scale_factor": 0.5, "add_offset": 250.0}
        sea.create_array("p", data=np.array([10, 20, 30], "i2"), dims=["time"], units="K", attrs=packed)
    source, kelvin, celsius = tmp_path / name, tmp_path / f"k-{name}", tmp_path / f"c-{name}"
    hs.convert(source, kelvin, path="sea", recode=[Units({"t": "degC", "p": "degF"})])
    chosen = ["-v", "sea/t,sea/p", "--units", "sea/t=degC", "--units", "sea/p=degF"]
    result = run("get", source, *chosen, "-o", tmp_path / f"part-{name}")
    assert result.exit_code == 0, result.output
    monthly = ["--how", "mean", "--every", "month"]
    units = ["--units", "t=degC", "--units", "p=degF"]
    result = run("aggregate", source, celsius, "--path", "sea", *monthly, *units)
    assert result.exit_code == 0, result.output
    assert run("aggregate", kelvin, tmp_path / f"m-{name}", *monthly).exit_code == 0
    for found, expected in ((f"part-{name}", f"k-{name}"), (f"c-{name}", f"m-{name}")):
        with hs.open_group(tmp_path / found) as ours, hs.open_group(tmp_path / expected) as theirs:
            for each in ("t", "p"):
                assert ours[each].units == theirs[each].units
                np.testing.assert_allclose(ours[each].decoded()[...], theirs[each].decoded()[...], rtol=1e-14)
    shown = json.loads(run("get", source, "sea/t", "--units", "sea/t=degC", "--json").stdout)
    assert np.allclose(shown["values"], [0, 6.85, 26.85])
    assert shown["units"] == "degC"


def test_units_that_fit_nothing_are_refused(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("t", data=np.array([273.15, 300.0]), dims=["x"], units="K")
    assert "no variable is named 'q'" in run("get", tmp_path / "a.nc", "t", "--units", "q=degC").stderr
    out = tmp_path / "b.nc"
    result = run("aggregate", tmp_path / "a.nc", out, "--how", "mean", "--units", "t=m", "--over", "x")
    assert (result.exit_code, "cannot become 'm'" in result.stderr, out.exists()) == (2, True, False)
    result = run(
        "aggregate", tmp_path / "a.nc", out, "--how", "mean", "--units", "t=degC", "--over", "x", "--scheduler", "no"
    )
    assert "leave --units out" in result.stderr


@pytest.mark.parametrize("codec", ["none", "gzip:1"])
def test_packed_cells_are_compressed_where_the_source_is(tmp_path: Path, codec: str) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("t", data=np.linspace(0, 1, 24).reshape(4, 6), dims=("y", "x"), chunks=(2, 3), codec=codec)
    hs.convert(tmp_path / "a.nc", tmp_path / "b.nc", recode=[Pack("i2")])
    assert bool(hs.open_group(tmp_path / "b.nc")["t"].codec) is (codec != "none")
