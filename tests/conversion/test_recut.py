"""What a format cuts otherwise than asked is said."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.errors import Invalid

ASKED = {"t": 6, "y": 6, "x": 10}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", data=np.arange(24), dims=["t"])
        root.create_array("v", data=np.zeros((24, 30, 40), "f4"), dims=["t", "y", "x"])
    return tmp_path / "a.zarr"


@pytest.mark.parametrize("format", ["bloscpack", "blaze"])
def test_rows_are_told(source: Path, tmp_path: Path, format: str) -> None:
    report = hs.convert(source, tmp_path / "target", format, path="v", chunks=ASKED)
    target = hs.open(tmp_path / "target")
    assert isinstance(target, hs.Array)
    cut = " x ".join(map(str, target.chunks))
    assert report.recut == (f"/v has chunks of {cut} (requested: t=6,y=6,x=10)",)
    assert f"cut otherwise: {report.recut[0]}" in str(report)


def test_what_is_cut_as_asked_is_not(source: Path, tmp_path: Path) -> None:
    for format in ("zarr3", "netcdf", "b2nd"):
        assert not hs.convert(source, tmp_path / format, format, path="v", chunks=ASKED).recut
    assert not hs.convert(source, tmp_path / "longer.blp", path="v", chunks={"t": 100}).recut
    assert not hs.convert(source, tmp_path / "as-it-suits.blp", path="v").recut


def test_a_dimension_without_a_name_goes_by_its_place(tmp_path: Path) -> None:
    """So does one that shares its name; the name means all that have it."""
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("plain", data=np.zeros((24, 30), "f4"))
        root.create_array("square", data=np.zeros((24, 30), "f4"), dims=["x", "x"])
    source, chunks, shards = tmp_path / "a.zarr", {"dim_0": 6, "x": 10}, {"dim_1": 20}
    hs.convert(source, tmp_path / "b.zarr", chunks=chunks, shards=shards)
    with hs.open_group(tmp_path / "b.zarr") as root:
        assert root["plain"].chunks[0] == 6
        assert root["square"].chunks == (6, 10)
        assert root["square"].shards == (6, 20)
    report = hs.convert(source, tmp_path / "c.blp", path="plain", chunks={"dim_1": 7})
    assert len(report.recut) == 1 and report.recut[0].endswith("(requested: dim_1=7)")
    with pytest.raises(Invalid, match="no dimension 'dim_2'"):
        hs.convert(source, tmp_path / "d.zarr", chunks={"dim_2": 7})
    with pytest.raises(Invalid, match="shards of dim_1=20 hold no whole number of chunks of dim_1=7"):
        hs.convert(source, tmp_path / "d.zarr", chunks={"dim_1": 7}, shards=shards)


def test_the_closing_line(source: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["convert", str(source), str(tmp_path / "b.blp"), "--path", "v", "--chunks", "x=10"]
    )
    first, companions, second = done.output.splitlines()
    assert companions == "with them: t"
    assert "(bloscpack): 2 arrays, 1 group, " in first
    assert "112.7 KiB of cells in" in first
    assert second.startswith("cut otherwise: /v has chunks of ")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    with hs.create(tmp_path / "image.zarr") as root:
        dims, chunks = ["t", "c", "z", "y", "x"], (1, 1, 2, 64, 64)
        root.create_array("s0", data=np.arange(3 * 2 * 5 * 96 * 128, dtype="u2").reshape(3, 2, 5, 96, 128), dims=dims)
        root.create_array("small", data=np.zeros((3, 2, 5, 96, 128), "u2"), dims=dims, chunks=chunks, shards=False)
        root.create_array("t", data=np.arange(3), dims=["t"])
    return tmp_path / "image.zarr"


@pytest.mark.parametrize(
    ("shards", "wanted"),
    [
        ({"t": 1}, {"t": 1}),
        ({"t": 1, "c": 1, "z": 4, "y": 96, "x": 128}, {"t": 1, "c": 1, "z": 4, "y": 96, "x": 128}),
        ({"y": 100, "x": 97}, {"y": 100, "x": 97}),  # 97 is a prime
        ({"x": 3}, {"x": 3}),
    ],
)
def test_a_shard_has_the_lengths_that_are_requested(
    image: Path, tmp_path: Path, shards: dict[str, int], wanted: dict[str, int]
) -> None:
    hs.convert(image, tmp_path / "b.zarr", shards=shards, verify=True)
    with hs.open_group(tmp_path / "b.zarr") as root:
        for name in ("s0", "small"):
            array = root[name]
            assert array.shards is not None
            cut = dict(zip(array.dims, array.shards, strict=True))
            assert {dim: cut[dim] for dim in wanted} == wanted
            assert all(shard % chunk == 0 for shard, chunk in zip(array.shards, array.chunks, strict=True))
        assert (root["t"].chunks, root["t"].shards) == ((3,), None)  # coordinates stay whole


def test_chunks_that_fit_into_the_requested_shards_stay(image: Path, tmp_path: Path) -> None:
    hs.convert(image, tmp_path / "b.zarr", path="small", shards={"t": 1, "z": 4, "y": -1, "x": 128})
    with hs.open_group(tmp_path / "b.zarr") as root:
        assert (root["small"].chunks, root["small"].shards) == ((1, 1, 2, 64, 64), (1, 1, 4, 128, 128))


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "netcdf"])
def test_the_same_chunks(image: Path, tmp_path: Path, format: str) -> None:
    report = hs.convert(image, tmp_path / "b", format, chunks="same", shards="none", verify=True)
    assert report.recut == ()
    with hs.open_group(image) as old, hs.open_group(tmp_path / "b") as new:
        assert {name: new[name].chunks for name in new} == {name: old[name].chunks for name in old}
    part = hs.convert(image, tmp_path / "part", format, chunks="same", select={"x": slice(0, 10), "c": 0})
    assert part.recut == ()
    with hs.open_group(tmp_path / "part") as new:
        assert new["small"].chunks == (1, 2, 64, 10)


def test_the_same_chunks_in_shards(image: Path, tmp_path: Path) -> None:
    hs.convert(image, tmp_path / "b.zarr", chunks="same", shards={"y": 128, "x": 128}, path="small")
    with hs.open_group(tmp_path / "b.zarr") as root:
        assert (root["small"].chunks, root["small"].shards) == ((1, 1, 2, 64, 64), (1, 1, 2, 128, 128))
    with pytest.raises(Invalid, match=r"shards of x=100 hold no whole number of chunks of x=64 .* multiple"):
        hs.convert(image, tmp_path / "c.zarr", chunks="same", shards={"x": 100}, path="small")
    done = CliRunner().invoke(main, ["convert", str(image), str(tmp_path / "d.zarr"), "--chunks", "same"])
    assert done.exit_code == 0 and "cut otherwise" not in done.output
    with pytest.raises(Invalid, match="chunks='same'"):
        hs.convert(image, tmp_path / "e.zarr", chunks="some")


def test_shards_without_suitable_chunks_are_refused(tmp_path: Path) -> None:
    hs.save(tmp_path / "a.zarr", np.zeros(70_000, "u1"), chunks=1000)
    with pytest.raises(Invalid, match=r"dim_0=65537 .* dim_0=1 or dim_0=65537, .* choose dim_0=66000"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={}, shards={"dim_0": 65537})
    assert not (tmp_path / "b.zarr").exists()
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", shards={"dim_0": 66000})


def test_a_checksum_of_netcdf_that_is_not_kept_is_told(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createVariable("summed", "f4", ("x",), fletcher32=True)[:] = [1, 2, 3]
        file.createVariable("plain", "f4", ("x",))[:] = [1, 2, 3]
    for format, becomes in (("zarr3", "the checksum crc32c"), ("zarr2", "no checksum")):
        report = hs.convert(tmp_path / "a.nc", tmp_path / format, format=format)
        assert report.recut == (f"/summed has {becomes} (source: fletcher32)",)
    assert hs.convert(tmp_path / "a.nc", tmp_path / "b.nc").recut == ()
    assert hs.convert(tmp_path / "a.nc", tmp_path / "c", codec="zstd").recut == ()
