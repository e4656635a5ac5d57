"""Files read without the library are what the library makes of them; what is damaged is left to the library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import golden_deker
import h5py
import numpy as np
import pytest
from deker_arrays import KEY, PLAIN, file_of, make, new, read, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, NodeNotFound
from hyperslab.formats.collections.deker import data_file as opening
from hyperslab.formats.collections.deker.data_file import DekerFile, open_file
from hyperslab.formats.collections.deker.hdf5_parser import parse_data_file
from hyperslab.model.schemas import ArraySchema, DimensionSchema, HDF5CompressionOpts, HDF5Options


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of DEKER's, and of ours with many chunks and after many changes."""
    root = golden_deker.unpack(tmp_path_factory.mktemp("golden"))
    found = sorted(root.rglob("array_data/**/*.hdf5"))
    schema = ArraySchema([DimensionSchema("y", 90), DimensionSchema("x", 70)], np.int32, [KEY], 0)
    holding = make(root, schema, "many", HDF5Options((2, 3), HDF5CompressionOpts("gzip", 1)))
    id = new(holding, {"k": 1})
    write(holding, id, values((90, 70), "i4"))
    return [*found, file_of(holding, id)]


def _quick(path: Path) -> Any:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return parse_data_file(descriptor)
    finally:
        os.close(descriptor)


def _by_library(path: Path, monkeypatch: pytest.MonkeyPatch) -> DekerFile:
    with monkeypatch.context() as patch:
        patch.setattr(opening, "parse_data_file", lambda descriptor: None)
        return open_file(str(path))


def _cells(opened: DekerFile) -> Any:
    if opened.cells is None:
        return None
    out = np.empty(opened.shape, opened.dtype)
    opened.read(tuple(slice(0, size) for size in opened.shape), out, Settings())
    return out.tobytes()


def test_it_finds_what_the_library_does(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for path in files:
        assert _quick(path) is not None, path
        found, wanted = open_file(str(path)), _by_library(path, monkeypatch)
        for name in ("text", "empty_cells", "shape", "dtype", "codecs", "fill", "has_foreign_objects", "stamp"):
            assert getattr(found, name) == getattr(wanted, name), (path, name)
        assert type(found.cells) is type(wanted.cells)
        assert _cells(found) == _cells(wanted)


@pytest.mark.parametrize("how", ["newest", "attribute", "group", "more", "text"])
def test_other_files_are_left_to_the_library(tmp_path: Path, how: str) -> None:
    path = tmp_path / "file.hdf5"
    with h5py.File(path, "w", libver="latest" if how == "newest" else "earliest") as file:
        file.create_dataset("meta", data=np.bytes_("{}") if how != "text" else "{}")
        file.create_dataset("data", data=np.zeros(3))
        match how:
            case "attribute":
                file.attrs["a"] = 1
            case "group":
                file.create_group("g")
            case "more":
                file.create_dataset("more", data=1)
    assert _quick(path) is None
    opened = open_file(str(path))
    assert (opened.text, opened.shape, opened.has_foreign_objects) == (
        "{}",
        (3,),
        how in ("attribute", "group", "more"),
    )


@settings(max_examples=min(settings.default.max_examples, 150))
@given(data=st.data())
def test_damage_never_raises(files: list[Path], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(files))
    body = bytearray(path.read_bytes()[:6000])
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=6)):
        body[place] = data.draw(st.sampled_from([0, 1, 2, 7, 127, 255]))
    cut = data.draw(st.none() | st.integers(0, len(body)))
    target = path.parent / "damaged.hdf5"
    target.write_bytes(bytes(body if cut is None else body[:cut]))
    _quick(target)


def test_a_damaged_file_that_is_removed_while_it_is_looked_at_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.hdf5"
    path.write_bytes(b"x" * 100)

    def remove(descriptor: int) -> None:
        path.unlink()

    monkeypatch.setattr(opening, "parse_data_file", remove)
    with pytest.raises(NodeNotFound):
        open_file(str(path))


def test_a_tree_of_chunks_that_leads_to_itself_comes_to_an_end(tmp_path: Path) -> None:
    holding = make(tmp_path, PLAIN, options=HDF5Options((1, 1)))
    id = new(holding, {"k": 1})
    write(holding, id, 1.0)
    path = file_of(holding, id)
    body = bytearray(path.read_bytes())
    place = body.rindex(b"TREE\x01")
    body[place + 5] = 7  # an inner node, whose children are the chunks
    path.write_bytes(body)
    os.utime(path, (1e9, 1e9))
    assert _quick(path) is None
    with pytest.raises(HyperslabError):
        read(holding, id)


_READS = """
import sys
from pathlib import Path
from deker_arrays import read, reopen
holding = reopen(Path(sys.argv[1]), writable=False)
kept = [holding.chunks(id, holding.spec(id)) for id in holding.list_part("")]
blocks = [source.fetch(()) for source in kept]
for block in blocks:
    block.read_box((slice(0, 20), slice(0, 30)), read(holding, sys.argv[2]))
"""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("filters", ["lzf", "szip"])
def test_a_process_that_reads_by_the_library_ends_well(tmp_path: Path, filters: str) -> None:
    schema = ArraySchema([DimensionSchema("y", 20), DimensionSchema("x", 30)], np.int32, [KEY], 0)
    values_of = HDF5CompressionOpts(filters, ("nn", 8) if filters == "szip" else None)
    holding = make(tmp_path, schema, options=HDF5Options((8, 8), values_of))
    id = new(holding, {"k": 1})
    write(holding, id, values((20, 30), "i4"))
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parents[3] / "src")])
    child = subprocess.run([sys.executable, "-c", _READS, tmp_path, id], env={**os.environ, "PYTHONPATH": path})
    assert child.returncode == 0
