"""Damaged and foreign files: an error of ours that names the place, in another process, for a library might crash."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, Unsupported
from hyperslab.formats.b2nd import FORMAT, document
from hyperslab.stores.location import Location, Probe
from programs import ran

GOLDEN = Path(__file__).parents[2] / "golden" / "b2nd"
OPENER = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
import numpy as np, hyperslab as hs
from hyperslab.errors import HyperslabError
for name in sys.stdin.read().split():
    try:
        array = hs.open(name, format="b2nd", memory_limit=1 << 20)
        array[...]
        array.close() if hasattr(array, "close") else None
        print("fine")
    except HyperslabError as error:
        assert name in str(error), error
        print(type(error).__name__)
    sys.stdout.flush()
"""


def outcomes(folder: Path, variants: list[bytes]) -> list[str]:
    paths = [folder / f"{number}.b2nd" for number in range(len(variants))]
    for path, raw in zip(paths, variants, strict=True):
        path.write_bytes(raw)
    done = ran(OPENER, given="\n".join(map(str, paths)).encode())
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout.split()


@pytest.mark.parametrize("name", ["f4_2d", "struct", "full_special"])
@pytest.mark.parametrize("count", [30, pytest.param(150, marks=pytest.mark.soak)])
def test_every_truncation_is_an_error_of_ours(tmp_path: Path, name: str, count: int) -> None:
    raw = (GOLDEN / f"{name}.b2nd").read_bytes()
    cuts = range(0, len(raw), max(1, len(raw) // count))
    assert set(outcomes(tmp_path, [raw[:cut] for cut in cuts])) == {"FormatError"}


@pytest.mark.parametrize("name", ["f4_2d", "struct", "full_special"])
@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.soak)])
def test_changed_bytes_never_end_the_process(tmp_path: Path, name: str, count: int) -> None:
    raw, rng = (GOLDEN / f"{name}.b2nd").read_bytes(), random.Random(1)
    variants = []
    for _ in range(count):
        changed = bytearray(raw)
        changed[rng.randrange(len(raw))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        variants.append(bytes(changed))
    found = outcomes(tmp_path, variants)
    assert len(found) == len(variants)
    assert {"fine", "FormatError"} <= set(found)


def test_a_damaged_chunk_is_named_and_can_be_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    cells = np.arange(120_000.0).reshape(400, 300)
    with hs.create(path) as root:
        root.create_array("v", data=cells, chunks=(100, 300))
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 200] = b"\xff" * 200
    path.write_bytes(raw)
    (problem,) = hs.check(path, deep=True)
    with pytest.raises(CorruptChunk, match="chunk 2, 0"):
        hs.open(path)[...]
    assert "200:300" in problem.message
    assert np.array_equal(hs.open(path)[:200], cells[:200])
    with hs.open_group(path, "r+") as root:
        root["v"][200:300] = cells[200:300]
    assert np.array_equal(hs.open(path)[...], cells)


def with_metalayer(name: str, old: bytes, new: bytes) -> bytes:
    raw = (GOLDEN / f"{name}.b2nd").read_bytes()
    assert raw.count(old) >= 1
    return raw.replace(old, new, 1)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (with_metalayer("f4_2d", b"<f4", b"|O8"), "objects"),
        (with_metalayer("f4_2d", b"<f4", b"<f8"), "4 bytes"),
        (with_metalayer("f4_2d", b"<f4", b"{}}"), "no data type"),
        (with_metalayer("f4_2d", struct.pack(">Bq", 0xD3, 20), struct.pack(">Bq", 0xD3, 2000)), "no array of shape"),
        (with_metalayer("f4_2d", struct.pack(">Bq", 0xD3, 20), struct.pack(">Bq", 0xD3, -20)), "no lengths"),
        (with_metalayer("f4_2d", b"\xa4b2nd", b"\xa4b3nd"), "load_array"),
        (with_metalayer("f4_2d", b"b2frame", b"b3frame"), "no frame"),
    ],
)
def test_headers_that_contradict_themselves(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "a.b2nd"
    path.write_bytes(raw)
    with pytest.raises(HyperslabError, match=message) as caught:
        FORMAT.open(Location.of(path), "r")
    assert isinstance(caught.value, FormatError | Unsupported)
    assert caught.value.url == str(path)


def test_types_are_read_without_running_anything() -> None:
    for text in ("__import__('os')", "[('a', __import__('os'))]", "[" * 5000, "O", "[('a', 'O')]", "", "{'names': 1}"):
        with pytest.raises((FormatError, Unsupported)):
            document.parse_dtype(text)


def test_sniffing_is_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.b2nd").write_bytes(b"something else")
    (tmp_path / "b.b2z").write_bytes(b"PK\x03\x04")
    assert not FORMAT.sniff(Probe(Location.of(tmp_path / "a.b2nd")))
    assert not FORMAT.sniff(Probe(Location.of(tmp_path)))
    with pytest.raises(FormatError):
        FORMAT.open(Location.of(tmp_path / "b.b2z"), "r")
