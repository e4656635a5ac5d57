"""Collections of arrays beside DEKER: tiled arrays, small parts, and thousands of records made and found."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import bare
from benchmarks.children import Child
from benchmarks.harness import BARE, OURS, Contender, Row, Target

TITLE = "Collections"
_MODULE = "benchmarks.collections_child"
_ENVIRONMENT = Path(__file__).parents[1] / ".venvs" / "deker"
_DEKER = "DEKER"
_RECORDS, _MANY = 1000, 20_000
_WHOLE = "the codec, on two threads: DEKER's cells are bare, hyperslab's are compressed and have checksums."
_PART = "opening and reading the files of the tiles that are touched, and decoding each chunk of them that is needed."
_UPDATING = (
    "DEKER writes bare cells in place; hyperslab decodes and encodes the chunk and stores the tile anew beside the "
    "old one, so that nobody sees half of it. Of 1.65 ms of CPU for a tile of 1 MiB (DEKER: 4.35) encoding takes 0.3, "
    "writing the file and renaming it 0.3, decoding 0.15, four checksums 0.14, copies 0.1, the rest is Python: without "
    "any of it 1.0 ms would remain, more than a fifth of DEKER's. An undo record would not keep the promise: it tells "
    "hyperslab's own readers what was there, and a tile is a Zarr array, which others read without looking for "
    "one; its checksum is that of the whole chunk besides."
)
_CREATING = (
    "the kernel: a folder and two files each, for which ext4 takes 60 to 80 us apiece at best, bare or not, and many "
    "times that when many were removed shortly before, as between the rounds here; Python's part is 0.1 ms in bulk, "
    "0.2 ms one by one. Durable ones wait for two flushes besides, where DEKER never waits."
)
_FINDING = "one look into the index for each, and a glance whether that is still true: nothing is read for it twice."
_PLANNING = "the plan is arithmetic, without a tile being looked at."
_INDEX = "the index, whose entries take longer to look at the more there are."


def _five(bound: str) -> tuple[Target, ...]:
    return (Target(_DEKER, 5.0, bound),)


class Database:
    """A process with a client of one library, and the folder of its store."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self.path = folder / name
        python = Path(sys.executable) if name == OURS else _ENVIRONMENT / "bin" / "python"
        self.ask = Child(python, _MODULE, ["ours" if name == OURS else "deker"], stack).ask
        self._fresh = count()

    def begin(self, kind: str, durable: bool = False) -> None:
        """A new collection in an empty store."""
        self.ask("close")
        shutil.rmtree(self.path, ignore_errors=True)
        self.ask("begin", str(self.path), kind, f"{kind}{next(self._fresh)}", durable)

    def reopen(self, name: str, durable: bool = False) -> None:
        """The collection with a client that knows nothing yet."""
        self.ask("open", str(self.path), name, durable)
        self.ask("collect")


def rows(folder: Path, side: int) -> Iterator[Row]:
    """A tiled array of 64 tiles; 10,000 tiles; 1,000 records; 20,000 of them."""
    with ExitStack() as stack:
        both = [Database(name, folder, stack) for name in (OURS, _DEKER)]
        yield from _tiled(both)
        yield _planned(both)
        yield from _created(both)
        yield from _found(both)
        yield from _scaled(folder, stack)


def _row(
    title: str,
    databases: list[Database],
    before: Callable[[Database], Any],
    run: Callable[[Database], Any],
    expected: Any,
    targets: tuple[Target, ...],
) -> Row:
    contenders = [Contender(each.name, partial(run, each), before=partial(before, each)) for each in databases]
    return Row(title, contenders, lambda _, got: got == expected, targets)


def _tiled(both: list[Database]) -> Iterator[Row]:
    what = "an array of 64 tiles, 64 MiB float64"
    yield _row(
        f"write {what}", both, lambda each: each.begin("tiled"), lambda each: each.ask("write"), None, _five(_WHOLE)
    )
    for each in both:
        _try(partial(each.begin, "tiled"))
        _try(partial(each.ask, "write"))
    ours = both[0]
    tile = 2896 // 8
    parts: dict[str, list[list[int]]] = {
        f"read {what}": [],
        "read 100 x 100 cells within a tile of it": [[10, 110], [20, 120]],
        "read 100 x 100 cells of four tiles of it": [[tile - 50, tile + 50], [tile - 50, tile + 50]],
        "read a column of it": [[0, 2896], [17, 18]],
    }
    for title, bounds in parts.items():
        expected = ours.ask("expected", *bounds)
        yield _row(title, both, _nothing, lambda each, bounds=bounds: each.ask("read", *bounds), expected, _five(_PART))
    for title, bounds in list(parts.items())[1:3]:
        title = title.replace("read", "update")
        yield _row(
            title, both, _nothing, lambda each, bounds=bounds: each.ask("update", *bounds), None, _five(_UPDATING)
        )


def _planned(both: list[Database]) -> Row:
    for each in both:
        _try(partial(each.begin, "many"))
    targets = (Target(_DEKER, 50.0, _PLANNING),)
    return _row(
        "a subset of an array of 10,000 tiles, planned", both, _nothing, lambda each: each.ask("plan"), 10**6, targets
    )


def _created(both: list[Database]) -> Iterator[Row]:
    """Beside bare folders and files: those of one by one by one thread. DEKER never waits for the medium."""
    for title, what, durable in (
        ("one by one, durable=False", "create", False),
        ("one by one, durable", "create", True),
        ("by one call, durable", "create_many", True),
    ):
        yield _creating(both, title, what, durable)


def _creating(both: list[Database], title: str, what: str, durable: bool) -> Row:
    row = _row(
        f"create {_RECORDS:,} arrays {title}",
        both,
        lambda each: each.begin("small", durable=durable),
        lambda each: each.ask(what, 0, _RECORDS),
        None,
        (Target(_DEKER, 1.0, _CREATING), Target(BARE, 0.8, _CREATING)),
    )
    threads = 1 if what == "create" else bare.THREADS
    files = bare.Copy(both[0].path, both[0].path.parent / "bare", durable=durable, threads=threads)
    contenders = [*row.contenders, files.contender()]
    return replace(row, contenders=contenders, check=lambda name, got: got > _RECORDS if name == BARE else got is None)


def _found(both: list[Database]) -> Iterator[Row]:
    for each in both:
        _try(partial(each.begin, "small"))
        _try(partial(each.ask, "create_many", 0, _RECORDS))
    hundred = f"among {_RECORDS:,} arrays"
    yield _row(
        f"find 100 {hundred} by their keys",
        both,
        _nothing,
        lambda each: each.ask("find", 300, 100),
        100,
        _five(_FINDING),
    )
    yield _row(
        f"the 100 of a span of time {hundred} (DEKER reads them all)",
        both,
        _nothing,
        lambda each: each.ask("query", 300, 100),
        100,
        _five(_FINDING),
    )


def _scaled(folder: Path, stack: ExitStack) -> Iterator[Row]:
    """The same among a thousand and among twenty thousand arrays of ours."""
    few, many = Database(OURS, folder, stack), Database(OURS, folder, stack)
    few.name, few.path = f"among {_RECORDS:,}", folder / "few"
    many.path = folder / "many"
    few.begin("small")
    few.ask("create_many", 0, _RECORDS)
    many.begin("small")
    many.ask("create_many", 0, _MANY)
    targets = (Target(few.name, 0.5, _INDEX),)
    title = f"among {_MANY:,} arrays of hyperslab"
    both = [many, few]
    yield _row(f"find 100 {title} by their keys", both, _nothing, lambda each: each.ask("find", 300, 100), 100, targets)
    yield _row(
        f"the 100 of a span of time {title}", both, _nothing, lambda each: each.ask("query", 300, 100), 100, targets
    )


def _nothing(database: Database) -> None:
    """No preparation: the client stays open, as it does in DEKER's use."""


def _try(action: Callable[[], Any]) -> None:
    """Prepare; one that cannot is found out when its row is run."""
    try:
        action()
    except (OSError, RuntimeError):
        return
