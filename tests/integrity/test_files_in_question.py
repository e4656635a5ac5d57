"""Documents of Blaze and bcolz, and metalayers of Blosc2, that are wrong cost no cell: sound chunks stay as is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs

CELLS = np.arange(1, 101, dtype="<f8")
MAKES: dict[str, dict[str, Any]] = {
    "blaze": {"superchunk": 3},
    "one superchunk": {},
    "bcolz": {"layout": "bcolz"},
}
EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "of 4 bytes": ("storage", {"dtype": "float32"}),
    "of one byte": ("storage", {"dtype": "int8"}),
    "of 16 bytes": ("storage", {"dtype": "|S16"}),
    "of other numbers": ("storage", {"dtype": "int64"}),
    "of half the rows": ("storage", {"chunklen": 5}),
    "of twice the rows": ("storage", {"chunklen": 20}),
    "half as long": ("sizes", {"shape": [50]}),
    "twice as long": ("sizes", {"shape": [200]}),
    "of two axes": ("sizes", {"shape": [50, 2]}),
    "of fewer chunks": ("superchunks", {"nchunks": 3}),
    "of another checksum": ("superchunks", {"checksum": "sha256"}),
    "of another compressor": ("superchunks", {"cname": "zstd"}),
}


def data_files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (place / "data").iterdir()}


def made(folder: Path, name: str) -> Path:
    with hs.create(folder / "a.blaze", "blaze", **MAKES[name]) as root:
        root.create_array("data", data=CELLS, chunks=10)
    return folder / "a.blaze"


@pytest.mark.covering
@pytest.mark.parametrize("case", EDITS)
@pytest.mark.parametrize("name", MAKES)
def test_sound_files_stay_whatever_the_documents_say(name: str, case: str, tmp_path: Path) -> None:
    place = made(tmp_path, name)
    document, wrong = EDITS[case]
    path = place / "meta" / document
    if not path.exists():
        assert name == "bcolz" and document == "superchunks"
        return
    right, before = path.read_bytes(), data_files(place)
    path.write_text(json.dumps(json.loads(right) | wrong))
    list(hs.repair(place, deep=True, dry_run=False))
    assert data_files(place) == before
    path.write_bytes(right)
    with hs.open_array(place) as array:
        np.testing.assert_array_equal(array[...], CELLS)


def test_files_in_question_are_told(tmp_path: Path) -> None:
    place = made(tmp_path, "blaze")
    path = place / "meta/storage"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"chunklen": 20}))
    found = [problem for problem in hs.check(place) if problem.kind == "other-cells"]
    assert found and all("the documents are in question" in problem.message for problem in found)


@pytest.mark.parametrize("name", MAKES)
def test_a_damaged_file_beside_sound_ones_is_mended(name: str, tmp_path: Path) -> None:
    place = made(tmp_path, name)
    path = max((place / "data").iterdir())
    others = {key: data for key, data in data_files(place).items() if key != path.name}
    path.write_bytes(path.read_bytes()[:20])
    assert all(mend.done for mend in hs.repair(place, deep=True, dry_run=False))
    assert not hs.check(place, deep=True)
    assert {key: data for key, data in data_files(place).items() if key != path.name} == others


@pytest.mark.parametrize("dtype", [b"<f4", b"<i8", b"|S4", b"|S9"])
def test_sound_chunks_of_blosc2_stay(dtype: bytes, tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr3") as root:
        root.create_array("data", data=CELLS, chunks=10)
    place = tmp_path / "a.b2nd"
    hs.convert(tmp_path / "a.zarr", place, path="data")
    sound = place.read_bytes()
    assert sound.count(b"<f8") == 1
    wrong = sound.replace(b"<f8", dtype)
    place.write_bytes(wrong)
    list(hs.repair(place, deep=True, dry_run=False))
    assert place.read_bytes() == wrong


def test_a_file_that_cannot_be_read_here_stays(tmp_path: Path) -> None:
    """One with metadata of bloscpack's own is valid, and is read by others."""
    place = made(tmp_path, "blaze")
    path = min((place / "data").iterdir())
    data = bytearray(path.read_bytes())
    data[4:6] = 3, data[5] | 2
    data[32:32] = b"JSON".ljust(32, b"\0")
    path.write_bytes(data)
    before = data_files(place)
    found = {mend.kind: mend.action for mend in hs.repair(place, deep=True, dry_run=False)}
    assert found == {"not-decoded": None}
    assert data_files(place) == before
