"""What lies in a folder and is no value: told by kind, taken out without following it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hyperslab.errors import Invalid, ReadOnly
from hyperslab.stores import DirectoryStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one of each."""
    root = tmp_path / "root"
    (root / "a" / "inner").mkdir(parents=True)
    (root / "a" / "value").write_bytes(b"x")
    (root / "a" / ".lock").write_bytes(b"")
    (root / "a" / ".half.0123456789abcdef.tmp").write_bytes(b"x")
    (root / "a" / ".gone.0123456789abcdef.tmp").mkdir()
    (root / "a" / "within").symlink_to("value")
    (root / "a" / "dangling").symlink_to("nowhere")
    (root / "a" / "itself").symlink_to("itself")
    (root / "a" / "above").symlink_to("..", target_is_directory=True)
    (root / "a" / "beside").symlink_to("inner", target_is_directory=True)
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "a" / "out").symlink_to(tmp_path / "secret")
    (root / "a" / "back\\slash").write_bytes(b"x")
    os.mkfifo(root / "a" / "pipe")
    os.mkfifo(root / "pipe")
    (root / "a" / "to pipe").symlink_to("../pipe")
    return root


KINDS = {
    ".half.0123456789abcdef.tmp": "temporary",
    ".gone.0123456789abcdef.tmp": "temporary",
    "dangling": "dangling-link",
    "itself": "circular-link",
    "above": "circular-link",
    "out": "outside-link",
    "back\\slash": "unusable-name",
    "pipe": "special-file",
    "to pipe": "special-file",
}


def test_each_is_told(root: Path) -> None:
    store = DirectoryStore(root, read_only=True)
    assert store.traits.expels
    assert {stray.name: stray.kind for stray in store.strays("a")} == KINDS
    assert {stray.name: stray.target for stray in store.strays("a")}["dangling"] == "nowhere"
    assert store.strays("nothing") == []
    (found,) = (stray for stray in store.strays("a") if stray.name == "pipe")
    os.utime(root / "a" / "pipe", (0, 0))
    (aged,) = (stray for stray in store.strays("a") if stray.name == "pipe")
    assert found.age < 3600 < aged.age


def test_a_socket_is_special(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "a" / "inner")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert [stray.kind for stray in DirectoryStore(root).strays("a/inner")] == ["special-file"]


def test_taken_out_and_never_followed(root: Path, tmp_path: Path) -> None:
    store = DirectoryStore(root)
    for name in (*KINDS, "within", "beside"):
        store.expel(f"a/{name}", str(tmp_path / "out" / name))
        assert os.path.lexists(tmp_path / "out" / name)
    assert store.strays("a") == []
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert (root / "a" / "inner").is_dir()
    store.expel("a/inner", None)
    store.expel("a/inner", None)
    assert not (root / "a" / "inner").exists()


def test_what_is_left_empty_goes_too(root: Path) -> None:
    store = DirectoryStore(root)
    store.put("b/c/x", b"1")
    store.expel("b/c/x", None)
    assert not (root / "b").exists()


@pytest.mark.parametrize("place", ["", "..", "a/..", "../x", "a/.", "a/\0", "/etc/x", "a/"])
def test_no_way_out(root: Path, place: str) -> None:
    with pytest.raises(Invalid):
        DirectoryStore(root).expel(place, None)
    assert (root / "a" / "value").exists()


def test_a_reader_takes_nothing(root: Path) -> None:
    with pytest.raises(ReadOnly):
        DirectoryStore(root, read_only=True).expel("a/value", None)
    assert (root / "a" / "value").exists()
