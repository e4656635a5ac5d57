"""What ``convert(verify=True).losses == ()`` says is true: from A to B and back, only what losses name is another."""

import re
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from conversion.targets import TREES
from hyperslab.conversion.losses import Loss
from hyperslab.errors import Problem, Unsupported
from hyperslab.model.dtypes import Char, Enum, Opaque, VlenArray, VlenBytes, numpy_dtype

pytestmark = pytest.mark.sampled(2)

PAIRS = [pair for pair in permutations(TREES, 2) if set(pair) != {"nczarr", "draft"}]
"""The two dialects of NCZarr call dimensions without names otherwise, and refuse each other's."""
FEW = [pair for pair in PAIRS if set(pair) <= {"zarr3", "zarr2", "netcdf", "nczarr", "hdmf"}]
ATTRS: dict[str, Any] = {
    "NUL": "x\0y",
    "empty": "",
    "empty list": [],
    "nested": {"a": [1, {"b": None}], "c": "ü"},
    "unicode": "Größe ☃ 𝄞",
    "bytes": b"\xff\0a",
    "none": None,
    "true": True,
    "NumPy's false": np.bool_(False),
    "int": 2**60,
    "float": 0.1,
    "nan": float("nan"),
    "inf": float("inf"),
    "i1": np.int8(-3),
    "u8": np.uint64(2**64 - 1),
    "f4": np.float32(0.1),
    "f2": np.float16(0.5),
    "big-endian": np.arange(3, dtype=">i2"),
    "one of a list": np.array([5], "u1"),
    "none of a list": np.array([], "f4"),
    "complex": 1 + 2j,
    "complex64": np.complex64(1j),
    "texts": ["a", "", "é"],
    "a text of a list": ["a"],
    "mixed": [1, "a", 2.5],
    "time": np.datetime64("2020-01-01", "s"),
    "days": np.timedelta64(5, "D"),
    "ü.name-": 1,
    "bytes of one length": np.array([b"ab", b"c"]),
    "texts of one length": np.array(["ab", "ü"]),
    "row": np.array((1, b"?"), [("a", "i2"), ("b", "S1")]),
}
ROWS = np.array([(1, 2.5, b"ab"), (2, np.nan, b""), (3, -0.0, b"c"), (4, 1, b"zz")], "i2,f8,S2")
CELLS: dict[str, Any] = {
    "payload": np.array([0x7FC00001, 0xFFC00002, 0x80000000, 0x3F800000], "u4").view("f4"),
    "payload8": np.array([0x7FF8000000000123, 0x7FF0000000000001, 1 << 63, 0], "u8").view("f8"),
    "big-endian": np.arange(4, dtype=">i4"),
    "bytes": np.array([b"ab\0", b"ac", b"", b"xyz"]),
    "byte": np.array([b"a", b"", b"y", b"z"]),
    "fixed text": np.array(["ab", "ü", "", "☃☃"]),
    "text": np.array(["ab", "ü q", "", "☃☃ long"], np.dtypes.StringDType()),
    "truth": np.array([True, False, True, True]),
    "complex": np.array([1 + 2j, np.nan, complex(-0.0, 0), 3]),
    "time": np.array(["2020-01-01", "NaT", "1700-01-01", "2262-01-01"], "M8[s]"),
    "span": np.array([1, 2, -3, 0], "m8[D]"),
    "short": np.array([1, np.nan, 0.1, 65504], "f2"),
    "long": np.array([2**64 - 1, 0, 1, 2**63], "u8"),
    "rows": ROWS,
    "ü x.-": np.arange(4),
    "UPPER": np.arange(4),
    "upper": np.arange(4),
}
TYPED: dict[str, tuple[Any, list[Any]]] = {
    "vlen bytes": (VlenBytes(), [b"a\0", b"", b"y", b"zz"]),
    "vlen": (VlenArray(np.dtype("f4")), [np.arange(count, dtype="f4") for count in (2, 0, 1, 3)]),
    "char": (Char(), [b"a", b"", b"c", b""]),
    "opaque": (Opaque(3, "op_t"), [b"abc", b"\0\0\1", b"xyz", b"\0\0\0"]),
    "enum": (Enum(np.dtype("i1"), {"A": 0, "B": 1}, "en_t"), [0, 1, 0, 1]),
}


@pytest.fixture(scope="session")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("awkward") / "source"
    with hs.create(place, format="zarr3") as root:
        root.attrs.update(ATTRS)
        root.create_array("scalar", data=np.float32(3.5))
        root.create_array("words", data=np.array("ü x", np.dtypes.StringDType()))
        root.create_array("none", data=np.zeros((0, 3), "i2"), dims=("nothing", "c"))
        root.create_array("marked", data=np.arange(4.0), dims=("x",), fill_value=2.0, attrs={"_FillValue": 2.0})
        root.create_array("filled", data=np.arange(4.0), dims=("x",), fill_value=9.0)
        root.create_array("anonymous", data=np.arange(6).reshape(2, 3))
        root.create_array("half", data=np.arange(6).reshape(2, 3), dims=("y", None))
        root.create_array("square", data=np.arange(9).reshape(3, 3), dims=("k", "k"))
        root.create_array("said", data=np.arange(4, dtype="i2"), dims=("x",), attrs=ATTRS)
        for name, cells in CELLS.items():
            root.create_array(name, data=cells, dims=("x",))
        for name, (dtype, values) in TYPED.items():
            cells = np.empty(4, numpy_dtype(dtype))
            cells[:] = np.array(values, "S3").view("V3") if name == "opaque" else values
            root.create_array(name, data=cells, dtype=dtype, dims=("x",))
        group = root.create_group("g é")
        group.attrs["in"] = "it\0self"
        group.create_array("x", data=np.arange(2.0), dims=("x",))
        group.create_group("empty")
    return place


def unnamed(problem: Problem, losses: Sequence[Loss]) -> bool:
    """Whether no loss speaks of a difference. Text of a fixed length may become text of any."""
    if "cells of type string, not <U" in str(problem):
        return False
    there = [loss for loss in losses if problem.node == loss.node or problem.node.startswith(f"{loss.node or '?'}/")]
    name = re.search(r"attribute '([^']*)'", problem.message)
    if name is not None:
        there = [loss for loss in there if repr(name[1]) in loss.message or "is left out" in loss.message]
    return not there


def there_and_back(awkward: Path, folder: Path, first: str, second: str) -> None:
    how: dict[str, Any] = {"allow_loss": True, "verify": True}
    hs.convert(awkward, folder / "a", **TREES[first], **how)
    there = hs.convert(folder / "a", folder / "b", **TREES[second], **how)
    back = hs.convert(folder / "b", folder / "c", **TREES[first], **how)
    losses = [*there.losses, *back.losses]
    assert [str(problem) for problem in hs.diff(folder / "a", folder / "c") if unnamed(problem, losses)] == []


@pytest.mark.sampled(20)
@pytest.mark.covering("first", "second")
@pytest.mark.parametrize(("first", "second"), FEW)
def test_only_what_losses_name_is_another(awkward: Path, tmp_path: Path, first: str, second: str) -> None:
    there_and_back(awkward, tmp_path, first, second)


@pytest.mark.soak
@pytest.mark.parametrize(("first", "second"), [pair for pair in PAIRS if pair not in FEW])
def test_only_what_losses_name_is_another_in_every_format(
    awkward: Path, tmp_path: Path, first: str, second: str
) -> None:
    there_and_back(awkward, tmp_path, first, second)


@pytest.mark.parametrize("text", ["a\0b", "a\0"])
def test_text_that_netcdf_would_cut_at_nul_is_refused(tmp_path: Path, text: str) -> None:
    cells = np.array([text, "b"], np.dtypes.StringDType())
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("a", data=cells, dims=("x",))
    with pytest.raises(Unsupported, match="NUL"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "a.nc")
    with hs.create(tmp_path / "b.nc") as root, pytest.raises(Unsupported, match="NUL"):
        root.create_array("a", data=cells, dims=("x",))


def test_text_that_ends_in_nul_is_told_where_cells_have_one_width(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("a", data=np.array(["a\0", "b"], np.dtypes.StringDType()), dims=("x",))
    with pytest.raises(Unsupported, match="end in NUL"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "b.nczarr")
    report = hs.convert(tmp_path / "a.zarr", tmp_path / "b.nczarr", allow_loss=True, verify=True)
    assert len(report.losses) == 1 and "a" not in hs.open(tmp_path / "b.nczarr")


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_files_that_no_format_knows_are_named_and_not_copied(format: str, tmp_path: Path) -> None:
    place = tmp_path / "images.zarr"
    with hs.create(place, format) as root:
        root.create_array("OME/t", data=np.arange(6).reshape(2, 3), chunks=(1, 3))
    (place / "OME" / "METADATA.ome.xml").write_text("<OME/>")
    (place / "OME" / "t" / "README").write_text("!")
    (place / "pictures").mkdir()
    (place / "pictures" / "a.png").write_text("!")
    (place / "OME" / "t" / ".half.0123456789abcdef.tmp").write_text("!")  # an unfinished write is for repair
    wanted = [(note.node, note.kind, note.message) for note in hs.check(place).notes]
    assert [(node, kind) for node, kind, _ in wanted] == [
        ("OME", "foreign"),
        ("OME/t", "foreign"),
        ("pictures", "foreign"),
    ]
    for dry_run in (True, False):
        report = hs.convert(place, tmp_path / "copy.zarr", verify=not dry_run, dry_run=dry_run)
        assert sorted((each.node, each.kind, each.message) for each in report.foreign) == wanted
        assert report.losses == () and "not copied: /OME: METADATA.ome.xml" in str(report)
    assert hs.check(tmp_path / "copy.zarr").notes == []
    assert hs.convert(tmp_path / "copy.zarr", tmp_path / "again.zarr").foreign == ()
    part = hs.convert(place, tmp_path / "part.zarr", select={"dim_0": slice(0, 1)}, dry_run=True)
    assert sorted(each.node for each in part.foreign) == ["OME", "pictures"]  # the chunks of OME/t are not listed
    assert [mend.kind for mend in hs.repair(place, dry_run=False) if mend.kind == "foreign"] == []
    assert (place / "OME" / "METADATA.ome.xml").exists()
