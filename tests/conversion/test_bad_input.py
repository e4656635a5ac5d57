"""What cannot be converted, into targets of every kind: said before anything is touched; nothing is half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import hyperslab as hs
from command_line import CliRunner
from conversion.targets import CELLS, IN_PLACE, KINDS, LOCAL, ONE, Target, damage, make_source, target_of
from hyperslab.cli import main
from hyperslab.errors import AlreadyExists, CorruptChunk, FormatError, Invalid, Unsupported

pytestmark = pytest.mark.sampled(2)

ALL = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def target(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Target:
    return target_of(kind, tmp_path, request.getfixturevalue)


def _command(source: Path, target: Target, *more: str) -> Result:
    return CliRunner().invoke(main, ["convert", str(source), *target.words, *more])


def test_shards_whose_index_has_no_room(tmp_path: Path) -> None:
    """As ``create_array`` says of them, before there is any target."""
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("a", (10**9, 1), "i1", dims=("t", "x"), chunks=(10**6, 1))
    words = [str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--chunks", "t=1", "--shards", "t=-1"]
    found = CliRunner().invoke(main, ["convert", *words])
    assert found.exit_code == 2 and "shard of 1,000,000,000 chunks would take 14.9 GiB" in found.stderr, found.stderr
    with pytest.raises(Invalid, match="make shards smaller, or chunks larger"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={"t": 1}, shards={"t": 10**8})
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


# -- what the target cannot hold --------------------------------------------------------------------------------------


def _lossy(path: Path) -> Path:
    """A link, and an attribute that refers to an array: only HDMF holds those."""
    make_source(path, "hdmf")
    with hs.open(path, "r+") as root:
        root.create_link("other", root["b"])
        root["a"].attrs["of"] = root["b"].ref
    return path


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "hdmf"])
def test_losses_are_listed_and_nothing_is_written(
    kind: str, target: Target, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = _lossy(tmp_path / "source.zarr")
    with pytest.raises(Unsupported, match="--allow-loss") as caught:
        target.convert(source)
    lost = [line.strip() for line in str(caught.value).splitlines() if line.startswith("  /")]
    assert {line.partition(":")[0] for line in lost} == {"/a"} if kind in ONE else {"/a", "/other"}
    assert target.lies() == {}
    said = _command(source, target)
    assert said.exit_code == 8 and all(line in said.stderr for line in lost)
    assert target.lies() == {}
    said = _command(source, target, "--allow-loss", "--json")
    assert said.exit_code == 0, said.stderr
    report = json.loads(said.stdout)
    assert [f"/{loss['node']}: {loss['message']}" for loss in report["losses"]] == lost
    assert [record.getMessage() for record in caplog.records] == [f"lost in {KINDS[kind][0]}: {one}" for one in lost]
    assert np.array_equal(target.open()["a"][...], CELLS)


def test_a_codec_that_the_target_has_not_is_no_loss(tmp_path: Path) -> None:
    source = make_source(tmp_path / "source.zarr")
    for name in ("x.b2nd", "x.blp"):
        for allowed in (False, True):
            with pytest.raises(Unsupported, match="gzip"):
                hs.convert(source, tmp_path / name, path="a", codec="gzip", allow_loss=allowed)
    assert os.listdir(tmp_path) == ["source.zarr"]


# -- what of the source is damaged ------------------------------------------------------------------------------------


@pytest.mark.sampled(7)
@ALL
def test_what_is_damaged_is_listed_and_may_be_left_out(kind: str, target: Target, tmp_path: Path) -> None:
    source = make_source(tmp_path / "source.zarr")
    lost = ("x",) if kind in ONE else ("b", "x")
    damage(source, "b", "x")
    with pytest.raises((CorruptChunk, FormatError), match="--skip-damaged") as caught:
        target.convert(source)
    assert all(f"/{name}" in str(caught.value) for name in lost)
    said = _command(source, target)
    assert said.exit_code == 5 and all(f"/{name}" in said.stderr for name in lost)
    assert target.lies() == {}
    report = target.convert(source, skip_damaged=True, verify=True)
    assert tuple(problem.node for problem in report.damaged) == lost
    assert all(f"damaged, left out: /{name}" in str(report) for name in lost)
    with target.open() as root:
        assert sorted(root) == (["a"] if kind in ONE else ["a", "c"])
        assert np.array_equal(root["a"][...], CELLS)


def test_the_command_lists_what_it_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source, target = make_source(tmp_path / "source.zarr"), tmp_path / "target.zarr"
    damage(source, "b")
    (source / "c/zarr.json").write_text('{"zarr_format": 3')
    said = CliRunner().invoke(main, ["convert", str(source), str(target), "--skip-damaged", "--json"])
    assert said.exit_code == 1
    assert [problem["node"] for problem in json.loads(said.stdout)["damaged"]] == ["b", "c"]
    assert [record.getMessage().count("left out, for it is damaged") for record in caplog.records] == [1, 1]
    assert sorted(hs.open_group(target)) == ["a", "x"]


def test_where_nothing_is_left_nothing_is_written(tmp_path: Path) -> None:
    source = make_source(tmp_path / "source.zarr")
    damage(source, "a")
    damage(source, "x")
    for options in ({"format": "b2nd", "path": "a"}, {"path": "x", "format": "zarr2"}):
        with pytest.raises((CorruptChunk, FormatError)) as caught:
            hs.convert(source, tmp_path / "target", skip_damaged=True, **options)
        assert "--skip-damaged" not in str(caught.value)
        assert str(caught.value).endswith("without what is damaged there is no array to copy")
    assert sorted(os.listdir(tmp_path)) == ["source.zarr"]


def test_skipping_is_no_advice_where_nothing_would_be_left(tmp_path: Path) -> None:
    source = make_source(tmp_path / "source.zarr")
    damage(source, "a")
    for path, advised in (("", True), ("a", False)):
        with pytest.raises((CorruptChunk, FormatError)) as caught:
            hs.convert(source, tmp_path / "target", "b2nd" if path else "zarr2", path=path)
        assert ("--skip-damaged" in str(caught.value)) == advised
    assert sorted(os.listdir(tmp_path)) == ["source.zarr"]


def test_cells_that_are_not_chosen_may_be_damaged(tmp_path: Path) -> None:
    source = make_source(tmp_path / "source.zarr")
    damage(source, "b")
    report = hs.convert(source, tmp_path / "target.zarr", select={"y": slice(0, 2)}, skip_damaged=True)
    assert not report.damaged
    assert np.array_equal(hs.open_group(tmp_path / "target.zarr")["b"][...], CELLS[:2] + 1)


def test_what_an_interrupted_conversion_left_out_is_left_out_again(tmp_path: Path) -> None:
    source, target = make_source(tmp_path / "source.zarr"), tmp_path / "target.zarr"
    damage(source, "b")

    def stop(now: Any) -> None:
        if now.done_chunks > 2:
            raise KeyboardInterrupt

    options = {"skip_damaged": True, "resume": True, "chunks": {"y": 2}, "memory": "2kB"}
    with pytest.raises(KeyboardInterrupt):
        hs.convert(source, target, progress=stop, **options)
    report = hs.convert(source, target, verify=True, **options)
    assert report.resumed_nbytes and [problem.node for problem in report.damaged] == ["b"]
    assert sorted(hs.open_group(target)) == ["a", "c", "x"]


# -- one place for both -----------------------------------------------------------------------------------------------


def _spellings(source: Path) -> dict[str, str]:
    link = source.parent / "link.zarr"
    link.symlink_to(source.name)
    return {
        "itself": str(source),
        "a detour": f"{source.parent}/./{source.name}/../{source.name}/",
        "relative": os.path.relpath(source),
        "a URL": source.as_uri(),
        "a link": str(link),
        "within": f"{source}/new.zarr",
        "within a link": f"{link}/b",
        "around": str(source.parent),
    }


def test_source_and_target_are_two_places(tmp_path: Path) -> None:
    source = make_source(tmp_path / "inner/source.zarr")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for spelled in _spellings(source).values():
        for overwrite in (False, True):
            with pytest.raises(Invalid, match=r"same place|lies within"):
                hs.convert(source, spelled, "zarr2", overwrite=overwrite)
            more = ["--overwrite"] if overwrite else []
            said = CliRunner().invoke(main, ["convert", str(source), spelled, "--format", "zarr2", *more])
            assert said.exit_code == 2 and "source" in said.stderr
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == {
        path: value for path, value in before.items() if path.is_relative_to(source)
    }


@pytest.mark.parametrize("kind", ["memory", "s3", "mongo", "zip"])
def test_two_places_elsewhere(kind: str, target: Target, tmp_path: Path) -> None:
    target.convert(make_source(tmp_path / "source.zarr"))
    before = target.lies()
    again = {"zip": f"zip://{target.url}", "mongo": target.url.replace("mongodb://", "mongodb://somebody:secret@")}
    for spelled in (target.url, again.get(kind, f"{target.url}/")):
        given = {"storage_options": target.storage, "overwrite": True}
        with pytest.raises(Invalid, match="same place") as caught:
            hs.convert(target.url, spelled, KINDS[kind][0], **given)
        assert "secret" not in str(caught.value)
    assert target.lies() == before


# -- something is there -----------------------------------------------------------------------------------------------


class _Broken(Exception):
    """Of the test, in the middle of a conversion."""


@pytest.mark.sampled(7)
@ALL
def test_a_target_that_is_there(kind: str, target: Target, tmp_path: Path) -> None:
    """It stays what it was, unless it is to be replaced, and until the new one is complete."""
    old, new = make_source(tmp_path / "old.zarr"), make_source(tmp_path / "new.zarr")
    with hs.open(new, "r+") as root:
        root["a"][...] = -CELLS
    target.convert(old)
    before = target.lies()
    with pytest.raises(AlreadyExists):
        target.convert(new)
    assert _command(new, target).exit_code == 4
    assert target.lies() == before

    def fail(now: Any) -> None:
        if now.done_chunks:
            raise _Broken

    with pytest.raises(_Broken):
        target.convert(new, overwrite=True, progress=fail)
    assert target.lies() == ({} if kind in IN_PLACE else before)
    assert _command(new, target, "--overwrite").exit_code == 0
    assert np.array_equal(target.open()["a"][...], -CELLS)


# -- no room ----------------------------------------------------------------------------------------------------------

_NO_ROOM = """
import os, resource, sys
import numpy as np
import hyperslab as hs
from conversion.targets import KINDS, LOCAL, ONE
from hyperslab.errors import StorageError
from hyperslab.stores.memory import MemoryStore

place, mounted = sys.argv[1], sys.argv[2] == "mounted"
if not mounted:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
source = MemoryStore()
with hs.create(source) as root:
    cells = np.random.default_rng(1).integers(0, 2**62, (8, 40_000))
    root.create_array("a", data=cells, dims=("y", "x"), chunks=(4, 40_000))
for kind in LOCAL:
    name, suffix = KINDS[kind]
    target = os.path.join(place, "x" + suffix)
    options = {"path": "a"} if kind in ONE else {}
    try:
        codec = "none" if name in ("zarr2", "zarr3", "nczarr", "hdmf") else None
        hs.convert(source, target, name, codec=codec, **options)
    except StorageError as error:
        print(kind, "StorageError", "x" + suffix in str(error), sorted(os.listdir(place)))
    else:
        print(kind, "no error")
"""


@pytest.mark.sampled(0)
def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A file system of 1 MiB where one can be mounted, else files of at most 1 MiB."""
    mount = 'mount -t tmpfs -o size=1m none "$1" || exit 77; exec "$2" -c "$3" "$1" mounted'
    sandbox = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "-"]
    here = [str(tmp_path), sys.executable, _NO_ROOM]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    run = partial(subprocess.run, capture_output=True, text=True, check=False, env=environment)
    try:
        done = run([*sandbox, *here])
    except FileNotFoundError:
        done = None
    if done is None or (done.returncode and not done.stdout):
        done = run([sys.executable, "-c", _NO_ROOM, str(tmp_path), "limited"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{kind} StorageError True []" for kind in LOCAL]


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------

_STOPPED = """
import json, signal, sys, threading, time
import hyperslab as hs

stopped = []  # no Event: a handler that runs while its own thread takes the lock of one waits for ever

def stop(number, frame):
    stopped.append(number)
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, stop)
for source, target, format, options, share in json.loads(sys.argv[1]):
    stopped.clear()
    begun = threading.Event()

    def report(now):
        if not begun.is_set() and now.done_bytes >= share * now.total_bytes:
            begun.set()
            print("now", flush=True)
            while not stopped:
                time.sleep(0.005)

    try:
        hs.convert(source, target, format, progress=report, **options)
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


@pytest.mark.sampled(0)
def test_ctrl_c_leaves_nothing(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A signal to a process that has done a part of it, for each kind of target in turn."""
    source = tmp_path / "source.zarr"
    with hs.create(source) as root:
        root.create_array("a", data=np.arange(2000.0), dims=("x",), chunks=(100,))
    targets, orders = [], []
    for number, kind in enumerate(kind for kind in KINDS if kind != "memory"):
        (folder := tmp_path / kind).mkdir()
        target = target_of(kind, folder, request.getfixturevalue)
        more = {"storage_options": target.storage} if target.storage else {}
        more |= {"superchunk": 2} if kind == "blaze" else {}
        options = {**target.options, "chunks": {"x": 50}, "memory": 1 << 12, **more}
        orders.append([str(source), target.url, KINDS[kind][0], options, (3 * number % 10) / 10])
        targets.append(target)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _STOPPED, json.dumps(orders)], text=True, **pipes) as running:
        heard = []
        assert running.stdout is not None
        for line in running.stdout:
            heard.append(line)
            if line == "now\n":
                running.send_signal(signal.SIGINT)
        said = running.communicate()[1]
    assert (running.returncode, heard) == (0, ["now\n", "stopped\n"] * len(targets)), said
    for target, line in zip(targets, said.splitlines(), strict=True):
        goes_on = target.kind in ("folder", "zarr2", "hdmf", "nczarr", "s3")
        assert line.startswith("interrupted: nothing of") and ("--resume" in line) == goes_on
        assert target.lies() == {}
        assert target.kind not in LOCAL or os.listdir(tmp_path / target.kind / "there") == []


def test_an_option_that_the_format_lacks_is_one_of_the_target(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("v", data=np.arange(4.0))
    with pytest.raises(Invalid, match="no option 'verfy'") as caught:
        hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", verfy=True)
    assert caught.value.url is not None and caught.value.url.endswith("b.zarr")
    assert not (tmp_path / "b.zarr").exists()
