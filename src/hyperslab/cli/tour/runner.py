"""Run the steps of the tour: run what is typed, read what it made, compare it with the source, list what is stored."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np

from hyperslab import api
from hyperslab.array import Array
from hyperslab.cli.arguments import find_cells, parse_selections
from hyperslab.cli.database_objects import is_server, open_objects
from hyperslab.cli.open_collections import find_collection
from hyperslab.cli.tour.steps import (
    ARRAY,
    COLLECTION,
    IN_NWB,
    LAST_YEARS,
    SAMPLE,
    SLICE,
    SOURCE,
    STEPS,
    Command,
    Reading,
    Step,
)
from hyperslab.database import Client
from hyperslab.errors import AlreadyExists, CorruptChunk, HyperslabError, Unsupported
from hyperslab.model.cells import Values

# Entries of a folder that are shown when there are more.
_FEW = 5
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the tree: branches, name, bytes."""

    branches: str
    name: str
    nbytes: int

    def text(self, width: int) -> str:
        """Return branches and name, the middle of which is left out where they are wider."""
        return self.branches + shortened(self.name, width - len(self.branches))


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    name: str
    nbytes: int
    is_folder: bool


def shortened(text: str, width: int) -> str:
    """Return the text with its middle left out where it is longer."""
    if len(text) <= width:
        return text
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def disk_usage(place: Path) -> tuple[int, int]:
    """Return bytes and number of the files of a dataset; links are not followed."""
    if place.is_file():
        return place.stat().st_size, 1
    sizes = [path.lstat().st_size for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(sizes), len(sizes)


def tree(place: Path) -> list[Line]:
    """Return the dataset and some of what is in it."""
    if place.is_file():
        return [Line("", place.name, place.stat().st_size)]
    return [Line("", f"{place.name}/", disk_usage(place)[0]), *_below(place, "", _DEPTH)]


def _below(folder: Path, indent: str, depth: int) -> Iterator[Line]:
    """Yield the lines of what is in a folder; of its folders the largest is opened."""
    entries = _entries(folder)
    opened = max((entry for entry in entries if entry.is_folder), key=lambda entry: entry.nbytes, default=None)
    shown = entries if len(entries) <= _FEW + 1 else entries[: _FEW - 1]
    if opened is not None and opened not in shown:
        shown = [*shown[:-1], opened]
    left = [entry for entry in entries if entry not in shown]
    for entry in shown:
        last = entry is shown[-1] and not left
        yield Line(indent + ("└── " if last else "├── "), entry.name, entry.nbytes)
        if entry is opened and depth:
            yield from _below(entry.path, indent + ("    " if last else "│   "), depth - 1)
    if left:
        yield Line(f"{indent}└── ", f"… {len(left)} more", sum(entry.nbytes for entry in left))


def _entries(folder: Path) -> list[_Entry]:
    """Return files, then folders; for a folder with one entry that one (``0/0/0``). Locks (empty) are left out."""
    found = []
    for name in sorted(os.listdir(folder), key=lambda name: (int(name) if name.isdecimal() else -1, name)):
        path = folder / name
        while path.is_dir() and not path.is_symlink() and len(inside := os.listdir(path)) == 1:
            path /= inside[0]
        is_folder = path.is_dir() and not path.is_symlink()
        nbytes = disk_usage(path)[0] if is_folder else path.lstat().st_size
        if nbytes or is_folder:
            found.append(_Entry(path, path.relative_to(folder).as_posix() + "/" * is_folder, nbytes, is_folder))
    return sorted(found, key=lambda entry: "/" in entry.name)


# The best of so many reads is reported: others are slowed by what else the machine does.
_TIMES = 5


@dataclass(frozen=True, slots=True)
class Measurement:
    """A dataset that a step made: all cells, the slice, the best times of reading them, and the stored bytes.

    ``files``: of a folder or file; ``documents``: of a database, by their kind.
    """

    place: str
    whole: Values = field(repr=False)
    part: Values = field(repr=False)
    read_seconds: float
    slice_seconds: float
    nbytes: int
    files: int | None = None
    documents: dict[str, int] | None = None
    tree: tuple[Line, ...] = ()


def measure(place: str, kind: Reading) -> Measurement:
    """Return the dataset at a place, read in the way of its kind."""
    read_whole, read_part = _readers(place, kind)
    read_seconds, whole = _timed(read_whole)
    slice_seconds, part = _timed(read_part)
    if is_server(place):
        totals = open_objects(place.partition("#")[0], None).totals()
        documents = {"objects": totals["objects"], "chunks": totals["chunk_documents"]}
        return Measurement(place, whole, part, read_seconds, slice_seconds, totals["nbytes"], documents=documents)
    path = Path(place)
    nbytes, files = disk_usage(path)
    return Measurement(place, whole, part, read_seconds, slice_seconds, nbytes, files, tree=tuple(tree(path)))


def check_equal(found: Measurement, source: Measurement) -> None:
    """Raise CorruptChunk unless all cells and the slice are those of the source, in their type and every bit."""
    for what, ours, theirs in (("slice", found.part, source.part), ("array", found.whole, source.whole)):
        same = ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()
        if not same:
            raise CorruptChunk(f"the {what} differs from that of {source.place}", url=found.place, node=ARRAY)


def _timed(read: Callable[[], Values]) -> tuple[float, Values]:
    """Return the best of some times, and what was read."""
    best = float("inf")
    for _ in range(_TIMES):
        started = time.perf_counter()
        values = read()
        best = min(best, time.perf_counter() - started)
    return best, values


def _key_of(array: Array) -> tuple[object, ...]:
    """Return the positions of the slice along each dimension of an array."""
    return find_cells([array], parse_selections(SLICE)).key(array)


def _readers(place: str, kind: Reading) -> tuple[Callable[[], Values], Callable[[], Values]]:
    """Return what reads all cells of the dataset, and what reads the slice; each opens it anew."""
    path = IN_NWB if kind == "nwb" else ARRAY
    # in an NWB file the samples alone have labels, so the positions of the slice are looked up in the source, and not
    # timed
    key = _key_of(api.open_array(SOURCE, path=ARRAY)) if kind == "nwb" else None

    def read_whole() -> Values:
        return np.asarray(api.open_array(place, path=path)[...])

    def read_slice() -> Values:
        array = api.open_array(place, path=path)
        return np.asarray(array.oindex[_key_of(array) if key is None else key])

    def read_decades() -> Values:
        with Client(place, mode="r") as client:
            decades = find_collection(client, COLLECTION).query(order="dt")
            return np.concatenate([np.asarray(one[:].read()) for one in decades])

    def read_last_decade() -> Values:
        with Client(place, mode="r") as client:
            last = find_collection(client, COLLECTION).query(dt="2090-01-01")[0]
            return np.asarray(last[:, 50.0, 260.625].read())

    return (read_decades, read_last_decade) if kind == "collection" else (read_whole, read_slice)


MADE = ".hyperslab-tour"
"""A file of the folder that lists what the tour made there, so that the next one may take it away."""

Run = Callable[[list[str]], int]
"""Runs one command of hyperslab; what it ends with."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A command that was run: what it printed, and how long it took."""

    typed: str
    output: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step that was taken, or left out for want of something (``install`` says what brings it)."""

    step: Step
    answers: tuple[Answer, ...] = ()
    program_seconds: float | None = None
    found: Measurement | None = None
    install: str | None = None

    @property
    def seconds(self) -> float:
        """Return how long the program and the commands took."""
        return sum(answer.seconds for answer in self.answers) + (self.program_seconds or 0.0)


class Listener(Protocol):
    """Shows each step while it is taken."""

    def show_step(self, number: int, step: Step) -> None:
        """Begin a step."""
        ...

    def show_program(self, step: Step) -> None:
        """Announce the program that is going to run."""
        ...

    def show_command(self, command: str) -> None:
        """Announce the command that is going to run."""
        ...

    def show_output(self, answer: Answer) -> None:
        """Report what a command printed."""
        ...

    def show_result(self, taken: StepResult) -> None:
        """Report the result of a step."""
        ...


def run_tour(
    folder: str, run: Run, listener: Listener, *, short: bool = False, steps: Sequence[Step] = STEPS
) -> list[StepResult]:
    """Take the steps in a folder, which is made; what an earlier tour made there is made anew.

    ``short``: ten years instead of 240. CorruptChunk when anything differs from the source.
    """
    found = sample_file()
    os.makedirs(folder, exist_ok=True)
    with ExitStack() as servers, contextlib.chdir(folder):
        clear()
        bring(found, run, short=short)
        done: list[StepResult] = []
        here, server, source = SOURCE, "", None
        for number, step in enumerate(steps, 1):
            listener.show_step(number, step)
            install = missing(step)
            if install is None and step.name == "mongo":
                from hyperslab.testing.mongod import running

                try:
                    server = servers.enter_context(running())
                except (OSError, RuntimeError) as error:
                    install = f"the server does not start here: {str(error).splitlines()[-1]}"
            names = {"here": here, "server": server}
            taken = StepResult(step, install=install) if install else run_step(step, names, run, listener, source)
            source = source or taken.found
            listener.show_result(taken)
            done.append(taken)
            if step.chained and taken.found:
                here = step.place.format(**names)
        return done


def run_step(step: Step, names: dict[str, str], run: Run, listener: Listener, source: Measurement | None) -> StepResult:
    """Run one step, and compare it with the source (None: this is the source)."""
    seconds = None
    if step.program:
        listener.show_program(step)
        started = time.perf_counter()
        step.program()
        seconds = time.perf_counter() - started
    answers = []
    for typed in step.commands:
        text = typed.text.format(**{name: shlex.quote(value) for name, value in names.items()})
        listener.show_command(text)
        answers.append(run_command(typed, text, run))
        listener.show_output(answers[-1])
    found = measure(step.place.format(**names), step.kind) if step.place else None
    if found and source:
        check_equal(found, source)
    return StepResult(step, tuple(answers), seconds, found)


def run_command(typed: Command, text: str, run: Run) -> Answer:
    """Run a command and return its output; HyperslabError when it ends otherwise than it should."""
    said = io.StringIO()
    started = time.perf_counter()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run(shlex.split(text)[1:])
    seconds = time.perf_counter() - started
    if code != typed.code:
        raise HyperslabError(f"`{text}` ended with {code}, not {typed.code}: {said.getvalue()}")
    lines = said.getvalue().splitlines()
    shown = lines if typed.shows is None else lines[len(lines) - typed.shows :]
    return Answer(text, "\n".join(shown), seconds)


def missing(step: Step) -> str | None:
    """Return what to install before the step can be taken; None when all is there."""
    return next((need.install for need in step.needs if not _is_there(need.module)), None)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def sample(name: str) -> Path:
    """Return the path of a file of the package iris-sample-data; Unsupported when that is not installed."""
    require_modules("iris_sample_data")
    spec = find_spec("iris_sample_data")
    return Path(str(spec and spec.origin)).parent / "sample_data" / name


def sample_file() -> Path:
    """Return the file that the tour starts with; Unsupported when something is missing that it cannot do without."""
    require_modules("iris_sample_data", "netCDF4", "h5py")
    return sample(SAMPLE)


def require_modules(*modules: str) -> None:
    """Raise Unsupported unless all of the modules are installed."""
    if lacking := [name.replace("_", "-") for name in modules if not _is_there(name)]:
        named = ", ".join(lacking)
        raise Unsupported(f"the tour cannot start without {named}", remedy="pip install 'hyperslab[tour]'")


def clear() -> None:
    """Take away what an earlier tour made here. AlreadyExists for something else under one of its names."""
    marker = Path(MADE)
    names = [step.place for step in STEPS if step.place and "{" not in step.place] + ["damaged.zarr", "news.nc"]
    before = set(marker.read_text().split()) if marker.exists() else set()
    for name in names:
        if os.path.lexists(name) and name not in before:
            remedy = "choose another folder by --dir"
            raise AlreadyExists(
                "the tour would replace this, and did not make it", url=os.path.abspath(name), remedy=remedy
            )
    for name in before & set(names):
        shutil.rmtree(name) if os.path.isdir(name) else Path(name).unlink(missing_ok=True)
    marker.write_text("\n".join(names) + "\n")


def bring(sample: Path, run: Run, *, short: bool) -> None:
    """Copy the source into the tour's folder: the sample, or the last years of it."""
    if short:
        run(["convert", str(sample), SOURCE, "-s", LAST_YEARS, "-q"])
    else:
        shutil.copyfile(sample, SOURCE)
    api.open(SOURCE).close()
