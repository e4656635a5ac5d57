"""The damages that netcdf-c and writers of plain Zarr leave: each is found with its kind and node, read in spite of it
where that can be, and mended so that nothing is left to find and no cell is another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from golden_stores import VERSIONS, truth, unpack
from plain_stores import STORES, A, T, edit, write, zarray

import hyperslab as hs
from hyperslab.model.dims import Dimension

pytestmark = pytest.mark.sampled(2)

Plant = Callable[[Path], Any]


@dataclass(frozen=True)
class Case:
    """``stores``: in which the damage is planted. ``found``: node and kind of each problem. ``cells``: what is read
    before and after, besides ``a`` and ``t``. ``left``: problems that stay."""

    plant: Plant
    found: set[tuple[str, str]]
    stores: tuple[str, ...] = ("current",)
    cells: dict[str, Any] = field(default_factory=dict)
    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


def reshaped(path: str, shape: list[int]) -> Plant:
    return lambda root: edit(root, f"{path}/.zarray", lambda doc: doc.update(shape=shape))


def both(*plants: Plant) -> Plant:
    return lambda root: [plant(root) for plant in plants]


def tail(key: str) -> Plant:
    """Netcdf-c does not cut a document that became shorter (defect 9)."""
    return lambda root: (root / key).write_bytes((root / key).read_bytes() + b'0"}}}')


def shuffled(size: Any, level: Any) -> Plant:
    def plant(root: Path) -> None:
        steps = {"filters": [{"id": "shuffle", "elementsize": size}], "compressor": {"id": "zlib", "level": level}}
        edit(root, "g/b/.zarray", lambda doc: doc.update(steps))
        shuffle = numcodecs.Shuffle(4).encode(A[0].tobytes())
        write(root, "g/b/0", bytes(numcodecs.Zlib(1).encode(shuffle)))

    return plant


def doubles(root: Path, dtype: str, fill: Any, stored: str) -> None:
    edit(root, "g/b/.zarray", lambda doc: doc.update(dtype=dtype, fill_value=fill))
    write(root, "g/b/0", np.arange(4).astype(stored).tobytes())


def without(key: str, name: str, inner: str | None = None) -> Plant:
    def drop(doc: dict[str, Any]) -> None:
        del (doc if inner is None else doc[inner])[name]

    return lambda root: edit(root, key, drop)


def own(root: Path, kind: str) -> tuple[str, str]:
    """Where NCZarr's object is in the root of a store."""
    attributes, group = (json.loads((root / name).read_bytes()) for name in (".zattrs", ".zgroup"))
    places = [(".zattrs", name) for name in attributes] + [(".zgroup", name) for name in group]
    return next(place for place in places if place[1].lower() == f"_nczarr_{kind}")


def listing(change: Callable[[list[str]], Any]) -> Plant:
    def plant(root: Path) -> None:
        key, name = own(root, "group")
        edit(root, key, lambda doc: change(doc[name].get("arrays", doc[name].get("vars"))))

    return plant


def references(path: str, names: Any) -> Plant:
    """Other references of an array, in the words of any generation."""

    def change(doc: dict[str, Any]) -> None:
        if "dimensions" in doc:
            doc["dimensions"] = names
        for name in ("_nczarr_array", "_NCZARR_ARRAY"):
            for word in ("dimension_references", "dimrefs"):
                if word in doc.get(name, {}):
                    doc[name][word] = names

    return lambda root: [
        edit(root, f"{path}/{name}", change) for name in (".zarray", ".zattrs") if (root / path / name).exists()
    ]


def renamed(root: Path) -> None:
    """As netcdf-c renames ``t``: new documents, the list says the new name, all else stays (defect 10)."""
    (root / "new").mkdir()
    for name in (".zarray", ".zattrs"):
        shutil.copy(root / "t" / name, root / "new" / name)
    listing(lambda names: names.__setitem__(names.index("t"), "new"))(root)


def renamed_and_copied(root: Path) -> None:
    """Two arrays that may have been called ``t``: nobody can say which."""
    renamed(root)
    shutil.copytree(root / "new", root / "twin")
    listing(lambda names: names.append("twin"))(root)


def added(root: Path) -> None:
    """As zarr-python adds an array and a group."""
    write(root, "n/.zgroup", {"zarr_format": 2})
    write(root, "n/.zattrs", {})
    write(root, "n/z/.zarray", zarray([4], "<i4", [4]))
    write(root, "n/z/.zattrs", {"_ARRAY_DIMENSIONS": ["x"], "k": 1})
    write(root, "n/z/0", A[1].tobytes())


def marked(root: Path) -> None:
    write(root, ".zdataset", {"nczarr_version": "0.1-2018"})
    edit(root, ".zgroup", lambda doc: doc.update(_NCZARR_SUPERBLOCK={"version": "2.0.0"}))


def two_times(root: Path) -> None:
    """``t`` grew by a row that ``a`` has not."""
    reshaped("t", [4])(root)
    write(root, "t/1", np.array([12, 13], "<i4").tobytes())


def stale(root: Path) -> None:
    if (root / ".zdims").exists():
        edit(root, ".zdims", lambda doc: doc["t"].update(size=5))
    else:
        edit(root, ".zattrs", lambda doc: doc["_nczarr_group"]["dimensions"]["t"].update(size=5))


LONGER = np.array([10, 11, 12, 13], "<i4")
GROWN = np.concatenate([A, np.full((1, 4), -1, "<i4")])
UNLIMITED = ("current", "draft")
ALL = tuple(STORES)
CASES = {
    "an unlimited dimension is stale": Case(
        stale,
        {("", "dimension-size")},
        UNLIMITED,
        sizes={"t": 3},
    ),
    "one array grew on an unlimited dimension": Case(
        two_times, {("", "dimension-size")}, UNLIMITED, {"t": LONGER, "a": GROWN}, sizes={"t": 4}
    ),
    "all arrays of a fixed dimension": Case(
        both(reshaped("a", [3, 3]), reshaped("g/b", [3])),
        {("", "dimension-size")},
        ("current", "4.9.0", "4.9.1"),
        {"a": A[:, :3], "g/b": A[0, :3]},
        sizes={"x": 3},
    ),
    "one array of a fixed dimension": Case(
        reshaped("g/b", [3]),
        {("g/b", "dimension-size")},
        ALL,
        {"g/b": A[0, :3]},
        dims={"g/b": ("x_3",)},
        sizes={"x": 4},
    ),
    "bytes behind the attributes": Case(tail("a/.zattrs"), {("a", "json-mended")}, ALL),
    "bytes behind the attributes of the root": Case(tail(".zattrs"), {("", "json-mended")}, ALL),
    "bytes behind the array": Case(tail("a/.zarray"), {("a", "json-mended")}, ALL),
    "elementsize 0": Case(shuffled(0, 1), {("g/b", "elementsize")}, ALL, {"g/b": A[0]}),
    "elementsize 0 as text": Case(
        shuffled("0", "1"), {("g/b", "elementsize"), ("g/b", "codec-text")}, ALL, {"g/b": A[0]}
    ),
    "little-endian cells": Case(
        lambda root: doubles(root, ">f8", -1, "<f8"),
        {("g/b", "byte-order")},
        ("4.9.0", "4.9.1"),
        {"g/b": np.arange(4.0)},
    ),
    "six digits": Case(
        lambda root: doubles(root, "<f8", 9.96921e36, "<f8"),
        {("g/b", "fill_value")},
        ("current", "4.9.0", "4.9.1"),
        {"g/b": np.arange(4.0)},
    ),
    "a renamed array": Case(renamed, {("t", "orphaned-chunks")}, ("current", "4.9.0", "4.9.1"), {"new": T}),
    "a renamed array and one like it": Case(
        renamed_and_copied, {("t", "unlisted")}, ("current", "4.9.0", "4.9.1"), {"t": T}
    ),
    "a renamed array, half mended": Case(
        both(renamed, lambda root: (root / "t" / "0").rename(root / "new" / "0")),
        {("t", "orphaned-chunks")},
        ("current",),
        {"new": T},
    ),
    "types that count bits": Case(
        lambda root: [edit(root, f"{path}/.zarray", lambda doc: doc.update(dtype="<i32")) for path in ("a", "t")],
        {("a", "bit-count dtype"), ("t", "bit-count dtype")},
        ("draft",),
    ),
    "bytes that count bits": Case(
        both(
            lambda root: edit(root, "g/b/.zarray", lambda doc: doc.update(dtype="<i8")),
            lambda root: write(root, "g/b/0", b"\1\2\3\4"),
        ),
        {("g/b", "bit-count dtype")},
        ("draft",),
        {"g/b": np.array([1, 2, 3, 4], "i1")},
        unread=("g/b",),
    ),
    "lost dimensions": Case(
        both(without("a/.zarray", "dimensions"), without("g/b/.zarray", "dimensions")),
        {("a", "lost-references"), ("g/b", "lost-references")},
        ("draft",),
        dims={"a": ("t", "x"), "g/b": ("x",)},
    ),
    "lost types": Case(
        lambda root: [without(f"{path}/.zarray", name)(root) for path in "co" for name in ("dimensions", "typedef")],
        {("c", "lost-references"), ("o", "lost-references")},
        ("draft",),
    ),
    "lost references": Case(
        lambda root: edit(
            root, "a/.zarray", lambda doc: [doc.pop(name, None) for name in ("_NCZARR_ARRAY", "_nczarr_array")]
        ),
        {("a", "lost-references")},
        ("4.9.0", "4.9.1"),
        dims={"a": ("t", "x")},
    ),
    "references for another rank": Case(
        references("a", ["/t"]), {("a", "lost-references")}, ALL, dims={"a": ("t", "x")}, unread=("a",)
    ),
    "references that are none": Case(
        references("a", [1, None]), {("a", "lost-references")}, ALL, dims={"a": ("t", "x")}, unread=("a",)
    ),
    "a dimension that nobody declares": Case(
        references("g/b", ["/nowhere/x"]), {("g/b", "undeclared-dimension")}, ALL, dims={"g/b": ("x",)}
    ),
    "a dimension that nobody can name": Case(
        references("g/b", ["/w"]),
        {("g/b", "undeclared-dimension")},
        dims={"g/b": ("w",)},
    ),
    "names for another rank": Case(
        lambda root: edit(root, "a/.zattrs", lambda doc: doc.update(_ARRAY_DIMENSIONS=["t"])),
        {("a", "xarray-dimensions")},
        ("current", "4.9.0", "4.9.1"),
        dims={"a": ("t", "x")},
    ),
    "other names": Case(
        lambda root: edit(root, "a/.zattrs", lambda doc: doc.update(_ARRAY_DIMENSIONS=["t", "y"])),
        {("a", "xarray-dimensions")},
        ALL,
        dims={"a": ("t", "x")},
    ),
    "an array that is not listed": Case(
        listing(lambda names: names.remove("t")), {("t", "unlisted")}, ("current", "4.9.0", "4.9.1")
    ),
    "an array that is not there": Case(
        listing(lambda names: names.append("gone")), {("gone", "missing")}, ("current", "4.9.0", "4.9.1")
    ),
    "what zarr-python added": Case(
        added,
        {("n", "unlisted"), ("n", "unlisting-group"), ("n/z", "lost-references")},
        ("current", "4.9.0", "4.9.1"),
        {"n/z": A[1]},
        dims={"n/z": ("x",)},
    ),
    "marks of three generations": Case(marked, {("", "mixed-marks")}),
    "an attribute of another type": Case(
        lambda root: edit(root, "a/.zattrs", lambda doc: doc["_nczarr_attr"]["types"].update(units="<f8")),
        {("a", "attribute")},
    ),
}
PLANTED = [(name, store) for name, case in CASES.items() for store in case.stores]


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"
    }


def assert_reads(root: Path, case: Case, *, mended: bool) -> None:
    dataset = hs.open(root)
    before = {} if mended or case.unread or case.sizes else {"a": A, "t": T}
    wanted = {"a": A, "t": T, "g/b": A[0]} | case.cells if mended else before
    for path, cells in wanted.items():
        if path in ("g/b", "new") and path not in case.cells:
            continue
        if path == "t" and "new" in case.cells:
            continue
        found = dataset[path]
        np.testing.assert_array_equal(found[...], cells)
        assert found.shape == cells.shape
    if mended:
        for path, dims in case.dims.items():
            assert dataset[path].dims == dims
        assert {name: dataset.dims[name].size for name in case.sizes} == case.sizes


@pytest.mark.parametrize("store", STORES)
def test_sound_stores_have_no_problem(store: str, tmp_path: Path) -> None:
    root = STORES[store](tmp_path / "x")
    before = files(root)
    report = hs.check(root, deep=True)
    assert (list(report), report.notes) == ([], [])
    assert not hs.repair(root, dry_run=False)
    assert files(root) == before


@pytest.mark.sampled(9)
@pytest.mark.covering("name", "store")
@pytest.mark.parametrize(("name", "store"), PLANTED, ids=lambda value: str(value).replace(" ", "-"))
def test_found_and_mended(name: str, store: str, tmp_path: Path) -> None:
    case, root = CASES[name], STORES[store](tmp_path / "x")
    case.plant(root)
    before = files(root)
    report = hs.check(root, deep=True)
    assert {(problem.node, problem.kind) for problem in report} == case.found, str(report)
    assert_reads(root, case, mended=False)
    plan = hs.repair(root)
    assert files(root) == before, "a dry run changed something"
    assert all(mend.action and not mend.done for mend in plan), str(plan)
    mended = hs.repair(root, dry_run=False)
    assert mended and all(mend.done for mend in mended), str(mended)
    assert list(hs.check(root, deep=True)) == []
    assert_reads(root, case, mended=True)


EXPECTED = {
    "4.10.1": {"attrs_badjson": {"json-mended"}, "filters": {"elementsize", "fill_value", "unknown-codec"}},
    "4.9.3": {
        "attrs_badjson": {"json-mended"},
        "filters": {"codec-text", "elementsize", "fill_value", "unknown-codec"},
        "quantize": {"codec-text"},
    },
    "4.9.0": {"attrs": {"missing"}, "types": {"byte-order", "fill_value"}},
}
DOUBLES = {"empty_unlimited", "unlimited", "groups", "scalar", "types"}


@pytest.mark.sampled(0)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_damage_of_netcdf_c_is_named_and_mended(version: str, tmp_path: Path) -> None:
    """What the README of the golden stores lists, and the fill values of doubles that nobody gave; nothing else."""
    unpack(version, tmp_path)
    for store in truth(version):
        expected = EXPECTED[version].get(store, {"fill_value"} if store in DOUBLES else set())
        place = tmp_path / store
        shutil.copytree(place, tmp_path / "before" / store)
        report = hs.check(place, deep=True)
        assert set(report.kinds) == expected, (store, str(report))
        mends = hs.repair(place, dry_run=False)
        assert {mend.kind for mend in mends if not mend.done} <= {"unknown-codec"}, str(mends)
        assert set(hs.check(place, deep=True).kinds) <= {"unknown-codec"}
        differences = {(each.node, each.kind) for each in hs.diff(tmp_path / "before" / store, place)}
        assert differences <= {("be", "type"), ("szip", "unreadable-cells")}


def test_text_without_quotes_is_the_same_text_behind_a_repair(tmp_path: Path) -> None:
    place = unpack("4.10.1", tmp_path) / "attrs_badjson"
    before = dict(hs.open(place).attrs)
    assert hs.repair(place, dry_run=False)[0].done
    assert dict(hs.open(place).attrs) == before
    assert all(
        isinstance(value, str)
        for value in json.loads((place / ".zattrs").read_bytes())["_nczarr_attr"]["types"].values()
    )


def test_what_is_replaced_is_kept(tmp_path: Path) -> None:
    root = STORES["current"](tmp_path / "x")
    tail("a/.zattrs")(root)
    before = (root / "a" / ".zattrs").read_bytes()
    hs.repair(root, dry_run=False)
    assert (tmp_path / "x.quarantine" / "a" / ".zattrs").read_bytes() == before


def test_rows_that_an_array_was_given_are_remembered(tmp_path: Path) -> None:
    """An array that is made as long as its dimension goes on where it ended."""
    root = STORES["current"](tmp_path / "x")
    two_times(root)
    hs.repair(root, dry_run=False)
    with hs.open(root, "r+") as dataset:
        dataset["a"].append(np.full((1, 4), 7, "<i4"))
    assert hs.open(root)["a"].shape == (4, 4)
    assert (hs.open(root)["a"][3] == 7).all()
    assert hs.open(root).dims["t"] == Dimension("t", 4, True)


def test_consolidated_metadata_follows(tmp_path: Path) -> None:
    root = tmp_path / "x"
    with hs.create(str(root), "nczarr", dialect="draft") as dataset:
        dataset.create_array("a", data=A, dims=("y", "x"), chunks=(2, 4), codec="none")
    edit(root, "a/.zarray", lambda doc: doc.update(dtype="<i32"))
    edit(root, ".zmetadata", lambda doc: doc["metadata"]["a/.zarray"].update(dtype="<i32"))
    assert hs.repair(root, dry_run=False)[0].done
    assert json.loads((root / ".zmetadata").read_bytes())["metadata"]["a/.zarray"]["dtype"] == "<i4"
    assert list(hs.check(root, deep=True)) == []


@pytest.mark.parametrize("said", [5, None, "x", {"a": 1}, [1], ["../../canary", "a", "t"]])
def test_lists_that_are_none(said: object, tmp_path: Path) -> None:
    root = STORES["current"](tmp_path / "x")
    edit(root, ".zattrs", lambda doc: doc["_nczarr_group"].update(arrays=said))
    assert ("", "unlisting-group") in {(problem.node, problem.kind) for problem in hs.check(root)}
    assert all(mend.done for mend in hs.repair(root, dry_run=False))
    assert list(hs.check(root, deep=True)) == []
    assert json.loads((root / ".zattrs").read_bytes())["_nczarr_group"]["arrays"] == ["a", "t"]


@pytest.mark.parametrize("data", [b"{{{", b"[]", b"{}"])
def test_consolidated_metadata_that_is_none_hides_no_draft(data: bytes, tmp_path: Path) -> None:
    root = STORES["draft"](tmp_path / "x")
    write(root, ".zmetadata", data)
    assert hs.open(root)["o"].dims == ("x",)
    assert all(mend.done for mend in hs.repair(root, dry_run=False))
    assert list(hs.check(root, deep=True)) == []
    assert ".zdims" in json.loads((root / ".zmetadata").read_bytes())["nczarr"]["documents"]


@pytest.mark.parametrize("format", ["zarr2", "nczarr"])
def test_numbers_that_json_lacks_stay_in_consolidated_metadata(format: str, tmp_path: Path) -> None:
    root = tmp_path / "x"
    options: dict[str, Any] = {"dialect": "draft"} if format == "nczarr" else {}
    with hs.create(str(root), format, consolidated=True, **options) as dataset:
        dataset.create_array("a", data=A)
    edit(root, "a/.zattrs", lambda doc: doc.update(x=float("nan")))
    assert {problem.kind for problem in hs.check(root)} == {"stale-copy"}
    assert all(mend.done for mend in hs.repair(root, dry_run=False))
    assert list(hs.check(root)) == []
    assert "NaN" in (root / ".zmetadata").read_text()


@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_a_root_without_its_document_gets_it_back(dialect: str, tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nczarr", dialect=dialect) as root:
        root.create_array("t", shape=(0,), dtype="i4", dims=["time"], attrs={"units": "days"})
        root["t"].append(np.arange(3))
    shutil.copytree(tmp_path / "a.nczarr", tmp_path / "b.nczarr")
    (tmp_path / "b.nczarr" / ".zgroup").unlink()
    assert ("", "missing-document") in {(one.node, one.kind) for one in hs.check(tmp_path / "b.nczarr")}
    hs.repair(tmp_path / "b.nczarr", dry_run=False)
    assert not list(hs.check(tmp_path / "b.nczarr"))
    assert not hs.diff(tmp_path / "a.nczarr", tmp_path / "b.nczarr")
