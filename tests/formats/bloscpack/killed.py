"""Run as a program: changes to a bloscpack file of 64 chunks in children that are killed, or whose calls fail.

``killed.py calls FOLDER STEP``: before every STEP-th system call of each kind of change; ``killed.py random FOLDER
COUNT``: at random times; ``killed.py fail FOLDER STEP``: every STEP-th call fails once. Whatever is left is the old
state or the new one, whole and with its checksums right, and the next writer goes on from there. Prints what was done
as JSON.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hyperslab as hs
from hyperslab.errors import HyperslabError

CALLS = ("open", "pwrite", "ftruncate", "utime", "fsync", "replace", "unlink", "copy_file_range")
ROWS = np.round(np.cumsum(np.random.default_rng(5).normal(size=128 * 32)), 2).reshape(128, 32)
OTHER = np.random.default_rng(7).normal(size=(128, 32))
Change = Callable[[Any], None]


def batch(root: Any) -> None:
    with root.batch():
        root["x"].append(ROWS[:3])
        root["x"][10:13] = ROWS[20:23]
        root["x"].attrs["note"] = "batched"


def replace(root: Any) -> None:
    with hs.create(root.url, overwrite=True, workers=1) as new:
        new.create_array("x", data=OTHER[:30], chunks=(2, 32), attrs={"note": "another"})


CHANGES: dict[str, tuple[dict[str, Any], Change]] = {
    "modify with slack": ({"slack": "full"}, lambda root: root["x"].__setitem__((slice(30, 35), 3), 1e-300)),
    "modify all with slack": ({"slack": "full"}, lambda root: root["x"].__setitem__((), OTHER[:127])),
    "modify": ({}, lambda root: root["x"].__setitem__(slice(9, 11), OTHER[:2])),
    "append": ({}, lambda root: root["x"].append(ROWS[:5])),
    "append anew": ({"checksum": "none"}, lambda root: root["x"].append(ROWS[:5])),
    "append without offsets": ({"offsets": False}, lambda root: root["x"].append(ROWS[:5])),
    "truncate": ({}, lambda root: root["x"].resize((77, 32))),
    "truncate and grow": ({"layout": "blaze"}, lambda root: root["x"].resize((150, 20))),
    "attribute": ({}, lambda root: root["x"].attrs.__setitem__("note", "new")),
    "batch": ({"slack": "full"}, batch),
    "replace": ({}, replace),
}


def make(path: str, options: dict[str, Any]) -> None:
    with hs.create(path, overwrite=os.path.exists(path), durable=False, **options) as root:
        root.create_array("x", data=ROWS[:127], chunks=(2, 32), dims=("t", "y"), attrs={"note": "old"})


def state_of(path: str) -> tuple[bytes, Any, Any]:
    """Cells, shape and attributes; all that is stored is sound, whatever a writer that died left beside it."""
    problems = [each for each in hs.check(path, deep=True, format="bloscpack") if each.kind != "temporary"]
    if problems:
        raise AssertionError(problems)
    array: Any = hs.open(path, cache_bytes=0)
    return array[...].tobytes(), array.shape, dict(array.attrs)


def change(path: str, act: Change, *, durable: bool = False) -> None:
    act(hs.open_group(path, "r+", durable=durable, workers=1, lock_timeout=2.0))


def child(act: Callable[[], None]) -> bool:
    """Run ``act`` in a child; whether it was killed."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status) and status:
        sys.exit(f"the change failed by itself: {status}")
    return os.WIFSIGNALED(status)


def intercept(number: int, at: Callable[[str, Any, Any], None]) -> list[str]:
    """Have ``at`` called before the ``number``-th call that changes something; gives the calls that were made."""
    made: list[str] = []
    real = {name: getattr(os, name) for name in CALLS}

    def wrapped(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name != "open" or arguments[1] & (os.O_CREAT | os.O_RDWR):
                made.append(name)
                if len(made) == number:
                    at(name, real, arguments)
            return real[name](*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(name))
    return made


def kill(name: str, real: Any, arguments: Any) -> None:
    if name == "pwrite":
        real[name](arguments[0], memoryview(arguments[1])[: len(arguments[1]) // 2], arguments[2])
    os.kill(os.getpid(), signal.SIGKILL)


def fail(name: str, real: Any, arguments: Any) -> None:
    if name == "pwrite":
        real[name](arguments[0], memoryview(arguments[1])[: len(arguments[1]) // 2], arguments[2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def states(folder: str, title: str) -> tuple[str, str, Any, Any]:
    """The place of a sound file, the one that is changed, and its states before and after."""
    options, act = CHANGES[title]
    sound, path = os.path.join(folder, "sound.blp"), os.path.join(folder, "x.blp")
    make(sound, options)
    shutil.copy(sound, path)
    old = state_of(path)
    change(path, act)
    new = state_of(path)
    assert old != new, title
    return sound, path, old, new


def fresh(folder: str, sound: str, path: str) -> None:
    for name in os.listdir(folder):
        if os.path.join(folder, name) != sound:
            os.unlink(os.path.join(folder, name))
    shutil.copy(sound, path)


def each_call(folder: str, step: int) -> dict[str, int]:
    report = {}
    for title, (_, act) in CHANGES.items():
        sound, path, old, new = states(folder, title)
        number, seen = 1 - step, []
        while True:
            number += step
            fresh(folder, sound, path)

            def attempt(number: int = number, path: str = path, act: Change = act) -> None:
                root: Any = hs.open_group(path, "r+", durable=True, workers=1)
                intercept(number, kill)
                act(root)

            if not child(attempt):
                break
            now = state_of(path)
            assert now in (old, new), f"{title}, killed before call {number}"
            seen.append(now == new)
            change(path, lambda root: root["x"].attrs.__setitem__("later", 1))
            left = state_of(path)
            assert (left[:2], left[2].pop("later")) == (now[:2], 1), f"{title}, killed before call {number}"
            if now == old:
                start = time.monotonic()
                change(path, act)
                assert time.monotonic() - start < 2, "a dead writer held up the next one"
        assert seen == sorted(seen), f"{title}: old again after new: {seen}"
        report[title] = number - 1
    return report


def each_failure(folder: str, step: int) -> dict[str, int]:
    report = {}
    for title, (_, act) in CHANGES.items():
        sound, path, old, new = states(folder, title)
        number, done = 1 - step, False
        while not done:
            number += step
            fresh(folder, sound, path)
            root: Any = hs.open_group(path, "r+", durable=True, workers=1)
            real = {name: getattr(os, name) for name in CALLS}
            made = intercept(number, fail)
            try:
                act(root)
                done = len(made) < number
            except HyperslabError as error:
                assert type(error).__name__ == "StorageError", error
                assert error.url, error
            finally:
                for name, call in real.items():
                    setattr(os, name, call)
            if done:
                break
            failed = made[number - 1]
            shown = "replace" in made[: number - 1]  # only that it lasts could not be made sure
            expected = new if shown or failed == "copy_file_range" else old  # there are other ways to copy
            assert state_of(path) == expected, f"{title}, call {number} failed: {failed}"
            assert root["x"].shape == expected[1]
            left = sorted({*os.listdir(folder)} - {"sound.blp", "x.blp"})
            assert left == [], f"{title}, call {number} ({failed}) left {left}"
            act(hs.open_group(path, "r+", durable=False))
        report[title] = number - 1
    return report


def at_random(folder: str, count: int) -> dict[str, Any]:
    random.seed(11)
    report: dict[str, Any] = {"old": 0, "new": 0, "journals": 0}
    plans = []
    for title in ("modify with slack", "modify", "append", "truncate"):
        act = CHANGES[title][1]
        home = os.path.join(folder, title.replace(" ", "-"))
        os.makedirs(home)
        sound, path, old, new = states(home, title)
        begun = time.perf_counter()
        for _ in range(5):
            fresh(home, sound, path)
            child(lambda path=path, act=act: change(path, act, durable=True))
        plans.append((home, sound, path, old, new, act, (time.perf_counter() - begun) / 5))
    for number in range(count):
        home, sound, path, old, new, act, whole = plans[number % len(plans)]
        fresh(home, sound, path)
        pid = os.fork()
        if not pid:
            change(path, act, durable=True)
            os._exit(0)
        time.sleep(random.random() * whole * 1.1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        report["journals"] += any(name.endswith(".journal") for name in os.listdir(home))
        now = state_of(path)
        assert now in (old, new), f"{home}, kill {number}"
        report["new" if now == new else "old"] += 1
        change(path, lambda root: root["x"].attrs.__setitem__("later", 1))
        assert state_of(path)[:2] == now[:2]
        assert not any(name.endswith(".journal") for name in os.listdir(home))
    return report


if __name__ == "__main__":
    kind, place, number = sys.argv[1:]
    print(json.dumps({"calls": each_call, "fail": each_failure, "random": at_random}[kind](place, int(number))))
