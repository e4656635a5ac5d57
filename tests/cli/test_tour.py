"""``hyperslab tour``: every representation is walked through, told at the width that there is, and compared."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure
from rich.console import Console

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.cli.commands import tour as command
from hyperslab.cli.commands.tour import TourPrinter, bar
from hyperslab.cli.tour.runner import (
    MADE,
    Line,
    clear,
    measure,
    missing,
    require_modules,
    run_step,
    run_tour,
    sample,
    shortened,
    tree,
)
from hyperslab.cli.tour.steps import STEPS, Command, Need, Step, damage_a_chunk, text_of
from hyperslab.errors import AlreadyExists, CorruptChunk, HyperslabError, Unsupported

WIDTH = 80
FORMATS = {  # step -> the format that lies at its place
    "source": "netcdf",
    "zarr2": "zarr2",
    "zarr3": "zarr3",
    "zarr3-sharded": "zarr3",
    "nczarr-draft": "nczarr",
    "nczarr": "nczarr",
    "hdmf-v2": "hdmf",
    "hdmf-v3": "hdmf",
    "nwb": "hdmf",
    "bloscpack": "bloscpack",
    "blaze": "blaze",
    "bcolz": "blaze",
    "b2nd": "b2nd",
    "mongo": "mongo",
    "netcdf": "netcdf",
    "collections": "collections",
    "deker": "deker",
    "append": "zarr3",
}
BY_NAME = {step.name: step for step in STEPS}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """A short tour: its document, and its text at 80 columns."""
    text = io.StringIO()
    folder = tmp_path_factory.mktemp("tour") / "made"
    facts = command.tour(str(folder), Console(file=text, width=WIDTH, color_system=None), STEPS, short=True)
    return facts, text.getvalue()


@pytest.mark.sampled(0)
def test_every_representation_is_there_and_the_same(told: tuple[dict[str, Any], str]) -> None:
    steps = {step["step"]: step for step in told[0]["steps"]}
    assert [name for name, step in steps.items() if step["left_out"]] == []
    assert [name for name in steps if name not in FORMATS] == ["plan", "check"]
    assert set(hs.list_formats()) >= set(FORMATS.values())
    for name in FORMATS:
        assert (steps[name]["verified_cells"], steps[name]["cells"], steps[name]["equal"]) == (18130, 10, True)
        assert steps[name]["nbytes_stored"] > 0 and steps[name]["read_seconds"] > 0
    assert len({steps[name]["mean"] for name in FORMATS}) == 1
    assert steps["mongo"]["documents"]["objects"] == 1


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "mongo"])
def test_what_lies_there_has_the_format(told: tuple[dict[str, Any], str], name: str) -> None:
    (step,) = (step for step in told[0]["steps"] if step["step"] == name)
    assert hs.open_group(step["place"]).format == FORMATS[name]


def test_the_variants_are_those_that_are_told(told: tuple[dict[str, Any], str]) -> None:
    folder = Path(told[0]["chart"]).parent
    assert (folder / "america.draft.nczarr" / ".zdataset").exists() != (
        folder / "america.nczarr" / ".zdataset"
    ).exists()
    assert (folder / "america.v2.hdmf.zarr" / ".zgroup").exists()
    assert (folder / "america.hdmf.zarr" / "zarr.json").exists()
    assert hs.open(folder / "america.sharded.zarr")["air_temperature"].shards is not None
    assert (folder / "america.bcolz" / "meta").is_dir()


def test_the_commands_are_those_that_were_run(told: tuple[dict[str, Any], str]) -> None:
    facts, text = told
    joined = " ".join(text.replace("\\\n", " ").split())
    for step in facts["steps"]:
        for one in step["commands"]:
            assert " ".join(one["typed"].split()) in joined
    checks = {step["step"]: [one["output"] for one in step["commands"]] for step in facts["steps"]}
    damaged, sound = checks["check"]
    assert "air_temperature/c/0/0/0" in damaged and "corrupt-chunk" in damaged
    assert sound == checks["netcdf"][-1] == checks["append"][-1] == ""
    assert checks["plan"][0].startswith("1 chunk in 1 request")
    assert checks["zarr2"] == ["verified: 18,259 cells and 32 attributes of 9 arrays equal"]


def test_the_story_fits_the_terminal_and_has_no_colours(told: tuple[dict[str, Any], str]) -> None:
    lines = told[1].splitlines()
    assert [line for line in lines if len(line) > WIDTH or line != line.rstrip() or "\x1b" in line] == []
    assert all(any(step.title in line for line in lines) for step in STEPS)
    chart = lines[next(at for at, line in enumerate(lines) if "read all" in line and "a slice" in line) :]
    assert [line.split()[0] for line in chart[1 : len(FORMATS)]] == [name for name in FORMATS if name != "append"]


def test_the_picture_is_one(told: tuple[dict[str, Any], str]) -> None:
    picture = matplotlib.image.imread(told[0]["chart"])
    assert picture.shape[0] > 500 and picture.shape[1] > 1000 and picture.std() > 0.1


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the test is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Silent:
    """Hears all, says nothing."""

    def show_step(self, number: int, step: Step) -> None: ...
    def show_program(self, step: Step) -> None: ...
    def show_command(self, command: str) -> None: ...
    def show_output(self, answer: Any) -> None: ...
    def show_result(self, taken: Any) -> None: ...


def source() -> None:
    """The last years of the sample under the name that the tour gives it."""
    hs.convert(
        sample("A1B_north_america.nc"), "america.nc", select={"time": slice("2090-01", "2099-12")}, durable=False
    )


@pytest.mark.parametrize("at", [(9, 28, 19), (0, 0, 0)], ids=["in the slice", "beside it"])
def test_one_cell_that_differs_ends_the_tour(here: Path, at: tuple[int, ...]) -> None:
    source()
    hs.convert("america.nc", "other.zarr", durable=False)
    step = replace(BY_NAME["zarr2"], commands=(), place="other.zarr")
    first = measure("america.nc", "dataset")
    assert run_step(step, {}, main.within, Silent(), first).found is not None
    with hs.open_group("other.zarr", "r+") as root:
        root["air_temperature"][at] += 1
    with pytest.raises(CorruptChunk, match="differs from that of america") as caught:
        run_step(step, {}, main.within, Silent(), first)
    assert "other.zarr" in str(caught.value)


def test_a_command_that_ends_otherwise_ends_the_tour(here: Path) -> None:
    source()
    hs.convert("america.nc", "america.zarr", durable=False)
    damage_a_chunk()
    for step in (
        Step("x", "x", "x", (Command("hyperslab check damaged.zarr --deep"),)),
        Step("x", "x", "x", (Command("hyperslab check america.zarr --deep", code=1),)),
    ):
        with pytest.raises(HyperslabError, match="ended with"):
            run_step(step, {}, main.within, Silent(), None)
    with pytest.raises(CorruptChunk):
        run_step(Step("x", "x", "x", (Command("hyperslab get damaged.zarr time --path x"),)), {}, _fail, Silent(), None)


def _fail(arguments: list[str]) -> int:
    raise CorruptChunk("as a command does")


def test_an_interrupt_leaves_no_server(tmp_path: Path) -> None:
    urls: list[str] = []

    class Impatient(Silent):
        def show_command(self, command: str) -> None:
            if "mongodb://" in command:
                urls.append(command.split("'")[1].partition("/tour")[0])
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        steps = (BY_NAME["source"], BY_NAME["mongo"])
        run_tour(str(tmp_path / "made"), main.within, Impatient(), short=True, steps=steps)
    with pytest.raises(ConnectionFailure), MongoClient[Any](urls[0], serverSelectionTimeoutMS=100) as client:
        client.server_info()


def test_what_is_missing_is_left_out_and_says_what_brings_it(tmp_path: Path) -> None:
    need = Need("no_such_module.inside", "pip install 'hyperslab[b2nd]'")
    lacking = replace(BY_NAME["b2nd"], needs=(need,))
    assert missing(lacking) == need.install and missing(BY_NAME["b2nd"]) is None
    text = io.StringIO()
    back = replace(BY_NAME["netcdf"], place="back.nc", commands=(Command("hyperslab convert {here} back.nc"),))
    steps = (BY_NAME["source"], lacking, back)
    guide = TourPrinter(Console(file=text, width=WIDTH, color_system=None))
    taken = run_tour(str(tmp_path / "made"), main.within, guide, short=True, steps=steps)
    assert [one.install for one in taken] == [None, need.install, None]
    assert "left out  pip install 'hyperslab[b2nd]'" in text.getvalue()
    assert "$ hyperslab convert america.nc back.nc" in text.getvalue()


def test_without_what_it_starts_from_there_is_no_tour() -> None:
    with pytest.raises(Unsupported, match="without no-such-module") as caught:
        require_modules("click", "no_such_module")
    assert caught.value.remedy == "pip install 'hyperslab[tour]'"


def test_what_an_earlier_tour_made_is_made_anew_and_nothing_else_is_touched(here: Path) -> None:
    clear()
    for name in ("america.nc", "other.nc"):
        Path(name).write_text("x")
    Path("america.zarr").mkdir()
    clear()
    assert {path.name for path in here.iterdir()} == {"other.nc", MADE}
    Path(MADE).unlink()
    Path("america.nc").write_text("mine")
    with pytest.raises(AlreadyExists, match="did not make it"):
        clear()
    assert Path("america.nc").read_text() == "mine"
    result = CliRunner().invoke(main, ["tour", "--dir", str(here), "--json"])
    assert (result.exit_code, result.stdout) == (4, "")


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "STEPS", STEPS[:2])
    result = CliRunner().invoke(main, ["tour", "--short", "--dir", str(tmp_path / "made"), "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["schema"] == "hyperslab.tour/1"
    assert [step["step"] for step in document["steps"]] == ["source", "zarr2"]
    assert Path(document["chart"]).exists() and document["seconds"] > 0


def test_a_tree_shows_some_of_many(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    (place / "big" / "c" / "0").mkdir(parents=True)
    (place / "big" / "c" / "0" / "0").write_bytes(bytes(5000))
    (place / "big" / "doc").write_bytes(bytes(10))
    (place / ".lock").touch()
    for number in range(12):
        (place / f"{number}").write_bytes(bytes(number + 1))
    lines = tree(place)
    assert [line.text(80) for line in lines] == [
        "x.zarr/",
        "├── 0",
        "├── 1",
        "├── 2",
        "├── big/",
        "│   ├── doc",
        "│   └── c/0/0",
        "└── … 9 more",
    ]
    assert lines[0].nbytes == sum(line.nbytes for line in lines[1:5]) + lines[-1].nbytes == 5010 + sum(range(1, 13))
    assert [line.text(80) for line in tree(place / "big" / "doc")] == ["doc"]


def test_bars_and_names_have_their_lengths() -> None:
    assert [bar(share, 4) for share in (0, 0.5, 1, 0.28)] == ["▏   ", "██  ", "████", "█▏  "]
    assert shortened("a" * 5, 5) == "aaaaa" and len(shortened("abcdefghijkl", 7)) == 7
    assert shortened("abcdefghijkl", 7) == "ab…ijkl"
    assert Line("│   └── ", "abcdefghijkl", 1).text(15) == "│   └── ab…ijkl"


def test_the_programs_that_are_shown_are_those_that_run() -> None:
    programs = [step.program for step in STEPS if step.program]
    assert len(programs) == 3
    for program in programs:
        text = text_of(program)
        compile(text, program.__name__, "exec")
        assert text.splitlines()[0].startswith(("from ", "import ")) and max(map(len, text.splitlines())) <= 77
