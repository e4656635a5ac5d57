"""What others put in the metadata of an array beside its dtype and shape: attributes, which nothing loses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blp_files import blp, chunk, file_of, section, text_of, write
from numpy.testing import assert_array_equal

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main

CELLS = np.arange(96.0).reshape(12, 8)
WORDS: dict[str, Any] = {"temperature": 11.4, "scale": "Celsius", "coords": {"lat": 40.1, "lon": 0.5}, "by": None}


def metadata_of(path: Path | str, size: int | None = None) -> dict[str, Any]:
    """The bare JSON of a file of the specification's layout."""
    data = Path(path).read_bytes()
    size = int.from_bytes(data[24:28], "little")
    return dict(json.loads(data[32 : 32 + size]))


def spec_file(folder: Path, **words: Any) -> str:
    text = json.dumps({"dtype": "float64", "shape": [12, 8], "others": []} | words).encode()
    return write(folder, blp([chunk(CELLS.tobytes())], text, version=2))


@pytest.fixture(params=["v3", "spec"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "spec":
        return spec_file(tmp_path, **WORDS)
    return write(tmp_path, file_of(CELLS, more=WORDS))


def test_they_are_attributes(path: str) -> None:
    array = hs.open(path)
    assert dict(array.attrs) == WORDS
    assert_array_equal(array[...], CELLS)
    for command in ("dump", "info"):
        said = CliRunner().invoke(main, [command, path])
        assert said.exit_code == 0 and "temperature" in said.output, command


@pytest.mark.parametrize("ending", [".blp", ".zarr", ".blaze"])
def test_a_conversion_takes_them_along(path: str, ending: str, tmp_path: Path) -> None:
    target = tmp_path / f"new{ending}"
    report = hs.convert(path, target, verify=True)
    assert not report.losses
    back = tmp_path / "back.blp"
    hs.convert(target, back, verify=True)
    for found in (target, back):
        root = hs.open_group(found)
        assert dict(root["data"].attrs) == WORDS, found


def test_a_change_leaves_them_where_they_stand(tmp_path: Path) -> None:
    path = spec_file(tmp_path, temperature=11.4, scale="Celsius")
    with hs.open_group(path, "r+") as root:
        root["data"].attrs["units"] = "K"
        root["data"].attrs["temperature"] = 12.5
        del root["data"].attrs["scale"]
    expected = {"dtype": "float64", "shape": [12, 8], "others": [], "attrs": {"units": "K"}, "temperature": 12.5}
    assert metadata_of(path) == expected
    assert dict(hs.open(path).attrs) == {"temperature": 12.5, "units": "K"}


def test_a_word_that_stands_in_attrs_too(tmp_path: Path) -> None:
    """Ours is shown, theirs is kept."""
    path = spec_file(tmp_path, units="F", attrs={"units": "K"})
    hs.open(path, "r+").attrs["more"] = 1
    assert dict(hs.open(path).attrs) == {"units": "K", "more": 1}
    assert metadata_of(path)["units"] == "F"


@pytest.mark.parametrize(
    "words", [{"attrs": [1]}, {"types": "x"}, {"dims": 2}, {"name": 7}, {"group": None}, {"coords": {"lat": [1, 2]}}]
)
def test_words_of_ours_with_values_of_another_kind(words: dict[str, Any], tmp_path: Path) -> None:
    path = spec_file(tmp_path, **words)
    assert dict(hs.open(path).attrs) == words
    hs.open(path, "r+").attrs["units"] = "K"
    assert dict(hs.open(path).attrs) == words | {"units": "K"}


def test_the_specification_s_own_words_are_written(tmp_path: Path) -> None:
    for dtype, word in [("<f8", "float64"), (">f8", ">f8"), ("S5", "|S5"), ("M8[ns]", "datetime64[ns]")]:
        path = tmp_path / f"{word.strip('<>|')}.blp"
        with hs.create(path, layout="blaze", overwrite=True) as root:
            root.create_array("data", data=np.zeros((4, 3), dtype))
        assert metadata_of(path) == {"dtype": word, "shape": [4, 3], "others": []}
        assert hs.open(path).dtype == np.dtype(dtype)


@pytest.mark.parametrize("layout", ["v3", "spec"])
def test_room_that_others_left_behind_digests_is_used(tmp_path: Path, layout: str) -> None:
    """A chunk that needs more than before is put where the old one was, and so is one that needs less."""
    rows = np.repeat(np.arange(12.0), 80).reshape(12, 80)
    chunks = [chunk(row.tobytes()) for row in rows]
    text = json.dumps({"dtype": "float64", "shape": [12, 80], "others": []}).encode()
    text = text if layout == "spec" else section(text_of(rows))
    path = write(tmp_path, blp(chunks, text, version=2 if layout == "spec" else 3, gap=700))
    before = os.stat(path)
    noise = np.random.default_rng(4).normal(size=80)
    hs.open(path, "r+")[5] = noise
    rows[5] = noise
    hs.open(path, "r+")[2] = rows[2] = 1
    after = os.stat(path)
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert_array_equal(hs.open(path)[...], rows)
    assert not hs.check(path, deep=True)
    hs.open(path, "r+")[5] = 0
    rows[5] = 0
    assert os.stat(path).st_ino == before.st_ino
    assert_array_equal(hs.open(path)[...], rows)
