"""What other processes do in these tests: ``python actors.py NAME ARGUMENTS...``; each says lines of what it did."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hyperslab.errors import Conflict, HyperslabError
from hyperslab.stores import DirectoryStore, ZipStore
from hyperslab.stores.building import building

MIB = 1 << 20
NOBODY = 65534


def say(text: object) -> None:
    """One line to the test."""
    print(text, flush=True)


def overwrite(root: str, durable: str) -> None:
    """Replace one value of 2 MiB again and again under a lock; say each generation that was acknowledged."""
    store = DirectoryStore(root)
    generation = int((store.get("a/0") or b"\0")[0])
    while True:
        generation = (generation + 1) % 256
        with store.lock_chunks("a", [0], 10), store.lock_node("a", 10):
            store.put("a/0", bytes([generation]) * (2 * MIB), durable=durable == "True")
        say(generation)


def increment(root: str, times: str) -> None:
    """Add 1 by compare-and-swap."""
    store = DirectoryStore(root)
    for _ in range(int(times)):
        while True:
            stamp = store.stamp("a/n")
            try:
                store.put_if("a/n", str(int(store.get("a/n") or b"0") + 1).encode(), stamp)
                break
            except Conflict:
                continue
    say("done")


def increment_locked(root: str, times: str) -> None:
    """Add 1 under the lock of a chunk."""
    store = DirectoryStore(root)
    for _ in range(int(times)):
        with store.lock_chunks("a", [7, 3], 60):
            store.put("a/n", str(int(store.get("a/n") or b"0") + 1).encode())
    say("done")


def hold(root: str) -> None:
    """Hold a chunk and a node until killed."""
    store = DirectoryStore(root)
    with store.lock_chunks("a", [1], 10), store.lock_node("a", 10):
        say("held")
        time.sleep(600)


def fork_within(root: str) -> None:
    """Fork while holding locks; the child ends its blocks at once but lives on, the parent lets go when told."""
    store = DirectoryStore(root)
    with store.lock_chunks("a", [1], 10), store.lock_node("a", 10):
        child = os.fork()
        if not child:
            pass
        else:
            say("held")
            sys.stdin.readline()
    if not child:
        time.sleep(600)
    say(child)
    sys.stdin.readline()


def child_ends_first(root: str) -> None:
    """Fork while holding locks and let the child leave both blocks and exit; the parent still holds them."""
    store = DirectoryStore(root)
    with store.lock_chunks("a", [1], 10), store.lock_node("a", 10):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            say("held")
            sys.stdin.readline()
    if not child:
        os._exit(0)


def too_large(root: str, durable: str) -> None:
    """Write more than the limit of file sizes allows, one value and many."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
    store = DirectoryStore(root)
    try_and_say(lambda: store.put("a/0", b"n" * (2 * MIB), durable=durable == "True"))
    pairs = [("a/0", b"n" * 10), ("a/1", b"n" * 10), ("a/2", b"n" * (2 * MIB))]
    try_and_say(lambda: store.put_many(pairs, durable=durable == "True"))


def too_large_zip(path: str) -> None:
    """Write an archive that grows beyond the limit of file sizes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
    store = ZipStore(path)
    try_and_say(lambda: store.put("b", b"n" * (2 * MIB)))


def write_zip(path: str) -> None:
    """Write into an archive and do not close it."""
    store = ZipStore(path)
    store.put("b", b"n" * MIB)
    say("written")
    time.sleep(600)


def few_descriptors(root: str, operation: str) -> None:
    """Do one operation with 0, 1, 2, ... free descriptors until it succeeds; say each outcome."""
    operations: dict[str, Callable[[DirectoryStore], object]] = {
        "put": lambda store: store.put("a/new/0", b"n" * 100, durable=True),
        "put_many": lambda store: store.put_many([(f"a/new/{i}", b"n" * 100) for i in range(4)], durable=True),
        "put_if": lambda store: store.put_if("a/0", b"n" * 100, store.stamp("a/0"), durable=True),
        "delete_prefix": lambda store: store.delete_prefix("a"),
        "rename": lambda store: store.rename("a", "z/y"),
        "list": lambda store: list(store.list()),
        "get": lambda store: store.get("a/0"),
    }
    os.listdir(root)
    for free in range(50):
        used = sorted(int(name) for name in os.listdir("/proc/self/fd"))
        store = DirectoryStore(root)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = next(number for number in range(len(used) + 1) if number not in used[:-1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + free, hard))
        try:
            operations[operation](store)
            outcome = "ok"
        except HyperslabError as error:
            outcome = type(error).__name__
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        say(outcome)
        if outcome == "ok":
            return
        sys.stdin.readline()


def as_nobody(root: str) -> None:
    """As a user who may not write there: read, then try every kind of write."""
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    store = DirectoryStore(root, read_only=True)
    say(store.get("a/0"))
    try_and_say(lambda: store.get("a/secret"))
    writable = DirectoryStore(root)
    try_and_say(lambda: writable.put("a/0", b"n"))
    try_and_say(lambda: writable.put("new/0", b"n"))
    try_and_say(lambda: writable.delete("a/0"))
    try_and_say(lambda: writable.delete_prefix("a"))
    try_and_say(lambda: writable.rename("a", "b"))
    try_and_say(lambda: writable.lock_chunks("a", [0], 1).__enter__())


def build_unlisted(folder: str) -> None:
    """As a user who may write there and not list it: try to list it, then build a file in it."""
    if os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    os.chmod(folder, 0o300)
    try:
        os.listdir(folder)
    except PermissionError as error:
        say(type(error).__name__)
    with building(f"{folder}/a") as temporary:
        Path(temporary).write_text("new")
    os.chmod(folder, 0o700)
    say("ok")


def fill_disk(root: str) -> None:
    """Fill a small file system that is mounted at ``root``, with values and with an archive."""
    store = DirectoryStore(root)
    store.put("a/0", b"o" * 1000, durable=True)
    try_and_say(lambda: store.put("a/0", b"n" * (4 * MIB), durable=True))
    try_and_say(lambda: store.put_many([(f"a/{i}", b"n" * (MIB // 2)) for i in range(8)], durable=True))
    say(sorted(store.list()) == ["a/0"] and store.get("a/0") == b"o" * 1000 and os.listdir(f"{root}/a") == ["0"])


def try_and_say(action: Callable[[], object]) -> None:
    """Say ``ok``, or the kind of the error and its text."""
    try:
        action()
        say("ok")
    except HyperslabError as error:
        say(f"{type(error).__name__}: {error}".replace("\n", " "))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
