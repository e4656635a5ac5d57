"""Every format into every other: equal but for what was announced, and announced only what the target cannot hold.

Each ordered pair converts two of the four datasets in everyday runs, such that each format reads and writes all of
them; the other two in the soak.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "bridges" / "hdmf"))
import every_format as matrix
from every_format import HOLD_ONE, MAIN, NEVER, VARIANTS, Shelf

from hyperslab.formats.base import Feature

if TYPE_CHECKING:
    from servers.mongo import Mongo

PAIRS = list(product(VARIANTS, VARIANTS))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, mongo: Mongo) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("shelf"), f"{mongo.url}/{mongo.database()}")


def _turn(source: str, target: str) -> int:
    names = list(VARIANTS)
    return names.index(source) + names.index(target)


def _convert(shelf: Shelf, name: str, source: str, target: str) -> None:
    """One dataset from one variant into another."""
    there, place = shelf.dataset(name, source), shelf.place(target)
    path = matrix.path_of(name, source, target)
    report = matrix.to(there, place, target, path)
    assert report.verified is not None
    lacking = {feature.value for feature in Feature if feature not in matrix.features_of(target)}
    assert [str(loss) for loss in report.losses if loss.feature not in lacking] == []
    assert [loss for loss in report.losses if "the array is left out" in loss.message] == []
    lost = {loss.node for loss in report.losses}
    main = path or MAIN[name].split("/")[-1]
    assert list(matrix.stored_otherwise(there, main, place, target, report.recut)) == []
    if target in HOLD_ONE:
        assert list(matrix.differing(there, main, place, lost)) == []
    else:
        assert matrix.unexpected(there, place, lost) == []


@pytest.mark.sampled(1)
@pytest.mark.covering("source", "target")
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=[f"{a} to {b}" for a, b in PAIRS])
def test_every_pair(shelf: Shelf, source: str, target: str) -> None:
    for step in (0, 2):
        _convert(shelf, list(MAIN)[(_turn(source, target) + step) % 4], source, target)


@pytest.mark.soak
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=[f"{a} to {b}" for a, b in PAIRS])
def test_every_pair_of_the_other_datasets(shelf: Shelf, source: str, target: str) -> None:
    for step in (1, 3):
        _convert(shelf, list(MAIN)[(_turn(source, target) + step) % 4], source, target)


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_that_every_format_has_a_place_for_is_lacking(variant: str) -> None:
    assert not NEVER - matrix.features_of(variant)
