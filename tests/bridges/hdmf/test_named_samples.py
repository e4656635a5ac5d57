"""Rows that name samples of series by number (``TimeSeriesReferenceVectorData``), where samples are chosen."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

import hyperslab as hs
from hyperslab.errors import Unsupported
from hyperslab.hdmf import HyperslabIO

COLUMN = "intervals/trials/timeseries"


def make_session() -> NWBFile:
    """Return a session of 30 s with a series of 100 Hz, one of timestamps and two that
    share its samples or its timestamps."""
    nwb = NWBFile("a mouse in a maze", "session-1", datetime(2026, 1, 1, 12, tzinfo=UTC))
    lfp = TimeSeries(name="lfp", data=np.arange(3000.0), rate=100.0, unit="V")
    place = TimeSeries(name="place", data=np.arange(300.0), timestamps=np.arange(300) / 10, unit="m")
    again = TimeSeries(name="again", data=place, timestamps=place, unit="m")
    speed = TimeSeries(name="speed", data=np.arange(300.0) * 2, timestamps=place, unit="m/s")
    for series in (lfp, place, again, speed):
        nwb.add_acquisition(series)
    for start in (1.0, 11.0, 21.0):
        nwb.add_trial(start_time=start, stop_time=start + 2, timeseries=[lfp, place, again])
    return nwb


@pytest.fixture(params=["v2", "v3"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with HyperslabIO(tmp_path / "session.nwb.zarr", "w", profile=request.param) as io:
        io.write(make_session())
    return tmp_path / "session.nwb.zarr"


def read_numbers(place: Path) -> list[tuple[int, int]]:
    column: Any = hs.open_group(place)[COLUMN]
    return [(int(row["idx_start"]), int(row["count"])) for row in column[...]]


def test_rows_of_a_part_that_has_all_their_samples_name_these(session: Path, tmp_path: Path) -> None:
    report = hs.convert(session, tmp_path / "part.nwb.zarr", select={"time": slice(0.5, 25.0)}, verify=True)
    assert report.losses == ()
    with HyperslabIO(tmp_path / "part.nwb.zarr") as io:
        for trial in io.read().trials[:].itertuples():
            for samples in trial.timeseries:
                seconds = samples.timestamps  # pynwb computes those of a rate
                assert (seconds[0], len(samples.data)) == (pytest.approx(trial.start_time), samples.count)
                assert samples.data[0] == pytest.approx(trial.start_time * (100 if samples.timeseries.rate else 10))


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        ({"time": slice(10.5, 14.0)}, [(50, 200), (5, 20), (5, 20)]),
        ({"time": slice(10.5, 12.0)}, [(-1, -1)] * 3),  # a part of a row is not what the row names
        ({"time": slice(0.0, 29.0, 2)}, [(-1, -1)] * 3),
    ],
)
def test_rows_without_all_their_samples_are_a_loss(
    session: Path, tmp_path: Path, chosen: dict[str, object], numbers: list[tuple[int, int]]
) -> None:
    target = tmp_path / "part.nwb.zarr"
    with pytest.raises(Unsupported, match=f"(?s)/{COLUMN}: . of 9 rows name samples of /acquisition/lfp.*allow_loss"):
        hs.convert(session, target, select=chosen)
    assert not target.exists()
    report = hs.convert(session, target, select=chosen, allow_loss=True, verify=True)
    assert [(loss.node, loss.feature) for loss in report.losses] == [(COLUMN, "samples")]
    assert read_numbers(target) == [(-1, -1)] * 3 + numbers + [(-1, -1)] * 3
    with HyperslabIO(target) as io:
        assert [each.count for each in io.read().trials["timeseries"][1]] == [
            None if count < 0 else count for _, count in numbers
        ]


def test_series_of_which_all_samples_are_chosen_leave_rows_as_they_are(session: Path, tmp_path: Path) -> None:
    before = read_numbers(session)
    hs.convert(session, tmp_path / "whole.nwb.zarr", select={"time": slice(0.0, 30.0)})
    assert read_numbers(tmp_path / "whole.nwb.zarr") == before


def test_fields_that_become_arrays_keep_their_numbers_with_a_loss(session: Path, tmp_path: Path) -> None:
    target = tmp_path / "part.zarr"
    chosen = {"time": slice(0.5, 25.0)}
    report = hs.convert(session, target, "nczarr", select=chosen, allow_loss=True)
    assert "9 of 9 rows" in next(str(loss) for loss in report.losses if loss.feature == "samples")
    numbers: Any = hs.open_group(target)[f"{COLUMN}/idx_start"]
    assert numbers[0] == 100


def test_an_hdf5_session_loses_such_columns(tmp_path: Path) -> None:
    with NWBHDF5IO(tmp_path / "session.nwb", "w") as io:
        io.write(make_session())
    with pytest.raises(Unsupported, match=f"/{COLUMN}: the array of HDF5 references"):
        hs.convert(tmp_path / "session.nwb", tmp_path / "part.nwb.zarr", select={"time": slice(10.5, 14.0)})


# -- data of a series alone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["part.nwb.zarr", "part.zarr", "part.nc"])
@pytest.mark.parametrize("name", ["lfp", "place", "speed"])
@pytest.mark.parametrize("chosen", [{"variables": "acquisition/{}/data"}, {"path": "acquisition/{}/data"}])
def test_data_that_are_chosen_bring_their_seconds(
    session: Path, tmp_path: Path, target: str, name: str, chosen: dict[str, str]
) -> None:
    options: Any = {word: text.format(name) for word, text in chosen.items()}
    part, dim = tmp_path / target, hs.open_group(session)[f"acquisition/{name}/data"].dims[0]
    report = hs.convert(session, part, select={"time": slice(11.0, 12.0)}, **options)
    seconds = "starting_time" if name == "lfp" else "timestamps"
    folder = "" if "path" in options else f"acquisition/{name}/"
    assert report.companions == (f"{folder}{seconds}",)
    root = hs.open_group(part)
    whole: Any = hs.open_group(session)[f"acquisition/{name}/data"]
    data: Any = root[f"{folder}data"]
    np.testing.assert_array_equal(data.sel(time=slice(11.4, 11.7)), whole.sel(time=slice(11.4, 11.7)))
    hs.convert(
        session, part, select={dim: slice(50, 90)}, overwrite=True, **options
    )  # as the error of -s num_times says
    data = hs.open_group(part)[f"{folder}data"]
    first = 0.5 if name == "lfp" else 5.0
    np.testing.assert_array_equal(data.sel(time=first), whole[50])
    report = hs.convert(session, part, alone=True, overwrite=True, **options)
    assert report.companions == () and report.arrays == 1


# -- series of which nothing is left -----------------------------------------------------------------------------------


def test_each_series_without_a_chosen_sample_is_named(
    session: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    part: Any = {"select": {"time": slice(29.95, 29.98)}, "exclude": "intervals/**"}
    hs.convert(session, tmp_path / "some.nwb.zarr", **part)
    empty = "/acquisition/place/data (0 to 29.9 s), /acquisition/speed/data (0 to 29.9 s)"
    assert caplog.messages == [f"the selection leaves no sample of {empty}"]
    caplog.clear()
    hs.convert(session, tmp_path / "none.nwb.zarr", select={"time": slice(50.0, 60.0)}, exclude="intervals/**")
    assert caplog.messages == [f"the selection leaves no sample of /acquisition/lfp/data (0 to 29.99 s), {empty}"]
