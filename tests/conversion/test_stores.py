"""Source and target on different kinds of store: the same cells; whole, old or nothing at the target's place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.chunks.progress import Progress
from hyperslab.conversion.pipeline import convert
from hyperslab.errors import AlreadyExists, FormatError, HyperslabError, Unsupported
from hyperslab.stores.memory import MemoryStore
from hyperslab.stores.zip import ZipStore
from servers.s3 import S3

KINDS = ["folder", "archive", "zip-url", "memory", "store", "zip-store"]


def _target(kind: str, folder: Path, name: str) -> Any:
    match kind:
        case "folder":
            return folder / f"{name}.zarr"
        case "archive":
            return folder / f"{name}.zarr.zip"
        case "zip-url":
            return f"zip://{folder}/{name}.packed"
        case "memory":
            MemoryStore.forget(name)
            return f"memory://{name}"
        case "store":
            return MemoryStore()
        case _:
            return ZipStore(folder / f"{name}.store.zip")


def _again(target: Any) -> Any:
    """A store of an archive is closed once it is written."""
    return target.url if isinstance(target, ZipStore) else target


def _sample(target: Any, format: str = "zarr3") -> None:
    with hs.create(target, format) as root:
        root.attrs["title"] = "sample"
        root.create_array("g/t", data=np.arange(35.0).reshape(5, 7), dims=("x", "y"), chunks=(2, 3))
        root.create_array("b", data=np.arange(5, dtype="i2"), dims=("x",))


def _assert_sample(target: Any) -> None:
    with hs.open(target) as root:
        assert dict(root.attrs) == {"title": "sample"}
        assert root["g/t"][...].tolist() == np.arange(35.0).reshape(5, 7).tolist()
        assert root["b"][...].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.covering
@pytest.mark.parametrize("there", KINDS)
@pytest.mark.parametrize("here", KINDS)
def test_from_any_to_any(here: str, there: str, tmp_path: Path) -> None:
    source, target = _target(here, tmp_path, "source"), _target(there, tmp_path, "target")
    _sample(source)
    report = convert(_again(source), target, "zarr3", chunks={"x": 3, "y": 3}, verify=True)
    assert report.verified is not None and report.verified.cells == 40
    assert report.chunks == 2 * 3 + 2
    _assert_sample(_again(target))
    assert not any(path.name.startswith(".") for path in tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_target(kind: str, tmp_path: Path) -> None:
    source, target = MemoryStore(), _target(kind, tmp_path, "target")
    _sample(source)
    with hs.create(target, "zarr3") as root:
        root.create_array("old", data=np.arange(3))
    if kind == "zip-store":
        target = ZipStore(tmp_path / "target.store.zip")
    with pytest.raises(AlreadyExists):
        convert(source, target, "zarr3")
    with pytest.raises(Unsupported, match="no shards"):
        convert(source, target, "zarr2", shards="auto", overwrite=True)
    if kind != "zip-store":
        with hs.open(target) as root:
            assert list(root) == ["old"]
    convert(source, target, "zarr3", overwrite=True, verify=True)
    _assert_sample(_again(target))


@pytest.mark.parametrize("kind", ["memory", "store"])
def test_losses_are_refused_before_an_old_target_is_touched(kind: str, tmp_path: Path) -> None:
    source, target = MemoryStore(), _target(kind, tmp_path, "target")
    with hs.create(source) as root:
        root.create_array("words", data=np.array(["a"], np.dtypes.StringDType()))
    with hs.create(target, "zarr3") as root:
        root.create_array("old", data=np.arange(3))
    with pytest.raises(HyperslabError):
        convert(source, target, "netcdf", overwrite=True)
    with hs.open(target) as root:
        assert list(root) == ["old"]


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_an_array_at_the_root(format: str, tmp_path: Path) -> None:
    """Its chunks lie beside its documents."""
    _sample(tmp_path / "source.zarr")
    target = MemoryStore()
    seen: list[list[str]] = []
    options: dict[str, Any] = {"chunks": {"x": 2, "y": 3}, "overwrite": True, "verify": True}
    for progress in (None, lambda now: seen.append(list(target.list()))):
        convert(tmp_path / "source.zarr/g/t", target, format, progress=progress, **options)
        assert hs.open_array(target)[...].tolist() == np.arange(35.0).reshape(5, 7).tolist()
    assert any("0.0" in keys or "c/0/0" in keys for keys in seen)
    assert not any(key in (".zarray", ".zattrs", "zarr.json") for keys in seen for key in keys)


def test_the_root_comes_last() -> None:
    source, target = MemoryStore(), MemoryStore()
    _sample(source)
    seen: list[set[str]] = []

    def look(now: Progress) -> None:
        seen.append(set(target.list()))
        with pytest.raises(FormatError):
            hs.open(target, format="zarr3")

    convert(source, target, "zarr3", progress=look)
    assert not any(key.endswith("zarr.json") for keys in seen for key in keys)
    assert any("g/t/c/0/0" in keys for keys in seen)
    _assert_sample(target)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_s3(format: str, s3: S3, tmp_path: Path) -> None:
    options = {"storage_options": s3.options}
    url = f"s3://{s3.bucket()}/deep/air.zarr"
    _sample(tmp_path / "source.zarr")
    calls: list[Progress] = []

    def fail(now: Progress) -> None:
        calls.append(now)
        if now.done_chunks > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(
            tmp_path / "source.zarr", url, format, resume=True, progress=fail, chunks={"x": 1}, memory=800, **options
        )
    with pytest.raises(FormatError):
        hs.open(url, format=format, **options)
    more = {"chunks": {"x": 1}, "memory": 800, **options}
    report = convert(tmp_path / "source.zarr", url, format, resume=True, verify=True, **more)
    assert report.resumed_nbytes == calls[-1].done_bytes
    with pytest.raises(AlreadyExists):
        convert(tmp_path / "source.zarr", url, format, **more)
    convert(url, tmp_path / "back.zarr", "zarr3", verify=True, **options)
    _assert_sample(tmp_path / "back.zarr")
    where = MemoryStore()
    convert(tmp_path / "source.zarr", where, format, chunks={"x": 1})
    store = hs.open(url, **options)._session.reader.store
    assert sorted(store.list()) == sorted(where.list())
