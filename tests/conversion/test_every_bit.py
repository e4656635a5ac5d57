"""Verification finds one flipped bit wherever it is in a target without compression and checksums."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.chunks.progress import Progress
from hyperslab.conversion.copy import ConversionJob
from hyperslab.conversion.opening import dataset_session
from hyperslab.conversion.pipeline import convert
from hyperslab.conversion.plan import dry_run
from hyperslab.conversion.rechunk import Encoding
from hyperslab.conversion.selection import Select
from hyperslab.conversion.source_nodes import find_source_nodes, select_nodes
from hyperslab.conversion.staging import StagedTarget
from hyperslab.conversion.verify import verify_target
from hyperslab.errors import HyperslabError
from hyperslab.formats import get_format
from hyperslab.stores.location import Location

pytestmark = pytest.mark.sampled(2)

PER_FILE = 4
KINDS: dict[str, dict[str, Any]] = {
    "zarr2": {"format": "zarr2"},
    "zarr3": {"format": "zarr3"},
    "sharded": {"format": "zarr3", "shards": (8, 8)},
    "compressed": {"format": "zarr2", "codec": "gzip"},
}


def _source(path: Path, kind: str) -> None:
    """Chunks that reach past the edge, shards with room left, groups, attributes, text."""
    more = {"codec": "none", **{name: value for name, value in KINDS[kind].items() if name != "format"}}
    if KINDS[kind]["format"] == "zarr3":
        more["checksum"] = False
    shards = more.pop("shards", None)
    with hs.create(path, KINDS[kind]["format"]) as root:
        root.attrs["title"] = "every bit"
        cells = np.arange(99, dtype="f4").reshape(11, 9)
        made = {"dims": ("x", "y"), "chunks": (4, 4), "attrs": {"scale": np.float32(0.5)}, **more}
        root.create_array("g/a", data=cells, **made, **({"shards": shards} if shards else {}))
        root.create_array("b", data=np.arange(3, dtype="i2"), dims=("z",), chunks=(2,), **more)
        root.create_array("s", data=np.float64(1.5), **more)
        root.create_array("t", data=np.array(["", "ab", "c"], np.dtypes.StringDType()), dims=("z",), **more)


@contextmanager
def _job(source: Path, target: Path) -> Iterator[tuple[ConversionJob, Location, StagedTarget]]:
    """What ``convert`` verifies by, for a target that stands there already."""
    where, there = Location.of(source), Location.of(target)
    with dataset_session(where) as session:
        chosen = get_format(session.format.name)
        items = select_nodes(session, find_source_nodes(session, "", chosen.features), Select.of(None), Encoding())
        plan = dry_run(session, items, Encoding(), chosen, there, allow_loss=False)
        yield (
            ConversionJob(chosen, session, plan.nodes, 1 << 20, options={"consolidated": True}),
            where,
            StagedTarget(there, there),
        )


def _flips(target: Path, per_file: int | None) -> Iterator[tuple[Path, int, int]]:
    chosen = random.Random(7)
    for path in sorted(path for path in target.rglob("*") if path.is_file()):
        places = range(path.stat().st_size)
        for place in places if per_file is None else sorted(chosen.sample(places, min(per_file, len(places)))):
            yield path, place, 1 << chosen.randrange(8)


def _unseen(kind: str, folder: Path, per_file: int | None) -> tuple[list[str], int]:
    """The flips that verification does not find, and how many there were."""
    source, target = folder / "source.zarr", folder / "target.zarr"
    _source(source, kind)
    convert(source, target, KINDS[kind]["format"], verify=True)
    unseen, flips = [], 0
    with _job(source, target) as (job, where, site):
        verify_target(job, where, site, lambda now: None, keyed=True)
        for path, place, bit in _flips(target, per_file):
            sound = path.read_bytes()
            path.write_bytes(sound[:place] + bytes([sound[place] ^ bit]) + sound[place + 1 :])
            flips += 1
            try:
                verify_target(job, where, site, lambda now: None, keyed=True)
            except HyperslabError:
                pass
            else:
                unseen.append(f"{path.relative_to(target)} byte {place} bit {bit}")
            path.write_bytes(sound)
    return unseen, flips


@pytest.mark.sampled(20)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bit_of_each_file(kind: str, tmp_path: Path) -> None:
    unseen, flips = _unseen(kind, tmp_path, PER_FILE)
    assert unseen == []
    assert flips > 40


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_bit_of_each_byte(kind: str, tmp_path: Path) -> None:
    assert _unseen(kind, tmp_path, None)[0] == []


@pytest.mark.parametrize("kind", ["zarr2", "zarr3", "sharded"])
def test_a_bit_that_flips_before_convert_verifies(kind: str, tmp_path: Path) -> None:
    """In the last cell of a chunk at the edge, which no selection shows."""
    _source(tmp_path / "source.zarr", kind)
    name = {"zarr2": "g/a/2.2", "zarr3": "g/a/c/2/2", "sharded": "g/a/c/1/1"}[kind]

    def flip(now: Progress) -> None:
        if now.done_bytes == now.total_bytes:
            (path,) = tmp_path.glob(f".partial-*/{name}")
            value = bytearray(path.read_bytes())
            value[-80 if kind == "sharded" else -1] ^= 4
            path.write_bytes(value)

    with pytest.raises(HyperslabError) as caught:
        convert(tmp_path / "source.zarr", tmp_path / "target.zarr", KINDS[kind]["format"], verify=True, progress=flip)
    assert name in str(caught.value) or caught.value.node == "g/a"
    assert [path.name for path in tmp_path.iterdir()] == ["source.zarr"]


@pytest.mark.parametrize("shards", [None, {"x": 32}])
def test_cells_that_a_codec_changes_are_verified_as_it_stores_them(shards: Any, tmp_path: Path) -> None:
    with hs.create(tmp_path / "source.zarr") as root:
        root.create_array("a", data=np.linspace(0, 1, 99), dims=("x",))
    wish = {"codec": [{"id": "bitround", "keepbits": 8}, {"id": "zlib"}], "format": "zarr2", "chunks": {"x": 16}}
    if shards:
        wish |= {"codec": "bitround:8+zstd", "format": "zarr3", "shards": shards}
    report = convert(tmp_path / "source.zarr", tmp_path / "target.zarr", verify=True, **wish)
    assert report.verified is not None
    cells = hs.open(tmp_path / "target.zarr")["a"][...]
    assert not np.array_equal(cells, np.linspace(0, 1, 99)) and np.allclose(cells, np.linspace(0, 1, 99), rtol=0.01)

    def flip(now: Progress) -> None:
        if now.done_bytes == now.total_bytes:
            path = max(path for path in tmp_path.glob(".partial-*/a/**/*") if path.name[0] in "0123456789")
            value = bytearray(path.read_bytes())
            value[len(value) // 2] ^= 4
            path.write_bytes(value)

    with pytest.raises(HyperslabError):
        convert(tmp_path / "source.zarr", tmp_path / "other.zarr", verify=True, progress=flip, **wish)


def test_a_bit_of_a_netcdf_file_s_cells(tmp_path: Path) -> None:
    with hs.create(tmp_path / "source.zarr") as root:
        root.create_array("a", data=np.arange(64.0) + 0.1234567, dims=("x",))

    report = convert(tmp_path / "source.zarr", tmp_path / "t.nc", codec="none", verify=True)
    assert report.verified is not None
    data = bytearray((tmp_path / "t.nc").read_bytes())
    place = data.index(np.float64(7.1234567).tobytes())
    data[place] ^= 1
    (tmp_path / "t.nc").write_bytes(data)
    with dataset_session(Location.of(tmp_path / "source.zarr")) as session:
        there, chosen = Location.of(tmp_path / "t.nc"), get_format("netcdf")
        cutting = Encoding(codec="none")
        plan = dry_run(
            session,
            select_nodes(session, find_source_nodes(session, "", chosen.features), Select.of(None), cutting),
            cutting,
            chosen,
            there,
            allow_loss=False,
        )
        job = ConversionJob(chosen, session, plan.nodes, 1 << 20)
        with pytest.raises(HyperslabError, match="differ") as caught:
            verify_target(
                job, Location.of(tmp_path / "source.zarr"), StagedTarget(there, there), lambda now: None, keyed=False
            )
    assert (caught.value.url, caught.value.node) == (there.url, "a")
