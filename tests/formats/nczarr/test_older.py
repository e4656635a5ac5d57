"""The documents of netcdf-c 4.8.0 to 4.9.2 mean what those of today mean."""

from __future__ import annotations

import numpy as np
import pytest

from hyperslab.formats.format_errors import Problems
from hyperslab.formats.nczarr import current
from hyperslab.formats.nczarr.generation import Context, Generation, find_generation, to_current_documents
from hyperslab.model.attrs import equal
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char

ZARRAY = {
    "zarr_format": 2,
    "shape": [2, 3],
    "dtype": "<U1",
    "chunks": [2, 3],
    "fill_value": "",
    "order": "C",
    "compressor": None,
    "filters": None,
}
GROUP = {"dims": {"y": 2, "x": 3}, "vars": ["ch"], "groups": ["g1"]}
ARRAY = {"dimrefs": ["/y", "/x"], "storage": "chunked"}
ATTR = {"types": {"note": "<U1", "level": "<i2"}}
ATTRIBUTES = {"note": "in g1", "level": 3}


def stored(generation):
    """The documents of a root, of an array and of a scalar, as this generation writes them."""
    zgroup, zarray = {"zarr_format": 2}, ZARRAY
    scalar = ZARRAY | {"shape": [1], "chunks": [1], "dtype": "<i4", "fill_value": 0}
    nowhere = {"dimrefs": [], "storage": "scalar"}
    if generation is Generation.V1:
        return (
            {
                ".zgroup": zgroup,
                ".nczarr": {"zarr_format": 2},
                ".nczgroup": GROUP,
                ".nczattr": ATTR,
                ".zattrs": ATTRIBUTES,
            },
            {".zarray": zarray, ".nczarray": ARRAY, ".zattrs": ATTRIBUTES, ".nczattr": ATTR},
            {".zarray": scalar, ".nczarray": nowhere},
        )
    names = ("_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr")
    superblock, group, array, attr = names if generation is Generation.V2B else map(str.upper, names)
    return (
        {".zgroup": {**zgroup, superblock: {"version": "2.0.0"}, group: GROUP}, ".zattrs": {**ATTRIBUTES, attr: ATTR}},
        {".zarray": {**zarray, array: ARRAY}, ".zattrs": {**ATTRIBUTES, attr: ATTR}},
        {".zarray": {**scalar, array: nowhere}},
    )


@pytest.fixture(params=[Generation.V1, Generation.V2A, Generation.V2B], ids=lambda found: found.name)
def generation(request):
    return request.param


def read(docs, generation):
    problems = Problems("n")
    return current.parse(docs, "n", Context(generation=generation), problems), problems


def test_the_generation_is_told_by_where_the_keys_are(generation):
    assert find_generation(stored(generation)[0]) is generation
    assert generation.is_older


def test_groups(generation):
    spec, problems = read(stored(generation)[0], generation)
    assert problems == []
    assert spec.dims == (Dimension("y", 2), Dimension("x", 3))
    assert (spec.layout["arrays"], spec.layout["groups"]) == (("ch",), ("g1",))
    assert list(spec.attrs) == ["note", "level"]
    assert equal(spec.attrs["level"], np.int16(3))
    assert spec.layout["zarr2"] == {"zarr_format": 2}


def test_arrays(generation):
    spec, problems = read(stored(generation)[1], generation)
    assert problems == []
    assert (spec.dtype, spec.shape, spec.dims) == (Char(), (2, 3), ("y", "x"))
    assert spec.layout["dimensions"] == ("/y", "/x")
    assert spec.attrs["note"] == "in g1"
    assert spec.layout["zarr2"] == ZARRAY


def test_scalars_without_attributes(generation):
    spec, problems = read(stored(generation)[2], generation)
    assert (spec.shape, spec.dims, dict(spec.attrs), problems) == ((), (), {}, [])


def test_a_group_without_anything_is_a_group(generation):
    spec, problems = read({".zgroup": {"zarr_format": 2}}, generation)
    assert (spec.dims, dict(spec.attrs), problems) == ((), {}, [])


def test_damage_is_noted(generation):
    root, array, _ = stored(generation)
    for docs in (root, array):
        for doc in docs.values():
            for key in [key for key in doc if key.lower().startswith("_nczarr")]:
                doc[key] = 5
    if generation is not Generation.V1:
        assert [problem.kind for problem in read(root, generation)[1]] == ["nczarr", "nczarr"]
        spec, problems = read(array, generation)
        assert {problem.kind for problem in problems} == {"nczarr"}
        assert spec.dims == ("_Anonymous_Dim_2", "_Anonymous_Dim_3")


def test_documents_are_not_changed(generation):
    docs = stored(generation)[0]
    to_current_documents(docs)
    assert docs == stored(generation)[0]


def test_a_no_fill_variable_of_4_9_1_has_the_attribute_as_fill_value():
    docs = {
        ".zarray": ZARRAY | {"dtype": "<f4", "fill_value": None, "_nczarr_array": ARRAY},
        ".zattrs": {"_FillValue": -5, "_nczarr_attr": {"types": {"_FillValue": "<f4"}}},
    }
    spec, problems = read(docs, Generation.V2B)
    assert equal(spec.fill_value, np.float32(-5))
    assert [problem.kind for problem in problems] == ["fill_value"]
