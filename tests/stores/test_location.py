"""Places: how a target is read, what opens, what a probe reads, and that no secret is shown."""

from __future__ import annotations

import os
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import FormatError, Invalid, NotFound, ReadOnly, Unsupported
from hyperslab.stores import DirectoryStore, MemoryStore, ZipStore
from hyperslab.stores.credentials import plain_options, redact, redact_text
from hyperslab.stores.location import Location, Probe, local_path
from hyperslab.stores.moments import split_moment


class Counting(MemoryStore):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.reads.append(key)
        return super().get(key)


@pytest.mark.parametrize(
    ("target", "scheme", "name", "suffix"),
    [
        ("air.zarr", "file", "air.zarr", ".zarr"),
        ("air.zarr/", "file", "air.zarr", ".zarr"),
        ("x/air.nwb.zarr", "file", "air.nwb.zarr", ".zarr"),
        ("Air.NC", "file", "Air.NC", ".nc"),
        ("plain", "file", "plain", ""),
        (".hidden", "file", ".hidden", ""),
        ("air.zip", "zip", "air", ""),
        ("air.zarr.ZIP", "zip", "air.zarr", ".zarr"),
        ("zip://x/air", "zip", "air", ""),
        ("zip:///x/air.zarr.zip", "zip", "air.zarr", ".zarr"),
        ("file:///x/air%20b.zarr", "file", "air b.zarr", ".zarr"),
        ("file://localhost/x/y.blp", "file", "y.blp", ".blp"),
        ("FILE:///x", "file", "x", ""),
        ("memory://air.zarr", "memory", "air.zarr", ".zarr"),
        ("s3://bucket/air.zarr?versionId=5", "s3", "air.zarr", ".zarr"),
        ("mongodb://host/db", "mongodb", "db", ""),
        ("weird:name#?.zarr", "file", "weird:name#?.zarr", ".zarr"),
    ],
)
def test_targets(target: str, scheme: str, name: str, suffix: str) -> None:
    """What kind of place it is, and its name."""
    where = Location.of(target)
    assert (where.scheme, where.name, where.suffix) == (scheme, name, suffix)
    assert (where.path is not None) == (scheme in ("file", "zip"))


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made absolute at once; path objects are never URLs; a folder may be called .zip."""
    monkeypatch.chdir(tmp_path)
    assert Location.of("a").url == Location.of("a").path == str(tmp_path / "a")
    assert Location.of(tmp_path / "memory:" / "x").scheme == "file"
    (tmp_path / "folder.zip").mkdir()
    assert Location.of("folder.zip").scheme == "file"
    assert Location.of(f"file://{tmp_path}/a%25b").path == str(tmp_path / "a%b")
    assert Location.of(str(tmp_path / "a%25b")).path == str(tmp_path / "a%25b")
    where = Location.of("a")
    assert Location.of(where) is where


@pytest.mark.parametrize("target", ["", "a\0b", "file://", "zip://", "file://otherhost/x", 5, None, {1}])
def test_no_targets(target: object) -> None:
    """What names no place is refused."""
    with pytest.raises(Invalid):
        Location.of(target)


def test_kinds_that_do_not_open() -> None:
    """A database is no store of keys, and nobody asks whether there is one before it is opened."""
    for url in ("mongodb://nobody.invalid/d", "mongodb+srv://nobody.invalid/d#x"):
        where = Location.of(url)
        with pytest.raises(Unsupported, match="no store of keys"):
            where.store(read_only=True)
        assert (where.exists(), where.is_file()) == (True, False)
    with pytest.raises(Unsupported, match=r"ftp://.*memory://"):
        Location.of("ftp://user:canary@h/x")


def test_folder(tmp_path: Path) -> None:
    """Made when first written to, and only with ``create``."""
    where = Location.of(tmp_path / "deep/x.zarr")
    assert (where.exists(), where.is_file(), where.is_dir()) == (False, False, False)
    for read_only, create in ((True, False), (True, True), (False, False)):
        with pytest.raises(NotFound, match=r"deep/x\.zarr"):
            where.store(read_only=read_only, create=create)
    store = where.store(read_only=False, create=True)
    assert os.listdir(tmp_path) == []
    store.put("a", b"1")
    assert (where.exists(), where.is_file(), where.is_dir()) == (True, False, True)
    assert where.store(read_only=True).get("a") == b"1"
    assert isinstance(where.store(read_only=False), DirectoryStore)
    with pytest.raises(Invalid, match="region"):
        Location.of(tmp_path, {"region": "x"}).store(read_only=True)


def test_archive(tmp_path: Path) -> None:
    """An archive is a place with keys and no plain file."""
    where = Location.of(tmp_path / "x.zip", {"limit": 100})
    with pytest.raises(NotFound):
        where.store(read_only=True)
    store = where.store(read_only=False, create=True)
    store.put("a", b"1")
    store.close()
    assert (where.exists(), where.is_file(), where.is_dir()) == (True, False, True)
    found = where.store(read_only=True)
    assert isinstance(found, ZipStore)
    assert found.get("a") == b"1"
    found.close()
    assert Probe(where).head() == b""


def test_memory() -> None:
    """One name is one store, as long as the process lives or until it is forgotten."""
    where = Location.of("memory://test location")
    assert not where.exists()
    with pytest.raises(NotFound, match="test location"):
        where.store(read_only=True)
    where.store(read_only=False, create=True).put("a", b"1")
    assert where.exists()
    assert where.store(read_only=True).get("a") == b"1"
    with pytest.raises(ReadOnly):
        where.store(read_only=True).put("a", b"2")  # type: ignore[attr-defined]
    MemoryStore.forget("test location")
    assert not where.exists()


def test_store_object(tmp_path: Path) -> None:
    """A store is its own place."""
    store = DirectoryStore(tmp_path)
    where = Location.of(store)
    assert where.scheme == "store"
    assert not where.exists()
    assert where.store(read_only=False) is store
    store.put("a", b"1")
    assert where.is_dir()
    with pytest.raises(ReadOnly):
        Location.of(DirectoryStore(tmp_path, read_only=True)).store(read_only=False)
    with pytest.raises(Unsupported, match="pickled"):
        pickle.dumps(where)


def test_probe_reads_each_key_once() -> None:
    """Hits and misses alike."""
    store = Counting()
    store.put("zarr.json", b"{}")
    probe = Probe(Location.of(store))
    for _ in range(3):
        assert probe.get("zarr.json") == b"{}"
        assert probe.get(".zgroup") is None
    assert store.reads == ["zarr.json", ".zgroup"]
    assert probe.seen == {"zarr.json": b"{}", ".zgroup": None}
    assert probe.url == store.url
    assert probe.head() == b""


def test_probe_of_a_file(tmp_path: Path) -> None:
    """A plain file has a head and no keys."""
    path = tmp_path / "x.blp"
    path.write_bytes(bytes(range(256)))
    probe = Probe(Location.of(path))
    assert probe.get("zarr.json") is None
    assert probe.head(4) == b"\0\1\2\3"
    assert probe.head() == bytes(range(64))
    assert probe.head(1000) == bytes(range(256))
    with pytest.raises(Invalid):
        Location.of(path).store(read_only=True)


def test_probe_of_nothing(tmp_path: Path) -> None:
    """Nothing there is NotFound with the place."""
    with pytest.raises(NotFound, match="nowhere"):
        Probe(Location.of(tmp_path / "nowhere")).get("zarr.json")


def test_probe_of_a_huge_document(tmp_path: Path) -> None:
    """A document of 1 TB, of which nothing is stored, is refused after 64 MiB."""
    with open(tmp_path / "zarr.json", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FormatError, match="512 MiB"):
        Probe(Location.of(tmp_path)).get("zarr.json")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mongodb://user:canary@host:27017/db", "mongodb://***@host:27017/db"),
        ("mongodb://canary@host/db", "mongodb://***@host/db"),
        ("mongodb://u:canary@with@host/db", "mongodb://***@host/db"),
        ("mongodb://u:can/ary@host/db", "mongodb://***@host/db"),
        ("mongodb://u:can?ary@host/db", "mongodb://***@host/db"),
        ("mongodb://u:can#ary@host/db", "mongodb://***@host/db"),
        ("https://h/x?X-Amz-Signature=canary&part=1", "https://h/x?X-Amz-Signature=***&part=1"),
        ("https://h/x?sig=canary#access_token=canary", "https://h/x?sig=***#access_token=***"),
        ("https://h/x?API_KEY=canary;password=canary", "https://h/x?API_KEY=***;password=***"),
        ("https://h/x?jwt=canary&code=canary&hdnts=canary&n=1", "https://h/x?jwt=***&code=***&hdnts=***&n=1"),
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("mongodb://h/db?authSource=admin&authMechanism=X", "mongodb://h/db?authSource=admin&authMechanism=X"),
        ("/a/path?sig=part of a name", "/a/path?sig=part of a name"),
    ],
)
def test_redaction(url: str, shown: str) -> None:
    """Users, passwords, tokens and signatures are hidden; what only looks like a URL's parts is left."""
    assert redact(url) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("404, url='https://u:canary@h/x?sig=canary&n=1'", "404, url='https://***@h/x?sig=***&n=1'"),
        ("no host (h:443/x?X-Amz-Signature=canary) is up", "no host (h:443/x?X-Amz-Signature=*** is up"),
        ("sent {'Cookie': 'canary; canary'}", "sent {'Cookie': ***"),
        ("Authorization: Bearer canary\nDate: today", "Authorization: ***\nDate: today"),
        ("KeyError: 'a/b.c/0'; a=b", "KeyError: 'a/b.c/0'; a=b"),
    ],
)
def test_redaction_within_text(text: str, shown: str) -> None:
    """What other libraries say, without the secrets in it."""
    assert redact_text(text) == shown


def test_plain_options() -> None:
    """Secrets in options, in options of options, in lists of them and of headers; all else is left as it is."""
    plain: dict[str, Any] = {
        "region": "here",
        "allow_external": ["https://h/monkeys", "/data"],
        "remote_options": {"places": [{"bucket": "b"}, ("n", 1)], "allow_session": True},
        "default_headers": {"Accept": "all"},
    }
    assert plain_options(plain) == plain
    secret: dict[str, Any] = {
        "allow_external": ["https://h/monkeys", "https://u:canary@h/x", "/data"],
        "remote_options": {
            "places": [{"bucket": "b", "token": "canary"}, ("n", 1), ("Cookie", "canary"), [b"X-Api-Key", b"canary"]],
            "allow_session": True,
            "auth": {"name": "canary"},
        },
        "default_headers": {"Accept": "all", "Cookie": "canary", b"set-cookie": b"canary", "X-Who": "Bearer canary"},
    }
    assert plain_options(plain | secret) == plain


def test_local_paths(tmp_path: Path) -> None:
    """As they are written; a URL of files is read as it is when it is opened."""
    assert local_path(tmp_path) == str(tmp_path)
    assert local_path("a.nc") == "a.nc"
    assert local_path("memory://x") is None
    assert local_path(object()) is None
    for url in ("file:///a%20b/c.zarr", "FILE://localhost/a%20b/c.zarr", "file:///a b?c#d.zarr"):
        assert local_path(url) == Location.of(url).path
    with pytest.raises(Invalid, match="another machine"):
        local_path("file://elsewhere/c.zarr")


def test_no_secret_is_shown() -> None:
    """Not in the repr, the text, the url, an error, nor when pickled; the opener has the whole target."""
    where = Location.of("mongodb://u:canary@h/db?password=canary", {"secret_key": "canary", "region": "here"})
    assert where.target == "mongodb://u:canary@h/db?password=canary"
    with pytest.raises(Unsupported) as caught:
        where.store(read_only=True)
    for text in (repr(where), str(where), where.url, str(caught.value), repr(Probe(where)), where.name):
        assert "canary" not in text
    assert b"canary" not in pickle.dumps(where)
    again = pickle.loads(pickle.dumps(where))
    assert again.options == {"region": "here"}
    assert again.url.startswith("mongodb://h/db")


def test_no_secret_is_shown_of_what_was_opened() -> None:
    """Not by a node of another kind than was asked for, nor by the report of a conversion."""
    url = "memory://user:canary@secrets.zarr"
    hs.create(url).create_array("a", data=[1])
    with pytest.raises(Invalid, match="this is an array") as array:
        hs.open_group(url, path="a")
    with pytest.raises(Invalid, match="this is a group") as group:
        hs.open_array(url)
    report = hs.convert(url, "memory://user:canary@others.zarr")
    for text in (str(array.value), str(group.value), str(report)):
        assert "canary" not in text
        assert "secrets.zarr" in text
    for name in ("secrets", "others"):
        MemoryStore.forget(f"user:canary@{name}.zarr")


@pytest.mark.parametrize("value", ["canary", 5, ["canary"]])
def test_options_of_a_bucket_that_make_no_sense(value: Any) -> None:
    with pytest.raises(Invalid, match=r"client_options.* make no store") as caught:
        Location.of("s3://b/x", {"client_options": value}).store(read_only=True)
    assert "canary" not in f"{caught.value} {caught.value.__cause__}"


def test_options_of_fsspec_for_a_web_server_are_answered_with_the_name_of_headers() -> None:
    with pytest.raises(Invalid, match=r"client_kwargs.* make no store .*; give headers as client_options=") as caught:
        Location.of("http://127.0.0.1:1/x", {"client_kwargs": {"headers": {"a": "canary"}}}).store(read_only=True)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a.json", {"limit": "1GB"}, "limit is a str.*bytes"),
        ("a.json", {"remote_options": 5}, "remote_options is a int.*mapping"),
        ("a.json", {"allow_external": 5}, "allow_external is a int.*folder"),
        ("a.json", {"else": 5, "limit": 5}, "mean nothing here: else .*leave"),
        ("a.zip", {"limit": None}, "limit is a NoneType.*bytes"),
        ("a.zip", ["limit"], "storage_options are a list.*mapping"),
    ],
)
def test_options_of_another_type(tmp_path: Path, name: str, options: Any, words: str) -> None:
    (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(Invalid, match=words):
        hs.open(tmp_path / name, storage_options=options)


@pytest.mark.parametrize("option", ["workers", "cache_bytes", "lock_timeout", "memory_limit"])
def test_settings_of_another_type(tmp_path: Path, option: str) -> None:
    hs.create(tmp_path / "a.zarr")
    with pytest.raises(Invalid, match=f"{option}='1GB'; give a .*number of"):
        hs.open(tmp_path / "a.zarr", **{option: "1GB"})
    hs.open(tmp_path / "a.zarr", **{option: np.int64(5)})


def test_pickle(tmp_path: Path) -> None:
    """A place of files, archives or memory is the same place afterwards."""
    for target in (tmp_path / "x", tmp_path / "x.zip", "memory://x"):
        where = Location.of(target)
        assert pickle.loads(pickle.dumps(where)) == where
        assert hash(where) == hash(Location.of(target))


NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "rest", "moment"),
    [
        ("a.db?at=2026-11-01", "a.db", NOVEMBER),
        ("s3://b/a.db?at=2026-11-01T02:00+02:00", "s3://b/a.db", NOVEMBER),
        ("mongodb://h/d?at=2026-11-01&collection=c#n", "mongodb://h/d?collection=c#n", NOVEMBER),
        ("mongodb://h/d?collection=c&at=2026-11-01#n", "mongodb://h/d?collection=c#n", NOVEMBER),
        ("mongodb://h/d#n?at=2026-11-01", "mongodb://h/d#n?at=2026-11-01", None),
        ("a#b?at=2026-11-01", "a#b", NOVEMBER),
        ("a.db?that=2026-11-01", "a.db?that=2026-11-01", None),
        ("a.db", "a.db", None),
    ],
)  # fmt: skip
def test_moments_of_places(text: str, rest: str, moment: datetime | None) -> None:
    assert split_moment(text) == (rest, moment)
    where = Location.of(text)
    assert where.moment == moment
    assert pickle.loads(pickle.dumps(where)).moment == moment
    if moment is not None:
        with pytest.raises(Invalid, match="already"):
            where.as_of(moment)


def test_places_beside_one_of_a_moment(tmp_path: Path) -> None:
    where = Location.of(tmp_path / "a").as_of(datetime(2026, 1, 1, tzinfo=UTC))
    above, beside = where.above(), where.at("../b")
    assert above is not None and beside is not None
    assert above.moment == beside.moment == where.moment and where.path == str(tmp_path / "a")
    assert where.identity != Location.of(tmp_path / "a").identity
    for wrong in ("a?at=", "a?at=2026-13-01", "a?at=9999-12-31T23:59-23:59"):
        with pytest.raises(Invalid, match="no moment"):
            Location.of(wrong)
