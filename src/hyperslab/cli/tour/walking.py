"""Take the steps: run what is typed, look at what it made, compare it with the source."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from hyperslab import api
from hyperslab.cli.tour.looking import Look, look, refuse_difference
from hyperslab.cli.tour.steps import LAST_YEARS, SAMPLE, SOURCE, STEPS, Step, Typed
from hyperslab.errors import AlreadyExists, HyperslabError, Unsupported

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
class Taken:
    """A step that was taken, or left out for want of something (``install`` says what brings it)."""

    step: Step
    answers: tuple[Answer, ...] = ()
    program_seconds: float | None = None
    found: Look | None = None
    install: str | None = None

    @property
    def seconds(self) -> float:
        """How long the program and the commands took."""
        return sum(answer.seconds for answer in self.answers) + (self.program_seconds or 0.0)


class Listener(Protocol):
    """Who is told of each step while it is taken."""

    def step(self, number: int, step: Step) -> None:
        """It begins."""
        ...

    def program(self, step: Step) -> None:
        """Its program is going to run."""
        ...

    def typed(self, command: str) -> None:
        """A command is going to run."""
        ...

    def answered(self, answer: Answer) -> None:
        """It ended."""
        ...

    def taken(self, taken: Taken) -> None:
        """The step is over."""
        ...


def walk(
    folder: str, run: Run, listener: Listener, *, short: bool = False, steps: Sequence[Step] = STEPS
) -> list[Taken]:
    """Take the steps in a folder, which is made; what an earlier tour made there is made anew.

    ``short``: ten years instead of 240. CorruptChunk when anything differs from the source.
    """
    found = sample_file()
    os.makedirs(folder, exist_ok=True)
    with ExitStack() as servers, contextlib.chdir(folder):
        clear()
        bring(found, run, short=short)
        done: list[Taken] = []
        here, server, source = SOURCE, "", None
        for number, step in enumerate(steps, 1):
            listener.step(number, step)
            install = missing(step)
            if install is None and step.name == "mongo":
                server, install = _server(servers)
            names = {"here": here, "server": server}
            taken = Taken(step, install=install) if install else take(step, names, run, listener, source)
            source = source or taken.found
            listener.taken(taken)
            done.append(taken)
            if step.chained and taken.found:
                here = step.place.format(**names)
        return done


def take(step: Step, names: dict[str, str], run: Run, listener: Listener, source: Look | None) -> Taken:
    """One step, compared with the source (None: this is the source)."""
    seconds = None
    if step.program:
        listener.program(step)
        started = time.perf_counter()
        step.program()
        seconds = time.perf_counter() - started
    answers = []
    for typed in step.commands:
        text = typed.text.format(**{name: shlex.quote(value) for name, value in names.items()})
        listener.typed(text)
        answers.append(answer(typed, text, run))
        listener.answered(answers[-1])
    found = look(step.place.format(**names), step.kind) if step.place else None
    if found and source:
        refuse_difference(found, source)
    return Taken(step, tuple(answers), seconds, found)


def answer(typed: Typed, text: str, run: Run) -> Answer:
    """Run a command and take what it says; HyperslabError when it ends otherwise than it should."""
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
    """What to install before the step can be taken; None when all is there."""
    return next((need.install for need in step.needs if not _is_there(need.module)), None)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def _server(servers: ExitStack) -> tuple[str, str | None]:
    """The URL of a server that ends with the others; or ``""`` and why there is none."""
    from hyperslab.testing.mongod import running

    try:
        return servers.enter_context(running()), None
    except (OSError, RuntimeError) as error:
        return "", f"the server does not start here: {str(error).splitlines()[-1]}"


def sample(name: str) -> Path:
    """A file of the package iris-sample-data; Unsupported when that is not installed."""
    refuse_lacking("iris_sample_data")
    spec = find_spec("iris_sample_data")
    return Path(str(spec and spec.origin)).parent / "sample_data" / name


def sample_file() -> Path:
    """Where the tour starts; Unsupported when something is missing that it cannot do without."""
    refuse_lacking("iris_sample_data", "netCDF4", "h5py")
    return sample(SAMPLE)


def refuse_lacking(*modules: str) -> None:
    """Unsupported unless all of them are installed."""
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
    """The source into the tour's folder: the sample, or the last years of it."""
    if short:
        run(["convert", str(sample), SOURCE, "-s", LAST_YEARS, "-q"])
    else:
        shutil.copyfile(sample, SOURCE)
    api.open(SOURCE).close()
