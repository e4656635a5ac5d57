"""What stands at the target's name before, during and after: the old thing or the new one, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.errors import AlreadyExists
from hyperslab.stores import building as building_module
from hyperslab.stores.building import building, local_path


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


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with building(str(tmp_path / "x/y/a")) as temporary:
        Path(temporary).write_text("new")
    assert (tmp_path / "x/y/a").read_text() == "new"


def test_local_paths(tmp_path: Path) -> None:
    assert local_path(tmp_path) == str(tmp_path)
    assert local_path("file:///a%20b/c.zarr") == "/a b/c.zarr"
    assert local_path("a.nc") == "a.nc"
    assert local_path("memory://x") is None
    assert local_path(object()) is None


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
    monkeypatch.setattr(building_module, "_exchange", lambda a, b: False)
    target = tmp_path / "a.zarr"
    _make(target, "folder", "old")
    with building(str(target), overwrite=True) as temporary:
        _make(Path(temporary), "folder", "new")
    assert _text(target, "folder") == "new"
    assert _names(tmp_path) == ["a.zarr"]
