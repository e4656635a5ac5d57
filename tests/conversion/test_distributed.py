"""A cluster of two real processes copies boxes: the same bytes; killed workers, secrets, resuming."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from conversion.hdmf_trees import HDMF
from conversion.hdmf_trees import make as make_hdmf
from forked import cluster
from hyperslab.chunks.progress import Progress
from hyperslab.conversion import distributed
from hyperslab.conversion.distributed import CopyTask, require_reachable
from hyperslab.conversion.pipeline import convert
from hyperslab.conversion.selection import Select, Selector
from hyperslab.errors import CorruptChunk, FormatError, Invalid, Unsupported
from hyperslab.formats.netcdf import open_file
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore
from servers.s3 import S3, SECRET

ROUTES: dict[str, dict[str, Any]] = {
    "zarr2": {"format": "zarr2", "chunks": {"x": 7, "y": 40}},
    "sharded": {"format": "zarr3", "chunks": {"x": 2, "y": 40}, "shards": {"x": 8, "y": 80}},
}
MEMORY = 1 << 16


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two processes of two threads each, closed at the end."""
    folder = tmp_path_factory.mktemp("cluster")
    with cluster(local_directory=str(folder)) as client:
        yield client


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.zarr"
    with hs.create(path, "zarr3") as root:
        cells = np.arange(900 * 90, dtype="f8").reshape(900, 90)
        a = root.create_array("g/a", shape=(1000, 90), dtype="f8", dims=("x", "y"), chunks=(50, 11), fill_value=-1)
        a[:900] = cells
        root.create_array("b", data=np.arange(1000, dtype="i4"), dims=("x",), chunks=(33,), attrs={"units": "m"})
    return path


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("route", ROUTES)
def test_the_same_bytes(route: str, client: Any, source: Path, tmp_path: Path) -> None:
    options = {**ROUTES[route], "memory": MEMORY, "select": {"x": slice(None, None, -1)}}
    convert(source, tmp_path / "alone.zarr", **options)
    seen: list[Progress] = []
    report = convert(source, tmp_path / "target.zarr", scheduler=client, verify=True, progress=seen.append, **options)
    assert _files(tmp_path / "target.zarr") == _files(tmp_path / "alone.zarr")
    assert seen[-1].done_bytes == seen[-1].total_bytes == report.nbytes
    assert _names(tmp_path) == ["alone.zarr", "source.zarr", "target.zarr"]


@pytest.mark.sampled(0)
def test_by_its_address(client: Any, source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "target.zarr", scheduler=client.scheduler.address, memory=MEMORY, verify=True)
    assert client.run(_left_open) == dict.fromkeys(client.scheduler_info()["workers"], 0)


def _left_open() -> int:
    from hyperslab.conversion import distributed

    return len(distributed._open_tasks)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="/proc tells what is open")
def test_a_worker_keeps_few_arrays_open(tmp_path: Path) -> None:
    """What it has not used for the longest time is closed, yet never under a box that is being copied."""
    place, target = tmp_path / "source.nc", tmp_path / "target.zarr"
    names = [f"a{number}" for number in range(12)]
    with hs.create(place) as source, hs.create(target) as made:
        for root in (source, made):
            for name in names:
                root.create_array(name, shape=(6,), dtype="i4", dims=("x",))
                if root is source:
                    root[name][:] = np.arange(6)

    def held() -> int:
        """Return how many readers have the source open; they share its descriptor."""
        return sum(len(file.users) for file in open_file._OPEN_FILES.values() if file.url == str(place))

    def errand(name: str) -> CopyTask:
        array = hs.Array(session, name, session.array(name))
        picked = Selector([array], Select({}, {})).pick(array)
        return CopyTask(
            f"one/{name}", Location.of(place), Location.of(target), False, "zarr3", name, name, picked, 1 << 20
        )

    with hs.open_group(place) as root:
        session = root._session
        errands = [errand(name) for name in names]
    before = held()
    used: list[object] = []  # so that nothing is closed because it is forgotten
    with distributed._use_open_task(errands[0]) as sides:
        for number, each in enumerate(errands[1:], 2):
            distributed.run_task(each, (slice(0, 6),))
            used.append(distributed._open_tasks[each.name])
            if number == distributed._MOST_OPEN:
                most = held()
        assert held() == most + 1
        np.testing.assert_array_equal(sides.copy.source.read((0,)), np.arange(6))
    assert before < held() == most
    asyncio.run(distributed.close_tasks("one"))
    assert held() == before
    root = hs.open_group(target)
    assert all((root[name][...] == np.arange(6)).all() for name in names[1:])


class Stop(Exception):
    """What stops a conversion in these tests."""


def _stop(now: Progress) -> None:
    if 2 * now.done_bytes >= now.total_bytes:
        raise Stop


@pytest.mark.sampled(2)
@pytest.mark.parametrize("resume", [False, True])
def test_interrupted(resume: bool, client: Any, source: Path, tmp_path: Path) -> None:
    options = {**ROUTES["sharded"], "memory": MEMORY, "scheduler": client, "resume": resume}
    with pytest.raises(Stop):
        convert(source, tmp_path / "target.zarr", progress=_stop, **options)
    if not resume:
        assert _names(tmp_path) == ["source.zarr"]
        return
    report = convert(source, tmp_path / "target.zarr", verify=True, **options)
    assert report.resumed_nbytes >= report.nbytes // 2
    convert(source, tmp_path / "alone.zarr", **ROUTES["sharded"])
    assert _files(tmp_path / "target.zarr") == _files(tmp_path / "alone.zarr")
    assert _names(tmp_path) == ["alone.zarr", "source.zarr", "target.zarr"]


@pytest.mark.sampled(0)
def test_a_killed_worker(client: Any, source: Path, tmp_path: Path) -> None:
    """Its boxes are copied by the other one; the nanny starts it again."""
    killed: list[int] = []

    def kill(now: Progress) -> None:
        if now.done_chunks > 20 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    options = {**ROUTES["zarr2"], "memory": MEMORY}
    convert(source, tmp_path / "target.zarr", scheduler=client, progress=kill, verify=True, resume=True, **options)
    assert killed
    convert(source, tmp_path / "alone.zarr", **options)
    assert _files(tmp_path / "target.zarr") == _files(tmp_path / "alone.zarr")
    client.wait_for_workers(2, timeout=60)


def test_an_error_on_a_worker(client: Any, source: Path, tmp_path: Path) -> None:
    chunk = source / "g/a/c/3/2"
    chunk.write_bytes(chunk.read_bytes()[:-5])
    with pytest.raises((CorruptChunk, FormatError), match="g/a/c/3/2"):
        convert(source, tmp_path / "target.zarr", scheduler=client, memory=MEMORY, **ROUTES["zarr2"])
    assert _names(tmp_path) == ["source.zarr"]


@pytest.mark.sampled(0)
def test_s3_with_credentials_of_the_workers_own(client: Any, source: Path, s3: S3, tmp_path: Path) -> None:
    url = f"s3://{s3.bucket()}/target.zarr"
    with pytest.raises(Invalid, match="not sent") as caught:
        convert(source, url, scheduler=client, storage_options=s3.options)
    assert SECRET not in str(caught.value)
    plain = {name: value for name, value in s3.options.items() if "key" not in name}
    environment = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": SECRET}
    client.run(os.environ.update, environment)
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        options = {"storage_options": plain, "memory": MEMORY, **ROUTES["sharded"]}
        with pytest.raises(Stop):
            convert(source, url, scheduler=client, resume=True, progress=_stop, **options)
        report = convert(source, url, scheduler=client, resume=True, verify=True, **options)
        assert 0 < report.resumed_nbytes < report.nbytes
        convert(source, f"{url}.zarr", "zarr2", scheduler=client, verify=True, storage_options=plain)
        for made in (url, f"{url}.zarr"):
            with hs.open(made, storage_options=plain) as root:
                assert root["b"][...].tolist() == list(range(1000))
                assert not any("hyperslab" in key for key in root._session.reader.store.list())
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_what_workers_cannot_reach(source: Path, tmp_path: Path, s3: S3) -> None:
    here, there = Location.of(source), Location.of(tmp_path / "target.zarr")
    require_reachable(here, there, together=True)
    for where in (Location.of(MemoryStore()), Location.of("memory://x")):
        with pytest.raises(Unsupported, match="process"):
            require_reachable(where, there, together=True)
        with pytest.raises(Unsupported, match="process"):
            require_reachable(here, where, together=True)
    with pytest.raises(Unsupported, match="of this kind together"):
        convert(source, tmp_path / "target.nc", scheduler="tcp://127.0.0.1:1")
    with pytest.raises(Unsupported, match="of this kind together"):
        convert(source, tmp_path / "target.zarr.zip", scheduler="tcp://127.0.0.1:1")
    with pytest.raises(Invalid, match="address"):
        convert(source, tmp_path / "target.zarr", scheduler=5)
    assert _names(tmp_path) == ["source.zarr"]


def test_a_task_holds_no_handles_and_no_secrets(source: Path, s3: S3) -> None:
    with hs.open_group(source) as root:
        session = root._session
        spec = session.array("b")
        there = Location.of("s3://bucket/target.zarr", s3.options)
        array = hs.Array(session, "b", spec)
        picked = Selector([array], Select({}, {})).pick(array)
        task = pickle.dumps(CopyTask("n", Location.of(source), there, True, "zarr3", "b", "b", picked, 1 << 20))
    assert SECRET.encode() not in task
    assert len(task) < 2000


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("path", ["", "g"])
@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_hdmf_with_links_and_references(profile: str, path: str, client: Any, tmp_path: Path) -> None:
    source = make_hdmf(tmp_path / "source.zarr", "v3" if profile == "v2" else "v2")
    options: dict[str, Any] = {"format": "hdmf", "profile": profile, "path": path, **HDMF}
    convert(source, tmp_path / "alone.zarr", **options)
    with pytest.raises(Stop):
        convert(source, tmp_path / "target.zarr", scheduler=client, resume=True, progress=_stop, **options)
    report = convert(source, tmp_path / "target.zarr", scheduler=client, resume=True, verify=True, **options)
    assert report.resumed_nbytes > 0 and report.losses == ()
    assert _files(tmp_path / "target.zarr") == _files(tmp_path / "alone.zarr")
    with hs.open_group(tmp_path / "target.zarr") as root:
        group = root if path else root["g"]
        assert group["outer"].url == group["refs"][3].resolve().url != root.url
        assert group["rows"][1]["cells"].resolve().url == root.url
