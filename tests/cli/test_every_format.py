"""Every command that looks at a dataset, on one real dataset in every format and in every place that it can lie in:
what is told is the same in all of them, and right.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import hyperslab as hs
from cli.every_format import (
    AIR,
    ARRAYS,
    CASES,
    CHUNKS,
    DOCUMENTS,
    HERE,
    MENDED,
    SHAPE,
    TOLD,
    VARIANTS,
    Made,
    Maker,
    Variant,
    damage,
    make_source,
)
from command_line import CliRunner
from hyperslab.cli import main

pytestmark = pytest.mark.sampled(3)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def cells(source: Path) -> np.ndarray[Any, Any]:
    """As netCDF4 reads them."""
    from netCDF4 import Dataset

    with Dataset(source) as dataset:
        dataset.set_auto_maskandscale(False)
        return np.asarray(dataset[AIR][...])


@pytest.fixture(scope="module")
def maker(source: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Maker:
    def database() -> str:
        mongo = request.getfixturevalue("mongo")
        return f"{mongo.url}/{mongo.database()}"

    return Maker(source, tmp_path_factory.mktemp("made"), lambda: request.getfixturevalue("s3"), database)


@pytest.fixture
def made(maker: Maker, variant: Variant, kind: str) -> Made:
    """One that nobody changes."""
    return maker.shared(variant, kind)


def in_turn(cases: list[Any], first: int) -> list[Any]:
    """The cases with the variants but every third, from ``first`` on, left to the soak.

    Each command meets a third of the variants in the suite, and each variant a third of the commands: they read through
    the one face, whose tests are beside each format.
    """
    turns = {variant.name: number % 3 for number, variant in enumerate(VARIANTS)}
    return [
        case
        if turns[case.values[0].name] == first
        else pytest.param(*case.values, marks=[*case.marks, pytest.mark.soak], id=case.id)
        for case in cases
    ]


def run(command: str, made: Made, *words: str | Path, code: int = 0) -> Result:
    done = CliRunner().invoke(main, [command, made.url, *map(str, words), *made.words])
    assert done.exit_code == code, done.output
    return done


def document(command: str, made: Made, *words: str, code: int = 0) -> Any:
    found = json.loads(run(command, made, *words, "--json", code=code).stdout)
    assert found["schema"] == f"hyperslab.{command}/1"
    return found


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), in_turn(CASES, 0))
def test_info(made: Made) -> None:
    told = document("info", made)
    arrays = {array["path"]: array for array in told["arrays"]}
    assert set(arrays) == ARRAYS
    air = arrays[AIR]
    assert (told["format"], told["attrs"]["Conventions"]) == (made.variant.format, "CF-1.5")
    assert (air["dtype"], air["shape"], air["dims"]) == ("float32", list(SHAPE), ["time", "latitude", "longitude"])
    assert (air["chunks"], air["units"], air["nbytes"]) == (list(made.variant.chunks), "K", 11520)
    assert air["codec"] and 5000 < air["nbytes_stored"] < 40_000
    assert told["nbytes_stored"] == sum(array["nbytes_stored"] for array in told["arrays"])
    assert {name: told["dimensions"][name]["size"] for name in CHUNKS} == dict(zip(CHUNKS, SHAPE, strict=True))
    text = run("info", made).stdout
    assert f"/{AIR}" in text and "?" not in text
    assert "dimensions: time: 24" in text


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), in_turn(CASES, 2))
def test_tree(made: Made) -> None:
    nodes = {node["path"]: node for node in document("tree", made)["nodes"]}
    assert nodes[""]["kind"] == "group" and set(nodes) == {"", *ARRAYS}
    assert nodes[AIR] == {
        "path": AIR,
        "kind": "array",
        "dtype": "float32",
        "shape": list(SHAPE),
        "dims": ["time", "latitude", "longitude"],
    }
    assert f"{AIR} (time: 24, latitude: 12, longitude: 10) float32" in run("tree", made).stdout


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), in_turn(CASES, 0))
def test_get(made: Made, cells: Any, tmp_path: Path) -> None:
    found = document("get", made, AIR, "-s", "time=3..9..2", "-s", "latitude=15.0..20.0", "-s", "longitude=-1")
    assert found["dims"] == ["time", "latitude"]
    np.testing.assert_array_equal(np.asarray(found["values"], "f4"), cells[3:9:2, :5, -1])
    run("get", made, AIR, "-o", tmp_path / "all.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "all.npy"), cells)
    text = run("get", made, AIR, "-s", "time=1", "-s", "latitude=2", "-s", "longitude=0..2").stdout
    assert text.split() == ["longitude", AIR, "225.0", str(cells[1, 2, 0]), "226.875", str(cells[1, 2, 1])]


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), in_turn(CASES, 1))
def test_plan(made: Made) -> None:
    told = document("plan", made, AIR, "-s", "time=1", "-s", "latitude=2")
    assert (told["shape"], told["nbytes"], told["chunks"]) == ([10], 40, 1)
    assert told["chunk_nbytes"] == 4 * int(np.prod(made.variant.chunks))
    assert 300 < told["stored_nbytes"] < 4000
    whole = document("plan", made, AIR)
    assert (whole["chunks"], whole["chunk_nbytes"]) == (8, 11520)
    assert 1 <= told["requests"] <= 2 and whole["requests"] <= 16
    assert "1 chunk in " in run("plan", made, AIR, "-s", "time=1", "-s", "latitude=2").stdout


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), in_turn(CASES, 1))
def test_dump(made: Made) -> None:
    text = run("dump", made, "-h").stdout
    assert text.startswith("netcdf ") and "data:" not in text and text.rstrip().endswith("}")
    assert f"float {AIR}(time, latitude, longitude) ;" in text
    assert f'{AIR}:units = "K" ;' in text and ':Conventions = "CF-1.5" ;' in text
    rows = run("dump", made, "--array", "longitude").stdout
    assert "longitude = 225, 226.875, 228.75" in rows
    assert document("dump", made, "-h")["cdl"].strip() == text.strip()


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), in_turn(CASES, 2))
def test_check_and_repair_of_what_is_sound(made: Made) -> None:
    for words in (["check"], ["check", "--deep"], ["repair"]):
        assert run(words[0], made, *words[1:]).output == ""
    told = document("check", made, "--deep")
    assert told["sound"] and told["problems"] == []
    assert document("repair", made)["mends"] == []


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), in_turn(CASES, 0))
def test_diff(made: Made, source: Path) -> None:
    code = 1 if made.variant.lost else 0
    words = [word if word != "--storage-option" else "--b-option" for word in made.words]
    done = CliRunner().invoke(main, ["diff", str(source), made.url, *words])
    assert (done.exit_code, sorted(done.stdout.splitlines())) == (code, sorted(made.variant.lost))


# What is drawn is what `get` gives; a figure takes half a second.
DRAWN = ("zarr3", "bloscpack", "netcdf", "mongo", "collections")


@pytest.mark.parametrize(
    "variant",
    [one if one.name in DRAWN else pytest.param(one, marks=pytest.mark.soak) for one in VARIANTS],
    ids=str,
)
def test_plot(maker: Maker, variant: Variant, tmp_path: Path) -> None:
    made = maker.shared(variant, variant.places[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("plot", made, AIR, "-s", "time=0", "-o", tmp_path / "map.png")
    data = (tmp_path / "map.png").read_bytes()
    assert data.startswith(b"\x89PNG") and 5_000 < len(data) < 200_000


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), in_turn(HERE, 1))
def test_diff_names_the_cell(maker: Maker, source: Path, variant: Variant, kind: str) -> None:
    made = maker.fresh(variant, kind)
    with made.open("r+") as root:
        root[AIR][5, 4, 3] = 1.0
    done = CliRunner().invoke(main, ["diff", str(source), made.url])
    told = [line for line in done.stdout.splitlines() if line not in variant.lost]
    assert done.exit_code == 1 and len(told) == 1
    assert told[0].startswith(f"/{AIR}: cells: 1 of 2880 cells differ: [5, 4, 3] ") and told[0].endswith(" -> 1.0")


def assert_told(made: Made) -> None:
    """A check tells damage of the array alone."""
    told = document("check", made, "--deep", code=1)
    assert {problem["node"] for problem in told["problems"]} == {AIR}
    kinds = {"corrupt-chunk", "damaged-superchunk", "unreadable-tile", "missing-segment"}
    assert {problem["kind"] for problem in told["problems"]} <= kinds


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), in_turn(MENDED, 2))
def test_a_damaged_chunk_is_told_and_mended(
    maker: Maker, cells: Any, variant: Variant, kind: str, tmp_path: Path
) -> None:
    made = maker.fresh(variant, kind)
    damage(made)
    assert_told(made)
    failed = run("get", made, AIR, "-o", tmp_path / "all.npy", code=5)
    assert AIR in failed.stderr and not (tmp_path / "all.npy").exists()
    before = made.contents()
    shown = run("repair", made, code=1)
    assert "fill value" in shown.stdout and "--apply" in shown.stderr
    assert made.contents() == before
    run("repair", made, "--apply", "--quarantine", tmp_path / "out")
    assert any(path.is_file() and path.stat().st_size for path in (tmp_path / "out").rglob("*"))
    assert run("check", made, "--deep").output == ""
    run("get", made, AIR, "-o", tmp_path / "all.npy")
    found = np.load(tmp_path / "all.npy")
    lost = found != cells
    assert np.unique(found[lost]).size == 1 and lost.sum() == np.prod(variant.chunks)


@pytest.mark.covering("variant", "kind")
@pytest.mark.parametrize(("variant", "kind"), TOLD)
def test_damage_that_nothing_mends_is_told(maker: Maker, variant: Variant, kind: str, tmp_path: Path) -> None:
    made = maker.fresh(variant, kind)
    damage(made)
    assert_told(made)
    run("get", made, AIR, "-o", tmp_path / "all.npy", code=5)
    before = made.contents()
    for words in (["repair"], ["repair", "--apply"]):
        assert "cannot be mended" in run(words[0], made, *words[1:], code=1).stdout
    assert made.contents() == before


@pytest.mark.parametrize(("variant", "kind"), in_turn(DOCUMENTS, 0))
def test_a_damaged_document_is_told(maker: Maker, variant: Variant, kind: str) -> None:
    made = maker.fresh(variant, kind)
    damage(made, document=True)
    told = document("check", made, code=1)["problems"]
    node = "" if variant.format == "blaze" else AIR
    assert [problem["kind"] for problem in told if problem["node"] == node] == ["json-damaged"]
    assert "json-damaged" in run("repair", made, code=1).stdout
    assert AIR in run("get", made, AIR, code=5).stderr or variant.format == "blaze"


def test_collections_are_known_under_any_name(source: Path, tmp_path: Path) -> None:
    for name in ("a.zarr", "b.zarr.zip"):
        hs.convert(source, tmp_path / name, "collections")
        with hs.open_group(tmp_path / name) as root:
            assert root.format == "collections"


def test_nothing_is_nothing_for_every_command(s3: Any, tmp_path: Path) -> None:
    words = [word for name, value in s3.options.items() for word in ("--storage-option", f"{name}={value}")]
    for url, options in ((f"s3://{s3.bucket()}/a.zarr", words), (f"{tmp_path}/a.zarr", [])):
        for command in ("info", "tree", "dump", "check", "repair", "get", "plan"):
            done = CliRunner().invoke(main, [command, url, *options])
            assert (done.exit_code, done.stdout) == (3, "")
            assert "there is nothing" in done.stderr and "mode=" not in done.stderr
