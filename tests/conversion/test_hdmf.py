"""Links and references in conversions: between the profiles nothing is lost, elsewhere what is lost is said."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Unsupported
from hyperslab.model.dtypes import ObjectRef, VlenString, tagged

pytestmark = pytest.mark.sampled(2)

CELLS = np.arange(24.0).reshape(4, 6)
OBJECT = np.dtype(object)
ROW = np.dtype([("id", "i4"), ("label", tagged(OBJECT, VlenString())), ("ref", tagged(OBJECT, ObjectRef()))])
LONG = "x" * 700


def _make(path: Path, profile: str) -> Path:
    """A dataset with links and references of all kinds, to its own parts and to a neighbour."""
    with hs.create(path.parent / "other.zarr", format="hdmf") as other:
        other.create_array("e", data=[1.0, 2.0])
        outer = other["e"].ref
        with hs.create(path, format="hdmf", profile=profile) as root:
            root.attrs["object_id"] = "id-root"
            root.create_array("g/d", data=CELLS, chunks=(2, 6), attrs={"object_id": "id-d"})
            root.create_array("g/refs", data=[root["g/d"].ref, root["g"].ref, None, outer])
            root.create_array("g/regions", data=[root["g/d"].regionref[1:3, ::2], None])
            root.create_array("g/rows", shape=(2,), dtype=ROW)[...] = [(1, "one", root["g/d"].ref), (2, "é", outer)]
            root["g"].attrs["d"] = root["g/d"].ref
            root["g"].create_group("in").attrs["d"] = root["g/d"].ref
            root.create_group("h").attrs["d"] = root["g/d"].ref
            root.create_array("h/refs", data=[root["g/d"].ref, root["h"].ref])
            root["g"].create_link("own", root["g/d"])
            root["g"].create_link("outer", outer)
            root["g"].create_link("above", root["h"])
            root["g"].create_link("nowhere", "/g/nothing")
    return path


@pytest.fixture(params=["v2", "v3"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The dataset in each profile."""
    return _make(tmp_path / "in" / "a.zarr", request.param)


def _said(root: Any) -> dict[str, str]:
    """Every pointer of it, and where it leads to."""
    found = {f"links/{name}": str(link) for name, link in root["g"].links()}
    found |= {f"refs/{n}": str(cell) for n, cell in enumerate(root["g/refs"][:])}
    found |= {f"regions/{n}": str(cell) for n, cell in enumerate(root["g/regions"][:])}
    found |= {f"rows/{n}": str(cell) for n, cell in enumerate(root["g/rows"]["ref"])}
    return found | {path: str(root[path].attrs["d"]) for path in ("g", "g/in", "h")}


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_between_the_profiles_nothing_is_lost(made: Path, profile: str) -> None:
    target = made.parent / "b.zarr"
    report = hs.convert(made, target, format="hdmf", profile=profile, verify=True)
    assert report.losses == () and report.links == 4 and report.verified is not None
    with hs.open_group(made) as a, hs.open_group(target) as b:
        assert _said(a) == _said(b)
        assert b["g/rows"][:]["label"].tolist() == ["one", "é"]
        assert b["g/outer"].url == b["g/refs"][3].resolve().url
        np.testing.assert_array_equal(b["g/regions"][0].read(), CELLS[1:3, ::2])
    assert not hs.diff(made, target)


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_what_leads_out_leads_there_from_another_folder_too(made: Path, profile: str) -> None:
    target = made.parent / "sub" / "deep" / "b.zarr"
    target.parent.mkdir(parents=True)
    hs.convert(made, target, format="hdmf", profile=profile, verify=True)
    with hs.open_group(target, allow_external=[str(made.parent)]) as root:
        assert str(dict(root["g"].links())["outer"]) == "../../../other.zarr/e"
        assert [root["g/outer"][1], root["g/refs"][3].resolve()[1], root["g/rows"][1]["ref"].resolve()[1]] == [2.0] * 3
        assert root["g/own"].url == root.url


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_of_a_part_what_is_copied_is_its_own_and_the_rest_stays_where_it_is(made: Path, profile: str) -> None:
    target = made.parent / "part.zarr"
    hs.convert(made, target, format="hdmf", profile=profile, path="g", verify=True)
    with hs.open_group(target) as root:
        links = {name: str(link) for name, link in root.links()}
        assert links == {
            "own": "/d",
            "outer": "../other.zarr/e",
            "above": "../a.zarr/h",
            "nowhere": "../a.zarr/g/nothing",
        }
        refs = root["refs"][:]
        assert [str(cell) for cell in refs] == ["/d", "/", "None", "../other.zarr/e"]
        assert refs[0].resolve().url == root.url and refs[1].resolve() == root
        assert str(root["rows"]["ref", 0]) == "/d" and str(root["regions"][0]).startswith("/d[")
        assert str(root.attrs["d"]) == str(root["in"].attrs["d"]) == "/d"
        assert root["above"].url.endswith("a.zarr") and root["above"].path == "h"
    hs.convert(made, made.parent / "h.zarr", format="hdmf", profile=profile, path="h", verify=True)
    with hs.open_group(made.parent / "h.zarr") as root:
        assert [str(cell) for cell in root["refs"][:]] == ["../a.zarr/g/d", "/"]
        np.testing.assert_array_equal(root["refs"][0].resolve(), CELLS)
        assert root.attrs["d"].resolve().url.endswith("a.zarr")


def test_regions_of_an_array_that_is_cut_are_those_of_the_source(made: Path) -> None:
    target = made.parent / "cut.zarr"
    with hs.open_group(made, "r+") as root:
        root.create_array("t/d", data=CELLS, dims=("y", "x"))
        root.create_array("t/regions", data=[root["t/d"].regionref[3]])
        root.create_array("t/refs", data=[root["t/d"].ref])
    hs.convert(made, target, format="hdmf", path="t", select={"y": slice(0, 2)}, verify=True)
    with hs.open_group(target) as root:
        assert root["d"].shape == (2, 6) and root["refs"][0].resolve().url == root.url
        np.testing.assert_array_equal(root["regions"][0].read(), CELLS[3:4])


def test_what_leads_to_another_copy_of_a_part_does_not_lead_home(made: Path) -> None:
    """Both copies of a part have its identity."""
    with hs.open_group(made, "r+") as root:
        root["g"].attrs["object_id"] = "id-g"
    first, second = made.parent / "first.zarr", made.parent / "second.zarr"
    hs.convert(made, first, format="hdmf", path="g")
    with hs.open_group(first, "r+") as other, hs.open_group(made, "r+") as root:
        other["d"][0, 0] = 99
        root["g"].create_link("first", other["d"])
        assert dict(root["g"].links())["first"].source_object_id == "id-g"
    hs.convert(made, second, format="hdmf", path="g")
    with hs.open_group(second) as root:
        assert root["first"][0, 0] == 99
        assert dict(root.links())["first"].source_object_id == "id-g"


def test_an_array_alone(made: Path) -> None:
    hs.convert(made, made.parent / "one.zarr", format="hdmf", path="g/refs", verify=True)
    with hs.open_group(made.parent / "one.zarr") as root:
        assert [str(cell) for cell in root["refs"][:]] == ["../a.zarr/g/d", "/", "None", "../other.zarr/e"]


@pytest.mark.parametrize("target", ["b.zarr", "b.nc", "b2.zarr"])
def test_formats_without_links_say_what_is_lost(made: Path, target: str) -> None:
    options: dict[str, Any] = {"format": {"b.zarr": "zarr3", "b.nc": "netcdf", "b2.zarr": "zarr2"}[target]}
    with pytest.raises(Unsupported) as raised:
        hs.convert(made, made.parent / target, **options)
    for said in ("link to /g/d", "'d', a reference, becomes text", "become string", "cells of type rows of"):
        assert said in str(raised.value)
    hs.convert(made, made.parent / target, allow_loss=True, verify=True, **options)
    with hs.open_group(made.parent / target) as root:
        assert root["g/refs"][:].tolist() == ["/g/d", "/g", "", "../other.zarr/e"]
        assert root["g/regions"][0] == "/g/d[1:3, 0:6:2]" and root["g"].attrs["d"] == "/g/d"
        assert {"own", "outer"}.isdisjoint(root["g"])
        rows = root["g/rows"][...]
        assert rows["id"].tolist() == hs.open_array(made, path="g/rows")[...]["id"].tolist()


def test_fields_are_as_wide_as_they_need_to_be(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", format="hdmf") as root:
        root.create_array("rows", shape=(3,), dtype=ROW, chunks=2)[2] = (1, LONG, root.ref)
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="hdmf", profile="v3", verify=True)
    assert hs.open_group(tmp_path / "b.zarr")["rows"][2]["label"] == LONG


def test_a_link_on_the_way_to_a_part_may_not_leave(made: Path) -> None:
    with pytest.raises(Unsupported, match="open that dataset by its own place"):
        hs.convert(made, made.parent / "b.zarr", path="g/outer")


@pytest.mark.sampled(0)
def test_stores_of_peers_between_profiles_and_back(tmp_path: Path) -> None:
    """What 0.13 wrote, through the profile of 0.14 and back: the same cells, links and references."""
    golden = Path(__file__).parents[1] / "golden" / "hdmf" / "hdmf_zarr_v2_0130.zip"
    shutil.unpack_archive(golden, tmp_path / "in")
    for name in ("hz0130_builders_json", "hz0130_builders_pickle", "hz0130_nwb_pickle"):
        source = tmp_path / "in" / f"{name}.zarr"
        hs.convert(source, tmp_path / "in" / f"{name}.v3.zarr", format="hdmf", profile="v3", verify=True)
        hs.convert(tmp_path / "in" / f"{name}.v3.zarr", tmp_path / "in" / f"{name}.v2.zarr", format="hdmf", verify=True)
        assert not hs.diff(source, tmp_path / "in" / f"{name}.v2.zarr")


def test_links_that_lead_nowhere_keep_their_words(tmp_path: Path) -> None:
    """Absolute ones to the letter; relative ones lead to the same place from another folder."""
    shutil.unpack_archive(Path(__file__).parents[1] / "golden" / "hdmf" / "hostile.zip", tmp_path / "in")
    source = tmp_path / "in" / "evil_link_escape.zarr"
    (tmp_path / "in" / "sub").mkdir()
    for target in (tmp_path / "in" / "b.zarr", tmp_path / "in" / "sub" / "b.zarr"):
        hs.convert(source, target, format="hdmf", verify=True)
        with hs.open_group(source) as a, hs.open_group(target) as b:
            old, new = ({name: str(link) for name, link in root["refs"].links()} for root in (a, b))
            up, again = old.pop("up"), new.pop("up")
            assert old == new and ("../.." in again)
            assert (source / up).resolve() == (target / again).resolve()


def test_references_in_rows_that_get_longer_on_the_way_have_room(tmp_path: Path) -> None:
    """As text they are a path here, and there a path with the place of this dataset."""
    place = f"g/{'/'.join(['deep' * 10] * 12)}"
    with hs.create(tmp_path / "a.zarr", format="hdmf") as root:
        root.create_array(place, data=CELLS)
        rows = root.create_array("h/rows", shape=(2,), dtype=ROW)
        rows[0] = (1, "one", root[place].ref)
    target = tmp_path / ("b" * 200) / "b.zarr"
    target.parent.mkdir()
    hs.convert(tmp_path / "a.zarr", target, format="hdmf", profile="v3", path="h", verify=True)
    with hs.open_group(target, allow_external=True) as root:
        assert str(root["rows"][0]["ref"]) == f"../../a.zarr/{place}"
        np.testing.assert_array_equal(root["rows"][0]["ref"].resolve(), CELLS)


def _make_regions(path: Path, profile: str) -> Path:
    """A dataset with attributes that are references to regions, on nodes of every kind."""
    with hs.create(path, format="hdmf", profile=profile, region_attributes=True) as root:
        root.create_array("g/d", data=CELLS, chunks=(2, 6))
        region = root["g/d"].regionref[1:3, ::2]
        root.create_array("g/refs", data=[root["g/d"].ref])
        root.create_array("g/one", data=1.5)
        for node in ("", "g", "g/d", "g/refs", "g/one"):
            root[node or "/"].attrs["cells"] = region
            root[node or "/"].attrs["unit"] = "V"
    return path


@pytest.mark.parametrize("path", ["", "g"])
@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_region_attributes_that_profile_v2_is_not_to_have_are_said_and_left_out(
    tmp_path: Path, profile: str, path: str
) -> None:
    source = _make_regions(tmp_path / "a.zarr", profile)
    with pytest.raises(Unsupported, match="'cells', a RegionReference, is left out") as raised:
        hs.convert(source, tmp_path / "b.zarr", format="hdmf", path=path)
    count = 4 if path else 5
    assert str(raised.value).count("'cells'") == count and not (tmp_path / "b.zarr").exists()
    report = hs.convert(source, tmp_path / "b.zarr", format="hdmf", path=path, allow_loss=True, verify=True)
    assert len(report.losses) == count
    options: dict[str, Any] = {"path": path, "verify": True}
    assert not hs.convert(source, tmp_path / "c.zarr", "hdmf", region_attributes=True, **options).losses
    assert not hs.convert(source, tmp_path / "d.zarr", "hdmf", profile="v3", **options).losses
    for name, kept in (("b.zarr", False), ("c.zarr", True), ("d.zarr", True)):
        with hs.open_group(tmp_path / name) as root:
            top = root if path else root["g"]
            for node in (top, top["d"], top["refs"], top["one"]):
                assert node.attrs["unit"] == "V" and ("cells" in node.attrs) is kept
                if kept:
                    np.testing.assert_array_equal(node.attrs["cells"].read(), CELLS[1:3, ::2])


def test_references_become_text_of_one_width_where_there_is_no_other(made: Path, mongo: Any) -> None:
    there = f"{mongo.url}/{mongo.database()}#refs"
    report = hs.convert(made, there, allow_loss=True)
    assert [loss for loss in report.losses if "the array is left out" in loss.message] == []
    with hs.open_group(there) as root:
        assert root["g/refs"].dtype.kind == "U"
        assert list(root["g/refs"][:3]) == ["/g/d", "/g", ""]
