"""Columns of a table, and data and timestamps of a series, that have to be as long as one another."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import NWBFile, TimeSeries

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.errors import FormatError
from hyperslab.hdmf import HyperslabIO

DATA = "acquisition/place/data"


@pytest.fixture(params=["v2", "v3"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    nwb = NWBFile("a mouse in a maze", "session-1", datetime(2026, 1, 1, 12, tzinfo=UTC))
    place = TimeSeries(name="place", data=np.arange(300.0), timestamps=np.arange(300) / 10, unit="m")
    nwb.add_acquisition(place)
    nwb.add_acquisition(TimeSeries(name="speed", data=np.arange(300.0), timestamps=place, unit="m/s"))
    nwb.add_acquisition(TimeSeries(name="lfp", data=np.arange(3000.0), rate=100.0, unit="V"))
    for start in (1.0, 11.0, 21.0, 25.0):
        nwb.add_trial(start_time=start, stop_time=start + 2, timeseries=[place])
    nwb.add_unit(spike_times=[1.0, 2.0, 3.0])
    with HyperslabIO(tmp_path / "session.nwb.zarr", "w", profile=request.param) as io:
        io.write(nwb)
    return tmp_path / "session.nwb.zarr"


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def test_data_without_their_timestamps_are_not_appended(session: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.zeros(10))
    np.save(tmp_path / "seconds.npy", np.arange(300, 310) / 10)
    for name in ("place", "speed"):
        refused = run("append", session, tmp_path / "m.npy", "--path", f"acquisition/{name}/data")
        assert refused.exit_code != 0
        assert "310 samples, and 300 timestamps in /acquisition/place/timestamps" in refused.stderr
        assert (
            f"node=/acquisition/{name}/data" in refused.stderr
            and "append to /acquisition/place/timestamps first" in (refused.stderr)
        )
    assert not hs.check(session)
    assert run("append", session, tmp_path / "m.npy", "--path", "acquisition/lfp/data").exit_code == 0
    for cells, path in (("seconds.npy", "acquisition/place/timestamps"), ("m.npy", DATA)):
        assert run("append", session, tmp_path / cells, "--path", path).exit_code == 0
    assert [(each.node, each.kind) for each in hs.check(session)] == [("acquisition/speed", "timestamps-length")]
    data: Any = hs.open_group(session)[DATA]
    assert data.sel(time=slice(29.9, 30.2)).tolist() == [299, 0, 0, 0]


def test_check_names_a_series_with_fewer_timestamps(session: Path) -> None:
    assert not hs.check(session, deep=True)
    with hs.open_group(session, "r+") as root:
        data: Any = root[DATA]
        data.append(np.zeros(5))
    (problem,) = hs.check(session)
    assert (problem.node, problem.kind) == ("acquisition/place", "timestamps-length")
    assert "300 timestamps for 305 samples" in problem.message


def test_columns_that_differ_in_length(session: Path) -> None:
    with hs.open_group(session, "r+") as root:
        for name in ("start_time", "stop_time", "id"):
            column: Any = root[f"intervals/trials/{name}"]
            column.remove(0, dim=0)
    (problem,) = hs.check(session)
    assert (problem.node, problem.kind) == ("intervals/trials", "column-length")
    words = "the columns differ in length: 3 in id, start_time, stop_time; 4 in timeseries"
    assert words in problem.message
    with hs.open_group(session) as root, pytest.raises(FormatError, match=f"{words}.*node=/intervals/trials"):
        root["intervals/trials"].read_table()
    shown = run("get", session, "intervals/trials")
    assert shown.exit_code != 0 and words in shown.stderr
    assert len(hs.open_group(session)["units"].read_table()["id"]) == 1
