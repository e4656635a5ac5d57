"""Commands on datasets that are one array with its coordinates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main

SUFFIXES = [".b2nd", ".blp", ".blaze"]


@pytest.fixture(params=SUFFIXES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"a{request.param}"
    with hs.create(path) as root:
        root.create_array("air", data=np.arange(24.0).reshape(6, 4), dims=("time", "x"), chunks=(2, 4))
        root["air"].attrs["coordinates"] = "lat"
        root.create_array("time", data=np.arange(6) * 10, dims=("time",))
        root.create_array("lat", data=np.arange(24).reshape(6, 4), dims=("time", "x"))
    return path


def run(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_info_tells_how_it_is_stored(place: Path) -> None:
    text = run("info", str(place))
    assert all(name in text for name in ("/air", "/time", "/lat", "storage of /air:", "blosc:lz4"))
    told = {array["path"]: array["storage"] for array in json.loads(run("info", str(place), "--json"))["arrays"]}
    expected = {
        ".b2nd": {"form": "file", "codec": "lz4"},
        ".blp": {"layout": "v3", "checksum": "adler32", "offsets": True},
        ".blaze": {"layout": "blaze", "checksum": "adler32"},
    }[place.suffix]
    assert expected.items() <= told["air"].items()
    assert told["time"] == {}


def test_superchunks_are_counted(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.blaze") as root:
        root.create_array("v", data=np.arange(100.0), chunks=(10,), shards=(40,))
    (array,) = json.loads(run("info", str(tmp_path / "a.blaze"), "--json"))["arrays"]
    assert (array["storage"]["superchunks"], array["storage"]["chunks_in_each"]) == (3, 4)


@pytest.mark.parametrize("codec", ["blosc:lz4:5", "blosc:zstd:1", "blosc:zlib:1", "none"])
def test_slack_is_what_was_asked_for(tmp_path: Path, codec: str) -> None:
    values = np.round(np.random.default_rng(1).random(40_000), 2)
    for slack in (0, 64):
        path = tmp_path / f"{slack}.blp"
        with hs.create(path, slack=slack) as root:
            root.create_array("v", data=values, chunks=(10_000,), codec="blosc:lz4:0" if codec == "none" else codec)
        (array,) = json.loads(run("info", str(path), "--json"))["arrays"]
        expected = 0 if codec == "none" else slack
        assert array["storage"]["slack"] == f"{expected} bytes in the first chunk"


def test_the_array_needs_no_name_and_the_others_have_one(place: Path) -> None:
    assert "12" in run("get", str(place), "-s", "time=@30", "-s", "x=0")
    assert json.loads(run("get", str(place), "/air", "--json")) == json.loads(run("get", str(place), "--json"))
    assert json.loads(run("get", str(place), "lat", "-s", "x=1", "--json"))["values"] == [1, 5, 9, 13, 17, 21]
    assert "time" in run("tree", str(place))
    assert "air" in run("dump", str(place))


def test_convert_takes_options_of_the_format(place: Path, tmp_path: Path) -> None:
    run("convert", str(place), str(tmp_path / "b.blp"), "--option", "checksum=md5", "--option", "slack:=64", "--verify")
    (told,) = [array["storage"] for array in json.loads(run("info", str(tmp_path / "b.blp"), "--json"))["arrays"][:1]]
    assert (told["checksum"], told["layout"]) == ("md5", "v3")
    run("convert", str(place), str(tmp_path / "b.blaze"), "--option", "layout=bcolz", "--verify")
    assert (tmp_path / "b.blaze" / "data" / "__0.blp").exists()


@pytest.mark.covering
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("lay=bcolz", "no option 'lay'"),
        ("layout", "an option without name or value"),
        ("superchunk:=x", "an option that is no JSON: superchunk"),
        ("verify=1", "no format has an option 'verify'"),
    ],
)
def test_convert_refuses_options_of_no_format(place: Path, tmp_path: Path, option: str, said: str) -> None:
    done = CliRunner().invoke(main, ["convert", str(place), str(tmp_path / "c.blaze"), "--option", option])
    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "c.blaze").exists()
