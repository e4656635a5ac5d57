"""Documents of another rank, or of which one list is: errors of ours, or sound cells."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from mutations import FAMILIES, Files

import hyperslab as hs
from hyperslab.errors import HyperslabError


def lists_in(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each list of numbers, texts or lists below a document."""
    if isinstance(value, list) and value and not isinstance(value[0], dict):
        yield way
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from lists_in(inner, (*way, key))


Ways = list[tuple[Any, ...]]


def changes_of(document: Any) -> Iterator[Ways]:
    """Yield the lists to change together: each alone, then all of one length."""
    ways = list(lists_in(document))
    yield from ([way] for way in ways)
    lengths = {way: len(reduce(getitem, way, document)) for way in ways}
    yield from ([way for way in ways if lengths[way] == length] for length in sorted({*lengths.values()}))


def with_other_rank(document: Any, ways: Ways, *, longer: bool) -> Any:
    """Return a copy of the document in which these lists have one member more, or less."""
    changed = copy.deepcopy(document)
    for way in ways:
        found = reduce(getitem, way, changed)
        if longer:
            found.append(found[-1])
        else:
            found.pop()
    return changed


def use(url: str) -> None:
    """Read every cell, and check the dataset."""
    ours(lambda: each_array(hs.open(url)))
    ours(lambda: hs.check(url))


def each_array(node: Any) -> None:
    for name in [None] if isinstance(node, hs.Array) else node:
        array = ours(lambda name=name: node if name is None else node[name])
        if isinstance(array, hs.Array) and array.size < 1000:
            ours(lambda array=array: array[...])
            ours(lambda array=array: array[...])  # an error the first time is no reason for another the second
            ours(lambda array=array: (array.plan(...), array.oindex[tuple([0] for _ in array.shape)], repr(array)))
        elif isinstance(array, hs.Group):
            each_array(array)


def ours(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except HyperslabError:
        return None


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("family", ["zarr2", "zarr3", "shards", "nczarr", "draft", "hdmf2", "hdmf3", "blaze", "bcolz"])
def test_a_list_of_another_rank(tmp_path: Path, family: str, share: int) -> None:
    dataset = FAMILIES[family]
    assert isinstance(dataset, Files)
    sound = Path(dataset.make(tmp_path))
    tried = 0
    for path in sorted(each for each in sound.rglob("*") if each.is_file()):
        try:
            document = json.loads(path.read_bytes())
        except ValueError:
            continue
        for number, ways in enumerate(changes_of(document)):
            if number % share:
                continue
            for longer in (True, False) if share == 1 else (number % 2 == 0 and len(ways) == 1,):
                work = tmp_path / sound.name
                shutil.rmtree(work, ignore_errors=True)
                shutil.copytree(sound, work)
                (work / path.relative_to(sound)).write_text(json.dumps(with_other_rank(document, ways, longer=longer)))
                use(str(work))
                tried += 1
    assert tried >= 2
