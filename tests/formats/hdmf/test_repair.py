"""``repair --links``: pointers that lead somewhere are made to last, all others only where that is asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from damaged_hdmf import G1, ROOT, V2, V3, attributes, copied, entry, found, link, links_of, reference

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main

BOTH = pytest.mark.parametrize("store", [V2, V3])


def stored(place: Path) -> dict[str, bytes]:
    return {p.relative_to(place).as_posix(): p.read_bytes() for p in place.rglob("*") if p.is_file()}


def entries(place: Path) -> dict[str, dict[str, Any]]:
    return {said["name"]: said for said in links_of(place, "refs")}


def repaired(place: Path, **more: Any) -> list[Any]:
    """What a repair of links did; the plan said the same, changed nothing, and a second repair finds nothing to do."""
    before = stored(place)
    plan = list(hs.repair(place, links=True, **more))
    assert stored(place) == before
    done = list(hs.repair(place, dry_run=False, links=True, **more))
    told = {(mend.node, mend.kind, mend.action) for mend in plan}
    assert {(mend.node, mend.kind, mend.action) for mend in done} <= told
    after = stored(place)
    again = list(hs.repair(place, dry_run=False, links=True, **more))
    assert not any(mend.done for mend in again)
    assert stored(place) == after
    return done


def moved_store(peers: Path, folder: Path) -> Path:
    """A dataset with every pointer that can be mended, beside the one that it leads to."""
    place = Path(shutil.copytree(peers / f"{V2}.zarr", folder / "own.zarr"))
    shutil.copytree(peers / f"{V3}.zarr", folder / "other.zarr")
    more = [
        entry("absolute", "/g1", str(folder / "other.zarr")),
        entry("parent", "/g1", "other.zarr"),
        entry("sibling", "/g1", "/data/gone/other.zarr", more=[1]),
        entry("here", "/g1", "own.zarr"),
        entry("moved", "/old/g1", object_id=G1),
        entry("both", "/old/g1", "other.zarr", object_id=G1),
    ]
    link(*more)(place)
    reference(source="own.zarr", path="/old", object_id=G1)(place)
    return place


def test_what_leads_somewhere_is_made_to_last(peers: Path, tmp_path: Path) -> None:
    place = moved_store(peers, tmp_path)
    assert len(found(place)) == 9
    done = repaired(place)
    assert all(mend.done for mend in done)
    assert found(place, deep=True) == set()
    said = entries(place)
    assert {name: each["source"] for name, each in said.items() if name in ("absolute", "parent", "sibling")} == {
        "absolute": "../other.zarr",
        "parent": "../other.zarr",
        "sibling": "../other.zarr",
    }
    assert said["here"]["source"] == said["moved"]["source"] == "."
    assert said["moved"]["path"] == said["both"]["path"] == "/g1"
    assert said["sibling"]["more"] == [1]
    table = json.loads((place / "refs/.zattrs").read_bytes())["table"]["value"]
    assert (table["source"], table["path"]) == (".", "/g1")
    with hs.open(place) as root:
        assert all("i2" in root[f"refs/{name}"] for name in said if name != "link_to_i2")


def test_it_can_be_moved_then(peers: Path, tmp_path: Path) -> None:
    place = moved_store(peers, tmp_path)
    repaired(place)
    (tmp_path / "far").mkdir()
    for name in ("own.zarr", "other.zarr"):
        shutil.move(tmp_path / name, tmp_path / "far" / name)
    assert found(tmp_path / "far" / "own.zarr", deep=True) == set()


@pytest.mark.sampled(20)
@BOTH
def test_links_say_all_that_they_can(store: str, peers: Path, tmp_path: Path) -> None:
    place = copied(peers, store, tmp_path)
    assert found(place) == set()
    assert any(note.kind == "link-incomplete" for note in hs.check(place).notes)
    assert list(hs.repair(place)) == []
    assert all(mend.done for mend in repaired(place))
    said = entries(place)["link_to_g1"]
    assert said == {**said, "object_id": G1, "source_object_id": ROOT}
    assert store == V3 or all({"object_id", "source_object_id"} <= set(each) for each in entries(place).values())
    assert list(hs.check(place)) == []
    assert not any(note.kind == "link-incomplete" for note in hs.check(place).notes)


@pytest.mark.sampled(20)
@BOTH
def test_what_leads_nowhere_stays_unless_asked(store: str, peers: Path, tmp_path: Path) -> None:
    place = copied(peers, store, tmp_path)
    more = [entry("a", "/nope"), entry("b", "/", "../gone.zarr"), entry("c", "/refs/c"), entry("d", "/../x")]
    link(*more, 5, entry("link_to_g1", "/g1/i2"), entry("objrefs", "/g1"))(place)
    wanted = found(place)
    assert len(wanted) == 7
    mends = repaired(place)
    assert {mend.kind for mend in mends if mend.done} == {"link-incomplete"}
    assert found(place) == wanted
    done = repaired(place, drop_links=True)
    assert {mend.kind for mend in done if mend.done} == {kind for _, kind in wanted}
    assert found(place) == set()
    assert set(entries(place)) == {"link_to_i2", "link_to_g1"}


@BOTH
def test_a_link_that_is_said_twice_is_said_once(store: str, peers: Path, tmp_path: Path) -> None:
    place = copied(peers, store, tmp_path)
    link(entry("link_to_g1", "/g1"), entry("link_to_g1", "/g1"))(place)
    assert all(mend.done for mend in repaired(place))
    assert [said["name"] for said in links_of(place, "refs")] == ["link_to_i2", "link_to_g1"]
    assert found(place) == set()


@BOTH
def test_a_plain_repair_mends_links_too(store: str, peers: Path, tmp_path: Path) -> None:
    place = copied(peers, store, tmp_path)
    link(entry("moved", "/old", object_id=G1), entry("a", "/nope"))(place)
    attributes(place, "g1/i2", lambda attrs: attrs.update(zarr_dtype="str", _DTYPE="str"))
    plan = {mend.kind: mend.action for mend in hs.repair(place)}
    assert plan["link-moved"] == "write the path '/g1'"
    assert plan["link-dangling"] is None
    list(hs.repair(place, dry_run=False))
    assert {kind for _, kind in found(place)} == {"link-dangling"}


def test_a_repair_of_links_leaves_all_else(peers: Path, tmp_path: Path) -> None:
    place = moved_store(peers, tmp_path)
    attributes(place, "g1/i2", lambda attrs: attrs.update(zarr_dtype="str"))
    (place / "notes.txt").write_text("mine")
    assert {mend.kind for mend in repaired(place)} & {"foreign", "zarr_dtype"} == set()
    assert found(place) == {("g1/i2", "zarr_dtype")} and (place / "notes.txt").exists()


def test_copies_are_kept(peers: Path, tmp_path: Path) -> None:
    place = moved_store(peers, tmp_path)
    before = (place / "refs/.zattrs").read_bytes()
    list(hs.repair(place, dry_run=False, links=True, quarantine=tmp_path / "kept"))
    kept = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert before in [path.read_bytes() for path in kept]


@pytest.mark.sampled(0)
def test_the_store_of_0_6_0_is_mended(peers: Path, tmp_path: Path) -> None:
    """Its absolute source to the dataset beside it, and its copy without specifications."""
    for name in ("hz060_ext_link", "hz060_ext_target"):
        copied(peers, name, tmp_path)
    place = tmp_path / "hz060_ext_link.zarr"
    assert ("link-absolute", True) in {(mend.kind, mend.done) for mend in repaired(place)}
    assert found(place, deep=True) == set()
    assert hs.open(place)["acquisition/dlink/data"].shape
    stale = copied(peers, "hz060_nwb_pickle", tmp_path)
    assert all(mend.done for mend in repaired(stale))
    assert found(stale) == set()


def test_references_in_cells_are_told_and_left(peers: Path, tmp_path: Path) -> None:
    place = copied(peers, V2, tmp_path)
    shutil.rmtree(place / "g1" / "i2")
    kinds = {(mend.kind, mend.action) for mend in hs.repair(place, links=True)}
    assert ("reference-dangling", None) in kinds


@pytest.mark.sampled(0)
def test_the_command(peers: Path, tmp_path: Path) -> None:
    place = moved_store(peers, tmp_path)
    link(entry("nowhere", "/nope"))(place)

    def run(*more: str) -> Any:
        return CliRunner().invoke(main, ["repair", str(place), *more])

    assert "link-absolute" in run().output
    shown = run("--links")
    assert shown.exit_code == 1
    assert "mend: write the source '../other.zarr'" in shown.output
    assert run("--links", "--apply").exit_code == 1
    assert "link-dangling" in run("--links").output
    assert run("--links", "--drop-links", "--apply").exit_code == 0
    assert CliRunner().invoke(main, ["check", str(place)]).output == ""
