"""What ``dump`` prints, ncgen makes the same dataset of."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from cdl.compiling import NAMES, NEEDS_NCGEN, case, compiled, every_sixth, ncdump
from hyperslab.cli.cdl import dump

pytestmark = NEEDS_NCGEN


def dumped(dataset: Path, folder: Path) -> Path:
    """The netCDF file that ncgen makes of what is printed of a dataset."""
    with hs.open(dataset) as root:
        text = "\n".join(dump(root, dataset.stem, header=False))
    source = folder / "dumped.cdl"
    source.write_text(f"{text}\n", "utf-8")
    return compiled(source, folder / "dumped.nc")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_is_compiled_to_the_same(tmp_path: Path, name: str) -> None:
    made = case(name, tmp_path)
    assert ncdump(dumped(made, tmp_path)) == ncdump(made)


@pytest.mark.parametrize("name", every_sixth([name for name in NAMES if not name.startswith("vlen")], 2))
def test_what_is_printed_of_nczarr_is_compiled_to_the_same(tmp_path: Path, name: str) -> None:
    made = case(name, tmp_path)
    hs.convert(made, tmp_path / f"{name}.nczarr", dialect="draft")
    assert ncdump(dumped(tmp_path / f"{name}.nczarr", tmp_path)) == ncdump(made)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    cells = np.array([bytes([code]) for code in (0, 1, 10, 34, 92, 127, 128, 233, 255, 0, 65)], "S1")
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("c", data=cells, dims=("n",))
    with hs.open(dumped(tmp_path / "a.nc", tmp_path)) as root:
        assert np.array_equal(root["c"][...], cells)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_every_bit_of_a_number_is_printed(tmp_path: Path, dtype: str) -> None:
    bits = np.random.default_rng(6).integers(0, 2**31, 200 * np.dtype(dtype).itemsize // 4, "u4").view(dtype)
    numbers = bits[np.isfinite(bits) & (np.abs(bits) > np.finfo(dtype).tiny)]
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("v", data=numbers, dims=("n",))
    with hs.open(dumped(tmp_path / "a.nc", tmp_path)) as root:
        assert root["v"][...].tobytes() == numbers.tobytes()


@pytest.mark.parametrize(
    ("name", "format"), [("a.zarr", "zarr2"), ("a.zarr", "zarr3"), ("a.nczarr", "nczarr"), ("a.hdmf.zarr", "hdmf")]
)
def test_cells_that_nobody_wrote_are_not_printed_by_the_billion(tmp_path: Path, name: str, format: str) -> None:
    with hs.create(tmp_path / name, format) as root:
        root.create_array("a", shape=(2**31,), dtype="i4", chunks=(4,), dims=("t",))[:4] = [1, 2, 3, 4]
        root.create_array("b", data=np.arange(3), dims=("n",))
    with hs.open(tmp_path / name) as root:
        lines = [line.strip() for line in dump(root, "a", header=False)]
        assert "t = 2147483648 ;" in lines and "b = 0, 1, 2 ;" in lines
        assert [line.partition(";")[0] for line in lines if "not shown" in line] == [
            "// not shown: /a: next to none of its 2147483648 cells was written"
        ]
        begin = islice(dump(root, "a", header=False, only=frozenset({"a"})), 30)
        assert any(line.startswith(" a = 1, 2, 3, 4, 0, 0, ") for line in begin)


@pytest.mark.parametrize("name", ["types", "dimensions", "variables", "data", "group"])
def test_variables_may_be_called_as_sections_of_cdl(tmp_path: Path, name: str) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array(name, data=[1.0, 2.0], dims=("x",), attrs={"units": "K"})
    assert ncdump(dumped(tmp_path / "a.nc", tmp_path)) == ncdump(tmp_path / "a.nc")


def test_dimensions_without_names_are_called_as_in_netcdf(tmp_path: Path) -> None:
    cells = np.arange(18).reshape(2, 3, 3)
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("bare", data=cells)
        root.create_array("g/half", data=cells[0, :2], dims=(None, "dim_3"))
        root.create_array("g/other", data=cells[0, 0], dims=("dim_2",))
    hs.convert(tmp_path / "a.zarr", tmp_path / "a.nc", allow_loss=True)
    with hs.open(tmp_path / "a.nc") as wanted, hs.open(dumped(tmp_path / "a.zarr", tmp_path)) as found:
        for path in ("bare", "g/half", "g/other"):
            np.testing.assert_array_equal(found[path][...], wanted[path][...])
        assert found["bare"].dims == wanted["bare"].dims == ("dim_2", "dim_3", "dim_3_2")
