"""Random schemas, each with slices and updates: real deker and hyperslab say the same, and what they should.

600 of them in every run, 2,000 by ``make soak``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deker_peer
import numpy as np
import pytest
from deker_cases import Ask, Case, Write, cases, model
from deker_peer import Peer
from deker_sides import OURS, Failed, outcome, same, theirs

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(deker_peer.PYTHON is None, reason="deker runs on Python 3.9 to 3.12: make interop gives it one"),
]
ID = "352fdd68-dcb5-4edc-b3fc-4fcad9dea7fe"
SEEDS, EACH = [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))], 200


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with deker_peer.speaking(tmp_path_factory.mktemp("deker")) as found:
        yield found


@pytest.mark.parametrize("seed", SEEDS)
def test_same_cells_labels_and_errors(peer: Peer, tmp_path: Path, seed: int) -> None:
    sides = (theirs(peer), OURS)
    with sides[0].client(tmp_path / "deker") as there, sides[1].client(tmp_path / "hyperslab", durable=False) as here:
        wrong = []
        for number, case in enumerate(cases(EACH, seed)):
            name = f"c{number}"
            made = [
                side.collection(client, name, case.plan).create(None, case.custom, ID)
                for side, client in zip(sides, (there, here), strict=True)
            ]
            wrong += [f"{seed} {number} {case.plan}: {each}" for each in _played(case, *made)]
    with sides[0].client(tmp_path / "hyperslab") as there:
        there.check_integrity(4, False)
        assert (wrong, peer.printed.count("no errors")) == ([], 1)


def _played(case: Case, there: Any, here: Any) -> Iterator[str]:
    """What is wrong in the course of a case."""
    cells, bare = model(case.plan), model(case.plan)
    for write, asks in case.steps:
        arrays = [here, there] if write.agreed or write.data is not None else [here]
        for array in arrays:
            found = outcome(lambda a=array, w=write: _write(a, w, is_plain=a is here))
            if isinstance(found, Failed) == write.valid:
                yield f"{write}: {found!r}"
        if write.valid:
            cells[write.ask.means] = bare[write.ask.means] if write.data is None else write.data
        for ask in asks:
            yield from _asked(ask, arrays, cells)


def _write(array: Any, write: Write, *, is_plain: bool) -> None:
    """Update or clear; where sides do not agree on scalars, deker is given an array of them."""
    part = array[write.ask.key]
    if write.data is None:
        part.clear()
    else:
        part.update(write.data if write.agreed or is_plain else np.full(part.shape, write.data))


def _asked(ask: Ask, arrays: list[Any], cells: Any) -> Iterator[str]:
    """What is wrong with what a key gives; of what both take all is told alike."""
    told = []
    for array in arrays if ask.agreed else arrays[:1]:
        part = outcome(lambda a=array: a[ask.key])
        found = part if isinstance(part, Failed) else outcome(part.read)
        is_refused = isinstance(found, Failed) and "IndexError" in found
        if not (is_refused if ask.means is None else same(found, cells[ask.means])):
            yield f"{ask}: {found!r}"
        elif not is_refused:
            told.append((part.shape, part.bounds, dict(part.describe()), str(part)))
    if len(told) == 2 and told[0] != told[1]:
        yield f"{ask}: shape, bounds, labels, text are {told[0]}, deker's {told[1]}"
