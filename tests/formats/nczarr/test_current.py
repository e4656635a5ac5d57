"""The documents that netcdf-c writes today: read by the rules, written so that every peer reads them."""

from __future__ import annotations

import json
from importlib.metadata import version

import numpy as np
import pytest

from hyperslab.errors import FormatError, Invalid, Unsupported
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.nczarr import current
from hyperslab.formats.nczarr.generation import Context, Generation, NCZarrOptions
from hyperslab.model.attrs import equal
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, Compound, Enum, Opaque, VlenArray, VlenBytes, VlenString
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

ZARRAY = {
    "zarr_format": 2,
    "shape": [3],
    "dtype": "<i4",
    "chunks": [3],
    "fill_value": 0,
    "order": "C",
    "compressor": None,
    "filters": None,
}
ROOT = {"_nczarr_group": {"dimensions": {"x": 3, "t": {"size": 5, "unlimited": 1}}, "arrays": ["a"], "groups": ["g"]}}
GROUPS = {"": ROOT, "g": {"_nczarr_group": {"dimensions": {"x": 7, "y": 2}, "arrays": [], "groups": []}}}


def context(provenance=None, generation=Generation.V2C, groups=GROUPS, **options):
    """What documents depend on: a root with x=3 and t, a group g with x=7 and y."""

    def group(path):
        if path not in groups:
            return None
        return current.parse({".zgroup": {"zarr_format": 2}, ".zattrs": groups[path]}, path, bare, Problems(path))

    bare = Context(generation=Generation.V2C)
    return Context(generation=generation, options=NCZarrOptions(**options), provenance=provenance or {}, group=group)


def read(zarray=None, zattrs=None, node="a", where=None):
    """The array of these documents, and the kinds of what was noted."""
    problems = Problems(node)
    spec = current.parse(
        {".zarray": ZARRAY | (zarray or {}), ".zattrs": zattrs or {}}, node, where or context(), problems
    )
    problems.raise_if_fatal()
    return spec, [problem.kind for problem in problems]


def read_group(zattrs, node="", **zgroup):
    problems = Problems(node)
    spec = current.parse({".zgroup": {"zarr_format": 2} | zgroup, ".zattrs": zattrs}, node, context(), problems)
    return spec, [problem.kind for problem in problems]


def refers(*names, **more):
    return {"_nczarr_array": {"dimension_references": list(names), "storage": "chunked"} | more}


# -- the documents of the reference -----------------------------------------------------------------------------------

SUPERBLOCK = {"version": "2.0.0"}
OURS = f"version=2,hyperslab={version('hyperslab')},nczarr=2.0.0,zarr=2"


def test_the_root_is_written_as_netcdf_c_does():
    spec = GroupSpec(
        attrs={"title": "x", "i16": np.int16(3), "slist": np.array(["a", "b"])},
        dims=(Dimension("t", 3, unlimited=True), Dimension("x", 4)),
        layout={"arrays": ("temp",), "groups": ("g1",)},
    )
    docs = current.render(spec, "", context())
    assert docs == {
        ".zgroup": {"zarr_format": 2},
        ".zattrs": {
            "title": "x",
            "i16": 3,
            "slist": ["a", "b"],
            "_NCProperties": OURS,
            "_nczarr_group": {
                "dimensions": {"t": {"size": 3, "unlimited": 1}, "x": 4},
                "arrays": ["temp"],
                "groups": ["g1"],
            },
            "_nczarr_superblock": SUPERBLOCK,
            "_nczarr_attr": {
                "types": {
                    "title": ">S1",
                    "i16": "<i2",
                    "slist": "|S128",
                    "_NCProperties": ">S1",
                    "_nczarr_group": "|J0",
                    "_nczarr_superblock": "|J0",
                    "_nczarr_attr": "|J0",
                }
            },
        },
    }
    assert list(docs[".zattrs"])[-1] == "_nczarr_attr"


def test_an_array_is_written_as_netcdf_c_does():
    wish = ArraySpec(
        shape=(3, 3, 4),
        dtype=np.dtype("<f4"),
        chunks=(2, 3, 4),
        dims=("t", "y", "x"),
        fill_value=-999,
        attrs={"_FillValue": -999, "units": "K"},
        codecs=(Codec("shuffle", {"elementsize": 4}), Codec("zlib", {"level": 4})),
    )
    docs = current.render(current.new_array(wish, "temp", context()), "temp", context())
    assert docs == {
        ".zarray": {
            "zarr_format": 2,
            "shape": [3, 3, 4],
            "dtype": "<f4",
            "chunks": [2, 3, 4],
            "fill_value": -999,
            "order": "C",
            "compressor": {"id": "zlib", "level": 4},
            "dimension_separator": ".",
            "filters": [{"id": "shuffle", "elementsize": 4}],
        },
        ".zattrs": {
            "_FillValue": -999,
            "units": "K",
            "_ARRAY_DIMENSIONS": ["t", "y", "x"],
            "_nczarr_array": {"dimension_references": ["/t", "/y", "/x"], "storage": "chunked"},
            "_nczarr_attr": {
                "types": {"_FillValue": "<f4", "units": ">S1", "_nczarr_array": "|J0", "_nczarr_attr": "|J0"}
            },
        },
    }


def test_scalars_and_empty_groups_are_written_as_netcdf_c_does():
    wish = ArraySpec(shape=(), dtype=np.dtype("<i4"), chunks=())
    docs = current.render(current.new_array(wish, "g/s", context()), "g/s", context())
    assert (docs[".zarray"]["shape"], docs[".zarray"]["chunks"]) == ([1], [1])
    assert docs[".zattrs"]["_ARRAY_DIMENSIONS"] == ["_scalar_"]
    assert docs[".zattrs"]["_nczarr_array"] == {"dimension_references": [], "scalar": 1, "storage": "chunked"}
    assert current.render(GroupSpec(), "g/h", context())[".zattrs"] == {
        "_nczarr_group": {"dimensions": {}, "arrays": [], "groups": []},
        "_nczarr_attr": {"types": {"_nczarr_group": "|J0", "_nczarr_attr": "|J0"}},
    }


def test_dimensions_are_those_that_the_writer_resolved_or_of_the_own_group():
    wish = ArraySpec(shape=(7, 2, 9), dtype=np.dtype("i2"), chunks=(7, 2, 9), dims=("x", "y", None))
    made = current.new_array(wish, "g/a", context())
    assert "dimensions" not in made.layout
    assert made.dims == ("x", "y", None)
    own = current.render(made, "g/a", context())[".zattrs"]
    assert own["_nczarr_array"]["dimension_references"] == ["/g/x", "/g/y", "/_Anonymous_Dim_9"]
    assert own["_ARRAY_DIMENSIONS"] == ["x", "y", "_Anonymous_Dim_9"]
    resolved = made.evolve(layout={**made.layout, "dimensions": ("/x", "/g/y", "/z")})
    own = current.render(resolved, "g/a", context())[".zattrs"]
    assert own["_nczarr_array"]["dimension_references"] == ["/x", "/g/y", "/z"]
    assert own["_ARRAY_DIMENSIONS"] == ["x", "y", "z"]


@pytest.mark.parametrize(("code", "stored"), [("i1", "|i1"), ("u1", "|u1"), (">i2", ">i2"), ("<f8", "<f8")])
def test_single_bytes_have_no_byte_order_in_zarray(code, stored):
    wish = ArraySpec(shape=(3,), dtype=np.dtype(code), chunks=(3,), attrs={"_FillValue": 3})
    docs = current.render(current.new_array(wish, "a", context()), "a", context())
    assert docs[".zarray"]["dtype"] == stored
    assert docs[".zattrs"]["_nczarr_attr"]["types"]["_FillValue"] == f"<{np.dtype(code).str[1:]}"


# -- detection of what is stored --------------------------------------------------------------------------------------


def test_3_3_children_are_listed():
    spec, kinds = read_group(ROOT)
    assert (spec.layout["arrays"], spec.layout["groups"], kinds) == (("a",), ("g",), [])
    spec, kinds = read_group({})
    assert (spec.layout["arrays"], spec.layout["groups"], kinds) == (None, None, [])


def test_dimensions_are_declared_in_order():
    spec, _ = read_group(ROOT)
    assert spec.dims == (Dimension("x", 3), Dimension("t", 5, unlimited=True))
    listed = [{"name": "x", "size": 3, "unlimited": 0}, {"name": "t", "size": 5, "unlimited": 1}]
    assert read_group({"_nczarr_group": {"dimensions": listed}})[0].dims == spec.dims


@pytest.mark.parametrize(
    ("zarray", "zattrs"),
    [
        ({"shape": [], "chunks": []}, {}),
        ({}, refers(scalar=1)),
        ({}, refers(storage="scalar")),
        ({}, refers() | {"_ARRAY_DIMENSIONS": []}),
        ({}, refers() | {"_ARRAY_DIMENSIONS": ["_scalar_"]}),
    ],
)
def test_3_5_scalars(zarray, zattrs):
    spec, kinds = read({"shape": [1], "chunks": [1]} | zarray, zattrs)
    assert (spec.shape, spec.chunks, spec.dims, kinds) == ((), (), (), [])
    written = current.render(spec, "a", context())
    assert written[".zarray"] == ZARRAY | {"shape": [1], "chunks": [1]} | zarray
    again, _ = read(written[".zarray"], written[".zattrs"])
    assert again.evolve(layout={}) == spec.evolve(layout={})


def test_3_5_one_cell_with_a_dimension_is_no_scalar():
    assert read({"shape": [1], "chunks": [1]}, refers("/one", scalar=1))[0].shape == (1,)
    assert read({"shape": [1], "chunks": [1]}, {"_ARRAY_DIMENSIONS": ["one"]})[0].shape == (1,)


@pytest.mark.parametrize("size", [0, "0"])
def test_3_6_an_elementsize_of_zero_is_that_of_the_cells(size):
    filters = [{"id": "shuffle", "elementsize": size}]
    spec, kinds = read({"filters": filters, "compressor": {"id": "zlib", "level": "4"}})
    shuffle, zlib = Codec("shuffle", {"elementsize": 4}), Codec("zlib", {"level": 4})
    assert (spec.codecs, kinds) == ((Codec("bytes"), shuffle, zlib), ["elementsize"])


@pytest.mark.parametrize(
    ("dtype", "own", "generation", "found"),
    [
        (">S1", {}, Generation.V2C, Char()),
        ("|S1", {"nc_type": "char"}, Generation.V2C, Char()),
        ("|S1", {}, Generation.V2C, VlenString()),
        ("|S5", {}, Generation.V2C, VlenString()),
        ("<U1", {}, Generation.V2A, Char()),
        ("<U1", {}, Generation.V1, Char()),
        ("<U1", {}, Generation.V2C, np.dtype("<U1")),
        ("<i1", {}, Generation.V2C, np.dtype("i1")),
        (">i1", {}, Generation.V2C, np.dtype("i1")),
        ("|u1", {}, Generation.V2C, np.dtype("u1")),
    ],
)
def test_3_7_types(dtype, own, generation, found):
    spec, _ = read({"dtype": dtype, "fill_value": None}, refers("/x", **own), where=context(generation=generation))
    assert spec.dtype == found


def test_3_8_attributes_have_their_types():
    types = {"i": "<i2", "c": ">S1", "s": "|S128", "d": "<f8"}
    stored = {"i": [1, 2], "c": 42, "s": "text", "d": 1, "u": 2**40, "_nczarr_attr": {"types": types}}
    spec, kinds = read_group(stored)
    expected = {"i": np.array([1, 2], "i2"), "c": "42", "s": np.str_("text"), "d": np.float64(1), "u": np.int64(2**40)}
    assert list(spec.attrs) == list(expected)
    assert all(equal(spec.attrs[name], expected[name]) for name in expected)
    assert kinds == []


@pytest.mark.parametrize(
    ("dtype", "value", "found"),
    [
        ("<f4", -999, np.float32(-999)),
        (">i2", 5, np.int16(5)),
        (">S1", "x", "x"),
        ("|S8", "none", np.str_("none")),
        ("<f4", "NaN", np.float32("nan")),
    ],
)
def test_3_8_the_fill_attribute_has_the_type_of_the_cells(dtype, value, found):
    for types in ({}, {"_nczarr_attr": {"types": {"_FillValue": "<f8"}}}):
        spec, _ = read({"dtype": dtype, "fill_value": None}, refers("/x") | {"_FillValue": value} | types)
        assert equal(spec.attrs["_FillValue"], found)


def test_3_9_what_is_spelled_matters_only_where_it_must():
    asked = []

    def texts(node):
        asked.append(node)
        return {"c": "1.0", "big": str(2**70)}

    where = Context(generation=Generation.V2C, texts=texts)
    plain = {"a": 1, "b": "text", "_nczarr_attr": {"types": {"b": ">S1"}}}
    current.parse({".zgroup": {"zarr_format": 2}, ".zattrs": plain}, "g", where, Problems("g"))
    assert asked == []
    stored = {"c": 1.0, "big": 2**70, "_nczarr_attr": {"types": {"c": ">S1"}}}
    spec = current.parse({".zgroup": {"zarr_format": 2}, ".zattrs": stored}, "g", where, Problems("g"))
    assert dict(spec.attrs) == {"c": "1.0", "big": str(2**70)}
    assert set(asked) == {"g"}


# -- what netcdf-c meant ----------------------------------------------------------------------------------------------

NETCDF = {"version": "2", "netcdf": "4.10.1", "nczarr": "2.0.0"}


@pytest.mark.parametrize(
    ("dtype", "provenance", "found"),
    [
        ("<f8", NETCDF, 9.969209968386869e36),
        (">f8", NETCDF, 9.969209968386869e36),
        ("<f8", {"hyperslab": "1"}, 9.96921e36),
        ("<f4", NETCDF, np.float32(9.969209968386869e36)),
    ],
)
def test_3_10_six_digits_of_the_default_fill(dtype, provenance, found):
    spec, kinds = read({"dtype": dtype, "fill_value": 9.96921e36}, refers("/x"), where=context(provenance))
    assert spec.fill_value == found
    assert spec.fill_value.dtype == np.dtype(dtype).newbyteorder("=")
    assert kinds == (["fill_value"] if dtype != "<f4" and provenance is NETCDF else [])


@pytest.mark.parametrize(
    ("dtype", "attribute", "found"),
    [("<i4", 7, np.int32(7)), (">f8", 0.5, np.float64(0.5)), (">S1", "x", np.bytes_(b"x"))],
)
def test_3_10_no_fill_value_but_the_attribute(dtype, attribute, found):
    spec, kinds = read({"dtype": dtype, "fill_value": None}, refers("/x") | {"_FillValue": attribute})
    assert (spec.fill_value, type(spec.fill_value), kinds) == (found, type(found), ["fill_value"])


def test_text_without_a_fill_value_is_empty_whatever_the_attribute_says():
    spec, kinds = read({"dtype": "|S9", "fill_value": None}, refers("/x") | {"_FillValue": "none"})
    assert (spec.fill_value, spec.attrs["_FillValue"], kinds) == (None, np.str_("none"), [])


@pytest.mark.parametrize(
    ("dtype", "fill", "found"),
    [(">S1", "", b""), ("|S4", "", ""), ("|S4", "YWI=", "ab"), ("|S9", "a b", "a b"), (">S1", "x", b"x")],
)
def test_3_10_fill_values_of_text(dtype, fill, found):
    spec, kinds = read({"dtype": dtype, "fill_value": fill}, refers("/x"))
    assert (spec.fill_value, kinds) == (found, [])


def test_3_10_a_fill_of_text_that_the_attribute_repeats_is_no_base64():
    spec, _ = read({"dtype": "|S9", "fill_value": "none"}, refers("/x") | {"_FillValue": "none"})
    assert (spec.fill_value, spec.problem) == ("none", None)


@pytest.mark.parametrize(
    ("generation", "netcdf", "swapped"),
    [
        (Generation.V2A, "4.9.0", True),
        (Generation.V2B, "4.9.1", True),
        (Generation.V2B, "4.9.2", True),
        (Generation.V2B, "4.9.3-development", True),
        (Generation.V2C, "4.9.3-development", False),
        (Generation.V2A, "4.8.1", False),
        (Generation.V2B, "4.9.3", False),
        (Generation.V2C, "4.9.0", False),
        (Generation.V2A, None, False),
    ],
)
def test_3_11_the_versions_that_swapped_bytes(generation, netcdf, swapped):
    provenance = {} if netcdf is None else {"netcdf": netcdf}
    spec, kinds = read({"dtype": ">f8"}, refers("/x"), where=context(provenance, generation))
    assert spec.codecs == (Codec("bytes", {"endian": "little"} if swapped else {}),)
    assert ("byte-order" in kinds) == swapped


def test_3_12_order_f_is_honoured():
    spec, kinds = read({"shape": [2, 3], "chunks": [2, 3], "order": "F"}, refers("/g/y", "/x"))
    assert (spec.codecs[0], kinds) == (Codec("transpose", {"order": [1, 0]}), [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"compressor": {"id": "szip", "mask": 4}}, "szip"),
        ({"dtype": "<Q9"}, "<Q9"),
        ({"dimension_separator": "-"}, "dimension_separator"),
    ],
)
def test_3_12_what_cannot_be_decoded_still_has_a_spec(change, said):
    spec, _ = read(change, refers("/x") | {"units": "K"})
    assert said in spec.problem
    assert (spec.shape, spec.dims, dict(spec.attrs)) == ((3,), ("x",), {"units": "K"})


@pytest.mark.parametrize("change", [{"shape": "x"}, {"chunks": [0]}, {"zarr_format": 3}, {"filters": 5}])
def test_3_12_a_damaged_zarray_is_refused(change):
    with pytest.raises(FormatError):
        read(change, refers("/x"))


def test_3_13_hidden_attributes_are_kept_and_written_again():
    hidden = {"_NCProperties": "version=2,netcdf=4.10.1,nczarr=2.0.0", "CLASS": "DIMENSION_SCALE", "_Netcdf4Dimid": 3}
    types = {"_NCProperties": ">S1", "CLASS": ">S1", "_Netcdf4Dimid": "<i4", "units": ">S1"}
    stored = {**ROOT, **hidden, "units": "m", "_nczarr_attr": {"types": types}}
    spec, kinds = read_group(stored)
    assert (dict(spec.attrs), kinds) == ({"units": "m"}, [])
    written = current.render(spec, "", context())[".zattrs"]
    assert {name: written[name] for name in ("CLASS", "_Netcdf4Dimid")} == {
        "CLASS": "DIMENSION_SCALE",
        "_Netcdf4Dimid": 3,
    }
    assert written["_nczarr_attr"]["types"] == types | dict.fromkeys(
        ["_nczarr_group", "_nczarr_superblock", "_nczarr_attr"], "|J0"
    )


def test_provenance_keeps_the_pairs_of_others():
    spec, _ = read_group({**ROOT, "_NCProperties": "version=2,netcdf=4.10.1,nczarr=2.0.0"})
    pairs = current.render(spec, "", context())[".zattrs"]["_NCProperties"].split(",")
    assert set(pairs) == {*OURS.split(","), "netcdf=4.10.1"}
    copied = GroupSpec(attrs={"_NCProperties": "version=2,netcdf=4.10.1", "a": 1})
    assert set(current.render(copied, "", context())[".zattrs"]["_NCProperties"].split(",")) == set(pairs)
    sub = current.render(GroupSpec(), "g", context())[".zattrs"]
    assert "_NCProperties" not in sub and "_nczarr_superblock" not in sub


def test_unknown_keys_are_kept():
    own = {"_nczarr_array": {"dimension_references": ["/x"], "storage": "chunked", "later": 1}}
    spec, _ = read({"later": 2}, own | {"_nczarr_attr": {"types": {}, "later": 3}})
    written = current.render(spec, "a", context())
    assert (written[".zarray"]["later"], written[".zattrs"]["_nczarr_array"]["later"]) == (2, 1)
    assert written[".zattrs"]["_nczarr_attr"]["later"] == 3
    stored = {"_nczarr_group": {"dimensions": {}, "later": 4}, "_nczarr_superblock": {"version": "2.0.0", "later": 5}}
    group, _ = read_group(stored, later=6)
    written = current.render(group, "", context())
    assert written[".zgroup"]["later"] == 6
    assert written[".zattrs"]["_nczarr_group"]["later"] == 4
    assert written[".zattrs"]["_nczarr_superblock"] == {"version": "2.0.0", "later": 5}


# -- dimensions of arrays ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "size", "zattrs", "found", "noted"),
    [
        ("a", 3, refers("/x"), "/x", []),
        ("g/a", 7, refers("/g/x"), "/g/x", []),
        ("g/a", 3, refers("/x"), "/x", []),
        ("g/a", 3, refers("x"), "/x", []),
        ("g/a", 5, refers("t"), "/t", []),
        ("g/a", 4, refers("new"), "/g/new", []),
        ("a", 4, refers("/x"), "/x", ["dimension-size"]),
        ("a", 9, refers("/t"), "/t", ["dimension-size"]),
        ("g/a", 3, refers("/gone/x"), "/x", ["dimensions"]),
        ("g/a", 4, refers("/gone/q"), "/gone/q", ["dimensions"]),
        ("a", 3, refers("/x", "/y") | {"_ARRAY_DIMENSIONS": ["x"]}, "/x", ["dimensions"]),
        ("a", 3, refers(5), "/_Anonymous_Dim_3", ["dimensions"]),
        ("a", 3, refers("/"), "/_Anonymous_Dim_3", ["dimensions"]),
        ("a", 3, {"_nczarr_array": {"dimension_references": "x"}}, "/_Anonymous_Dim_3", ["dimensions"]),
        ("a", 3, {"_nczarr_array": [1]}, "/_Anonymous_Dim_3", ["nczarr"]),
        ("a", 3, {}, "/_Anonymous_Dim_3", []),
        ("g/a", 3, {"_ARRAY_DIMENSIONS": ["x"]}, "/x", []),
        ("g/a", 7, {"_ARRAY_DIMENSIONS": ["x"]}, "/g/x", []),
        ("g/a", 8, {"_ARRAY_DIMENSIONS": ["x"]}, "/_Anonymous_Dim_8", ["dimension-size"]),
        ("a", 9, {"_ARRAY_DIMENSIONS": ["t"]}, "/t", []),
        ("g/a", 8, {"_ARRAY_DIMENSIONS": ["other"]}, "/g/other", []),
        ("a", 8, {"_ARRAY_DIMENSIONS": ["a", "b"]}, "/_Anonymous_Dim_8", ["dimensions"]),
        ("a", 8, {"_ARRAY_DIMENSIONS": "x"}, "/_Anonymous_Dim_8", ["dimensions"]),
        ("a", 8, {"_ARRAY_DIMENSIONS": [None]}, "/_Anonymous_Dim_8", ["dimensions"]),
    ],
)
def test_the_dimension_of_an_array(node, size, zattrs, found, noted):
    spec, kinds = read({"shape": [size], "chunks": [3]}, zattrs, node)
    assert (spec.layout["dimensions"], spec.dims, kinds) == ((found,), (found.rpartition("/")[2],), noted)
    assert spec.shape == (size,)


def test_one_dimension_may_occur_twice():
    spec, kinds = read({"shape": [3, 3], "chunks": [3, 3]}, refers("/x", "/x"))
    assert (spec.dims, kinds) == (("x", "x"), [])


def test_references_stand_as_they_are_where_no_group_is_known():
    spec, kinds = read({}, refers("/g/h/x"), where=Context(generation=Generation.V2C))
    assert (spec.layout["dimensions"], kinds) == (("/g/h/x",), [])


# -- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "noted"),
    [
        ({"_nczarr_group": 5}, ["nczarr"]),
        ({"_nczarr_group": {"dimensions": 5}}, ["dimensions"]),
        ({"_nczarr_group": {"dimensions": {"x": -1, "y": "2", "z/w": 3, "": 4, "ok": 3}}}, ["dimensions"] * 4),
        ({"_nczarr_group": {"dimensions": {"x": {"unlimited": 1}, "y": None, "z": 2**63}}}, ["dimensions"] * 3),
        ({"_nczarr_group": {"arrays": 5, "groups": [1]}}, ["nczarr", "nczarr"]),
        ({"_nczarr_group": {"arrays": ["a/b"], "groups": [""]}}, ["nczarr", "nczarr"]),
        ({"_nczarr_attr": 5}, ["nczarr"]),
        ({"_nczarr_attr": {"types": ["x"]}}, ["nczarr"]),
        ({"_nczarr_attr": {"types": {"units": 7}}}, ["attribute"]),
        ({"_nczarr_attr": {"types": {"units": "<f8"}}}, ["attribute"]),
        ({"_nczarr_superblock": 5}, []),
    ],
)
def test_a_damaged_group_is_read_without_the_damage(own, noted):
    spec, kinds = read_group({"units": "m"} | own)
    assert (dict(spec.attrs), kinds) == ({"units": "m"}, noted)
    assert [dim.name for dim in spec.dims] == (["ok"] if len(noted) == 4 else [])
    json.dumps(current.render(spec, "", context()))


@pytest.mark.parametrize(
    ("own", "noted"),
    [
        (refers("/x", written=[4]), ["written"]),
        (refers("/x", written=["a"]), ["written"]),
        (refers("/x", written=5), ["written"]),
        (refers("/x") | {"_FillValue": "much"}, ["attribute"]),
        (refers("/x") | {"_FillValue": [1, "a"]}, ["attribute"]),
        (refers("/x") | {"_nczarr_attr": {"types": {"_FillValue": []}}}, []),
    ],
)
def test_a_damaged_array_is_read_without_the_damage(own, noted):
    spec, kinds = read({}, own)
    assert (spec.shape, spec.layout["written"], kinds) == ((3,), None, noted)


def test_an_attribute_that_is_no_fill_value_makes_none():
    spec, kinds = read({"fill_value": None}, refers("/x") | {"_FillValue": "much"})
    assert (spec.fill_value, spec.attrs["_FillValue"], kinds) == (None, "much", ["attribute", "fill_value"])


def test_the_version_of_a_group():
    assert read_group({}, zarr_format=3)[1] == ["zarr_format"]
    problems = Problems("")
    current.parse({".zgroup": {}}, "", context(), problems)
    assert ([problem.kind for problem in problems], problems.is_fatal) == (["zarr_format"], False)


# -- wishes -----------------------------------------------------------------------------------------------------------


def wish(dtype, **more):
    return ArraySpec(**({"shape": (3,), "dtype": dtype, "chunks": (3,), "dims": ("x",)} | more))


@pytest.mark.parametrize(
    ("more", "options", "length"),
    [
        ({}, {}, 128),
        ({"attrs": {"_nczarr_maxstrlen": 16}}, {}, 16),
        ({"attrs": {"_nczarr_maxstrlen": np.array([300])}}, {}, 300),
        ({"codecs": (Codec("vlen-utf8"), Codec("zlib", {"level": 1}))}, {}, 128),
        ({"codecs": (Codec("fixed_utf8", {"length": 9}), Codec("bytes"))}, {}, 9),
        ({"codecs": (Codec("fixed_utf8", {"length": 9}),), "attrs": {"_nczarr_maxstrlen": 7}}, {}, 7),
        ({}, {"truncate": True}, 128),
    ],
)
def test_4_7_the_width_of_text(more, options, length):
    where = context(**options)
    made = current.new_array(wish(VlenString(), **more), "a", where)
    assert made.codecs[0] == Codec("fixed_utf8", {"length": length} | options)
    assert dict(made.attrs) == {}
    docs = current.render(made, "a", where)
    assert docs[".zarray"]["dtype"] == f"|S{length}"
    assert read(docs[".zarray"], docs[".zattrs"], where=where)[0].codecs == made.codecs


def test_4_7_the_root_has_a_width_for_all():
    root = {"_nczarr_default_maxstrlen": 20, "_nczarr_attr": {"types": {"_nczarr_default_maxstrlen": "<i4"}}}
    where = context(groups={"": root})
    assert current.new_array(wish(VlenString()), "a", where).codecs[0] == Codec("fixed_utf8", {"length": 20})
    where = context(groups={"": {"_nczarr_default_maxstrlen": "wide"}})
    assert current.new_array(wish(VlenString()), "a", where).codecs[0] == Codec("fixed_utf8", {"length": 128})


@pytest.mark.parametrize("width", [0, -1, "12", 1.5, 2**30, [1, 2]])
def test_4_7_a_width_is_a_number_of_bytes(width):
    with pytest.raises(Invalid, match="_nczarr_maxstrlen"):
        current.new_array(wish(VlenString(), attrs={"_nczarr_maxstrlen": width}), "a", context())


@pytest.mark.parametrize(
    ("encoding", "dtype", "fill", "mark"), [("netcdf", ">S1", "x", {}), ("zarr", "|S1", "eA==", {"nc_type": "char"})]
)
def test_4_6_char_cells(encoding, dtype, fill, mark):
    where = context(char_encoding=encoding)
    made = current.new_array(wish(Char(), fill_value="x"), "a", where)
    docs = current.render(made, "a", where)
    assert (docs[".zarray"]["dtype"], docs[".zarray"]["fill_value"]) == (dtype, fill)
    assert docs[".zattrs"]["_nczarr_array"] == {"dimension_references": ["/x"], "storage": "chunked"} | mark
    for other in ("netcdf", "zarr"):  # what is there keeps its spelling
        found, _ = read(docs[".zarray"], docs[".zattrs"], where=context(char_encoding=other))
        assert (found.dtype, found.fill_value) == (Char(), b"x")
        again = current.render(found, "a", context(char_encoding=other))
        assert again == docs


@pytest.mark.parametrize("dtype", [Char(), VlenString()])
def test_no_bytes_but_nul_are_an_empty_fill_value(dtype):
    for fill, stored in ((None, None), ("", ""), ("\0", "")):
        made = current.new_array(wish(dtype, fill_value=fill), "a", context())
        assert current.render(made, "a", context())[".zarray"]["fill_value"] == stored


def test_single_bytes_are_chars():
    assert current.new_array(wish(np.dtype("S1")), "a", context()).dtype == Char()


@pytest.mark.parametrize(
    "dtype",
    [
        *map(np.dtype, ["?", "c8", "c16", "f2", "M8[s]", "m8[ms]", "S5", "U3", "V4", "i4,f8"]),
        *(VlenBytes(), VlenArray(np.dtype("i4"))),
        *(Enum(np.dtype("u1"), (("a", 0),), "e"), Opaque(4, "o"), Compound(np.dtype("i4,f8"), "c")),
    ],
    ids=str,
)
def test_4_10_types_that_netcdf_does_not_have_are_refused_by_name(dtype):
    with pytest.raises(Unsupported, match="has no cells of type") as caught:
        current.new_array(wish(dtype), "a", context())
    is_user_type = isinstance(dtype, Enum | Opaque | Compound) or (isinstance(dtype, np.dtype) and dtype.kind == "V")
    assert ("dialect='draft'" in str(caught.value)) == is_user_type


def test_user_types_of_groups_are_refused():
    with pytest.raises(Unsupported, match="dialect='draft'"):
        current.render(GroupSpec(types={"o": Opaque(4, "o")}), "", context())


def test_cells_are_in_c_order_for_netcdf_c():
    codecs = (Codec("transpose", {"order": [1, 0]}), Codec("zlib", {"level": 1}))
    asked = wish(np.dtype("<i4"), shape=(3, 2), chunks=(3, 2), dims=("x", "y"), codecs=codecs)
    assert current.new_array(asked, "a", context()).codecs == (Codec("bytes"), Codec("zlib", {"level": 1}))


def test_the_fill_attribute_is_the_fill_value_where_none_is_given():
    made = current.new_array(wish(np.dtype("<i4"), attrs={"_FillValue": -9}), "a", context())
    assert equal(made.fill_value, np.int32(-9))
    made = current.new_array(wish(np.dtype("<i4"), fill_value=0, attrs={"_FillValue": -9}), "a", context())
    assert equal(made.fill_value, np.int32(0))
    assert equal(made.attrs["_FillValue"], np.int32(-9))
    assert current.new_array(wish(np.dtype("<i4")), "a", context()).fill_value is None


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(np.dtype("i2"), 2**20), (np.dtype("i2"), 0.5), (np.dtype("f4"), "much"), (Char(), 5), (np.dtype("f8"), [1, 2])],
)
def test_the_fill_attribute_is_a_cell(dtype, value):
    with pytest.raises(Invalid, match="_FillValue"):
        current.new_array(wish(dtype, attrs={"_FillValue": value}), "a", context())


@pytest.mark.parametrize(
    "name", ["_ARRAY_DIMENSIONS", "_nczarr_group", "_nczarr_array", "_nczarr_attr", "_nczarr_superblock"]
)
def test_names_of_nczarrs_own_attributes_are_refused(name):
    with pytest.raises(Invalid, match=name):
        current.new_array(wish(np.dtype("i4"), attrs={name: 1}), "a", context())
    with pytest.raises(Invalid, match=name):
        current.render(GroupSpec(attrs={name: 1}), "g", context())


def test_an_attribute_with_a_hidden_name_is_written_and_hidden():
    old = {"_nczarr_default_maxstrlen": (128, "<i4"), "CLASS": ("x", ">S1")}
    spec = GroupSpec(attrs={"_nczarr_default_maxstrlen": 16}, layout={"hidden": old})
    stored = current.render(spec, "", context())[".zattrs"]
    found, _ = read_group(stored)
    assert dict(found.attrs) == {}
    assert found.layout["hidden"]["_nczarr_default_maxstrlen"] == (16, "<i4")
    assert found.layout["hidden"]["CLASS"] == ("x", ">S1")


def test_names_of_dimensions_hold_no_slash():
    with pytest.raises(Invalid, match="a/b"):
        current.render(GroupSpec(dims=(Dimension("a/b", 3),)), "", context())


def test_hidden_attributes_of_a_wish_are_kept_hidden():
    made = current.new_array(wish(np.dtype("i4"), attrs={"CLASS": "x", "units": "m"}), "a", context())
    assert (dict(made.attrs), made.layout["hidden"]) == ({"units": "m"}, {"CLASS": ("x", ">S1")})


@pytest.mark.parametrize(
    "asked",
    [
        wish(np.dtype("i4"), chunks=((1, 2),)),
        wish(np.dtype("i4"), codecs=(Codec("sharding_indexed", {}),)),
        wish(np.dtype("i4"), attrs={"flag": True}),
    ],
    ids=["varying", "codec", "bool"],
)
def test_what_cannot_be_written_is_refused_now(asked):
    with pytest.raises(Unsupported):
        current.new_array(asked, "a", context())


@pytest.mark.parametrize("name", ["c", "_nczarr_c"])
def test_an_attribute_that_cannot_be_is_named(name):
    with pytest.raises(Unsupported, match=f"attribute '{name}': netCDF has no attribute"):
        current.new_array(wish(np.dtype("i4")).evolve(attrs={name: 1j}), "a", context())


def test_rows_that_were_written_are_remembered_while_they_are_fewer():
    made = current.new_array(wish(np.dtype("i4")), "a", context())
    part = made.evolve(layout={**made.layout, "written": (2,)})
    docs = current.render(part, "a", context())
    assert docs[".zattrs"]["_nczarr_array"]["written"] == [2]
    assert read(docs[".zarray"], docs[".zattrs"])[0].layout["written"] == (2,)
    whole = made.evolve(layout={**made.layout, "written": (3,)})
    assert "written" not in current.render(whole, "a", context())[".zattrs"]["_nczarr_array"]
