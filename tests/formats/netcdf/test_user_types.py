"""Enum, opaque and compound types of files that ncgen made, of cells, fields and attributes; written again the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from cdl.compiling import NAMES, NEEDS_NCGEN, case, compiled, every_sixth, ncdump
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.model.attrs import equal
from hyperslab.model.dtypes import Compound, Enum, Opaque, VlenArray, tag_of, tagged, tagged_fields
from hyperslab.model.spec import ArraySpec, GroupSpec

pytestmark = NEEDS_NCGEN


def nodes(path: Path) -> dict[str, Any]:
    """Every node by its path."""
    reader = NetcdfReader(str(path), str(path))
    found: dict[str, Any] = {}

    def walk(node: str) -> None:
        found[node] = reader.node(node)
        for name in reader.children(node) if isinstance(found[node], GroupSpec) else ():
            walk(f"{node}/{name}".lstrip("/"))

    walk("")
    reader.close()
    return found


@pytest.mark.parametrize("name", every_sixth(NAMES, 4))
def test_what_is_read_is_written_again(tmp_path: Path, name: str) -> None:
    made = case(name, tmp_path)
    hs.convert(made, tmp_path / "again.nc", format="netcdf", verify=True)
    assert ncdump(tmp_path / "again.nc") == ncdump(made)


def test_attributes_bear_their_type(tmp_path: Path) -> None:
    found = nodes(case("user_attributes", tmp_path))
    flag = Enum(np.dtype("i1"), (("no", 0), ("yes", 1)), "flag_t")
    point = Compound(np.dtype([("x", "i4"), ("y", "f4")]), "point_t")
    assert list(found[""].types) == ["flag_t", "id_t", "point_t", "unused_t"]
    attrs = found["v"].attrs
    assert equal(attrs["valid"], np.array(1, tagged(flag.base, flag)))
    assert equal(attrs["flags"], np.array([1, 0, 1], tagged(flag.base, flag)))
    assert equal(attrs["id"], np.array(b"\xde\xad\xbe\xef", tagged(np.dtype("V4"), Opaque(4, "id_t"))))
    assert equal(attrs["corner"], np.array([(1, 2.5)], tagged(point.base, point))[0])
    assert equal(attrs["corners"], np.array([(1, 2.5), (3, 4.5)], tagged(point.base, point)))
    assert list(found[""].attrs) == ["checked", "title", "key", "origin"]


def test_the_nearest_type_of_the_same_kind_counts(tmp_path: Path) -> None:
    found = nodes(case("user_attributes_in_groups", tmp_path))
    inner = found["g"].types["e_t"]
    assert inner.members == (("two", 2), ("three", 3))
    assert tag_of(found["g/h"].attrs["e"].dtype) == inner
    assert tag_of(found["k"].attrs["e"].dtype) == found[""].types["e_t"]


def test_variables_that_netcdf4_leaves_out(tmp_path: Path) -> None:
    made = case("compound_of_user_types", tmp_path)
    with hs.open(made) as root:
        spec = root["v"].spec
        cells = root["v"][...]
    assert isinstance(spec, ArraySpec)
    assert isinstance(spec.dtype, Compound)
    assert {name: type(kind) for name, kind in tagged_fields(spec.dtype.base)} == {"state": Enum, "key": Opaque}
    assert cells["state"].tolist() == [1, 0]
    assert cells["key"].tolist() == [b"\1\2", b"\xff\xff"]
    assert cells["n"].tolist() == [3, 4]


def test_members_beyond_what_h5py_tells(tmp_path: Path) -> None:
    wide = nodes(case("enum_bases", tmp_path))[""].types["ul_t"]
    assert dict(wide.members) == {"lo_ul": 0, "hi_ul": 2**64 - 1}


def test_vlen_types_keep_their_names(tmp_path: Path) -> None:
    types = nodes(case("vlen", tmp_path))[""].types
    assert types == {"ragged_t": VlenArray(np.dtype("i4"), "ragged_t"), "row_t": VlenArray(np.dtype("f8"), "row_t")}


def test_attributes_of_a_type_without_a_name_get_one(tmp_path: Path) -> None:
    pair = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
    with hs.create(tmp_path / "a.nc") as root:
        root.attrs.update(raw=np.void(b"abc"), again=np.void(b"xyz"), pair=pair[0])
        root.create_group("g").attrs["pairs"] = np.concatenate([pair, pair])
    found = nodes(tmp_path / "a.nc")
    assert list(found[""].types) == ["attribute_1_t", "attribute_2_t"]
    assert not found["g"].types
    assert np.asarray(found["g"].attrs["pairs"]).tolist() == [(1, 2.5), (1, 2.5)]


def test_a_new_attribute_brings_its_type_along(tmp_path: Path) -> None:
    state = Enum(np.dtype("u1"), (("off", 0), ("on", 1)), "state_t")
    made = case("atomic_types", tmp_path)
    with hs.open(made, "r+") as root:
        root["i"].attrs["state"] = np.array(1, tagged(state.base, state))
    assert nodes(made)[""].types == {"state_t": state}
    assert "\t\tstate_t i:state = on ;" in ncdump(made)


ODD = """netcdf odd {
types:
  int(*) row_t ;
  compound text_t { int a ; string s ; } ;
  compound pair_t { int a ; float b ; } ;
  pair_t(*) pairs_t ;
dimensions:
\tn = 2 ;
variables:
\ttext_t text(n) ;
\tpairs_t pairs(n) ;
\tint plain(n) ;
\t\trow_t plain:row = {1, 2} ;
\t\ttext_t plain:text = {1, "x"} ;
\t\tplain:after = 5 ;
data:
 plain = 1, 2 ;
}
"""


@pytest.mark.parametrize("format", ["netcdf", "zarr3"])
def test_what_has_no_form_here_keeps_nothing_else_from_being_read(tmp_path: Path, format: str) -> None:
    (tmp_path / "odd.cdl").write_text(ODD, "utf-8")
    made = compiled(tmp_path / "odd.cdl", tmp_path / "odd.nc")
    found = nodes(made)
    assert list(found) == ["", "text", "plain"]
    assert list(found[""].types) == ["row_t", "pair_t"]
    report = hs.convert(made, tmp_path / "again", format=format, allow_loss=True)
    assert {loss.node for loss in report.losses} == {"text", "pairs", "", "plain"}
    messages = {loss.node: loss.message.replace("pairs_t: ", "") for loss in report.losses}
    assert "left out (compound {int32 a; float32 b}(*))" in messages["pairs"]
    assert "cells of type rows of a: int32, s: string become" in messages["text"]
    with hs.open(tmp_path / "again") as root:
        assert list(root["plain"].attrs) == ["row", "after"]
        assert root["plain"].attrs["row"][()].tolist() == [1, 2]
