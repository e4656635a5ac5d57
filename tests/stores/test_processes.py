"""Other processes: killed while they write, racing for one value, holding locks, forking."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir

import pytest

from hyperslab.errors import Conflict
from hyperslab.stores import DirectoryStore
from hyperslab.stores.keys import is_temporary

Actor = Callable[..., "subprocess.Popen[str]"]
KILLS = 20


def line(process: subprocess.Popen[str]) -> str:
    """The next line that the process says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def answer(process: subprocess.Popen[str]) -> None:
    """Let the process go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def stop_within_a_write(process: subprocess.Popen[str], folder: Path) -> list[str]:
    """Halt the process while it has an unfinished value; the names of what is unfinished."""
    while True:
        if any(map(is_temporary, os.listdir(folder))):
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            left = [name for name in os.listdir(folder) if is_temporary(name)]
            if left:
                return left
            process.send_signal(signal.SIGCONT)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("durable", [False, True])
def test_killed_while_writing(tmp_path: Path, actor: Actor, durable: bool) -> None:
    """The value is whole and no older than the last that was acknowledged; no lock stays; what is left is no key.

    One that was not flushed changes names with the old one: it may be seen while the old one is still to be removed.
    """
    store = DirectoryStore(tmp_path)
    for _ in range(KILLS // 2):
        process = actor("overwrite", tmp_path, durable)
        said = [int(line(process))]
        left = stop_within_a_write(process, tmp_path / "a")
        with pytest.raises(Conflict), store.lock_chunks("a", [0], 0):
            pass
        process.kill()
        assert process.stdout is not None
        said += [int(text) for text in process.stdout.read().split("\n") if text]
        process.wait()
        found = store.get("a/0")
        assert found is not None and found[0] in (said[-1], said[-1] if durable else said[-1] + 1)
        assert found == found[:1] * (2 << 20)
        with store.lock_chunks("a", [0], 0), store.lock_node("a", 0):
            pass
        assert set(os.listdir(tmp_path / "a")) == {"0", ".lock", *left}
        assert list(store.list()) == ["a/0"]
        for name in left:
            os.unlink(tmp_path / "a" / name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("job", ["increment", "increment_locked"])
def test_no_increment_is_lost(tmp_path: Path, actor: Actor, job: str) -> None:
    """Four processes add to one number."""
    processes = [actor(job, tmp_path, 40) for _ in range(4)]
    assert [line(process) for process in processes] == ["done"] * 4
    assert DirectoryStore(tmp_path).get("a/n") == b"160"


def test_lock_dies_with_its_holder(tmp_path: Path, actor: Actor) -> None:
    """Held, it makes others wait and give up; killed, its holder blocks nobody."""
    store = DirectoryStore(tmp_path)
    process = actor("hold", tmp_path)
    assert line(process) == "held"
    with pytest.raises(Conflict, match="lock_timeout"), store.lock_chunks("a", [1], 0.05):
        pass
    with pytest.raises(Conflict), store.lock_node("a", 0.05):
        pass
    with store.lock_chunks("a", [2], 0):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    with store.lock_chunks("a", [1], 0), store.lock_node("a", 0):
        pass


def test_waiting_ends_when_the_holder_lets_go(tmp_path: Path, actor: Actor) -> None:
    """A waiter gets the lock of a holder that dies meanwhile."""
    process = actor("hold", tmp_path)
    assert line(process) == "held"
    process.kill()
    store = DirectoryStore(tmp_path)
    with store.lock_chunks("a", [1], 30), store.lock_node("a", None):
        pass


def test_forked_child_holds_nothing(tmp_path: Path, actor: Actor) -> None:
    """A child that was forked while locks were held does not keep them after its parent let go."""
    process = actor("fork_within", tmp_path)
    assert line(process) == "held"
    store = DirectoryStore(tmp_path)
    with pytest.raises(Conflict), store.lock_chunks("a", [1], 0.02):
        pass
    answer(process)
    child = int(line(process))
    try:
        with store.lock_chunks("a", [1], 0), store.lock_node("a", 0):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
    answer(process)


def test_forked_child_releases_nothing(tmp_path: Path, actor: Actor) -> None:
    """A child that leaves the block in which it was forked leaves its parent's locks alone."""
    process = actor("child_ends_first", tmp_path)
    assert line(process) == "held"
    store = DirectoryStore(tmp_path)
    for lock in (store.lock_chunks("a", [1], 0.02), store.lock_node("a", 0.02)):
        with pytest.raises(Conflict), lock:
            pass
    answer(process)


@pytest.mark.parametrize("durable", [False, True])
def test_value_beyond_the_limit_of_file_sizes(tmp_path: Path, actor: Actor, durable: bool) -> None:
    """Part of the value is written, then the system refuses: the old state, no leftovers, an error with the key."""
    DirectoryStore(tmp_path).put("a/0", b"old")
    process = actor("too_large", tmp_path, durable)
    one, many = line(process), line(process)
    assert one.startswith("StorageError: cannot write: File too large")
    assert "key=a/0" in one
    assert "key=a/2" in many
    assert os.listdir(tmp_path / "a") == ["0"]
    assert DirectoryStore(tmp_path).get("a/0") == b"old"


@pytest.mark.parametrize("operation", ["put", "put_many", "put_if", "delete_prefix", "rename", "list", "get"])
def test_every_failing_open(tmp_path: Path, actor: Actor, operation: str) -> None:
    """The n-th descriptor cannot be had, n = 1, 2, ...: an error each time, the old state, no leftovers.

    Only a folder that is being removed may be out of sight, under a temporary name, and not be gone yet.
    """
    store = DirectoryStore(tmp_path)
    store.put("a/0", b"old")
    process = actor("few_descriptors", tmp_path, operation)
    outcomes = [line(process)]
    while outcomes[-1] != "ok":
        assert outcomes[-1] == "StorageError"
        left = [name for _, folders, files in os.walk(tmp_path) for name in [*folders, *files] if is_temporary(name)]
        assert left == [] or operation == "delete_prefix"
        assert {key: store.get(key) for key in store.list()} == {"a/0": b"old"} or left
        answer(process)
        outcomes.append(line(process))
    assert len(outcomes) > 1


def test_medium_that_takes_no_writes(tmp_path: Path, actor: Actor) -> None:
    """Reading works, what may not be read is an error, and every write is ``ReadOnly``."""
    store = DirectoryStore(tmp_path / "x")
    store.put("a/0", b"old")
    store.put("a/secret", b"s")
    os.chmod(tmp_path / "x/a/secret", 0)
    for folder in (tmp_path / "x/a", tmp_path / "x"):
        os.chmod(folder, 0o555)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to(gettempdir()) and folder != Path(gettempdir()):
            os.chmod(folder, 0o755)
    process = actor("as_nobody", tmp_path / "x")
    said = process.communicate()[0].splitlines()
    for folder in (tmp_path / "x/a", tmp_path / "x"):
        os.chmod(folder, 0o755)
    assert said[0] == "b'old'"
    assert said[1].startswith("StorageError: cannot read: Permission denied")
    assert len(said) == 8
    assert all(text.startswith("ReadOnly: cannot write: Permission denied") for text in said[2:]), said


def test_full_disk(tmp_path: Path) -> None:
    """ENOSPC leaves the old state and no temporaries; on a file system of 2 MiB, where one can be mounted."""
    actors = Path(__file__).with_name("actors.py")
    script = 'mount -t tmpfs -o size=2m none "$1" || exit 77; "$2" "$3" fill_disk "$1"'
    command = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "-",
        str(tmp_path),
        sys.executable,
        str(actors),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if done.returncode and not done.stdout:
        pytest.skip("no file system can be mounted here")
    one, many, sound = done.stdout.splitlines()
    assert one.startswith("StorageError: cannot write: No space left on device")
    assert "free space" in one
    assert many.startswith("StorageError: cannot write: No space left on device")
    assert sound == "True"
