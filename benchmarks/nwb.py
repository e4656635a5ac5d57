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
_FILES = (
    "half of the time is hdmf's, which makes builders of containers, for all three; hyperslab's own part is 0.15 s in "
    "memory, and the kernel takes 0.1 to 1 s to make 1,700 files in 640 folders, where HDF5 makes one."
)
_BUILDERS = "two thirds are hdmf's and pynwb's own, the same for all; a third of the rest are hdmf's builders."
_FIRST_READS = (
    "hyperslab has opened no array before the first of its cells is asked for; then it reads the array's documents, "
    "which count for more than consolidated metadata. The peers did that work when the file was opened; another read "
    "of the same dataset takes 35 us, as theirs."
)
_COMPRESSED = "HDF5IO stores bare cells in one piece; hyperslab and hdmf-zarr compress them."
_CHANNEL = (
    "a chunk of hyperslab holds all 64 channels and is decoded whole, one of hdmf-zarr holds four; HDF5's are bare. "
    "Chunks of as many rows and 16 or 32 channels would not keep what this default is for: they make one channel take "
    "a third or half of the time (0.32 or 0.54 ms of CPU for 1.12), all cells 1.7 or 1.35 times as long (165 or 129 "
    "for 96), since rows of a chunk that lie apart in the result are copied there after they were decoded. Who reads "
    "channels gives chunks= in HyperslabDataIO."
)


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


def _writing(bound: str) -> tuple[Target, ...]:
    return Target(_ZARR, 4.0, bound), Target(_HDF5, 1.0, bound)


def _reading(bound: str) -> tuple[Target, ...]:
    return (Target(_ZARR, 1 / 0.7, bound),)


def _many(backends: list[Backend]) -> Iterator[Row]:
    what = f"a file of {_SERIES} series ({2 * _SERIES} small datasets) and trials"

    def make(backend: Backend) -> None:
        backend.clear()
        backend.ask("make_many")

    yield _row(f"write {what}", backends, make, Backend.write, None, _writing(_FILES))
    opening = (Target("fastest", 1 / 0.7, _BUILDERS),)
    yield _row(f"open {what}", backends, lambda each: each.ask("close"), Backend.open, _SERIES, opening)
    title, targets = f"read {_SERIES} small datasets of it", (Target(_ZARR, 1.0, _FIRST_READS),)
    yield _row(title, backends, Backend.reopen, lambda each: each.ask("read_many"), _LAST, targets)


def _one(backends: list[Backend], rows: int) -> Iterator[Row]:
    """The peers at their defaults: HDF5 in one piece and uncompressed, hdmf-zarr by Blosc-lz4."""
    what = f"{rows * 128 >> 20} MiB int16, 64 channels"

    def make(backend: Backend) -> None:
        backend.clear()
        backend.ask("make_one", rows)

    yield _row(f"write {what}", backends, make, Backend.write, None, _writing(_COMPRESSED))
    whole, channel = backends[0].ask("expected", _ROWS)
    yield _row(
        f"read {what}", backends, Backend.reopen, lambda each: each.ask("read_one"), whole, _reading(_COMPRESSED)
    )
    yield _row(
        f"read {_ROWS:,} samples of one channel of {what}",
        backends,
        Backend.reopen,
        lambda each: each.ask("read_channel", _ROWS),
        channel,
        _reading(_CHANNEL),
    )
