"""The lock of a file that is a dataset: of the file that the path leads to, whoever else has it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from hyperslab.errors import Conflict, NotFound
from hyperslab.stores.locks import hold_file


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    with hold_file(lambda: str(path), 1), pytest.raises(Conflict), hold_file(lambda: str(path), 0.05):
        pass
    with hold_file(lambda: str(path), 0):
        pass
    assert os.listdir(tmp_path) == ["a"], "nothing is left beside it"


def test_who_waits_gets_the_file_that_took_its_place(tmp_path: Path) -> None:
    path, new = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"old")
    got = []

    def wait() -> None:
        with hold_file(lambda: str(path), 10):
            got.append(path.read_bytes())

    with hold_file(lambda: str(path), 1):
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        new.write_bytes(b"new")
        os.replace(new, path)
    with hold_file(lambda: str(path), 10):
        path.write_bytes(b"newest")
    thread.join()
    assert got in ([b"new"], [b"newest"])


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    def path() -> str:
        raise NotFound("there is no such file")

    with pytest.raises(NotFound), hold_file(path, None):
        pass
