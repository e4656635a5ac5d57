"""Consolidated metadata that holds more than is read of a document at once: never written, read node by node."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hyperslab as hs

FORMATS = ("zarr2", "zarr3")
NUMBERS = [0] * 350_000  # three arrays with so many hold more than 10^6 values together


def copy_in(root: Path, format: str) -> object:
    """The copy that the root holds; None without."""
    if format == "zarr2":
        path = root / ".zmetadata"
        return json.loads(path.read_bytes())["metadata"] if path.exists() else None
    return json.loads((root / "zarr.json").read_bytes()).get("consolidated_metadata")


def make_copy(root: Path, format: str) -> None:
    """Write what another writer consolidates of the arrays and groups below the root."""
    names = {"zarr2": (".zarray", ".zattrs", ".zgroup"), "zarr3": ("zarr.json",)}[format]
    docs = {p.relative_to(root).as_posix(): json.loads(p.read_bytes()) for p in root.rglob("*") if p.name in names}
    if format == "zarr2":
        (root / ".zmetadata").write_text(json.dumps({"metadata": docs, "zarr_consolidated_format": 1}))
        return
    own = docs.pop("zarr.json")
    entries = {path.removesuffix("/zarr.json"): doc for path, doc in docs.items()}
    copy = {"kind": "inline", "must_understand": False, "metadata": entries}
    (root / "zarr.json").write_text(json.dumps({**own, "consolidated_metadata": copy}))


def fill(root: Path, format: str, *, consolidated: bool) -> None:
    with hs.create(root, format=format, consolidated=consolidated) as dataset:
        dataset.attrs["title"] = "t"
        for name in "abc":
            dataset.create_array(name, shape=(2,), dtype="i4", attrs={"numbers": NUMBERS})


@pytest.mark.sampled(0)
@pytest.mark.parametrize("format", ["zarr2", pytest.param("zarr3", marks=pytest.mark.soak)])
def test_what_is_not_read_is_not_written(tmp_path: Path, format: str) -> None:
    """The copy that grows past the limit goes, with a warning; all that was written is read."""
    root = tmp_path / "x.zarr"
    with pytest.warns(UserWarning, match="keeps no consolidated metadata"):
        fill(root, format, consolidated=True)
    assert copy_in(root, format) is None
    with hs.open(root) as dataset:
        assert (list(dataset), dataset.attrs["title"]) == (["a", "b", "c"], "t")
        assert len(dataset["c"].attrs["numbers"]) == len(NUMBERS)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("format", [pytest.param("zarr2", marks=pytest.mark.soak), "zarr3"])
def test_a_large_copy_of_another_writer_is_read(tmp_path: Path, format: str) -> None:
    """It is sound, and decoded node by node; a change cannot write it anew, and removes it with a warning."""
    root = tmp_path / "x.zarr"
    fill(root, format, consolidated=False)
    make_copy(root, format)
    with hs.open(root) as dataset, hs.trace() as cost:
        assert (sorted(dataset), dataset.attrs["title"]) == (["a", "b", "c"], "t")
        assert len(dataset["c"].attrs["numbers"]) == len(NUMBERS)
    assert cost.requests == 0
    assert not hs.check(root)
    with hs.open(root, "r+") as dataset, pytest.warns(UserWarning, match="keeps no consolidated metadata"):
        dataset["a"].attrs["units"] = "m"
    assert copy_in(root, format) is None


@pytest.mark.soak
@pytest.mark.parametrize("format", FORMATS)
def test_a_large_copy_that_is_stale_is_told(tmp_path: Path, format: str) -> None:
    root = tmp_path / "x.zarr"
    fill(root, format, consolidated=False)
    make_copy(root, format)
    document = root / "b" / {"zarr2": ".zattrs", "zarr3": "zarr.json"}[format]
    document.write_text(document.read_text().replace("numbers", "others"))
    assert hs.check(root).kinds == {"stale-copy": 1}
    with pytest.warns(UserWarning, match="keeps no consolidated metadata"):
        hs.repair(root, dry_run=False, deep=False)
    assert copy_in(root, format) is None


MEASURES = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory of a program")
NODES = 100_000
DOCUMENTS = {
    "zarr2": b'"n%d/.zarray": {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<i8", "fill_value": null, '
    b'"order": "C", "filters": null, "compressor": null}, "n%d/.zattrs": {"number": %d, "long_name": "%s"}',
    "zarr3": b'"n%d": {"zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "int64", "fill_value": 0, '
    b'"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}}, "codecs": [{"name": "bytes", '
    b'"configuration": {"endian": "little"}}], "chunk_key_encoding": {"name": "default"}, '
    b'"attributes": {"n": %d, "number": %d, "long_name": "%s"}}',
}
READING = """
import sys
import hyperslab as hs
url, nodes = sys.argv[1], int(sys.argv[2])
def peak():  # of this program, not of the one that started it
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) << 10
before = peak()
with hs.open(url) as root:
    assert len(list(root)) == nodes and "n7" in root and root.attrs["title"] == "t"
    assert root[f"n{nodes - 1}"].attrs["number"] == nodes - 1 and root["n5"].shape == (3,)
print(peak() - before)
"""


def large(root: Path, format: str) -> int:
    """Write the copy of a tree whose own documents nobody has to read, as long as no cell is; its bytes."""
    with hs.create(root, format) as dataset:
        dataset.attrs["title"] = "t"
    words = b"x" * 500
    entries = b", ".join(DOCUMENTS[format] % (n, n, n, words) for n in range(NODES))
    if format == "zarr2":
        text = b'{"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}, '
        text += b'".zattrs": {"title": "t"}, %b}}' % entries
        (root / ".zmetadata").write_bytes(text)
    else:
        text = b'{"attributes": {"title": "t"}, "zarr_format": 3, "consolidated_metadata": {"kind": "inline", '
        text += b'"must_understand": false, "metadata": {%b}}, "node_type": "group"}' % entries
        (root / "zarr.json").write_bytes(text)
    return len(text)


@pytest.mark.sampled(0)
@MEASURES
@pytest.mark.parametrize("format", ["zarr2", pytest.param("zarr3", marks=pytest.mark.soak)])
def test_a_tree_of_a_hundred_thousand_arrays_opens(tmp_path: Path, format: str) -> None:
    """In memory for its document, and for the names in it."""
    size = large(tmp_path / "x.zarr", format)
    assert size > 64 << 20
    command = [sys.executable, "-c", READING, str(tmp_path / "x.zarr"), str(NODES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 3 * size + (100 << 20)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "members": lambda: b'{"metadata": {%b}}' % b",".join(b'"%d":0' % n for n in range(7_000_000)),
    "objects": lambda: b'{"metadata": {%b}}' % b",".join(b'"%d":{}' % n for n in range(7_000_000)),
    "beside": lambda: (
        b'{"metadata": {"a/.zgroup": {"zarr_format": 2}}, %b}' % b",".join(b'"%d":0' % n for n in range(7_000_000))
    ),
    "depth": lambda: b'{"metadata": {"a/.zgroup": %b%b}}' % (b"[" * (35 << 20), b"]" * (35 << 20)),
    "one node": lambda: b'{"metadata": {"a/.zgroup": {"zarr_format": 2, "a": [%b0]}}}' % (b"[]," * (25 << 20)),
}
LOOKING = """
import sys
import hyperslab as hs
def peak():
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
before = peak()
root = hs.open(sys.argv[1])
try:
    print(list(root), root["a"])
except hs.HyperslabError as error:
    print(error)
print((peak() - before) >> 10)
"""


@MEASURES
@pytest.mark.parametrize(
    "case", ["depth", *(pytest.param(case, marks=pytest.mark.soak) for case in HOSTILE if case != "depth")]
)
def test_a_hostile_copy_costs_little(tmp_path: Path, case: str) -> None:
    hs.create(tmp_path / "x.zarr", "zarr2").close()
    text = HOSTILE[case]()
    (tmp_path / "x.zarr/.zmetadata").write_bytes(text)
    done = subprocess.run(
        [sys.executable, "-c", LOOKING, str(tmp_path / "x.zarr")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < 4 * (len(text) >> 20) + 100
