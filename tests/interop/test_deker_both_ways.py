"""Stores of real deker and of hyperslab go back and forth, are moved and copied, and are written by both at a time."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import deker_peer
import numpy as np
import pytest
from deker_matrix import START, Kept, change, change_again, create, differences, plans, write
from deker_peer import Peer, TheirError
from deker_sides import OURS, Plan, Side, lattice, theirs, tree

from hyperslab.errors import HyperslabError

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(deker_peer.PYTHON is None, reason="deker runs on Python 3.9 to 3.12: make interop gives it one"),
]
DAY = timedelta(days=1)
SOUND = "Integrity check found no errors"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with deker_peer.speaking(tmp_path_factory.mktemp("deker")) as found:
        yield found


def integrity(peer: Peer, root: Path) -> str:
    """What deker's examination of a store prints at the end."""
    with theirs(peer).client(root) as client:
        client.check_integrity(4, False)
        return peer.printed.strip().removeprefix("Integrity check is running...").strip()


@pytest.mark.parametrize("first", ["hyperslab", "deker"])
def test_what_one_writes_the_other_reads_and_changes(peer: Peer, tmp_path: Path, first: str) -> None:
    """Both flavours, every type, option, filter and attribute: made by one, changed by the other, then by the first."""
    sides = [OURS, theirs(peer)] if first == "hyperslab" else [theirs(peer), OURS]
    every = [Kept(f"c{number}", plan) for number, plan in enumerate(plans())]
    for number, deed in enumerate((lambda client, kept: write(sides[0], client, kept), change, change_again)):
        with sides[number % 2].client(tmp_path) as client:
            for kept in every:
                deed(client, kept)
        assert _seen(sides[1 - number % 2], tmp_path, every) == []
        assert integrity(peer, tmp_path) == SOUND
    assert _seen(sides[0], tmp_path, every) == []


def test_queries_over_what_deker_writes(peer: Peer, tmp_path: Path) -> None:
    """Any attribute is asked for, and what deker changes meanwhile is seen by a client that is open."""
    side = theirs(peer)
    kept = _pair()[1]
    with side.client(tmp_path) as there, OURS.client(tmp_path, mode="r") as here:
        collection = side.collection(there, kept.name, kept.plan)
        arrays = [create(collection, kept, number) for number in range(12)]
        ours = here.get_collection(kept.name)

        def numbers(*args: Any, **asked: Any) -> list[int]:
            return [each.primary_attributes["i"] for each in ours.query(*args, **asked)]

        assert numbers(i=(3, 5), order="-i") == [5, 4, 3]
        assert numbers(cs=["é 104", "é 107"], order="i") == [4, 7]
        assert numbers(d=(START + 2.5 * DAY, None), order="d", limit=2) == [3, 4]
        assert numbers(cd=START + 101 * DAY + timedelta(microseconds=505)) == [1]
        assert numbers(never=7) == []
        arrays[9].update_custom_attributes({"never": 7})
        arrays[5].delete()
        assert (numbers(never=7), numbers(i=(3, 5), order="i")) == ([9], [3, 4])
        create(collection, kept, 50)
        assert numbers(i=(11, None), order="i") == [11, 50]


def _seen(side: Side, root: Path, every: list[Kept]) -> list[str]:
    with side.client(root) as client:
        return [f"{side.name}: {each}" for kept in every for each in differences(client, kept)]


# -- other places ---------------------------------------------------------------------------------------------------


def _pair() -> list[Kept]:
    """A collection of Arrays, and one of VArrays."""
    every = [*plans()]
    return [Kept("arrays", every[0]), Kept("varrays", every[1])]


def _made(side: Side, root: Path) -> list[Kept]:
    every = _pair()
    with side.client(root) as client:
        for kept in every:
            write(side, client, kept)
    return every


@pytest.mark.parametrize("writer", ["hyperslab", "deker"])
def test_a_store_that_was_moved(peer: Peer, tmp_path: Path, writer: str) -> None:
    """We find, read and change everything; once its links are made anew deker does too."""
    every = _made(OURS if writer == "hyperslab" else theirs(peer), tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "after")
    assert _seen(OURS, tmp_path / "after", every) == []
    with OURS.client(tmp_path / "after") as client:
        for kept in every:
            change(client, kept)
        client.relink()
    assert not (tmp_path / "before").exists()
    assert [*_seen(OURS, tmp_path / "after", every), *_seen(theirs(peer), tmp_path / "after", every)] == []
    assert integrity(peer, tmp_path / "after") == SOUND


@pytest.mark.parametrize("writer", ["hyperslab", "deker"])
def test_a_store_that_was_copied(peer: Peer, tmp_path: Path, writer: str) -> None:
    """What is changed and removed in the copy stays in the first one, whose files all links name."""
    every = _made(OURS if writer == "hyperslab" else theirs(peer), tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "copy", symlinks=True)
    before = [*tree(tmp_path / "first")]
    with OURS.client(tmp_path / "copy") as client:
        for kept in _copies(every):
            change(client, kept)
        for name in ("arrays", "varrays"):
            client.get_collection(name).clear()
    assert [*tree(tmp_path / "first")] == before
    assert [*_seen(OURS, tmp_path / "first", every), *_seen(theirs(peer), tmp_path / "first", every)] == []
    assert integrity(peer, tmp_path / "first") == SOUND


def _copies(every: list[Kept]) -> list[Kept]:
    """The same of what is held, apart."""
    held = [
        {n: replace(each, cells=each.cells.copy(), custom={**each.custom}) for n, each in kept.arrays.items()}
        for kept in every
    ]
    return [replace(kept, arrays=arrays) for kept, arrays in zip(every, held, strict=True)]


def test_relative_links_lead_deker_wherever_the_store_is(peer: Peer, tmp_path: Path) -> None:
    side = replace(OURS, new={**OURS.new, "relative_links": True})
    every = _made(side, tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "after")
    assert [*_seen(OURS, tmp_path / "after", every), *_seen(theirs(peer), tmp_path / "after", every)] == []


# -- at a time ------------------------------------------------------------------------------------------------------

BIG = {
    "arrayreadlock": Plan(lattice(8, 500_000), np.float64, chunks=(1, 50_000), compression=("gzip", 1)),
    "varraylock": Plan(
        lattice(8, 500_000), np.float64, cut={"vgrid": (8, 1)}, chunks=(1, 50_000), compression=("gzip", 1)
    ),
}


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Peer]:
    """A deker that may be stopped and killed."""
    (tmp_path / "log").mkdir()
    assert deker_peer.PYTHON is not None
    found = Peer(deker_peer.PYTHON, tmp_path / "log" / "deker.log")
    yield found
    found.kill()


@pytest.mark.parametrize("lock", BIG)
def test_locks_of_deker_hold_while_it_lives(stopped: Peer, tmp_path: Path, lock: str) -> None:
    """A reader (of an Array) or writer (of a VArray) that stands still keeps us waiting; one that is dead does not."""
    root, side = tmp_path / "store", theirs(stopped)
    data = np.random.default_rng(1).random(BIG[lock].shape)
    there = side.client(root)
    array = side.collection(there, "c", BIG[lock]).create()
    array[:].update(data)
    part = array[:]
    _stop_amid(stopped, part, data, root, lock)
    with OURS.client(root, write_lock_timeout=1) as client:
        ours = next(iter(client.get_collection("c")))
        assert np.array_equal(ours[0].read(), data[0])  # whoever reads waits for nobody
        with pytest.raises(HyperslabError, match="lock"):
            ours[0, :9].update(np.zeros(9))
    with OURS.client(root) as client:
        threading.Timer(0.3, stopped.process.send_signal, [signal.SIGCONT]).start()
        next(iter(client.get_collection("c")))[0, :9].update(np.zeros(9))
        stopped.hear()
    _stop_amid(stopped, part, data, root, lock)
    stopped.kill()
    with OURS.client(root, write_lock_timeout=1) as client:
        ours = next(iter(client.get_collection("c")))
        ours[:].update(data)
        assert np.array_equal(ours[:].read(), data)


def _stop_amid(peer: Peer, part: Any, data: Any, root: Path, lock: str) -> None:
    """Stop deker in the midst of a read or of an update."""
    for _ in range(20):
        peer.tell("call", part._number, *(("update", [data], {}) if lock == "varraylock" else ("read", [], {})))
        while not _locks(root, lock) and not peer.is_done():
            time.sleep(0.0005)
        peer.process.send_signal(signal.SIGSTOP)
        if not peer.is_done() and _locks(root, lock):
            return
        peer.process.send_signal(signal.SIGCONT)
        peer.hear()
    raise AssertionError("deker was not caught with a lock")


def _locks(root: Path, lock: str) -> list[Path]:
    return [*(root / "collections/c/array_data").rglob(f"*.{lock}")]


@pytest.mark.parametrize(("cut", "last"), [(None, 40), ({"vgrid": (2, 3)}, 8)])
def test_both_write_and_read_one_array(peer: Peer, tmp_path: Path, cut: Any, last: int) -> None:
    """Each row has one value in it, whenever it is read; no row is lost. Deker alone may be sent away.

    A writer of deker's that got some of its tiles waits, from then on, for its own locks until its time is over.
    """
    plan = Plan(lattice(6, 90), np.int64, cut=cut)
    side = theirs(peer)
    done = threading.Event()
    with side.client(tmp_path, write_lock_timeout=1) as there, OURS.client(tmp_path) as here:
        array = side.collection(there, "c", plan).create()
        array[:].update(np.zeros(plan.shape, np.int64))
        ours = next(iter(here.get_collection("c")))
        writing = threading.Thread(target=_write_rows, args=(ours, done))
        writing.start()
        for number in range(1, last + 1):
            _insisting(lambda n=number: array[5].update(np.full(90, n)))
            for reading in (lambda: array[:].read(), lambda: ours[:].read()):
                cells = _insisting(reading)
                assert (cells == cells[:, :1]).all() if cut is None else (cells[5] == number).all()
        done.set()
        writing.join()
        cells = ours[:].read()
        assert np.array_equal(cells, _insisting(lambda: array[:].read()))
        assert (cells[5] == last).all() and (cells[:5] == cells[:5, :1]).all() and cells[:5].min() > 0
    assert integrity(peer, tmp_path) == SOUND


def _write_rows(array: Any, done: threading.Event) -> None:
    """Update one row after the other, as long as it takes."""
    for number in count(1):
        for row in range(5):
            array[row].update(np.full(90, number))
            time.sleep(0.01)
        if done.is_set():
            return


def _insisting(deed: Any) -> Any:
    """What deker gives in the end: whoever finds a lock there is sent away."""
    while True:
        try:
            return deed()
        except TheirError as error:
            assert "Lock" in error.name, error
