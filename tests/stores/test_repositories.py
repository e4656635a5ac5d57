"""Where a repository is, which of its versions is meant, its history, tags and branches, and what expires."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import icechunk
import numpy as np
import pytest

import hyperslab as hs
from hyperslab import versions
from hyperslab.errors import (
    AlreadyExists,
    Conflict,
    FormatError,
    HyperslabError,
    Invalid,
    NotFound,
    ReadOnly,
    StorageError,
    Unsupported,
)
from hyperslab.stores.location import Location
from hyperslab.stores.repositories import RepositoryPlace, absolute_url, parse_version, reason
from hyperslab.versions import Snapshot
from servers.s3 import S3


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A repository of three commits: cells of 0, of 1, and of 2."""
    url = f"icechunk+file://{tmp_path}/r"
    for number in range(3):
        with hs.commit(url, f"cells of {number}") as root:
            if number == 0:
                root.create_array("a", shape=(1000,), dtype="i4", chunks=(500,), codec="none")
            root["a"][...] = number
    return url


def value(url: str, at: str | None = None) -> int:
    return int(hs.open(url, at=at)["a"][0])


# -- places ------------------------------------------------------------------------------------------------------------


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = f"icechunk+file://{tmp_path}/a b"
    for text in (
        "icechunk+file://./a b",
        "icechunk+FILE://localhost" + f"{tmp_path}/a%20b/",
        f"icechunk+file://{tmp_path}/x/../a b",
    ):
        assert absolute_url(text) == here.replace(" ", "%20")
        assert RepositoryPlace(absolute_url(text)).folder == f"{tmp_path}/a b"
    for text in ("icechunk+file://other/a", "icechunk+file://", "icechunk+file:///"):
        with pytest.raises(Invalid, match=r"three slashes|give the folder"):
            Location.of(text)
    assert RepositoryPlace("icechunk+s3://bucket/a").folder is None


def test_a_location_travels_with_its_version() -> None:
    where = Location.of("icechunk+s3://bucket/a?at=v1", {"region": "x", "secret_access_key": "canary"})
    assert where.moment == "v1" and where.repository.version == "v1"
    there = pickle.loads(pickle.dumps(where))
    assert (there.moment, dict(there.options)) == ("v1", {"region": "x"})
    assert "canary" not in repr(where) + repr(where.repository)


@pytest.mark.parametrize(
    ("url", "options", "what"),
    [
        ("icechunk+s3://bucket", {}, "no place in a bucket"),
        ("icechunk+s3://bucket/a", {"colour": "red"}, "colour"),
        ("icechunk+gs://bucket/a", {"region": "x"}, "region"),
        ("icechunk+az://container/a", {}, "account"),
        ("icechunk+file:///a", {"region": "x"}, "region"),
    ],
)
def test_options_that_mean_nothing(url: str, options: dict[str, str], what: str) -> None:
    with pytest.raises(Invalid, match=what) as caught:
        RepositoryPlace(url, options)._storage()
    assert caught.value.url == url and caught.value.remedy


def test_buckets_of_other_makers() -> None:
    """Of these there is no server here: the options make a storage, as far as that goes without a request."""
    assert RepositoryPlace("icechunk+gs://bucket/a", {"bearer_token": "t"})._storage()
    assert RepositoryPlace("icechunk+az://container/a", {"account": "me", "access_key": "a2V5"})._storage()
    assert RepositoryPlace("icechunk+s3://bucket/a", {"anon": True, "endpoint_url": "http://127.0.0.1:1"})._storage()


def test_what_is_no_repository(tmp_path: Path, url: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    with (
        pytest.raises(AlreadyExists, match="something else lies there"),
        hs.commit(f"icechunk+file://{tmp_path}/full", "x"),
    ):
        pass
    for call in (versions.tags, versions.branches, hs.history):
        with pytest.raises(NotFound, match="no repository"):
            call(f"icechunk+file://{tmp_path}/none")
        with pytest.raises(Unsupported, match="keeps no versions"):
            call(str(tmp_path / "a.zarr"))
    assert not (tmp_path / "none").exists()


def test_a_path_that_leads_to_a_repository_names_its_url(url: str, s3: S3) -> None:
    with pytest.raises(FormatError, match="repository of icechunk") as caught:
        hs.open(url.removeprefix("icechunk+file://"))
    assert str(caught.value.remedy) == f"open {url}"
    place = s3.repository()
    # icechunk 2 does not tell a bucket that is missing from an empty one.
    is_first = icechunk.__version__.startswith("1.")
    kind, words = (StorageError, "there is no such bucket") if is_first else (NotFound, "there is nothing")
    with pytest.raises(kind, match=words):
        hs.open("icechunk+s3://no-such-bucket/repository", storage_options=place["storage_options"])
    hs.create(**place).close()
    with pytest.raises(FormatError) as caught:
        hs.open(place["url"].removeprefix("icechunk+"), storage_options=place["storage_options"])
    assert str(caught.value.remedy) == f"open {place['url']}"


def test_the_commit_of_many_pieces_names_the_first_and_the_last(tmp_path: Path) -> None:
    pieces = [tmp_path / f"{number}.zarr" for number in range(3)]
    for number, piece in enumerate(pieces):
        with hs.create(piece) as root:
            root.create_array("x", data=np.arange(4) + 4 * number, dims=["x"])
    hs.convert(pieces, f"icechunk+file://{tmp_path}/joined", along="x")
    assert hs.history(f"icechunk+file://{tmp_path}/joined")[0].message == "convert 3 pieces, 0.zarr to 2.zarr"


def test_what_icechunk_says_is_one_line_without_secrets() -> None:
    text = "\n  x object store error s3://me:secret@host/x?sig=1\n  | \n  | context:\n"
    assert reason(ValueError(text)) == "object store error s3://***@host/x?sig=***"
    assert reason(ValueError()) == "ValueError"


# -- versions ----------------------------------------------------------------------------------------------------------


def test_parsing() -> None:
    moment = datetime(2026, 11, 1, 12, tzinfo=UTC)
    for same in (
        "2026-11-01T12:00",
        "2026-11-01T14:00+02:00",
        moment,
        np.datetime64("2026-11-01T12"),
        moment.replace(tzinfo=None),
    ):
        assert parse_version(same) == moment
    assert parse_version("2026-11-01") == parse_version(moment.date()) == moment.replace(hour=0)
    assert parse_version("v1") == "v1"
    for wrong in ("", 7, None):
        with pytest.raises(Invalid, match="no version"):
            parse_version(wrong)  # type: ignore[arg-type]


def test_history(url: str) -> None:
    found = hs.history(url)
    assert [each.message for each in found] == [*(f"cells of {n}" for n in (2, 1, 0)), "Repository initialized"]
    assert [each.parent for each in found] == [*(each.id for each in found[1:]), None]
    assert all(isinstance(each, Snapshot) and each.time.tzinfo for each in found)
    assert [value(url, each.id) for each in found[:3]] == [2, 1, 0]
    assert [each.id for each in hs.history(url, limit=2)] == [each.id for each in found[:2]]
    assert hs.history(url, at=found[1].id) == found[1:]
    lines = repr(found).splitlines()
    assert len(lines) == 4 and lines[0].endswith("Z  cells of 2  (branch main)") and lines[0].startswith(found[0].id)


def test_tags(url: str) -> None:
    ids = [each.id for each in hs.history(url)]
    assert versions.create_tag(url, "new") == ids[0]
    assert versions.create_tag(url, "old", at=ids[2]) == ids[2]
    assert versions.create_tag(url, "same", at="old") == ids[2]
    assert versions.tags(url) == {"new": ids[0], "old": ids[2], "same": ids[2]}
    assert value(url, "old") == 0 and hs.history(url)[2].tags == ("old", "same")
    with pytest.raises(AlreadyExists, match="there is a tag 'old'"):
        versions.create_tag(url, "old")
    versions.delete_tag(url, "old")
    with pytest.raises(AlreadyExists, match=r"makes no tag.*'old'.*no tag ever had"):
        versions.create_tag(url, "old")
    with pytest.raises(NotFound, match="no tag 'old'"):
        versions.delete_tag(url, "old")
    for name in ("", "a/b", " x", "2026-01-01"):
        with pytest.raises(Invalid, match="no name of a tag or branch"):
            versions.create_tag(url, name)


def test_branches(url: str) -> None:
    ids = [each.id for each in hs.history(url)]
    assert versions.create_branch(url, "trial", at=ids[2]) == ids[2]
    with pytest.raises(AlreadyExists, match="there is a branch 'trial'"):
        versions.create_branch(url, "trial")
    with pytest.raises(AlreadyExists, match="there is a branch 'trial'"):
        versions.create_tag(url, "trial")
    versions.create_tag(url, "v1")
    with pytest.raises(AlreadyExists, match="there is a tag 'v1'"):
        versions.create_branch(url, "v1")
    Location.of(url).repository.open().create_tag("trial", ids[0])  # as icechunk lets others do
    with pytest.raises(Invalid, match=r"a tag and a branch.*id of the snapshot"):
        hs.open(url, at="trial")
    versions.delete_branch(url, "trial")
    assert value(url, "trial") == 2
    assert versions.branches(url) == {"main": ids[0]}
    with pytest.raises(Invalid, match="main stays"):
        versions.delete_branch(url, "main")
    with pytest.raises(NotFound, match="no branch 'trial'"):
        versions.delete_branch(url, "trial")


@pytest.mark.parametrize("fails", [False, True])
def test_the_root_of_a_commit_that_has_ended_takes_no_writes(url: str, fails: bool) -> None:
    with suppress(KeyError), hs.commit(url, "the last") as root:
        root["a"][0] = 7
        if fails:
            raise KeyError
    for change in (
        lambda: root["a"].__setitem__(0, 8),
        lambda: root.attrs.__setitem__("x", 1),
        lambda: root.create_array("b", data=np.zeros(3)),
    ):
        with pytest.raises(ReadOnly, match="commit"):
            change()
    assert root["a"][0] == value(url) == (2 if fails else 7) and len(hs.history(url)) == (4 if fails else 5)


def test_restoring_and_going_back(url: str) -> None:
    newest = hs.history(url)[0].id
    middle = hs.history(url)[1].id
    assert versions.restore(url, middle) == middle
    assert value(url) == 1 and hs.history(url)[0].id == middle
    assert value(url, newest) == 2
    versions.restore(url, newest)
    assert value(url) == 2 and len(hs.history(url)) == 4
    with pytest.raises(NotFound, match="no branch 'x'"):
        versions.restore(url, middle, branch="x")


def test_what_expires(url: str, tmp_path: Path) -> None:
    ids = [each.id for each in hs.history(url)]
    versions.create_tag(url, "first", at=ids[2])
    assert versions.expire(url, timedelta(days=1)).snapshots == ()
    chunks = len(os.listdir(tmp_path / "r" / "chunks"))
    told = versions.expire(url, 0, dry_run=True)
    assert told.snapshots == (ids[1],) and len(os.listdir(tmp_path / "r" / "chunks")) == chunks
    gone = versions.expire(url, 0)
    assert gone.snapshots == (ids[1],) and gone.nbytes > 0
    assert len(os.listdir(tmp_path / "r" / "chunks")) == chunks - 2
    assert value(url) == 2 and value(url, "first") == 0
    with pytest.raises(HyperslabError, match=r"cannot be read|no tag, branch or snapshot"):
        hs.open(url, at=ids[1])["a"][...]
    with pytest.raises(Invalid, match="of at least 0"):
        versions.expire(url, -1)


def test_what_was_restored_away_expires_and_is_counted(url: str) -> None:
    ids = [each.id for each in hs.history(url)]
    versions.restore(url, ids[1])
    would = versions.expire(url, 0, dry_run=True)
    assert would.strays == 1 and would.snapshots == (ids[2],) and would.nbytes > 0
    assert value(url, ids[0]) == 2  # nothing is removed yet
    gone = versions.expire(url, 0)
    assert gone.strays == 1 and gone.snapshots == (ids[2],) and gone.nbytes > would.nbytes
    with pytest.raises(NotFound):
        hs.open(url, at=ids[0])


def test_a_tagged_ancestor_can_be_opened_and_leaves_the_history_of_the_branch(url: str) -> None:
    ids = [each.id for each in hs.history(url)]
    versions.create_tag(url, "first", at=ids[2])
    versions.expire(url, 0)
    assert ids[2] not in [each.id for each in hs.history(url)]
    assert value(url, "first") == value(url, ids[2]) == 0
    assert hs.history(url, at="first")[0].id == ids[2]


def test_a_commit_that_is_being_made_does_not_expire(url: str) -> None:
    with hs.commit(url, "slow") as slow:
        slow["a"][...] = 7
        assert versions.expire(url, 0, dry_run=True).snapshots
        with pytest.raises(Conflict, match=r"a commit is being made.*when it has ended"):
            versions.expire(url, 0)
        with hs.commit(url, "fast") as fast:
            fast.attrs["title"] = "of other writers it keeps out none"
    assert len(versions.expire(url, 0).snapshots) == 4
    assert value(url) == 7 and hs.open(url)["a"][999] == 7


def test_a_bucket_keeps_what_may_be_of_a_commit(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    place = s3.repository()
    with hs.commit(**place, message="one") as root:
        root.create_array("a", data=np.arange(4))
    with pytest.raises(Invalid, match=r"about to commit could expire.*7 days or more"):
        versions.expire(**place, older_than=timedelta(days=6))
    assert versions.expire(**place, older_than=timedelta(days=7, seconds=1)).snapshots == ()
    monkeypatch.setattr("hyperslab.stores.icechunk.LONGEST_IN_BUCKET", timedelta())
    with pytest.raises(Conflict, match="may have expired"), hs.commit(**place, message="too long") as root:
        root.attrs["title"] = "a"
    assert hs.history(**place)[0].message == "one"


# -- processes that are forked -----------------------------------------------------------------------------------------


def read_in_child(url: str, answers: multiprocessing.Queue[str]) -> None:
    try:
        hs.open(url)
    except HyperslabError as error:
        answers.put(f"{type(error).__name__} {error}")


def test_a_forked_process_says_that_it_cannot(url: str) -> None:
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[str] = context.Queue()
    child = context.Process(target=read_in_child, args=(url, answers))
    child.start()
    said = answers.get(timeout=60)
    child.join()
    assert said.startswith(StorageError.__name__) and "forked" in said and "spawn" in said
