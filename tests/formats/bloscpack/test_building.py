"""Slots of a new file in any order, from several threads, with little memory: against a dict."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperslab.formats.bloscpack.creator import NewFile
from hyperslab.formats.bloscpack.pending_chunks import ChunkStaging
from hyperslab.stores.atomic_file import assemble

CHANGES = st.lists(
    st.tuples(st.sampled_from(["put"] * 5 + ["cut"]), st.integers(0, 12), st.integers(0, 90)), max_size=40
)


def front_of(lengths: Sequence[int], size: int | None) -> bytes | None:
    """A front that says how long the slots are; it needs another size where there are many."""
    text = repr(list(lengths)).encode()
    if size is None:
        return text.ljust(64)
    return text.ljust(size) if len(text) <= size else None


@given(
    changes=CHANGES,
    gathered=st.sampled_from([0, 1, 200, 10**6]),
    room=st.sampled_from([10, 64]),
    count=st.integers(1, 14),
)
@settings(max_examples=min(settings.default.max_examples, 300), deadline=None, suppress_health_check=list(HealthCheck))
def test_any_order(tmp_path: Path, changes: list[tuple[str, int, int]], gathered: int, room: int, count: int) -> None:
    target = tmp_path / "a"
    new_file, slots = NewFile(str(target), lambda: b"?" * room, gathered), dict[int, bytes]()
    for step, (kind, number, size) in enumerate(changes):
        if kind == "put":
            slots[number] = bytes([step % 251]) * size
            new_file.put(number, slots[number])
        else:
            new_file.cut(number)
            slots = {each: slot for each, slot in slots.items() if each < number}
        assert [new_file.get(each) for each in range(13)] == [slots.get(each) for each in range(13)]
        assert [new_file.size_of(each) for each in range(13)] == [len(slots.get(each, b"")) for each in range(13)]
        assert sorted(new_file) == sorted(slots)
    new_file.finish(count, lambda number: b"missing %d" % number, front_of).publish(durable=False)
    expected = [slots.get(number, b"missing %d" % number) for number in range(count)]
    data = target.read_bytes()
    assert data.endswith(b"".join(expected))
    assert data[: len(data) - sum(map(len, expected))].strip() == repr([len(slot) for slot in expected]).encode()
    target.unlink()
    new_file.discard()
    assert os.listdir(tmp_path) == []


def test_by_threads(tmp_path: Path) -> None:
    slots = [np.random.default_rng(number).bytes(1000 + number) for number in range(400)]
    new_file = NewFile(str(tmp_path / "a"), lambda: b"?" * 5000, 3000)

    def work(start: int) -> None:
        for number in range(start, 400, 4):
            new_file.put(number, slots[number])
            assert new_file.get(number) == slots[number]

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    new_file.finish(400, lambda number: b"", front_of).publish(durable=True)
    assert (tmp_path / "a").read_bytes()[5000:] == b"".join(slots)


def test_what_is_not_published_is_gone(tmp_path: Path) -> None:
    new_file = NewFile(str(tmp_path / "a"), lambda: b"front", 0)
    new_file.put(0, b"slot")
    assert len(os.listdir(tmp_path)) == 1
    new_file.discard()
    new_file = NewFile(str(tmp_path / "a"), lambda: b"front", 0)
    new_file.put(0, b"slot")
    del new_file
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("memory", [0, 10, 10**6])
def test_what_waits(tmp_path: Path, memory: int) -> None:
    staging = ChunkStaging(str(tmp_path), memory)
    for number in range(9):
        staging.put(number, bytes([number]) * number)
    mark = staging.mark()
    staging.put(3, b"another")
    staging.cut(5)
    assert (staging.get(3), staging.size_of(3), 5 in staging, len(staging)) == (b"another", 7, False, 5)
    staging.reset(mark)
    assert [staging.get(number) for number in staging] == [bytes([number]) * number for number in range(9)]
    assert staging.get(9) is None
    assert staging.nbytes <= memory
    staging.discard()
    assert os.listdir(tmp_path) == []


def test_threads_that_give_more_than_waits_in_memory(tmp_path: Path) -> None:
    slots = [np.random.default_rng(number).bytes(50_000 + number) for number in range(200)]
    staging = ChunkStaging(str(tmp_path), 10)

    def work(start: int) -> None:
        for number in range(start, 200, 4):
            staging.put(number, slots[number])

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [staging.get(number) for number in range(200)] == slots


@pytest.mark.parametrize("can_copy", [True, False])
def test_parts_of_other_files(tmp_path: Path, can_copy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not can_copy:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    data = np.random.default_rng(0).bytes(3 << 20)
    (tmp_path / "old").write_bytes(data)
    old, new = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("old", "new"))
    assemble(new, b"front", [b"slot", (old, 5, 10), (old, 15, 1 << 21), (old, 3, 4), b"", b"end"])
    os.close(old)
    os.close(new)
    whole = data[5 : 15 + (1 << 21)]
    assert (tmp_path / "new").read_bytes() == b"frontslot" + whole + data[3:7] + b"end"
