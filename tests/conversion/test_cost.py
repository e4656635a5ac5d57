"""The cost of a conversion is told before it runs, and nothing is written."""

import json

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.errors import AlreadyExists, Unsupported


@pytest.fixture
def field(tmp_path):
    with hs.create(tmp_path / "field.zarr") as root:
        cells = np.random.default_rng(4).normal(size=(64, 32, 32)).astype("f4")
        root.create_array("t", data=cells, dims=("time", "y", "x"), chunks=(8, 32, 32))
    return tmp_path / "field.zarr"


def test_the_numbers_are_those_of_the_conversion(field, tmp_path):
    report = hs.convert(field, tmp_path / "copy.nc", dry_run=True)
    assert not (tmp_path / "copy.nc").exists()
    assert (report.chunks, report.nbytes) == (8, 64 * 32 * 32 * 4)
    cost = report.cost.arrays[0]
    assert (cost.chunks, cost.reads, cost.written) == (8, 8, 8)
    done = hs.convert(field, tmp_path / "copy.nc")
    assert (done.chunks, done.nbytes, done.cost) == (report.chunks, report.nbytes, None)


def test_chunks_that_are_read_again_are_counted(field, tmp_path):
    cut = {"time": 64, "y": 8, "x": 8}
    report = hs.convert(field, tmp_path / "pillars.zarr", chunks=cut, memory=64 << 10, dry_run=True)
    cost = report.cost.arrays[0]
    assert cost.chunks == 8
    assert cost.reads == 8 * 16  # each pillar needs all of them
    assert cost.written == 16
    assert cost.stored_nbytes > hs.open(field)["t"].nbytes_stored
    assert "reads its chunks 16.0 times" in str(report)


def test_the_sample_tells_what_is_stored(field, tmp_path):
    cost = hs.convert(field, tmp_path / "raw.zarr", codec="none", dry_run=True).cost
    assert cost.written_nbytes == pytest.approx(64 * 32 * 32 * 4, rel=0.01)
    assert cost.seconds > 0


def test_a_dry_run_refuses_what_the_conversion_would(field, tmp_path):
    with pytest.raises(AlreadyExists):
        hs.convert(field, make(tmp_path / "there.nc"), dry_run=True)
    with hs.open(field, "r+") as root:
        root["t"].attrs["nested"] = {"deep": [1, {"a": None}]}
    with pytest.raises(Unsupported) as told:
        hs.convert(field, tmp_path / "copy.nc", dry_run=True)
    with pytest.raises(Unsupported) as done:
        hs.convert(field, tmp_path / "copy.nc")
    assert str(told.value) == str(done.value)


def make(path):
    with hs.create(path) as root:
        root.create_array("t", data=np.zeros(3), dims=("x",))
    return path


def test_the_command_says_so(field, tmp_path):
    words = ["convert", str(field), str(tmp_path / "copy.nc"), "--dry-run"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0
    assert "nothing is written" in result.stderr
    facts = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    assert facts["cost"]["arrays"][0]["reads"] == 8
    assert not (tmp_path / "copy.nc").exists()
