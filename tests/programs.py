"""Programs of tests in processes forked from one that has made the imports: they know nothing else of the tests' own.

An interpreter that begins with nothing needs up to two seconds of the processor for them. A test that is about how one
starts, ends or is interrupted wants a ``subprocess``.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import Pipe, forkserver, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from typing import Any

_FACES = ["bridges.xarray", "cli", "conversion", "database", "integrity"]
_FORMATS = ["b2nd", "blaze", "bloscpack", "collections", "hdmf", "mongo", "nczarr", "netcdf", "zarr2", "zarr3"]
_IMPORTS = [
    *("pytest", "distributed", "dask.array", "h5py", "netCDF4", "pymongo"),
    *(f"hyperslab.{name}" for name in _FACES),
    *(f"hyperslab.formats.{name}" for name in _FORMATS),
]


def forking() -> ForkServerContext:
    """How to start processes; they have the environment variables of the first call."""
    context = get_context("forkserver")
    context.set_forkserver_preload(_IMPORTS)
    forkserver.ensure_running()
    return context


class Program:
    """A program, or the file of one, told ``arguments`` as ``sys.argv``; spoken with as with ``subprocess.Popen``.

    It ends with the tests at the latest.
    """

    def __init__(self, program: str | Path, *arguments: object, folder: Path | None = None) -> None:
        (given, into), (out, said), (errors, wrong) = (Pipe(duplex=False) for _ in range(3))
        theirs, words = (given, said, wrong), [str(each) for each in arguments]
        told = (program, words, theirs, dict(os.environ), folder or os.getcwd())
        self._process = forking().Process(target=_run, args=told, daemon=True)
        self._process.start()
        for end in theirs:
            end.close()
        self.stdin, self.stdout, self.stderr = _file(into, "w"), _file(out, "r"), _file(errors, "r")

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """How it ended, if it has: its status, or the negative number of a signal."""
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        self._process.kill()

    def wait(self) -> int:
        """How it ended, when it has."""
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def communicate(self, given: bytes = b"") -> tuple[str, str]:
        """What it has yet to say until it ends, and its errors; ``given`` is the last that is said to it."""
        with ThreadPoolExecutor(1) as pool, self.stdin, self.stdout, self.stderr:
            with suppress(BrokenPipeError):  # of one that has ended
                self.stdin.buffer.write(given)
                self.stdin.close()
            errors = pool.submit(self.stderr.read)
            try:
                said = self.stdout.read(), errors.result()
            except BaseException:  # such as of a test that takes too long
                self.kill()
                raise
        self.wait()
        return said


def ran(
    program: str | Path, *arguments: object, given: bytes = b"", folder: Path | None = None
) -> CompletedProcess[str]:
    """A program that has ended, as of ``subprocess.run``: what it was ``given`` on its standard input, and where."""
    started = Program(program, *arguments, folder=folder)
    out, errors = started.communicate(given)
    return CompletedProcess([str(program), *map(str, arguments)], started.wait(), out, errors)


@contextmanager
def side_by_side(program: str | Path, *arguments_of_each: tuple[object, ...]) -> Iterator[list[Program]]:
    """As many processes of one program; those that still run at the end of the block are killed."""
    started = [Program(program, *arguments) for arguments in arguments_of_each]
    try:
        yield started
    finally:
        for each in started:
            each.kill()
            if not each.stdout.closed:
                each.communicate()


def _file(end: Connection, mode: str) -> Any:
    with end:
        return os.fdopen(os.dup(end.fileno()), mode)


COMMAND = "from hyperslab.cli import main\nmain(prog_name='hyperslab')"
"""The program ``python -m hyperslab``."""


def _run(
    program: str | Path,
    arguments: list[str],
    pipes: tuple[Connection, ...],
    environment: dict[str, str],
    folder: str | Path,
) -> None:
    for number, pipe in enumerate(pipes):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [str(program), *arguments]
    if isinstance(program, Path):
        sys.path.insert(0, str(program.parent))
        runpy.run_path(str(program), run_name="__main__")
    else:
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(program, main.__dict__)
