"""Links and references as every command shows them: by where they lead, and in JSON as what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from command_line import run
from hyperslab.model.dtypes import ObjectRef, tagged

ROW = np.dtype([("id", "i4"), ("ref", tagged(np.dtype(object), ObjectRef()))])


@pytest.fixture
def led(tmp_path: Path) -> Path:
    """Links up, out and nowhere, and references in cells, rows and attributes."""
    path = tmp_path / "a.zarr"
    with hs.create(path, format="hdmf") as root:
        root.attrs["object_id"] = "id-root"
        root.create_array("g/d", data=np.arange(4.0), dims=("x",), attrs={"object_id": "id-d"})
        root.create_array("g/refs", data=[root["g/d"].ref, None, root["g"].ref], dims=("n",))
        root.create_array("g/regions", data=[root["g/d"].regionref[1:3]])
        root.create_array("g/one", data=root["g/d"].regionref[3])
        root.create_array("g/rows", shape=(2,), dtype=ROW)[0] = (1, root["g/d"].ref)
        root.attrs["table"] = root["g"].ref
        root["g/d"].attrs["table"] = root["g"].ref
        root["g"].create_link("also", root["g/d"])
        root["g"].create_link("loop", "/g")
        root["g"].create_link("out", "/x", "../other.zarr")
        root.create_link("etc", "/passwd", "/etc")
    return path


def text(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def document(*arguments: str | Path) -> Any:
    return json.loads(text(*arguments, "--json"))


def test_info_lists_links_and_follows_none(led: Path) -> None:
    said = text("info", led)
    for line in (
        "/etc -> /etc/passwd",
        "/g/also -> /g/d",
        "/g/loop -> /g",
        "/g/out -> ../other.zarr/x",
        "table: -> /g",
    ):
        assert line in said
    assert said.count("/g/d ") == 1 and "rows of id: int32, ref: object reference" in said
    facts = document("info", led)
    assert {"path": "g/also", "target": "/g/d", "source": ".", "object_id": "id-d"} in facts["links"]
    assert facts["attrs"]["table"]["path"] == "/g"
    assert [array["path"] for array in facts["arrays"]] == [
        f"g/{name}" for name in ("d", "refs", "regions", "one", "rows")
    ]


def test_info_lists_links_behind_a_node_that_cannot_be_read(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    with hs.create(place, "hdmf", profile="v3") as root:
        for name in ("a", "g", "h"):
            root.create_group(name).create_link("up", "/g")
    whole = json.loads((place / "zarr.json").read_text())
    for name in ("a", "h"):
        whole["consolidated_metadata"]["metadata"][name]["node_type"] = "nonsense"
        (place / name / "zarr.json").write_text('{"zarr_format": 3, "node_type": "nonsense"}')
    (place / "zarr.json").write_text(json.dumps(whole))
    found = document("info", place)
    assert sorted(node["path"] for node in found["unreadable"]) == ["a", "h"]
    assert [link["path"] for link in found["links"]] == ["g/up"]


def test_tree(led: Path) -> None:
    assert "loop -> /g" in text("tree", led)
    links = [node for node in document("tree", led)["nodes"] if node["kind"] == "link"]
    assert {"path": "g/out", "kind": "link", "target": "/x", "source": "../other.zarr"} in links
    assert len(links) == 4


def test_dump_ends_and_shows_paths(led: Path) -> None:
    said = text("dump", led)
    assert 'refs = "/g/d", "", "/g" ;' in said and 'rows = {1, "/g/d"}, {0, ""} ;' in said
    assert 'string :table = "/g" ;' in said and '// link: loop -> "/g"' in said and 'one = "/g/d[3:4]" ;' in said
    assert said.count("group: g {") == 1


def test_get(led: Path) -> None:
    assert text("get", led, "g/refs").split() == ["n", "refs", "0", "/g/d", "1", "2", "/g"]
    assert text("get", led, "g/also").split()[-2:] == ["3", "3.0"]
    assert text("get", led, "g/rows").splitlines()[1].endswith("(1, /g/d)")
    assert text("get", led, "g/one").strip() == "/g/d[3:4]"
    values = document("get", led, "g/refs")["values"]
    assert (values[0]["path"], values[0]["object_id"], values[1]) == ("/g/d", "id-d", None)
    assert document("get", led, "g/regions")["values"][0]["region"]["axes"] == [{"start": 1, "stop": 3, "step": 1}]
    assert document("get", led, "g/one")["values"]["path"] == "/g/d"
    for ending in (".npy", ".nc"):
        for path in ("g/refs", "g/rows"):
            assert run("get", led, path, "-o", led.parent / f"x{ending}").exit_code == 2
    refused = run("get", led, "etc")
    assert refused.exit_code and "allow_external" in refused.stderr
    broken = run("get", led, "g/out")
    assert broken.exit_code and "other.zarr" in broken.stderr


def test_diff_says_where_each_leads(led: Path) -> None:
    with hs.open_group(led) as a, hs.create(led.parent / "b.zarr", format="hdmf") as b:
        b.attrs["object_id"] = "id-b"
        b.create_group("g", attrs={"a": a.ref})
        assert b["g"].attrs["a"].source == "../a.zarr"
        b.create_array("g/d", data=a["g/d"][:], dims=("x",), attrs={"object_id": "id-d", "table": a["g"].ref})
        assert b["g/d"].attrs["table"].resolve().url == a.url
        b["g/d"].attrs["table"] = b["g"].ref
        b.create_array("g/refs", data=[b["g"].ref, None, b["g"].ref], dims=("n",))
        b["g"].create_link("also", "/g/refs")
        b["g"].create_link("loop", "/g")
        b.attrs["table"] = b["g/d"].ref
    result = run("diff", led, led.parent / "b.zarr")
    assert result.exit_code == 1
    assert "the link to /g/refs in place of the link to /g/d" in result.stdout
    assert "1 of 3 cells differ: [0] /g/d -> /g" in result.stdout
    assert "attribute 'table' is -> /g/d, not -> /g" in result.stdout
    assert "/g/loop" not in result.stdout
    assert json.loads(run("diff", led, led.parent / "b.zarr", "--json").stdout)["equal"] is False


def test_xarray_has_linked_arrays_and_the_paths_of_references(led: Path) -> None:
    """Text is what xarray can compare, print and save."""
    dataset = xr.open_dataset(led, engine="hyperslab", group="g")
    assert dataset["refs"].values.tolist() == ["/g/d", "", "/g"]
    assert dataset["also"].values.tolist() == dataset["d"].values.tolist()
    assert dataset["regions"].values.tolist() == ["/g/d[1:3]"] and dataset["one"].item() == "/g/d[3:4]"
    assert dataset["d"].attrs["table"] == "/g" and "out" not in dataset
    tree = hs.open_group(led).to_datatree()
    assert list(tree.children) == ["g"] and not tree["g"].children
    dataset.drop_vars("rows").to_netcdf(led.parent / "x.nc")
    assert xr.open_dataset(led.parent / "x.nc")["refs"].values.tolist() == ["/g/d", "", "/g"]


def test_pages_of_arrays_of_references(led: Path) -> None:
    with hs.open_group(led) as root:
        for name in ("refs", "rows", "regions", "one"):
            assert "reference" in root["g"][name]._repr_html_()
        assert "/g" in root["g/d"]._repr_html_() and "→ /g/d" in root["g"]._repr_html_()


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """Links to a dataset in another folder, one by a path that is absolute."""
    with (
        hs.create(tmp_path / "far" / "x.zarr", format="hdmf") as other,
        hs.create(tmp_path / "in" / "a.zarr", format="hdmf") as root,
    ):
        other.attrs["object_id"] = "id-far"
        other.create_array("e", data=np.arange(24.0), dims=("x",))
        root.create_link("out", "/e", "../../far/x.zarr")
        root.create_link("whole", "/e", str(tmp_path / "far" / "x.zarr"))
    return tmp_path / "in" / "a.zarr"


@pytest.mark.parametrize("place", ["far", "any"])
def test_links_lead_to_places_that_are_allowed(apart: Path, place: str) -> None:
    allow = ("--allow-external", "any" if place == "any" else apart.parents[1] / place)
    picture = apart.parent / "out.svg"
    for command in (("get", apart, "out"), ("plan", apart, "whole"), ("plot", apart, "out", "-o", picture)):
        refused = run(*command)
        assert refused.exit_code and "--allow-external" in refused.stderr
        text(*command, *allow)
        text(*command[:3], *(("-o", apart.parent / "again.svg") if command[0] == "plot" else ()), *allow, *allow)
        (apart.parent / "again.svg").unlink(missing_ok=True)
    assert text("get", apart, "out", *allow).split()[-2:] == ["23", "23.0"] and picture.exists()


def test_check_and_repair_look_at_places_that_are_allowed(apart: Path) -> None:
    allow = ("--allow-external", apart.parents[1])
    assert run("check", apart).stdout.count("link-refused") == 2
    assert [problem.kind for problem in hs.check(apart, allow_external=[str(apart.parents[1])])] == ["link-absolute"]
    said = run("check", apart, *allow)
    assert said.exit_code == 1 and said.stdout.count("\n") == 1 and "'../../far/x.zarr' is meant" in said.stdout
    text("repair", apart, "--links", "--apply", *allow)
    text("check", apart, *allow)
    with hs.open_group(apart) as root:
        assert {(link.source, link.source_object_id) for _, link in root.links()} == {("../../far/x.zarr", "id-far")}


def test_convert_finds_what_is_allowed(apart: Path) -> None:
    for name, source, more in (
        ("b.zarr", str(apart.parents[1] / "far" / "x.zarr"), ()),
        ("c.zarr", "../../far/x.zarr", ("--allow-external", "any")),
    ):
        text("convert", apart, apart.parent / name, "--format", "hdmf", *more)
        assert dict(hs.open_group(apart.parent / name).links())["whole"].source == source


def test_formats_without_links_have_no_places_to_allow(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("a", data=[1.0])
    place = tmp_path / "a.zarr"
    for command in (("get", place, "a"), ("check", place), ("repair", place), ("convert", place, tmp_path / "b.nc")):
        refused = run(*command, "--allow-external", "any")
        assert refused.exit_code == 2 and "has no option 'allow_external'" in refused.stderr


def test_dump_of_a_linked_array(led: Path) -> None:
    assert "d = 0, 1, 2, 3 ;" in text("dump", led, "--array", "g/also")
    with hs.create(led.parent / "other.zarr", format="hdmf") as other:
        other.create_array("x", data=[1.0])
    refused = run("dump", led, "--array", "g/out")
    assert refused.exit_code == 2 and "/g/out leads to another dataset" in refused.stderr
