"""A schema that uses every type of the schema language, written and read by real hdmf."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, ReferenceBuilder, TypeMap
from hdmf.common import get_type_map
from hdmf.spec import (
    AttributeSpec,
    DatasetSpec,
    DtypeSpec,
    GroupSpec,
    NamespaceBuilder,
    NamespaceCatalog,
    RefSpec,
)
from hdmf.validate import ValidatorMap

import hyperslab as hs
from hyperslab.errors import BrokenLink, Unsupported
from hyperslab.hdmf import HyperslabIO
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.regions import Everything, Points

NUMBERS = {
    "float": "f4",
    "float32": "f4",
    "double": "f8",
    "float64": "f8",
    "long": "i8",
    "int64": "i8",
    "int": "i4",
    "int32": "i4",
    "int16": "i2",
    "int8": "i1",
    "uint64": "u8",
    "uint32": "u4",
    "uint16": "u2",
    "uint8": "u1",
    "bool": "?",
}
TEXTS = ("text", "utf", "utf8", "utf-8")
ASCII = ("ascii", "bytes")
MOMENT = datetime(2018, 9, 28, 14, 43, 54, 123000, tzinfo=UTC)


def test_every_type_of_a_raw_builder(tmp_path: Path, profile: str) -> None:
    """What the table of the specification says, by the words that a schema gives."""
    root = GroupBuilder("root", attributes={"object_id": "r"})
    target = GroupBuilder("target", attributes={"object_id": "t"})
    root.set_group(target)
    for word, kind in NUMBERS.items():
        root.set_dataset(DatasetBuilder(f"n_{word}", np.array([0, 1], kind).tolist(), dtype=word))
        root.set_dataset(DatasetBuilder(f"s_{word}", np.dtype(kind).type(1), dtype=word))
    for word in (*TEXTS, *ASCII, "isodatetime", "datetime"):
        dated = "time" in word
        root.set_dataset(DatasetBuilder(f"n_{word}", [MOMENT.isoformat()] if dated else ["a", "bc"], dtype=word))
        root.set_dataset(DatasetBuilder(f"s_{word}", MOMENT if dated else "text", dtype=word))
    root.set_dataset(DatasetBuilder("refs", [ReferenceBuilder(target)] * 2, dtype="object"))
    root.set_dataset(DatasetBuilder("one_ref", ReferenceBuilder(target), dtype="object"))
    rows = [(1, 0.5, "é", ReferenceBuilder(target)), (2, 1.5, "", ReferenceBuilder(target))]
    fields = [{"name": "i", "dtype": "int32"}, {"name": "f", "dtype": "float64"}, {"name": "t", "dtype": "text"}]
    root.set_dataset(DatasetBuilder("rows", rows, dtype=[*fields, {"name": "r", "dtype": "object"}]))
    root.set_dataset(DatasetBuilder("plain_rows", [(1, 0.5)], dtype=fields[:2]))
    root.set_dataset(DatasetBuilder("days", [date(2020, 1, 2)], dtype=None))
    path, manager = tmp_path / "a.hdmf.zarr", BuildManager(TypeMap(NamespaceCatalog()))
    with HyperslabIO(path, "w", manager=manager, profile=profile) as io:
        io.write_builder(root)
    with HyperslabIO(path, manager=manager) as io:
        found = io.read_builder()
        for word, kind in NUMBERS.items():
            assert found[f"n_{word}"].data.dtype == np.dtype(kind)
            assert found[f"n_{word}"].data[:].tolist() == [0, 1]
            assert type(found[f"s_{word}"].data) is np.dtype(kind).type
        for word in TEXTS:
            assert list(found[f"n_{word}"].data) == ["a", "bc"]
            assert found[f"s_{word}"].data == "text"
        for word in ASCII:
            assert [as_text(cell) for cell in found[f"n_{word}"].data] == ["a", "bc"]
        assert as_text(found["s_isodatetime"].data) == MOMENT.isoformat()
        assert as_text(found["n_isodatetime"].data[0]) == MOMENT.isoformat()
        assert as_text(found["days"].data[0]) == "2020-01-02"
        assert [each is found["target"] for each in found["refs"].data] == [True, True]
        assert found["one_ref"].data.builder is found["target"]
        assert found["rows"].data[1][:3] == [2, 1.5, ""]
        assert found["rows"].data[0][3] is found["target"]
        assert found["rows"].data["t"] == ["é", ""]
        assert found["plain_rows"].data[0].tolist() == (1, 0.5)


def as_text(cell: Any) -> str:
    return cell.decode() if isinstance(cell, bytes) else str(cell)


def schema(folder: Path) -> TypeMap:
    """A namespace with a type that has a dataset and an attribute of each type."""
    words = [*NUMBERS, *TEXTS, *ASCII, "isodatetime"]
    datasets = [DatasetSpec(f"a {word}", dtype=word, name=f"n_{word}", shape=(None,), quantity="?") for word in words]
    attributes = [AttributeSpec(f"a_{word}", f"a {word}", dtype=word, required=False) for word in words]
    reference = RefSpec("Container", "object")
    rows = [DtypeSpec("i", "a number", "int32"), DtypeSpec("r", "a reference", reference)]
    datasets += [DatasetSpec("references", dtype=reference, name="refs", shape=(None,), quantity="?")]
    datasets += [DatasetSpec("rows", dtype=rows, name="rows", shape=(None,), quantity="?")]
    attributes += [AttributeSpec("a_ref", "a reference", dtype=reference, required=False)]
    kind = GroupSpec(
        "everything", data_type_def="Everything", data_type_inc="Container", datasets=datasets, attributes=attributes
    )
    builder = NamespaceBuilder("of the tests", "tests", version="1.0.0", author="a", contact="c")
    builder.include_namespace("hdmf-common")
    builder.add_spec("tests.extensions.yaml", kind)
    builder.export("tests.namespace.yaml", outdir=str(folder))
    types = get_type_map()
    types.load_namespaces(str(folder / "tests.namespace.yaml"))
    return types


@pytest.mark.filterwarnings("ignore::hdmf.build.warnings.DtypeConversionWarning")
def test_a_schema_of_every_type(tmp_path: Path, profile: str) -> None:
    types = schema(tmp_path)
    kind = types.get_dt_container_cls("Everything", "tests")
    values: dict[str, Any] = {}
    for word, code in NUMBERS.items():
        values |= {f"n_{word}": np.array([0, 1], code), f"a_{word}": np.dtype(code).type(1)}
    for word in TEXTS:
        values |= {f"n_{word}": ["a", "é"], f"a_{word}": "é"}
    for word in ASCII:
        values |= {f"n_{word}": [b"a", b"bc"], f"a_{word}": b"a"}
    values |= {"n_isodatetime": [MOMENT], "a_isodatetime": MOMENT}
    values = {name.replace("-", "_") if not hasattr(kind, name) else name: value for name, value in values.items()}
    made = kind(name="root", **values)
    path = tmp_path / "a.hdmf.zarr"
    with HyperslabIO(path, "w", manager=types, profile=profile) as io:
        io.write(made)
    with HyperslabIO(path, manager=types) as io:
        found = io.read()
        assert found.n_isodatetime == [MOMENT]
        assert found.a_isodatetime == MOMENT
        assert list(found.n_text) == ["a", "é"]
        for word, code in NUMBERS.items():
            assert getattr(found, f"n_{word}").dtype == np.dtype(code)
        validator = ValidatorMap(io.manager.namespace_catalog.get_namespace("tests"))
        errors = validator.validate(io.read_builder())
        assert profile == "v3" or errors == []
    with HyperslabIO(path) as io:  # without the schema but for what the file keeps
        assert io.read().n_int16[:].tolist() == [0, 1]


def regions_file(path: Path, profile: str, *, attribute: bool) -> None:
    points = RegionReference("/cells", Points(((0, 1), (2, 3)), (3, 4)))
    attributes = {"part": points} if attribute else {}
    root = GroupBuilder("root", attributes=attributes)
    root.set_dataset(DatasetBuilder("cells", np.arange(12).reshape(3, 4)))
    root.set_dataset(DatasetBuilder("regions", [points, RegionReference("/cells", Everything())], dtype="region"))
    fields = [{"name": "i", "dtype": "int32"}, {"name": "part", "dtype": "region"}]
    root.set_dataset(DatasetBuilder("rows", [(1, points)], dtype=fields))
    manager = BuildManager(TypeMap(NamespaceCatalog()))
    with HyperslabIO(path, "w", manager=manager, profile=profile, region_attributes=True) as io:
        io.write_builder(root)


def test_regions(tmp_path: Path, profile: str) -> None:
    path = tmp_path / "a.hdmf.zarr"
    regions_file(path, profile, attribute=True)
    with HyperslabIO(path, manager=BuildManager(TypeMap(NamespaceCatalog()))) as io:
        found = io.read_builder()
        assert found["regions"].data[0].read().tolist() == [1, 11]
        assert found["regions"].data[1].read().shape == (3, 4)
        assert found["rows"].data[0]["part"].read().tolist() == [1, 11]
        assert found.attributes["part"].read().tolist() == [1, 11]


def test_attributes_that_no_document_can_hold(tmp_path: Path, profile: str) -> None:
    root = GroupBuilder("root", attributes={"odd": object()})
    with (
        HyperslabIO(tmp_path / "a.hdmf.zarr", "w", profile=profile) as io,
        pytest.raises(Unsupported, match="'odd' is a object"),
    ):
        io.write_builder(root)


def test_attributes_are_plain_values(tmp_path: Path, profile: str) -> None:
    attributes = {
        "scalar": np.float32(1.5),
        "flag": np.bool_(True),
        "numbers": np.array([1, 2], "i2"),
        "texts": np.array(["a", "é"]),
        "bytes": b"b",
        "more": [b"x", np.int8(3), (1.5, None)],
        "day": date(2020, 1, 2),
    }
    path, manager = tmp_path / "a.hdmf.zarr", BuildManager(TypeMap(NamespaceCatalog()))
    with HyperslabIO(path, "w", manager=manager, profile=profile) as io:
        io.write_builder(GroupBuilder("root", groups=[GroupBuilder("g", attributes=attributes)]))
    wanted = {
        "scalar": 1.5,
        "flag": True,
        "numbers": [1, 2],
        "texts": ["a", "é"],
        "bytes": "b",
        "more": ["x", 3, [1.5, None]],
        "day": "2020-01-02",
    }
    with hs.open_group(path) as root:
        assert dict(root["g"].attrs) == wanted
    assert all(
        "_hyperslab" not in each.read_text() for each in path.rglob("*") if each.name in (".zattrs", "zarr.json")
    )


def test_a_reference_of_a_dataset_to_nothing(tmp_path: Path, profile: str) -> None:
    path, manager = tmp_path / "a.hdmf.zarr", BuildManager(TypeMap(NamespaceCatalog()))
    root = GroupBuilder("root", groups=[GroupBuilder("g", attributes={"a": 1})])
    root.set_dataset(DatasetBuilder("refs", [ReferenceBuilder(root["g"]), None], dtype="object"))
    with HyperslabIO(path, "w", manager=manager, profile=profile) as io:
        io.write_builder(root)
    with hs.open_group(path, "r+") as opened:
        opened["refs"][1] = ObjectReference("/nowhere")
    with HyperslabIO(path, manager=manager) as io:
        data = io.read_builder()["refs"].data
        assert data[0].name == "g"
        with pytest.raises(BrokenLink):
            data[1]
