"""Links: followed where they lead, in this dataset and in others, and harmless where they lead nowhere or up."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.array import Array
from hyperslab.errors import AlreadyExists, BrokenLink, ExternalLinkRefused, Invalid, NodeNotFound, Unsupported
from hyperslab.group import Group
from hyperslab.model.refs import HOPS, Link, ObjectReference

CELLS = np.arange(12, dtype="i2").reshape(3, 4)


@pytest.fixture(params=["v2", "v3"])
def profile(request: pytest.FixtureRequest) -> Any:
    """Each of the two profiles."""
    return request.param


@pytest.fixture
def there(tmp_path: Path, profile: str) -> Path:
    """Two datasets beside each other; the first leads to the second, and the second back."""
    other = tmp_path / "in" / "other.zarr"
    with hs.create(other, format="hdmf", profile=profile) as root:
        root.attrs["object_id"] = "id-other"
        root.create_array("raw/es", data=CELLS * 2, attrs={"object_id": "id-raw"})
        root.create_link("back", "/g", "../own.zarr")
    own = tmp_path / "in" / "own.zarr"
    with hs.create(own, format="hdmf", profile=profile) as root:
        root.attrs["object_id"] = "id-own"
        root.create_group("g", attrs={"object_id": "id-g"})
        root.create_array("g/i2", data=CELLS, attrs={"object_id": "id-i2"})
        root.create_link("array", "/g/i2")
        root.create_link("group", "g")
        root.create_link("g/up", "/")
        root.create_link("out", "/raw", "../other.zarr")
        root.create_link("dangling", "/nope")
        root.create_link("dots", "/../../secret")
        root.create_link("etc", "/", "../../../../etc")
    return own


def test_a_link_gives_what_it_leads_to(there: Path) -> None:
    with hs.open_group(there) as root:
        assert root["array"].path == root["group/i2"].path == root["g/up/g/up/array"].path == "g/i2"
        assert root["group"] == root["g"]
        np.testing.assert_array_equal(root["group/i2"][1:], CELLS[1:])


def test_a_link_to_another_dataset_opens_it_once_for_reading(there: Path) -> None:
    with hs.open_group(there, "r+") as root:
        led = root["out/es"]
        assert isinstance(led, Array)
        np.testing.assert_array_equal(led[0], CELLS[0] * 2)
        assert led.url.endswith("other.zarr")
        assert root["out"]._session is led._session
        with pytest.raises(hs.errors.ReadOnly):
            led[0] = 1
        assert hs.open_group(there)["out/es"]._session is not led._session


def test_a_dataset_that_leads_back_is_not_opened_anew(there: Path) -> None:
    with hs.open_group(there) as root:
        other = hs.open_group(there.parent / "other.zarr")
        assert other["back/i2"].path == "g/i2"
        assert root["out"]._session.linked is root._session.linked
        led = Group(root["out"]._session, "")["back"]
        assert isinstance(led, Group)
        assert led._session is root._session


def test_what_was_opened_for_links_is_closed_with_its_dataset_and_opened_again_when_it_is_closed(there: Path) -> None:
    root = hs.open_group(there)
    first = root["out"]
    first.close()
    second = root["out"]
    assert second._session is not first._session
    np.testing.assert_array_equal(second["es"], CELLS * 2)
    root.close()
    assert root["out"]._session is not second._session


def test_a_path_that_leads_to_another_dataset_opens_that_one(there: Path) -> None:
    with hs.open(there, path="out/es") as array:
        assert array.url.endswith("other.zarr")
        np.testing.assert_array_equal(array, CELLS * 2)


def test_what_a_link_leads_to_is_pickled_by_its_own_place(there: Path) -> None:
    root = hs.open_group(there)
    array = pickle.loads(pickle.dumps(root["out/es"]))
    np.testing.assert_array_equal(array[2], CELLS[2] * 2)
    again = pickle.loads(pickle.dumps(root))
    np.testing.assert_array_equal(again["out/es"][1], CELLS[1] * 2)


def test_bad_links_are_bad_alone(there: Path) -> None:
    with hs.open_group(there) as root:
        for name, error in [("dangling", BrokenLink), ("dots", ExternalLinkRefused), ("etc", ExternalLinkRefused)]:
            with pytest.raises(error, match=rf"node=/{name}\]"):
                root[name]
            assert name in root
        with pytest.raises(NodeNotFound):
            root["group/nothing"]
        assert [name for name, _ in root.arrays()] == ["array"]
        assert [name for name, _ in root.groups()] == ["g"]
        assert [name for name, _ in root.links()] == ["array", "group", "out", "dangling", "dots", "etc"]
        assert "group/i2" in root and "group/nothing" not in root and "dangling/x" not in root
        assert "-> ../other.zarr/raw" in root.tree() and "→ /g/i2" in root._repr_html_()


def test_links_in_a_circle_end(there: Path) -> None:
    with hs.open_group(there, "r+") as root:
        root.create_link("a", "/b")
        root.create_link("b", "/a")
        root.create_link("deeper", "/deeper/x")
        for name in ("a", "b", "deeper", "a/b/c"):
            with pytest.raises(BrokenLink, match="circle"):
                root[name]


@pytest.mark.sampled(0)
@pytest.mark.parametrize("profile", ["v3", pytest.param("v2", marks=pytest.mark.soak)])  # what counts is one for both
def test_links_of_too_many_hops_end(there: Path) -> None:
    with hs.open_group(there, "r+") as root:
        for number in range(HOPS + 1):
            root.create_link(f"hop{number}", f"/hop{number + 1}")
        root.create_link(f"hop{HOPS + 1}", "/g")
        with pytest.raises(BrokenLink, match=f"more than {HOPS}"):
            root["hop0"]
        assert root["hop10"].path == "g"


def test_a_target_that_was_moved_is_found_by_its_id(there: Path) -> None:
    with hs.open_group(there, "r+") as root:
        root.move("g/i2", "g/renamed")
        with pytest.warns(UserWarning, match="/g/renamed is taken"):
            assert root["array"].path == "g/renamed"
        assert root.object_ids["id-i2"] == "g/renamed"


def test_what_is_at_the_path_of_a_link_is_its_target_whatever_its_id(there: Path) -> None:
    with hs.open_group(there, "r+") as root:
        root.move("g/i2", "g/renamed")
        root.create_array("g/i2", data=[1], attrs={"object_id": "another"})
        assert root["array"].path == "g/i2"
        assert "link-identity" in {problem.kind for problem in hs.check(there)}
    list(hs.repair(there, links=True, dry_run=False))
    with hs.open_group(there) as root:
        assert root["array"].path == "g/i2" and dict(root.links())["array"].target == "/g/i2"


def test_an_id_that_two_nodes_have_finds_neither(there: Path) -> None:
    with hs.open_group(there, "r+") as root:
        for name in ("first", "second"):
            root.create_array(name, data=[1], attrs={"object_id": "id-i2"})
        del root["g/i2"]
        with pytest.raises(BrokenLink, match="2 nodes have the object_id id-i2"):
            root["array"]


def test_links_to_nodes_and_references(there: Path) -> None:
    with hs.open_group(there.parent / "other.zarr") as other, hs.open_group(there, "r+") as root:
        for name, target in [("n1", root["g"]), ("n2", root["g/i2"].ref), ("n3", other["raw/es"]), ("n4", Link("/g"))]:
            root.create_link(name, target)
        links = dict(root.links())
        assert [str(links[f"n{n}"]) for n in range(1, 5)] == ["/g", "/g/i2", "../other.zarr/raw/es", "/g"]
        assert (links["n1"].object_id, links["n3"].object_id) == ("id-g", "id-raw")
        assert links["n3"].source_object_id == "id-other"
        assert root["n3"].url == other.url
        assert root[links["n3"]].path == "raw/es" and root[links["n1"]] == root["g"]
        for bad in (3, None, object(), root["g/i2"].regionref[0]):
            with pytest.raises(Invalid, match="target"):
                root.create_link("bad", bad)
        with pytest.raises(Invalid, match="target"):
            root.create_link("bad", root["g"], "../other.zarr")
        with pytest.raises(AlreadyExists):
            root.create_link("g", "/g/i2")


def test_nothing_is_made_behind_a_link(there: Path) -> None:
    with hs.open_group(there, "r+") as root:
        for make in (
            root.create_group,
            lambda name: root.create_array(name, data=[1]),
            lambda name: root.copy("g", name),
        ):
            with pytest.raises(Invalid, match="link"):
                make("group/new/deep")


def test_links_are_copied_moved_and_removed_as_links(there: Path) -> None:
    with hs.open_group(there, "r+") as root:
        root.copy("g", "h")
        root.move("array", "h/array")
        del root["group"]
        assert {name: str(link) for name, link in root["h"].links()} == {"up": "/", "array": "/g/i2"}
        assert "group" not in root and "g" in root
    with hs.open_group(there) as root:
        assert root["h/array"].path == "g/i2"


def test_links_that_lead_out_need_to_be_allowed(there: Path, tmp_path: Path) -> None:
    (tmp_path / "in" / "other.zarr").rename(tmp_path / "far.zarr")
    with hs.open_group(there, "r+") as root:
        root.create_link("far", "/raw/es", "../../far.zarr")
        with pytest.raises(ExternalLinkRefused, match="allow_external"):
            root["far"]
    for allow in (True, [str(tmp_path / "far.zarr")], str(tmp_path)):
        with hs.open_group(there, allow_external=allow) as root:
            np.testing.assert_array_equal(root["far"], CELLS * 2)
            with pytest.raises(BrokenLink):
                root["dangling"]


def test_a_linked_dataset_leads_on_within_the_first_ones_folder(there: Path, tmp_path: Path) -> None:
    """Were its own folder's neighbours allowed, each link could climb one folder further."""
    deep = tmp_path / "in" / "sub" / "deep.zarr"
    with hs.create(deep, format="hdmf") as root:
        root.create_link("up", "/g", "../../own.zarr")
        root.create_link("beside", "/", "../x.zarr")
    with hs.open_group(there, "r+") as root:
        root.create_link("deep", "/", "../sub/deep.zarr")
        with pytest.raises(ExternalLinkRefused):
            root["deep/up"]
        with pytest.raises(BrokenLink):
            root["deep/beside"]


def test_other_formats_have_neither_links_nor_ids() -> None:
    root = hs.create("memory://no-links", format="zarr3", overwrite=True)
    with pytest.raises(Unsupported, match="links"):
        root.create_link("a", "/b")
    assert (list(root.links()), dict(root.object_ids), dict(root.specifications)) == ([], {}, {})
    assert root[root.ref] == root


PAYLOADS = [
    f"{start}{up}{name}"
    for start in ("", "/", "//", "a/", "/g/")
    for up in ("..", "../..", "../../..", "./..", "..//..", "g/../..", "..\\..", "....")
    for name in ("", "/", "/etc/passwd", "/secret", "/../secret", "/own.zarr")
]


@pytest.mark.filterwarnings("ignore:.*is taken:UserWarning")
def test_no_path_or_source_of_a_link_or_reference_leads_out(there: Path, profile: str) -> None:
    """As target and as source, of links, of references in cells and in attributes."""
    folder = there.parent
    (folder.parent / "secret").mkdir()
    (folder.parent / "secret" / ".zgroup").write_text('{"zarr_format": 2}')
    assert len(set(PAYLOADS)) >= 200
    links = [Link(f"/{path}", ".") for path in PAYLOADS] + [Link("/", source) for source in PAYLOADS]
    with hs.open_group(there, "r+") as root:
        node = root["g"]
        references = [ObjectReference(link.target, link.source) for link in links]
        for pointer in [*links, *references]:
            _stays(root, pointer, folder)
        cells = root.create_array("refs", shape=(len(references),), dtype="object reference")
        cells[...] = np.array(references, object)
        for reference in cells[:]:
            _stays(root, reference, folder)
        node.attrs.update({f"r{n}": reference for n, reference in enumerate(references[::7])})
        for reference in node.attrs.values():
            if isinstance(reference, ObjectReference):
                _stays(root, reference, folder)


def _stays(root: Group, pointer: Any, folder: Path) -> None:
    try:
        node = root[pointer]
    except (BrokenLink, ExternalLinkRefused, NodeNotFound):
        return
    assert Path(node.url).is_relative_to(folder) and Path(node.url) != folder


def test_a_link_document_of_peers(tmp_path: Path) -> None:
    """Three keys, as every release of hdmf-zarr wrote them."""
    with hs.create(tmp_path / "a.zarr", format="hdmf") as root:
        root.create_array("x", data=[1, 2])
    (tmp_path / "a.zarr" / ".zmetadata").unlink()
    entry = {"name": "y", "path": "/x", "source": "."}
    (tmp_path / "a.zarr" / ".zattrs").write_text(json.dumps({"zarr_link": [entry]}))
    assert list(hs.open_group(tmp_path / "a.zarr")["y"]) == [1, 2]


def test_what_leads_to_a_copy_of_the_dataset_does_not_lead_home(there: Path, tmp_path: Path) -> None:
    """A copy has the identity of the dataset, which proves nothing: its ``source`` decides."""
    shutil.copytree(there, there.parent / "copy.zarr")
    with hs.open_group(there.parent / "copy.zarr", "r+") as copy:
        copy["g/i2"][0, 0] = 99
    said = ("/g/i2", "../copy.zarr", "id-i2", "id-own")
    with hs.open_group(there.parent / "copy.zarr") as copy, hs.open_group(there, "r+") as root:
        for name, target in [("l1", copy["g/i2"]), ("l2", copy["g/i2"].ref), ("l3", Link(*said))]:
            root.create_link(name, target)
        references = [copy["g/i2"].ref, ObjectReference(*said)]
        root.attrs.update(dict(zip("ab", references, strict=True)))
        root.create_array("refs", data=references)
    with hs.open_group(there) as root:
        links = dict(root.links())
        for pointer in (*(links[name] for name in ("l1", "l2", "l3")), *root.attrs.values(), *root["refs"]):
            if isinstance(pointer, str):
                continue
            assert pointer.source == "../copy.zarr"
            assert pointer.source_object_id == "id-own" or pointer in root["refs"][:]  # profile v3 has none in cells
            assert root[pointer][0, 0] == 99
        assert "source" not in {problem.kind.rpartition("-")[2] for problem in hs.check(there, deep=True)}
    shutil.rmtree(there.parent / "copy.zarr")
    with hs.open_group(there, "r+") as root:
        root.create_link("home", Link(*said))
        with pytest.warns(UserWarning, match="this dataset is taken"):
            assert root["home"].url == root.url
