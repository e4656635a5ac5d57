"""Resuming: killed at any time and started again, a conversion ends with the bytes of one that nobody disturbed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from conversion.hdmf_trees import HDMF
from conversion.hdmf_trees import make as make_hdmf
from hyperslab.chunks.progress import Progress
from hyperslab.conversion.pipeline import convert
from hyperslab.errors import AlreadyExists, Conflict, Invalid
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.memory import MemoryStore
from programs import COMMAND, ran

pytestmark = pytest.mark.sampled(2)

KILLS = 2
ROUTES: dict[str, dict[str, Any]] = {
    "zarr2": {"format": "zarr2", "chunks": {"x": 7, "y": 40}},
    "zarr3": {"format": "zarr3", "chunks": {"x": 7, "y": 40}, "codec": "zstd:3"},
    "sharded": {"format": "zarr3", "chunks": {"x": 2, "y": 40}, "shards": {"x": 8, "y": 80}},
}
MEMORY = 1 << 16

DRIVER = """
import json, os, random, signal, sys, time, traceback
import hyperslab as hs

source, target, kills, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
journal = os.path.join(os.path.dirname(target), ".partial-journal-" + os.path.basename(target))
random.seed(5)
resumed = []


def slowly(now):
    time.sleep(0.002)


def forked(report):
    pid = os.fork()
    if not pid:
        status = 1
        try:
            done = hs.convert(source, target, resume=True, progress=slowly, **options)
            os.write(report, b"%d\\n" % done.resumed_nbytes)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def is_whole():
    return os.path.exists(target) and not os.path.exists(os.path.join(journal, "head"))


def run(seconds):
    read, write = os.pipe()
    pid = forked(write)
    os.close(write)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0, status
            resumed.append(int(os.read(read, 100)))
            os.close(read)
            return True
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read)
    return is_whole()


began = time.monotonic()
assert run(600)
usual = time.monotonic() - began  # of a run that is not killed; the machine may be busier, or less busy, later
os.rename(target, f"{target}.0")
killed = kept = rounds = 0
while True:
    began = time.monotonic()
    if not run(random.uniform(0, 0.8 * usual) if killed < kills or not kept else 600):
        assert not os.path.exists(target) or os.path.exists(journal)
        kept += os.path.exists(os.path.join(journal, "done-00000001"))
        killed += 1
        usual *= 1 if kept else 1.3
        continue
    if killed >= kills and kept:
        break
    usual = time.monotonic() - began
    rounds += 1
    os.rename(target, f"{target}.{rounds}")  # too early: once more
print(json.dumps({"killed": killed, "kept": kept, "resumed": resumed, "rounds": rounds}))
"""


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Chunks that suit no target, two arrays, attributes; some chunks are never written."""
    path = tmp_path / "source.zarr"
    with hs.create(path, "zarr3") as root:
        root.attrs["title"] = "resumed"
        cells = np.arange(900 * 90, dtype="f8").reshape(900, 90)
        a = root.create_array("g/a", shape=(1000, 90), dtype="f8", dims=("x", "y"), chunks=(50, 11), fill_value=-1)
        a[:900] = cells
        root.create_array("b", data=np.arange(1000, dtype="i4"), dims=("x",), chunks=(33,), attrs={"units": "m"})
    return path


@pytest.mark.sampled(0)
@pytest.mark.parametrize("kills", [KILLS, pytest.param(60 * KILLS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("route", ROUTES)
def test_killed_at_any_time(route: str, kills: int, source: Path, tmp_path: Path) -> None:
    options = {**ROUTES[route], "memory": MEMORY}
    convert(source, tmp_path / "undisturbed.zarr", **options)
    target = tmp_path / "target.zarr"
    done = ran(DRIVER, source, target, kills, json.dumps(options))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["killed"] >= kills  # more, where none was late enough for anything to be kept
    assert told["kept"]
    wanted = _files(tmp_path / "undisturbed.zarr")
    for number in ["", *(f".{i}" for i in range(told["rounds"] + 1))]:
        assert _files(tmp_path / f"target.zarr{number}") == wanted
    hidden = [name for name in _names(tmp_path) if name.startswith(".")]
    assert [name for name in hidden if not name.startswith(".partial-journal-")] == []


class Stop(Exception):
    """What stops a conversion in these tests."""


def _stopped(source: Any, target: Any, share: float = 0.5, **options: Any) -> Progress:
    """A conversion that fails when so much is done; how far it came."""
    seen: list[Progress] = []

    def report(now: Progress) -> None:
        seen.append(now)
        if now.done_bytes >= share * now.total_bytes:
            raise Stop

    with pytest.raises(Stop):
        convert(source, target, resume=True, progress=report, **options)
    return seen[-1]


@pytest.mark.covering
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("memory", [MEMORY, 1 << 15, 1 << 20])
def test_it_goes_on_where_it_stopped(route: str, memory: int, source: Path, tmp_path: Path) -> None:
    options = {**ROUTES[route], "memory": MEMORY}
    convert(source, tmp_path / "undisturbed.zarr", **options)
    target = tmp_path / "target.zarr"
    stopped = _stopped(source, target, **options)
    assert not target.exists()
    assert {".partial-journal-target.zarr", ".partial-resume-target.zarr"} <= set(_names(tmp_path))
    seen: list[Progress] = []
    report = convert(source, target, resume=True, progress=seen.append, verify=True, **{**options, "memory": memory})
    assert _files(target) == _files(tmp_path / "undisturbed.zarr")
    assert _names(tmp_path) == ["source.zarr", "target.zarr", "undisturbed.zarr"]
    assert seen[0].done_bytes == seen[0].resumed_bytes == report.resumed_nbytes
    if memory == MEMORY:
        assert report.resumed_nbytes == stopped.done_bytes
    else:
        assert 0 < report.resumed_nbytes <= stopped.done_bytes
    assert seen[-1].done_bytes == seen[-1].total_bytes == report.nbytes
    assert seen[-1].done_chunks == seen[-1].total_chunks == report.chunks


def test_what_is_done_is_not_done_again(source: Path, tmp_path: Path) -> None:
    options = {**ROUTES["zarr3"], "memory": MEMORY}
    _stopped(source, tmp_path / "target.zarr", share=1.0, **options)
    partial = tmp_path / ".partial-resume-target.zarr"
    before = {path: path.stat().st_mtime_ns for path in partial.rglob("*") if path.is_file()}
    convert(source, tmp_path / "target.zarr", resume=True, **options)
    after = {
        partial / path.relative_to(tmp_path / "target.zarr"): path for path in (tmp_path / "target.zarr").rglob("*")
    }
    assert {path: after[path].stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"chunks": {"x": 8}}, "chunks was"),
        ({"codec": "none"}, "codec was"),
        ({"format": "zarr2"}, "another format"),
        ({"select": {"x": slice(0, 500)}}, "selected cells"),
        ({"allow_loss": True}, "allow_loss was"),
    ],
)
def test_another_order_is_refused(change: dict[str, Any], said: str, source: Path, tmp_path: Path) -> None:
    options = {"format": "zarr3", "chunks": {"x": 7}, "memory": MEMORY}
    _stopped(source, tmp_path / "target.zarr", **options)
    with pytest.raises(Invalid, match=said) as caught:
        convert(source, tmp_path / "target.zarr", resume=True, **{**options, **change})
    assert "without resume" in str(caught.value) and "target.zarr" in str(caught.value)
    assert not (tmp_path / "target.zarr").exists()
    convert(source, tmp_path / "target.zarr", resume=True, verify=True, **options)


def test_another_source_is_refused(source: Path, tmp_path: Path) -> None:
    options = {"chunks": {"x": 7}, "memory": MEMORY}
    _stopped(source, tmp_path / "target.zarr", **options)
    with hs.open(source, "r+") as root:
        root["b"][5] = -5
    with pytest.raises(Invalid, match="files changed"):
        convert(source, tmp_path / "target.zarr", resume=True, **options)
    with hs.open(source, "r+") as root:
        root.attrs["title"] = "changed"
    with pytest.raises(Invalid, match="documents"):
        convert(source, tmp_path / "target.zarr", resume=True, **options)
    convert(source, tmp_path / "target.zarr", verify=True, **options)


def test_a_target_in_the_way(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.zarr"
    with hs.create(target) as root:
        root.create_array("old", data=np.arange(3))
    with pytest.raises(AlreadyExists):
        convert(source, target, resume=True)
    assert _names(tmp_path) == ["source.zarr", "target.zarr"]
    _stopped(source, target, overwrite=True, memory=MEMORY, chunks={"x": 7})
    with hs.open(target) as root:
        assert list(root) == ["old"]
    convert(source, target, resume=True, overwrite=True, memory=MEMORY, chunks={"x": 7})
    with hs.open(target) as root:
        assert "old" not in root and "b" in root
    assert _names(tmp_path) == ["source.zarr", "target.zarr"]


def test_killed_between_the_exchange_and_the_end(source: Path, tmp_path: Path) -> None:
    """The old dataset then bears the name of the half-built one, and must not come back."""
    target, partial = tmp_path / "target.zarr", tmp_path / ".partial-resume-target.zarr"
    with hs.create(target) as root:
        root.create_array("old", data=np.arange(3))
    _stopped(source, target, share=1.0, overwrite=True)
    target.rename(tmp_path / "aside")
    partial.rename(target)
    (tmp_path / "aside").rename(partial)
    report = convert(source, target, resume=True, overwrite=True, verify=True)
    assert report.resumed_nbytes == report.nbytes
    with hs.open(target) as root:
        assert "old" not in root
    assert _names(tmp_path) == ["source.zarr", "target.zarr"]


def test_a_conversion_without_resume_clears_away_what_was_left(source: Path, tmp_path: Path) -> None:
    _stopped(source, tmp_path / "target.zarr", memory=MEMORY, chunks={"x": 7})
    convert(source, tmp_path / "target.zarr", "zarr2")
    assert _names(tmp_path) == ["source.zarr", "target.zarr"]


def test_a_refused_store_is_left_alone(source: Path, tmp_path: Path) -> None:
    with hs.create(tmp_path / "old.zarr") as root:
        root.create_array("old", data=np.arange(3))
    before = _names(tmp_path / "old.zarr")
    for resume in (False, True):
        with pytest.raises(AlreadyExists):
            convert(source, DirectoryStore(tmp_path / "old.zarr"), resume=resume)
        assert _names(tmp_path / "old.zarr") == before


def test_two_at_once_are_refused(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.zarr"
    refused = []

    def report(now: Progress) -> None:
        if not refused:
            with pytest.raises(Conflict, match="another conversion") as caught:
                convert(source, target, resume=True)
            refused.append(caught.value)

    convert(source, target, resume=True, progress=report)
    assert refused and hs.open(target)["b"].shape == (1000,)


def test_left_by_a_killed_writer(source: Path, tmp_path: Path) -> None:
    options = {"chunks": {"x": 7}, "memory": MEMORY}
    _stopped(source, tmp_path / "target.zarr", **options)
    folder = tmp_path / ".partial-resume-target.zarr/g/a/c/0"
    (folder / ".0.0123456789abcdef.tmp").write_bytes(b"half a chunk")
    convert(source, tmp_path / "target.zarr", resume=True, **options)
    convert(source, tmp_path / "undisturbed.zarr", **options)
    assert _files(tmp_path / "target.zarr") == _files(tmp_path / "undisturbed.zarr")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files")
def test_no_room_for_the_target(source: Path, tmp_path: Path) -> None:
    options = "--resume --codec none --chunks x=500,y=-1"
    command = f"ulimit -f 8; exec {sys.executable} -m hyperslab convert source.zarr target.zarr {options}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert "goes on from there" in done.stderr and "ulimit -f" in done.stderr
    assert not (tmp_path / "target.zarr").exists()
    report = convert(
        source, tmp_path / "target.zarr", resume=True, verify=True, codec="none", chunks={"x": 500, "y": -1}
    )
    assert 0 < report.resumed_nbytes < report.nbytes
    assert _names(tmp_path) == ["source.zarr", "target.zarr"]


@pytest.mark.parametrize("kind", ["nc", "zip"])
def test_one_file_starts_anew(kind: str, source: Path, tmp_path: Path) -> None:
    name = "target.nc" if kind == "nc" else "target.zarr.zip"
    _stopped(source, tmp_path / name, memory=MEMORY, chunks={"x": 7})
    assert _names(tmp_path) == ["source.zarr"]
    report = convert(source, tmp_path / name, resume=True, verify=True)
    assert report.resumed_nbytes == 0
    assert _names(tmp_path) == ["source.zarr", name]


@pytest.mark.covering
@pytest.mark.parametrize("kind", ["memory", "store", "folder"])
@pytest.mark.parametrize("route", ROUTES)
def test_in_place(kind: str, route: str, source: Path, tmp_path: Path) -> None:
    options = {**ROUTES[route], "memory": MEMORY}
    MemoryStore.forget("resumed")
    stores = {"memory": "memory://resumed", "store": MemoryStore(), "folder": DirectoryStore(tmp_path / "inplace")}
    target: Any = stores[kind]
    stopped = _stopped(source, target, **options)
    look = MemoryStore("resumed") if kind == "memory" else target
    assert not any(key in ("zarr.json", ".zgroup", ".zattrs", ".zmetadata") for key in look.list())
    with pytest.raises(AlreadyExists, match="resume=True"):
        convert(source, target, **options)
    report = convert(source, target, resume=True, verify=True, **options)
    assert report.resumed_nbytes == stopped.done_bytes
    plain = MemoryStore()
    convert(source, plain, **options)
    assert {key: look.get(key) for key in look.list()} == {key: plain.get(key) for key in plain.list()}
    assert not any("hyperslab" in key for key in look.list())
    if kind == "folder":
        assert not (tmp_path / "inplace/.hyperslab-convert").exists()


def test_in_place_over_an_old_one(source: Path) -> None:
    target = MemoryStore()
    with hs.create(target) as root:
        root.create_array("old", data=np.arange(3))
    with pytest.raises(AlreadyExists):
        convert(source, target, resume=True)
    with hs.open(target) as root:
        assert list(root) == ["old"]
    _stopped(source, target, overwrite=True, memory=MEMORY)
    convert(source, target, resume=True, memory=MEMORY)
    with hs.open(target) as root:
        assert sorted(root) == ["b", "g"]


INTERRUPTED = """
import os, signal, sys
files = 0

def watch(event, arguments):
    global files
    if event == "open" and arguments[2] & os.O_CREAT:
        files += 1
        if files == 1_000:
            os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(watch)
from hyperslab.cli import main
main(prog_name="hyperslab")
"""


def _ran(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_leaves_what_is_done(tmp_path: Path) -> None:
    with hs.create(tmp_path / "source.zarr") as root:
        root.create_array("a", data=np.arange(6_000, dtype="f8"), dims=("x",), chunks=(600,))
    words = ["convert", "source.zarr", "target.zarr", "--chunks", "x=3", "--memory", "8KiB", "--resume"]
    stopped = _ran(tmp_path, [sys.executable, "-c", INTERRUPTED, *words])
    assert stopped.returncode == 130, stopped.stderr
    assert stopped.stderr.splitlines()[-1].startswith("error: interrupted")
    assert not (tmp_path / "target.zarr").exists()
    done = ran(COMMAND, *words, "--verify", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "resumed:" in done.stderr
    assert _names(tmp_path) == ["source.zarr", "target.zarr"]


@pytest.mark.parametrize("profile", ["v2", "v3"])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_links_and_references_of_what_was_stopped_are_those_of_one_that_was_not(
    profile: str, share: float, tmp_path: Path
) -> None:
    source = make_hdmf(tmp_path / "source.zarr")
    options: dict[str, Any] = {"format": "hdmf", "profile": profile, "path": "g", **HDMF}
    convert(source, tmp_path / "undisturbed.zarr", **options)
    _stopped(source, tmp_path / "target.zarr", share, **options)
    report = convert(source, tmp_path / "target.zarr", resume=True, verify=True, **options)
    assert report.resumed_nbytes > 0
    assert _files(tmp_path / "target.zarr") == _files(tmp_path / "undisturbed.zarr")
    with hs.open_group(tmp_path / "target.zarr") as root:
        assert str(root["refs"][159]) == "../other.zarr/e" and root["rows"][156]["ref"].resolve().url == root.url
        assert dict(root.links())["outer"].object_id == "id-e"
