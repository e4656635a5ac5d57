"""Samples of series that pynwb wrote, by hyperslab's backend and to HDF5, by seconds; and of what hdmf-zarr wrote."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import Result
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.hdmf import HyperslabIO

GOLDEN = Path(__file__).parents[2] / "golden" / "hdmf"
COUNTS = np.random.default_rng(1).integers(-400, 400, (3000, 4), "i2")
STAMPS = np.cumsum(np.random.default_rng(2).uniform(0.05, 0.15, 500))
RATE, START = 30_000.0, 5.0
SECONDS = START + np.arange(len(COUNTS)) / RATE


def make_session() -> NWBFile:
    """Return a session with a series of a rate, one of timestamps, and two that share those."""
    nwb = NWBFile("a mouse in a maze", "session-1", datetime(2026, 1, 1, 12, tzinfo=UTC))
    lfp = TimeSeries(name="lfp", data=COUNTS, rate=RATE, starting_time=START, unit="V", conversion=0.5)
    place = TimeSeries(name="place", data=np.arange(500.0), timestamps=STAMPS, unit="m")
    speed = TimeSeries(name="speed", data=np.arange(500.0) * 2, timestamps=place, unit="m/s")
    again = TimeSeries(name="again", data=place, timestamps=place, unit="m")
    for series in (lfp, place, speed, again):
        nwb.add_acquisition(series)
    return nwb


@pytest.fixture(scope="module", params=["v2.nwb.zarr", "v3.nwb.zarr", "hdf5.nwb"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The session in each of the places that pynwb writes; nobody changes it."""
    place = tmp_path_factory.mktemp("session") / request.param
    if place.suffix == ".nwb":
        with NWBHDF5IO(place, "w") as io:
            io.write(make_session())
    else:
        with HyperslabIO(place, "w", profile=request.param[:2]) as io:
            io.write(make_session())
    return place


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.stderr
    return result


def test_in_python(session: Path) -> None:
    with hs.open_group(session) as root:
        lfp: Any = root["acquisition/lfp/data"]
        inside = (SECONDS >= 5.01) & (SECONDS <= 5.02)
        np.testing.assert_array_equal(lfp.decoded().sel(time=slice(5.01, 5.02)), COUNTS[inside] * 0.5)
        inside = (STAMPS >= 10) & (STAMPS <= 20)
        for name, factor in {"place": 1, "speed": 2, "again": 1}.items():
            data: Any = root[f"acquisition/{name}/data"]
            np.testing.assert_array_equal(data.sel(time=slice(10, 20)), np.flatnonzero(inside) * factor)


@pytest.mark.parametrize("bounds", ["5.01..5.0101", "@5.01..@5.0101"])
def test_get_and_stats(session: Path, bounds: str) -> None:
    rows = run("get", session, "acquisition/lfp/data", "-s", f"time={bounds}").stdout.split("\n")[1:-1]
    found = np.array([row.split() for row in rows], "f8")
    np.testing.assert_array_equal(found[:, 0], np.repeat(SECONDS[300:304], 4))  # exactly what pynwb computes
    np.testing.assert_array_equal(found[:, 2], COUNTS[300:304].ravel())
    line = run("stats", session, "acquisition/lfp/data", "-s", f"time={bounds}").stdout.split("\n")[1].split()
    assert line[1:3] == ["16", "0"] and line[-1] == "V"


def test_whole_numbers_are_samples_and_a_note_says_so(session: Path) -> None:
    result = run("get", session, "acquisition/speed/data", "-s", "time=10..12")
    assert [row.split()[1] for row in result.stdout.split("\n")[1:3]] == ["20.0", "22.0"]
    assert "time: whole numbers are samples along" in result.stderr and "seconds as @10 or 10.0" in result.stderr
    assert run("get", session, "acquisition/speed/data", "-s", "time=@10..@12").stderr == ""


def test_in_xarray(session: Path) -> None:
    with hs.open_group(session) as root:
        lfp = root["acquisition/lfp/data"].to_xarray()
        np.testing.assert_array_equal(lfp["time"].values, SECONDS)
        part = lfp.sel(time=slice(5.01, 5.02))
        np.testing.assert_allclose(part["time"].values, SECONDS[300:601], rtol=1e-15)
        np.testing.assert_array_equal(part.values, COUNTS[300:601])
        np.testing.assert_array_equal(part[::100].sel(time=5.01 + 100 / RATE).values, COUNTS[400])
    with xr.open_dataset(session, engine="hyperslab", group="acquisition/speed", chunks={}) as speed:
        inside = (STAMPS >= 10) & (STAMPS <= 20)
        np.testing.assert_array_equal(speed.sel(time=slice(10, 20))["data"].values, np.flatnonzero(inside) * 2)


@pytest.mark.parametrize("stride", [1, 3])
def test_a_part_that_is_converted_keeps_its_seconds(session: Path, stride: int, tmp_path: Path) -> None:
    target = tmp_path / "part.zarr"
    hs.convert(session, target, select={"time": slice(5.01, 5.02, stride)}, verify=True, allow_loss=True)
    with hs.open_group(target) as root:
        lfp: Any = root["acquisition/lfp/data"]
        np.testing.assert_array_equal(lfp[...], COUNTS[300:601:stride])
        start: Any = root["acquisition/lfp/starting_time"]
        assert start.attrs["rate"] == RATE / stride
        np.testing.assert_allclose(start[()], SECONDS[300], rtol=1e-15)
        np.testing.assert_array_equal(lfp.sel(time=SECONDS[300 + 5 * stride]), COUNTS[300 + 5 * stride])
        inside = STAMPS[(STAMPS >= 5.01) & (STAMPS <= 5.02)][::stride]
        np.testing.assert_array_equal(root["acquisition/place/timestamps"], inside)
        np.testing.assert_array_equal(root["acquisition/place/data"], np.flatnonzero(np.isin(STAMPS, inside)))


def test_samples_that_no_rate_tells(session: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chosen = {"time": [SECONDS[7], SECONDS[30]]}
    hs.convert(session, tmp_path / "part.zarr", path="acquisition/lfp", select=chosen)
    assert "/starting_time and its rate stay as they are, and do not tell when the chosen samples are" in caplog.text


@pytest.mark.parametrize(
    ("archive", "name"),
    [
        ("hdmf_zarr_v2_old_060", "hz060_nwb_pickle"),  # without names of dimensions
        ("hdmf_zarr_v2_0130", "hz0130_nwb_json"),
        ("hdmf_zarr_v3_0140", "hz0140_nwb_v3"),
    ],
)
def test_what_hdmf_zarr_wrote(archive: str, name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(GOLDEN / f"{archive}.zip") as stored:
        stored.extractall(tmp_path)
    place = tmp_path / f"{name}.zarr"
    with hs.open_group(place) as root:
        stamps, data = np.asarray(root["acquisition/ts/timestamps"]), np.asarray(root["acquisition/ts/data"])
        for series in ("ts", "ts2"):  # the second one is made of links to the first one
            found: Any = root[f"acquisition/{series}/data"]
            np.testing.assert_array_equal(found.sel(time=slice(0.15, 0.4)), data[(stamps >= 0.15) & (stamps <= 0.4)])
        start: Any = root["acquisition/es/starting_time"]
        samples: Any = root["acquisition/es/data"]
        third = start[()] + 3 / start.attrs["rate"]
        np.testing.assert_array_equal(samples.sel(time=third, method="nearest"), samples[3])
    rows = run("get", place, "acquisition/ts/data", "-s", "time=0.15..0.4").stdout.split("\n")[1:-1]
    assert [float(row.split()[0]) for row in rows] == [0.2, 0.3, 0.4]
    chosen = {"time": slice(0.15, 0.4)}
    hs.convert(place, tmp_path / "part.nwb.zarr", select=chosen, allow_loss=True)  # of trials that are cut
    with hs.open_group(tmp_path / "part.nwb.zarr") as root:
        np.testing.assert_allclose(root["acquisition/ts/timestamps"], [0.2, 0.3, 0.4])


# -- sessions behind one another ---------------------------------------------------------------------------------------


def write_part(place: Path, start: float, *, rate: float = 1000.0, samples: int = 200, stamped: bool = False) -> Path:
    """Write a session with one series from ``start`` on, whose cells tell their milliseconds."""
    seconds = start + np.arange(samples) / rate
    clock = {"timestamps": seconds} if stamped else {"rate": rate, "starting_time": start}
    nwb = NWBFile("a part", "part", datetime(2026, 1, 1, 12, tzinfo=UTC))
    nwb.add_acquisition(TimeSeries(name="lfp", data=np.rint(seconds * 1000), unit="V", **clock))
    with HyperslabIO(place, "w") as io:
        io.write(nwb)
    return place


@pytest.mark.parametrize("stamped", [False, True])
def test_parts_that_follow_one_another_keep_their_seconds(tmp_path: Path, stamped: bool) -> None:
    parts = [write_part(tmp_path / f"{i}.nwb.zarr", 3 + i / 5, stamped=stamped) for i in range(3)]
    with hs.join(parts, along="num_times") as root:
        found: Any = root["acquisition/lfp/data"]
        np.testing.assert_array_equal(found.sel(time=slice(3.1, 3.5)), np.arange(3100, 3501))
    run("append", parts[0], parts[1], "--dim", "num_times")
    with hs.open_group(parts[0]) as root:
        found = root["acquisition/lfp/data"]
        np.testing.assert_array_equal(found.sel(time=slice(3.1, 3.3)), np.arange(3100, 3301))


@pytest.mark.parametrize(
    ("start", "rate", "stamped", "message"),
    [
        (5.0, 1000.0, False, "lead to 3.2 s"),  # a gap
        (3.1, 1000.0, False, "lead to 3.2 s"),  # an overlap
        (1.0, 1000.0, False, "lead to 3.2 s"),  # another order
        (3.2, 500.0, False, "a rate of 500 Hz, those before of 1000 Hz"),
        (3.1, 1000.0, True, "begin at 3.1 s, those before end at 3.199 s"),
        (1.0, 1000.0, True, "begin at 1 s, those before end at 3.199 s"),
    ],
)
def test_parts_of_which_one_clock_does_not_tell_are_refused(
    start: float, rate: float, stamped: bool, message: str, tmp_path: Path
) -> None:
    one = write_part(tmp_path / "one.nwb.zarr", 3.0, stamped=stamped)
    other = write_part(tmp_path / "other.nwb.zarr", start, rate=rate, stamped=stamped)
    with pytest.raises(hs.errors.Invalid, match=message) as caught:
        hs.join([one, other], along="num_times")
    assert caught.value.url == str(other) and caught.value.node == "acquisition/lfp/data"
    with pytest.raises(hs.errors.Invalid, match="samples"):
        hs.convert([one, other], tmp_path / "both.nwb.zarr", along="num_times")
    result = CliRunner().invoke(main, ["append", str(one), str(other), "--dim", "num_times"])
    assert result.exit_code and message in result.stderr
    with hs.open_group(one) as root:
        assert root["acquisition/lfp/data"].shape == (200,)


@pytest.mark.parametrize("stamped", [False, True])
def test_seconds_that_are_no_array_get_no_rows_of_xarray(tmp_path: Path, stamped: bool) -> None:
    place = write_part(tmp_path / "one.nwb.zarr", 3.0, stamped=stamped) / "acquisition/lfp"
    rows = xr.open_dataset(place, engine="hyperslab").load()
    with pytest.raises(hs.errors.Unsupported, match=r"'time' is no array.*hyperslab append"):
        hs.save(place, rows, append_dim="num_times")
