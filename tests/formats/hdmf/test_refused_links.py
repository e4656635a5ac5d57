"""A refused place is never replaced by another: neither when it is read, nor by a repair."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hyperslab as hs
from hyperslab.errors import ExternalLinkRefused
from hyperslab.model.refs import Link, ObjectReference

pytestmark = pytest.mark.parametrize("profile", ["v2", "v3"])


@pytest.fixture
def own(tmp_path: Path, profile: str) -> Path:
    """A dataset that points at one out of its folder, of which a backup with the same ids lies beside it."""
    (tmp_path / "in").mkdir()
    for place, object_id, cells in (("far.zarr", "id-far", [1, 2]), ("in/own.zarr", "id-own", [3])):
        with hs.create(tmp_path / place, "hdmf", profile=profile) as root:
            root.attrs["object_id"] = object_id
            root.create_array("x", data=cells, attrs={"object_id": f"x-of-{object_id}"})
    shutil.copytree(tmp_path / "far.zarr", tmp_path / "in" / "backup.zarr")
    said = ("/x", "../../far.zarr", "x-of-id-far", "id-far")
    with hs.open_group(tmp_path / "in" / "own.zarr", "r+") as root:
        root.create_link("link", Link(*said))
        root.attrs["reference"] = ObjectReference(*said)
        root.create_array("cells", data=[ObjectReference(*said)])
    return tmp_path / "in" / "own.zarr"


def stored(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_it_stays_refused_when_it_is_read(own: Path) -> None:
    with hs.open_group(own) as root:
        for pointer in (dict(root.links())["link"], root.attrs["reference"], root["cells"][0]):
            with pytest.raises(ExternalLinkRefused):
                root[pointer]
        with pytest.raises(ExternalLinkRefused):
            root["link"]
    with hs.open_group(own, allow_external=True) as root:
        assert root["link"].url.endswith("/far.zarr")


@pytest.mark.parametrize("wishes", [{}, {"links": True}, {"links": True, "drop_links": True}])
def test_no_repair_changes_what_was_only_refused(own: Path, wishes: dict[str, bool]) -> None:
    before = stored(own)
    mends = {mend.kind: mend for mend in hs.repair(own, dry_run=False, **wishes)}
    assert stored(own) == before
    assert not mends["link-refused"].done
    assert "link-refused" in {problem.kind for problem in hs.check(own)}


def test_a_repair_writes_no_source_that_may_be_another(own: Path) -> None:
    """Nothing is where the link leads, and the folder has two with the id: this dataset and its copy."""
    with hs.open_group(own, "r+") as root:
        del root["link"], root["cells"], root.attrs["reference"]
        root.create_link("old", Link("/x", "../gone.zarr", None, "id-own"))
    shutil.copytree(own, own.parent / "copy.zarr")
    list(hs.repair(own, dry_run=False, links=True))
    with hs.open_group(own) as root:
        assert dict(root.links())["old"].source == "../gone.zarr"


def test_a_repair_writes_the_only_place_that_can_be_meant(own: Path) -> None:
    with hs.open_group(own, "r+") as root:
        root.create_link("old", Link("/x", "../gone.zarr", None, "id-far"))
    list(hs.repair(own, dry_run=False, links=True))
    with hs.open_group(own) as root:
        assert dict(root.links())["old"].source == "../backup.zarr"
        assert list(root["old"]) == [1, 2]
