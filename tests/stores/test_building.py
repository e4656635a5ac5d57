"""What stands at the target's name before, during and after: the old thing or the new one, whole."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from hyperslab.errors import AlreadyExists, Invalid, StorageError
from hyperslab.stores import building as building_module
from hyperslab.stores.building import building


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("old", ["none", "file", "folder"])
@pytest.mark.parametrize("new", ["file", "folder"])
def test_the_new_one_takes_the_place(tmp_path: Path, old: str, new: str) -> None:
    target = tmp_path / "a.zarr"
    _make(target, old, "old")
    with building(str(target), overwrite=True) as temporary:
        _make(Path(temporary), new, "new")
        assert _text(target, old) == (None if old == "none" else "old")
        assert temporary.endswith("a.zarr")
    assert _text(target, new) == "new"
    assert _names(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("old", ["none", "file"])
def test_nothing_was_made(tmp_path: Path, old: str) -> None:
    target = tmp_path / "a.blp"
    _make(target, old, "old")
    with pytest.raises(Invalid, match="nothing was written"), building(str(target), overwrite=True):
        pass
    assert _names(tmp_path) == ([] if old == "none" else ["a.blp"])


@pytest.mark.parametrize("old", ["none", "file", "folder"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_failure_leaves_what_was(tmp_path: Path, old: str, error: type[BaseException]) -> None:
    target = tmp_path / "a.zarr"
    _make(target, old, "old")
    with pytest.raises(error), building(str(target), overwrite=True) as temporary:
        _make(Path(temporary), "folder", "half")
        raise error
    assert _text(target, old) == (None if old == "none" else "old")
    assert _names(tmp_path) == ([] if old == "none" else ["a.zarr"])


@pytest.mark.parametrize("scheme", ["", "zip://"])
def test_an_error_names_the_target(tmp_path: Path, scheme: str) -> None:
    target = str(tmp_path / "a.zip")
    with pytest.raises(StorageError) as caught, building(target) as temporary:
        raise StorageError("the medium fails", url=f"{scheme}{temporary}")
    assert caught.value.url == f"{scheme}{target}"


def test_a_taken_target_is_refused_before_and_after(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    with pytest.raises(AlreadyExists), building(str(target)):
        raise AssertionError("the block must not run")
    late = tmp_path / "b"
    with pytest.raises(AlreadyExists), building(str(late)) as temporary:
        Path(temporary).write_text("new")
        late.write_text("somebody was faster")
    assert late.read_text() == "somebody was faster"
    assert _names(tmp_path) == ["a", "b"]


@pytest.mark.linux
@pytest.mark.skipif(sys.platform == "win32", reason="folders are not flushed")
def test_the_new_name_is_on_the_medium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder above is flushed once the target stands there, before the old one is removed; new ones above, too."""
    flushed: list[tuple[int, list[str]]] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            flushed.append((os.fstat(descriptor).st_ino, sorted(os.listdir(descriptor))))

    monkeypatch.setattr(os, "fsync", noted)
    with building(str(tmp_path / "x/y/a.zarr")) as temporary:
        _make(Path(temporary), "folder", "new")
    assert (tmp_path.stat().st_ino, ["x"]) in flushed
    assert ((tmp_path / "x").stat().st_ino, ["y"]) in flushed
    assert flushed[-1] == ((tmp_path / "x/y").stat().st_ino, ["a.zarr"])
    for exchange in (building_module.exchange, lambda a, b: False):
        monkeypatch.setattr(building_module, "exchange", exchange)
        with building(str(tmp_path / "x/y/a.zarr"), overwrite=True) as temporary:
            _make(Path(temporary), "folder", "newer")
        inode, names = flushed[-1]
        assert inode == (tmp_path / "x/y").stat().st_ino
        assert len(names) == 2 and "a.zarr" in names


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
def test_beside_what_may_not_be_listed() -> None:
    """The superuser may list everything: a child process is nobody."""
    actors = Path(__file__).with_name("actors.py")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(actors), "build_unlisted", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["PermissionError", "ok"], done.stderr
        assert Path(folder, "a").read_text() == "new"


@pytest.mark.parametrize("letter", ["n", "ä", "日"])
def test_a_name_may_be_as_long_as_the_file_system_takes(tmp_path: Path, letter: str) -> None:
    name = letter * (251 // len(letter.encode())) + ".nc"
    with building(str(tmp_path / name)) as temporary:
        assert temporary.endswith(".nc")
        Path(temporary).write_bytes(b"new")
    assert (tmp_path / name).read_bytes() == b"new"


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with building(str(tmp_path / "x/y/a")) as temporary:
        Path(temporary).write_text("new")
    assert (tmp_path / "x/y/a").read_text() == "new"


def _make(path: Path, kind: str, text: str) -> None:
    if kind == "folder":
        path.mkdir()
        (path / "c").write_text(text)
    elif kind == "file":
        path.write_text(text)


def _text(path: Path, kind: str) -> str | None:
    if kind == "none":
        return None if not path.exists() else path.name
    return (path / "c").read_text() if kind == "folder" else path.read_text()


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    _make(tmp_path / "real", "folder", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with building(str(tmp_path / "link"), overwrite=True) as temporary:
        _make(Path(temporary), "folder", "new")
    assert (tmp_path / "link").is_symlink()
    assert _text(tmp_path / "real", "folder") == "new"
    assert _names(tmp_path) == ["link", "real"]


def test_without_an_exchange_two_renames_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building_module, "exchange", lambda a, b: False)
    target = tmp_path / "a.zarr"
    _make(target, "folder", "old")
    with building(str(target), overwrite=True) as temporary:
        _make(Path(temporary), "folder", "new")
    assert _text(target, "folder") == "new"
    assert _names(tmp_path) == ["a.zarr"]


def test_threads_that_still_write_while_a_build_is_removed(tmp_path: Path) -> None:
    """What failed is told, and not that its folder would not go."""
    started, stop = threading.Event(), threading.Event()

    def write(folder: str) -> None:
        number = 0
        while not stop.is_set():
            with suppress(FileNotFoundError, FileExistsError):  # removed at this moment
                os.makedirs(f"{folder}/{number % 3}", exist_ok=True)
                Path(f"{folder}/{number % 3}/{number}").touch()
            number += 1
            started.set()

    with pytest.raises(ZeroDivisionError), building(str(tmp_path / "a")) as temporary:
        os.mkdir(temporary)
        writer = threading.Thread(target=write, args=(temporary,))
        writer.start()
        started.wait()
        threading.Timer(0.1, stop.set).start()
        raise ZeroDivisionError
    writer.join()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_target_that_another_one_makes_at_the_last_moment_stays(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a"
    with pytest.raises(AlreadyExists), building(str(target)) as temporary:
        _make(Path(temporary), kind, "ours")
        _make(target, kind, "theirs")
        monkeypatch.setattr(
            building_module, "refuse_taken", lambda *_: None
        )  # the look before the rename finds nothing
    assert _text(target, kind) == "theirs"
    assert _names(tmp_path) == ["a"]
