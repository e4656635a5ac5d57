"""NWB files by pynwb, through hyperslab's backend, HDF5 and hdmf-zarr: each in a process of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.children import Child
from benchmarks.harness import OURS, Contender, Row, Target

_MODULE = "benchmarks.nwb_child"
_ENVIRONMENT = Path(__file__).parents[1] / ".venvs" / "hdmf-zarr-013"
_HDF5, _ZARR = "HDF5IO", "hdmf-zarr"
_ENDINGS = {OURS: "nwb.zarr", _HDF5: "nwb", _ZARR: "zarr"}
_SERIES, _LAST = 200, sum(49.0 + number for number in range(200))
_ROWS = 30_000
_WRITING = Target(_ZARR, 4.0), Target(_HDF5, 1.0)
_OPENING = (Target(_ZARR, 1 / 0.7),)


class Backend:
    """A process that writes and reads by one backend."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self.path = folder / f"file.{_ENDINGS[name]}"
        variables = {"PYNWB_NO_CACHE_DIR": "1"}
        if name == _ZARR:  # which reads the pickles that it has written itself just now
            variables["NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE"] = "1"
        python = Path(sys.executable) if name != _ZARR else _ENVIRONMENT / "bin" / "python"
        self.ask = Child(python, _MODULE, [name], stack, variables).ask

    def clear(self) -> None:
        """Remove the file."""
        self.ask("close")
        if self.path.is_dir():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)

    def write(self) -> Any:
        """Write what was made."""
        return self.ask("write", str(self.path))

    def open(self) -> Any:
        """Open the file."""
        return self.ask("open", str(self.path))

    def reopen(self) -> None:
        """Open it anew, for a read to be timed."""
        self.ask("close")
        self.open()
        self.ask("collect")


def rows(folder: Path, side: int) -> Iterator[Row]:
    """A file of 400 small datasets; one of 256 MiB."""
    with ExitStack() as stack:
        backends = [Backend(name, folder, stack) for name in _ENDINGS]
        yield from _many(backends)
        for backend in backends:
            _try(backend.clear)
        yield from _one(backends, side * side // 32)


def _try(action: Callable[[], Any]) -> None:
    """Prepare; one that cannot is found out when its row is run."""
    try:
        action()
    except (OSError, RuntimeError):
        return


def _row(
    title: str,
    backends: list[Backend],
    before: Callable[[Backend], Any],
    run: Callable[[Backend], Any],
    expected: Any,
    targets: tuple[Target, ...],
) -> Row:
    contenders = [Contender(each.name, partial(run, each), before=partial(before, each)) for each in backends]
    return Row(title, contenders, lambda _, got: got == expected, targets)


def _many(backends: list[Backend]) -> Iterator[Row]:
    what = f"a file of {_SERIES} series ({2 * _SERIES} small datasets) and trials"

    def make(backend: Backend) -> None:
        backend.clear()
        backend.ask("make_many")

    yield _row(f"write {what}", backends, make, Backend.write, None, _WRITING)
    yield _row(f"open {what}", backends, lambda each: each.ask("close"), Backend.open, _SERIES, _OPENING)
    title, targets = f"read {_SERIES} small datasets of it", (Target(_ZARR, 1.0),)
    yield _row(title, backends, Backend.reopen, lambda each: each.ask("read_many"), _LAST, targets)


def _one(backends: list[Backend], rows: int) -> Iterator[Row]:
    """The peers at their defaults: HDF5 in one piece and uncompressed, hdmf-zarr by Blosc-lz4."""
    what = f"{rows * 128 >> 20} MiB int16, 64 channels"

    def make(backend: Backend) -> None:
        backend.clear()
        backend.ask("make_one", rows)

    yield _row(f"write {what}", backends, make, Backend.write, None, _WRITING)
    whole, channel = backends[0].ask("expected", _ROWS)
    yield _row(f"read {what}", backends, Backend.reopen, lambda each: each.ask("read_one"), whole, _OPENING)
    yield _row(
        f"read {_ROWS:,} samples of one channel of {what}",
        backends,
        Backend.reopen,
        lambda each: each.ask("read_channel", _ROWS),
        channel,
        _OPENING,
    )
