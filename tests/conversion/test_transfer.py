"""``copy`` and ``sync``: the same bytes at another place; what is there is not sent, what is unknown is not removed."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import obstore.store
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.conversion import transfer
from hyperslab.errors import (
    AlreadyExists,
    Conflict,
    CorruptChunk,
    FormatError,
    Invalid,
    NotFound,
    StorageError,
    Unsupported,
)
from hyperslab.stores import MemoryStore, object
from hyperslab.stores.object import ObjectStore

if TYPE_CHECKING:
    from servers.s3 import S3

FORMATS = {
    "zarr3": ("a.zarr", {}),
    "zarr2": ("a.zarr", {"format": "zarr2"}),
    "sharded": ("a.zarr", {"shards": {"t": 8}}),
    "nczarr": ("a.zarr", {"format": "nczarr"}),
    "hdmf": ("a.zarr", {"format": "hdmf"}),
    "blaze": ("a.blz", {"format": "blaze"}),
    "bloscpack": ("a.blp", {}),
    "b2nd": ("a.b2nd", {}),
    "netcdf": ("a.nc", {}),
}


def make(place: Any, **options: Any) -> Any:
    values = np.arange(240.0).reshape(24, 10)
    hs.save(place, xr.DataArray(values, dims=("t", "x"), name="v"), chunks={"t": 4, "x": 5}, **options)
    return values


def cells(place: Any, **options: Any) -> Any:
    found = hs.open(place, **options)
    with found:
        return found[...] if isinstance(found, hs.Array) else found["v"][...]


def files(folder: Path) -> dict[str, bytes]:
    """Return what is in the files below a folder but for locks."""
    found = {str(each.relative_to(folder)): each for each in folder.rglob("*") if each.is_file()}
    return {name: each.read_bytes() for name, each in found.items() if not name.endswith(".lock")}


def test_folder_to_bucket_and_back(tmp_path: Path, s3: S3) -> None:
    values = make(tmp_path / "a.zarr")
    url, options = f"s3://{s3.bucket()}/a.zarr", s3.options
    sent = hs.copy(tmp_path / "a.zarr", url, storage_options=(None, options))
    assert sent.sent == sent.objects == sent.verified == len(files(tmp_path / "a.zarr"))
    assert np.array_equal(cells(url, storage_options=options), values)
    back = hs.copy(url, tmp_path / "b.zarr", storage_options=(options, None))
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")
    assert (back.sent, back.sent_nbytes, back.removed) == (sent.objects, sent.nbytes, 0)


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_every_format(tmp_path: Path, s3: S3, kind: str) -> None:
    name, options = FORMATS[kind]
    values = make(tmp_path / name, **options)
    url = f"s3://{s3.bucket()}/{name}"
    hs.copy(tmp_path / name, url, storage_options=(None, s3.options))
    hs.copy(url, tmp_path / f"back.{name}", storage_options=(s3.options, None))
    assert np.array_equal(cells(tmp_path / f"back.{name}"), values)
    again = hs.sync(tmp_path / name, url, storage_options=(None, s3.options))
    assert (again.sent, again.removed) == (0, 0)


def test_archives(tmp_path: Path) -> None:
    values = make(tmp_path / "a.zarr")
    hs.copy(tmp_path / "a.zarr", tmp_path / "a.zarr.zip")
    hs.copy(tmp_path / "a.zarr.zip", tmp_path / "b.zarr")
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")
    assert np.array_equal(cells(tmp_path / "a.zarr.zip"), values)


def test_what_is_there_is_not_sent(tmp_path: Path, s3: S3) -> None:
    make(tmp_path / "a.zarr")
    url, options = f"s3://{s3.bucket()}/a.zarr", (None, s3.options)
    hs.copy(tmp_path / "a.zarr", url, storage_options=options)
    with hs.open(tmp_path / "a.zarr", "r+") as root:
        root["v"][0:4, 0:5] = 7.0
    plan = hs.sync(tmp_path / "a.zarr", url, storage_options=options, dry_run=True)
    assert hs.diff(tmp_path / "a.zarr", url, storage_options=options)
    assert (plan.sent, plan.removed, plan.dry_run) == (1, 0, True)
    done = hs.sync(tmp_path / "a.zarr", url, storage_options=options)
    assert (done.sent, done.sent_nbytes, done.verified) == (1, plan.sent_nbytes, 1)
    assert np.array_equal(cells(url, storage_options=s3.options), cells(tmp_path / "a.zarr"))
    assert hs.sync(tmp_path / "a.zarr", url, storage_options=options).sent == 0


def test_what_the_source_has_no_more_is_removed(tmp_path: Path) -> None:
    make(tmp_path / "a.zarr")
    hs.copy(tmp_path / "a.zarr", tmp_path / "b.zarr")
    (chunk,) = [each for each in (tmp_path / "a.zarr").rglob("*") if str(each).endswith(os.path.join("c", "0", "0"))]
    chunk.unlink()
    assert hs.sync(tmp_path / "a.zarr", tmp_path / "b.zarr").removed == 1
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_a_target_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    make(tmp_path / "a.zarr")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(FormatError):
        hs.sync(tmp_path / "a.zarr", tmp_path / "home")
    with pytest.raises(AlreadyExists):
        hs.copy(tmp_path / "a.zarr", tmp_path / "home")
    with pytest.raises(FormatError):
        hs.copy(tmp_path / "a.zarr", tmp_path / "home", overwrite=True)
    assert files(tmp_path / "home") == {"letter.txt": b"dear"}
    make(tmp_path / "c.zarr", format="zarr2")
    with pytest.raises(Invalid, match="zarr2"):
        hs.sync(tmp_path / "a.zarr", tmp_path / "c.zarr")
    hs.copy(tmp_path / "a.zarr", tmp_path / "c.zarr", overwrite=True)
    assert files(tmp_path / "a.zarr") == files(tmp_path / "c.zarr")


def test_a_transfer_that_broke_off_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a.zarr")
    monkeypatch.setattr(transfer, "_BATCH", 3)

    def stop(now: Any) -> None:
        if now.done_chunks >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hs.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", progress=stop)
    left = files(tmp_path / "b.zarr")
    assert left and not any(name.endswith(".json") for name in left)
    with pytest.raises(FormatError):
        hs.open(tmp_path / "b.zarr")
    done = hs.sync(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert done.sent == done.objects - len(left)
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


@pytest.mark.parametrize("in_parts", [False, True])
def test_large_objects_are_moved_by_pieces(
    tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch, in_parts: bool
) -> None:
    monkeypatch.setattr(transfer, "_LARGE", 100)
    monkeypatch.setattr(transfer, "_PIECE", 33)
    if in_parts:  # whose ETag is no MD5: the bytes are sent again
        monkeypatch.setattr(object, "_ONE_REQUEST", 100)
    make(tmp_path / "a.zarr")
    url = f"s3://{s3.bucket()}/a.zarr"
    sent = hs.copy(tmp_path / "a.zarr", url, storage_options=(None, s3.options))
    hs.copy(url, tmp_path / "b.zarr", storage_options=(s3.options, None))
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")
    large = sum(len(value) > 100 for value in files(tmp_path / "a.zarr").values())
    assert large and sent.verified == sent.sent - (large if in_parts else 0)
    assert hs.sync(tmp_path / "a.zarr", url, storage_options=(None, s3.options)).sent == (large if in_parts else 0)


def test_a_source_that_changes_meanwhile(tmp_path: Path) -> None:
    make(tmp_path / "a.zarr")
    turns = iter(range(100))

    def change(now: Any) -> None:
        if now.done_chunks == 0 and now.total_chunks:
            (tmp_path / "a.zarr" / "extra").write_bytes(b"x" * next(turns))

    with pytest.raises(Conflict, match="changes"):
        hs.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", progress=change)
    only_once = threading.Event()

    def change_once(now: Any) -> None:
        if not only_once.is_set():
            only_once.set()
            (tmp_path / "a.zarr" / "extra").unlink()

    done = hs.sync(tmp_path / "a.zarr", tmp_path / "b.zarr", progress=change_once)
    assert done.removed == 1
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


class _Forgetful(MemoryStore):
    """A store that changes what it is given."""

    def get(self, key: str) -> bytes | None:
        found = super().get(key)
        return found if found is None or ("/c/" not in key and not key.startswith("c/")) else found[:-1] + b"?"


def test_a_target_that_changes_what_it_stores(tmp_path: Path) -> None:
    make(tmp_path / "a.zarr")
    with pytest.raises(CorruptChunk, match="does not give back"):
        hs.copy(tmp_path / "a.zarr", _Forgetful())


def test_a_folder_of_datasets_is_left_alone(tmp_path: Path, s3: S3) -> None:
    """It is no dataset by itself, though one could be opened there."""
    make(tmp_path / "a.zarr")
    make(tmp_path / "archive" / "b.zarr")
    (tmp_path / "archive" / "README.txt").write_text("mine")
    before = files(tmp_path / "archive")
    for deed in (
        lambda: hs.sync(tmp_path / "a.zarr", tmp_path / "archive"),
        lambda: hs.copy(tmp_path / "a.zarr", tmp_path / "archive", overwrite=True),
        lambda: hs.convert(tmp_path / "a.zarr", tmp_path / "archive", "zarr3", overwrite=True),
        lambda: hs.create(tmp_path / "archive", overwrite=True),
    ):
        with pytest.raises(FormatError, match="a folder that holds some"):
            deed()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text.txt").write_text("mine")
    with pytest.raises(FormatError):
        hs.convert(tmp_path / "a.zarr", tmp_path / "thesis", "zarr3", overwrite=True)
    assert (files(tmp_path / "archive"), files(tmp_path / "thesis")) == (before, {"text.txt": b"mine"})
    bucket = f"s3://{s3.bucket()}"
    hs.copy(tmp_path / "a.zarr", f"{bucket}/one.zarr", storage_options=(None, s3.options))
    with pytest.raises(FormatError):
        hs.sync(tmp_path / "a.zarr", bucket, storage_options=(None, s3.options))
    assert np.array_equal(cells(f"{bucket}/one.zarr", storage_options=s3.options), cells(tmp_path / "a.zarr"))


def test_a_file_and_a_folder_do_not_hide_each_other(tmp_path: Path, s3: S3) -> None:
    make(tmp_path / "a.zarr")
    make(tmp_path / "a.nc")
    url = f"s3://{s3.bucket()}"
    hs.copy(tmp_path / "a.zarr", f"{url}/z", storage_options=(None, s3.options))
    hs.copy(tmp_path / "a.nc", f"{url}/n", storage_options=(None, s3.options))
    with pytest.raises(Invalid, match="an object"):
        hs.sync(tmp_path / "a.zarr", f"{url}/n", storage_options=(None, s3.options))
    with pytest.raises(Invalid, match="one file"):
        hs.sync(tmp_path / "a.nc", f"{url}/z", storage_options=(None, s3.options))


def test_references_are_copied_as_they_are(tmp_path: Path) -> None:
    make(tmp_path / "a.nc")
    hs.virtual(tmp_path / "a.nc", tmp_path / "v.json", relative=False)
    hs.copy(tmp_path / "v.json", tmp_path / "w.json")
    assert (tmp_path / "v.json").read_bytes() == (tmp_path / "w.json").read_bytes()
    assert np.array_equal(cells(tmp_path / "w.json"), cells(tmp_path / "a.nc"))


class _Encrypting(ObjectStore):
    """A bucket whose ETags look like an MD5 and are none, as those of encrypted objects do."""

    def _stamp(self, meta: Any) -> Any:
        return f'"{hashlib.md5(super()._stamp(meta).encode()).hexdigest()}"'


def test_etags_that_are_no_checksums(tmp_path: Path) -> None:
    make(tmp_path / "a.zarr")
    store = _Encrypting(obstore.store.MemoryStore(), "memory://bucket")
    done = hs.copy(tmp_path / "a.zarr", store)
    assert done.verified == done.sent == done.objects


def test_a_disk_without_room_for_a_large_object(tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a.zarr")
    url = f"s3://{s3.bucket()}/a.zarr"
    hs.copy(tmp_path / "a.zarr", url, storage_options=(None, s3.options))
    monkeypatch.setattr(transfer, "_LARGE", 100)
    monkeypatch.setattr("tempfile.tempdir", "/dev/full/x")
    with pytest.raises(StorageError):
        hs.copy(url, tmp_path / "b.zarr", storage_options=(s3.options, None))
    with pytest.raises(FormatError):
        hs.open(tmp_path / "b.zarr")


def test_places_that_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "a.zarr")
    with pytest.raises(NotFound):
        hs.copy(tmp_path / "none.zarr", tmp_path / "b.zarr")
    with pytest.raises(Invalid, match="in the other"):
        hs.copy(tmp_path / "a.zarr", tmp_path / "a.zarr" / "b.zarr")
    with pytest.raises(Invalid, match="in the other"):
        hs.copy(tmp_path / "a.zarr", tmp_path / "a.zarr" / "b.zip")
    with pytest.raises(Invalid, match="in the other"):
        hs.sync(tmp_path / "a.zarr", tmp_path / "a.zarr")
    with pytest.raises(Unsupported, match="convert"):
        hs.copy(tmp_path / "a.zarr", "mongodb://127.0.0.1:1/db#x")
    with pytest.raises(Unsupported, match="convert"):
        hs.copy(tmp_path / "a.zarr", f"icechunk+file://{tmp_path}/repo")
    os.symlink(tmp_path / "a.zarr", tmp_path / "a.zarr" / "link")
    with pytest.raises(Unsupported, match="links"):
        hs.copy(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr").exists()
