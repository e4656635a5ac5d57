"""The documents of three versions of netcdf-c: types, dimensions and attributes as their writers tell them."""

from __future__ import annotations

from typing import Any

import golden_stores as golden
import numpy as np
import pytest

from hyperslab.formats.documents import read_json
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.nczarr import current
from hyperslab.formats.nczarr.generation import Context, Generation, NCZarrOptions
from hyperslab.model.attrs import equal
from hyperslab.model.dtypes import Char, VlenString
from hyperslab.model.spec import Codec, GroupSpec

NUMBERS = {"byte": "i1", "ubyte": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"}
NUMBERS |= {"int64": "i8", "uint64": "u8", "float": "f4", "double": "f8"}
STORES = [
    (version, store)
    for version in golden.VERSIONS
    for store in golden.truth(version)
    if not golden.is_plain(version, store)
]
ARRAYS = [
    (version, store, path)
    for version, store in STORES
    for path in golden.truth(version)[store]["vars"]
    if path[1:] in golden.raw(version, store)
]
DEFAULTS = {"i1": -127, "u1": 255, "i2": -32767, "u2": 65535, "i4": -2147483647, "u4": 4294967295}
DEFAULTS |= {
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
    "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36,
}


def typed(kind: str, value: Any) -> Any:
    """A value of the truth as we serve it."""
    if kind == "char":
        return value
    if kind == "string":
        return np.str_(value) if isinstance(value, str) else np.array(value, np.dtypes.StringDType())
    cells = np.array([float(item) if isinstance(item, str) else item for item in np.atleast_1d(value).tolist()])
    cells = cells.astype(NUMBERS[kind]) if isinstance(value, list) else np.array([value]).astype(NUMBERS[kind])
    return cells if len(cells) > 1 else cells[0]


def test_every_store_and_array_is_looked_at():
    assert len(STORES) == 13 + 12 + 8
    missing = [
        (version, store, path)
        for version, store in STORES
        for path in golden.truth(version)[store]["vars"]
        if path[1:] not in golden.raw(version, store)
    ]
    assert missing == [("4.9.0", "attrs", "/v")]


@pytest.mark.parametrize(("version", "store"), STORES)
def test_generations(version, store):
    assert golden.context(version, store).generation is (Generation.V2A if version == "4.9.0" else Generation.V2C)


@pytest.mark.parametrize(("version", "store", "path"), ARRAYS)
def test_array(version, store, path):
    said = golden.truth(version)[store]["vars"][path]
    spec, problems = golden.read(version, store, path[1:])
    match said["type"]:
        case "char":
            assert (spec.dtype, spec.fill_value) == (Char(), b"")
        case "string":
            assert (spec.dtype, spec.fill_value, spec.codecs[0].name) == (VlenString(), "", "fixed_utf8")
        case name:
            assert spec.dtype == np.dtype(NUMBERS[name]).newbyteorder(">" if path == "/be" else "<")
            if path not in ("/filled", "/nofill"):
                assert equal(spec.fill_value, np.dtype(NUMBERS[name]).type(DEFAULTS[NUMBERS[name]]))
    assert list(spec.layout["dimensions"]) == said["dims"]
    assert list(spec.dims) == [name.rpartition("/")[2] for name in said["dims"]]
    assert spec.layout["scalar"] == (said["dims"] == [])
    if "sel" not in said and "shape" in said:
        assert list(spec.shape) == said["shape"]
    assert spec.problem is None or path.startswith("/szip")
    kinds = {problem.kind for problem in problems}
    assert kinds <= {"elementsize", "fill_value", "byte-order", "unknown-codec"}
    assert ("fill_value" in kinds) == (said["type"] == "double")
    assert ("byte-order" in kinds) == ((version, path) == ("4.9.0", "/be"))


@pytest.mark.parametrize(("version", "store"), STORES)
def test_dimensions(version, store):
    said = golden.truth(version)[store]
    wanted = {
        name: (
            said["final_sizes"][name] if dim["size"] is None and "final_sizes" in said else dim["size"] or 0,
            dim["unlimited"],
        )
        for name, dim in said["dims"].items()
    }
    found = {}
    for node in golden.raw(version, store):
        spec, _ = golden.read(version, store, node)
        if isinstance(spec, GroupSpec):
            found |= {f"/{node}/{dim.name}".replace("//", "/"): (dim.size, dim.unlimited) for dim in spec.dims}
    assert found == wanted


@pytest.mark.parametrize(("version", "store"), STORES)
def test_children(version, store):
    for node in golden.raw(version, store):
        spec, _ = golden.read(version, store, node)
        if isinstance(spec, GroupSpec):
            inside = [path for path in golden.raw(version, store) if path and path.rpartition("/")[0] == node]
            listed = {f"{node}/{name}".lstrip("/") for name in (*spec.layout["arrays"], *spec.layout["groups"])}
            assert set(inside) == listed or (version, store) == ("4.9.0", "attrs")


@pytest.mark.parametrize(("version", "store"), STORES)
def test_attributes(version, store):
    for path, said in golden.truth(version)[store]["attrs"].items():
        if path[1:] not in golden.raw(version, store) or (version, store) == ("4.9.0", "attrs"):
            continue
        spec, problems = golden.read(version, store, path[1:])
        assert [problem for problem in problems if problem.kind == "attribute"] == []
        visible = {name: told for name, told in said.items() if name != "_nczarr_default_maxstrlen"}
        assert set(spec.attrs) == set(visible)
        for name, told in visible.items():
            value = told["value"]
            if version != "4.9.0" and "as_stored" in told:
                value = told["as_stored"] if name == "pi" else "".join(told["value"].split())
            if name == "jsonobj" and version != "4.9.0":
                value = '{"a": [1,2]}'
            assert equal(spec.attrs[name], typed(told["type"], value)), name


@pytest.mark.parametrize("version", ["4.10.1", "4.9.3"])
@pytest.mark.parametrize("store", [store for version, store in STORES if version == "4.9.3"])
def test_documents_that_are_written_again_are_the_same(version, store):
    context = golden.context(version, store)
    for node in golden.raw(version, store):
        spec, _ = golden.read(version, store, node)
        docs = golden.documents(version, store, node)
        written = current.render(spec, node, context)
        if ".zarray" in docs:
            assert written[".zarray"]["dtype"] in (docs[".zarray"]["dtype"], "|i1", "|u1")
        again = current.parse(written, node, Context(generation=Generation.V2C, group=context.group), Problems(node))
        assert again.evolve(layout={}, attrs={}) == spec.evolve(layout={}, attrs={}), node
        assert set(again.attrs) == set(spec.attrs)
        assert all(equal(again.attrs[name], spec.attrs[name]) for name in spec.attrs)
        types = written[".zattrs"]["_nczarr_attr"]["types"]
        plain = {name: code for name, code in types.items() if not name.startswith("_Quantize")}
        assert {"types": plain} == docs[".zattrs"]["_nczarr_attr"]


@pytest.mark.parametrize(
    ("version", "byteorder", "swapped", "noted"),
    [
        ("4.9.0", "auto", True, True),
        ("4.9.0", "stored", False, False),
        ("4.9.0", "swapped", True, False),
        ("4.10.1", "auto", False, False),
        ("4.9.3", "auto", False, False),
        ("4.10.1", "swapped", True, False),
    ],
)
def test_big_endian_cells_are_read_in_the_order_that_they_have(version, byteorder, swapped, noted):
    spec, problems = golden.read(version, "types", "be", NCZarrOptions(byteorder=byteorder))
    assert spec.dtype == np.dtype(">f8")
    assert (Codec("bytes", {"endian": "little"}) in spec.codecs) == swapped
    assert ("byte-order" in [problem.kind for problem in problems]) == noted
    little, _ = golden.read(version, "types", "v_f8", NCZarrOptions(byteorder=byteorder))
    assert little.codecs == (Codec("bytes"),)


@pytest.mark.parametrize("version", ["4.10.1", "4.9.3"])
def test_bare_text_is_what_it_was(version):
    assert read_json(golden.raw(version, "attrs_badjson")[""][".zattrs"])["traildot"] == [0.0, 0.0, 1.0]
    spec, _ = golden.read(version, "attrs_badjson", "")
    assert dict(spec.attrs) == {"traildot": "[0.,0.,1.]"}


def test_hidden_attributes_are_kept():
    spec, _ = golden.read("4.10.1", "strings", "")
    assert dict(spec.attrs) == {}
    assert spec.layout["hidden"]["_nczarr_default_maxstrlen"] == (16, "<i4")
