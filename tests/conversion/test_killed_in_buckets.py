"""A conversion into a bucket that is killed, or whose server fails, at one of its requests: what it leaves is told as
such, and the next conversion to the same place is not held up by it."""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.errors import AlreadyExists, FormatError, HyperslabError, NotFound
from hyperslab.stores import leases
from hyperslab.stores.location import Location
from programs import Program
from servers.faults import Proxy, faulty
from servers.s3 import S3

CHILD = """
import json, sys
import hyperslab as hs
source, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
hs.convert(source, target, **options)
"""
CHANGES = ("PUT", "POST", "DELETE")
PATIENCE = {"max_retries": 0, "retry_timeout": timedelta(seconds=5)}
FORMATS = ["zarr2", "zarr3"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with hs.create(tmp_path / "source.zarr") as root:
        root.attrs["title"] = "t"
        root.create_array("g/a", data=np.arange(1, 101).reshape(10, 10), chunks=(5, 5))
    return tmp_path / "source.zarr"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is silent is dead after a moment."""
    monkeypatch.setattr(leases, "LEASE", 0.3)


def is_whole(url: str, source: Path, s3: S3) -> bool:
    """Return True if the target is there; half of it is nothing that opens."""
    try:
        assert not hs.diff(source, url, storage_options=(None, s3.options))
    except (FormatError, NotFound):
        return False
    return True


def names(url: str, s3: S3) -> list[str]:
    store: Any = Location.of(url, s3.options).store(read_only=True)
    return list(store.list())


def convert(source: Path, url: str, s3: S3, **options: Any) -> None:
    hs.convert(source, url, storage_options=s3.options, verify=True, **options)
    assert is_whole(url, source, s3)
    assert not [name for name in names(url, s3) if name.startswith(".hyperslab")]


def changes(source: Path, s3: S3, proxy: Proxy, **options: Any) -> int:
    """How many requests change the bucket in the course of a conversion, whose locks are those of its process."""
    before = len(proxy.seen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "LEASE", 15.0)
        hs.convert(source, f"s3://{s3.bucket()}/x", storage_options=s3.options | {"endpoint": proxy.url}, **options)
    return sum(method in CHANGES for method, _ in proxy.seen[before:])


def killed_at(number: int, source: Path, url: str, s3: S3, proxy: Proxy, options: dict[str, Any]) -> int:
    """Kill a process that converts right before so many changes are done; what it ends with."""
    storage = {"storage_options": s3.options | {"endpoint": proxy.url}}
    before = len(proxy.seen)
    child = Program(CHILD, source, url, json.dumps(options | storage))

    def choose(method: str, path: str) -> str | None:
        if sum(each in CHANGES for each, _ in proxy.seen[before:]) < number:
            return None
        os.kill(child.pid, signal.SIGKILL)
        return "reset"

    proxy.choose = choose
    child.communicate()
    proxy.choose = lambda method, path: None
    return child.wait()


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("resume", "share"),
    [
        (False, 0.9),
        pytest.param(True, 0.5, marks=pytest.mark.soak),
        *(pytest.param(resume, n / 20, marks=pytest.mark.soak) for resume in (False, True) for n in range(1, 20)),
    ],
)
def test_killed(source: Path, s3: S3, resume: bool, share: float) -> None:
    url, options = f"s3://{s3.bucket()}/x.zarr", {"resume": resume, "format": FORMATS[resume]}
    with faulty(s3.endpoint) as proxy:
        number = max(1, round(share * changes(source, s3, proxy, **options)))
        assert killed_at(number, source, url, s3, proxy, options) == -signal.SIGKILL
    there, whole = names(url, s3), is_whole(url, source, s3)
    goes_on = ".hyperslab-convert/head" in there if resume else ".zmetadata" not in there  # which comes last
    if whole and not goes_on:
        with pytest.raises(AlreadyExists, match=r"completed it|the target exists"):
            hs.convert(source, url, storage_options=s3.options, **options)
        convert(source, url, s3, overwrite=True, **options)
        return
    if there and not whole:
        for format in (None, *FORMATS):
            with pytest.raises(FormatError, match="not finished") as caught:
                hs.open(url, storage_options=s3.options, format=format)
            assert caught.value.remedy and "repeat the conversion" in caught.value.remedy
        told = CliRunner().invoke(main, ["info", url, *storage(s3)])
        assert told.exit_code and "not finished" in told.stderr and "--resume" in told.stderr
    convert(source, url, s3, **options)


def storage(s3: S3) -> list[str]:
    return [part for name, value in s3.options.items() for part in ("--storage-option", f"{name}={value}")]


@pytest.mark.sampled(0)
def test_another_way_to_make_it_anew(source: Path, s3: S3) -> None:
    """What was begun without resume is replaced by a call with it, and by ``create`` with ``overwrite``."""
    with faulty(s3.endpoint) as proxy:
        for resumes in (True, False):
            url = f"s3://{s3.bucket()}/x.zarr"
            number = round(0.7 * changes(source, s3, proxy))
            assert killed_at(number, source, url, s3, proxy, {}) == -signal.SIGKILL
            if resumes:
                convert(source, url, s3, resume=True)
                continue
            with pytest.raises(AlreadyExists):
                hs.create(url, storage_options=s3.options)
            hs.create(url, storage_options=s3.options, overwrite=True).close()
            assert names(url, s3) == ["zarr.json"]


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("fault", "resume", "step"),
    [
        ("403", False, 15),
        pytest.param("lost", True, 15, marks=pytest.mark.soak),
        *(
            pytest.param(fault, resume, 1, marks=pytest.mark.soak)
            for fault in ("403", "lost")
            for resume in (False, True)
        ),
    ],
)
def test_faults(source: Path, s3: S3, fault: str, resume: bool, step: int) -> None:
    """From the n-th request on, or at it alone, the server fails for good: the call that says so has not left what a
    later one is told to keep off, unless it is complete; and what is complete is no failure."""
    options: dict[str, Any] = {"resume": resume, "format": FORMATS[resume]}
    with faulty(s3.endpoint) as proxy:
        bad = {"storage_options": s3.options | {"endpoint": proxy.url, "retry_config": PATIENCE}}
        for n in range(resume, 200, step):
            url, before = f"s3://{s3.bucket()}/x.zarr", len(proxy.seen)
            last = before + n + 1 if fault == "403" else 10**9
            proxy.choose = lambda method, path, at=before + n, end=last: (  # type: ignore[misc]
                fault if at < len(proxy.seen) <= end else None
            )
            try:
                hs.convert(source, url, **bad, **options)
                failed = None
            except HyperslabError as error:
                failed = error
            proxy.choose = lambda method, path: None
            whole = is_whole(url, source, s3)
            assert whole or failed is not None
            try:
                convert(source, url, s3, **options)
                assert failed is not None or resume  # which goes on where a journal has stayed
            except AlreadyExists as error:
                assert whole and (failed is None or "completed it" in error.message), (n, failed, error)
            if len(proxy.seen) - before <= n:
                return
    pytest.fail("the conversion never came to its end")
