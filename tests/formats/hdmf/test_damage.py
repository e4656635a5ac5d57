"""What ``check`` names in datasets of HDMF: each damage with its kind and its node, nothing in what is sound."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damaged_hdmf import G1, V2, V3, attributes, consolidate, copied, edit, entry, found, link, reference
from golden_hdmf import truths

import hyperslab as hs
from hyperslab.formats.hdmf.rules import contradicts
from hyperslab.model.dtypes import ObjectRef, RegionRef, VlenBytes, VlenString
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.regions import Product, Steps

Found = set[tuple[str, str]]
NOWHERE = "99999999-0000-4000-8000-000000000000"

GOLDEN: dict[str, Found] = {
    "hz060_builders_json": {("", "unconsolidated"), ("", "root-object-id")},
    "hz060_ext_link": {("acquisition/dlink/data", "link-absolute")},
}
"""What the golden stores really have; ``hz060_nwb_pickle`` besides has a copy without its specifications."""
HOSTILE: dict[str, Found] = {
    "evil_chunk_element": {("refs/objrefs", "unsafe-pickle")},
    "evil_chunk_toplevel": {("refs/objrefs", "unsafe-pickle")},
    "evil_fill_value": {("refs/compound_ref", "unsafe-pickle")},
    "evil_second_filter": {("dtypes/text", "unknown-codec")},
    "evil_spec": {("specifications/core/2.0.0/namespace", "specification")},
    "evil_link_escape": {
        ("refs/up", "link-refused"),
        ("refs/dots", "link-refused"),
        ("refs/abs", "link-refused"),
        ("refs/dangling", "link-dangling"),
    },
}
COPIES = ("stale-copy", "incomplete-copy")


def of_copies(place: Path, *, deep: bool) -> tuple[Found, Found]:
    whole = found(place, deep=deep)
    copies = {each for each in whole if each[1] in COPIES}
    return whole - copies, copies


@pytest.mark.parametrize("store", [*sorted(truths()), "hz0140_ext_target"])
def test_what_peers_wrote_has_no_other_damage_than_it_has(store: str, peers: Path) -> None:
    own, copies = of_copies(peers / f"{store}.zarr", deep=True)
    assert own == GOLDEN.get(store, set())
    assert bool(copies) == (store == "hz060_nwb_pickle")
    assert all(node == "" or node.startswith("specifications") for node, _ in copies)


@pytest.mark.parametrize("store", HOSTILE)
def test_poison_is_named_where_it_is(store: str, hostile: Path) -> None:
    own, copies = of_copies(hostile / f"{store}.zarr", deep=True)
    assert own == HOSTILE[store]
    assert bool(copies) == (store == "evil_spec")


@pytest.mark.parametrize("store", ["evil_chunk_element", "evil_chunk_toplevel"])
def test_poison_in_chunks_is_met_only_deep(store: str, hostile: Path) -> None:
    assert not found(hostile / f"{store}.zarr")


# -- links ------------------------------------------------------------------------------------------------------------

Plant = Callable[[Path], None]
LINKS: dict[str, tuple[Plant, Found]] = {
    "sound": (link(entry("a", "/g1"), entry("b", "/refs/link_to_g1/i2"), entry("c", "g1/i2")), set()),
    "to an ancestor": (link(entry("a", "/refs"), entry("b", "/")), set()),
    "through itself": (link(entry("a", "/refs"), entry("b", "/refs/a/a/a/link_to_i2")), set()),
    "dangling": (link(entry("a", "/nope")), {("refs/a", "link-dangling")}),
    "dangling below an array": (link(entry("a", "/g1/i2/x")), {("refs/a", "link-dangling")}),
    "to a dangling one": (
        link(entry("a", "/nope"), entry("b", "/refs/a")),
        {("refs/a", "link-dangling"), ("refs/b", "link-dangling")},
    ),
    "in a circle": (
        link(entry("a", "/refs/b"), entry("b", "/refs/a")),
        {("refs/a", "link-loop"), ("refs/b", "link-loop")},
    ),
    "to itself": (link(entry("a", "/refs/a")), {("refs/a", "link-loop")}),
    "growing": (link(entry("a", "/refs/a/x")), {("refs/a", "link-loop")}),
    "out by its path": (link(entry("a", "/../x")), {("refs/a", "link-refused")}),
    "out by its source": (link(entry("a", "/", "../../x.zarr")), {("refs/a", "link-refused")}),
    "out by an absolute source": (link(entry("a", "/", "/etc")), {("refs/a", "link-refused")}),
    "to a dataset that is missing": (link(entry("a", "/", "../x.zarr")), {("refs/a", "link-no-dataset")}),
    "moved": (link(entry("a", "/old", object_id=G1)), {("refs/a", "link-moved")}),
    "of a node that is elsewhere": (link(entry("a", "/g1/i2", object_id=G1)), {("refs/a", "link-identity")}),
    "of an identity that is gone": (link(entry("a", "/g1", object_id=NOWHERE)), {("refs/a", "link-identity")}),
    "to a node without identity": (link(entry("a", "/refs", object_id=NOWHERE)), set()),
    "of a name twice": (link(entry("link_to_g1", "/g1/i2")), {("refs/link_to_g1", "link-duplicate")}),
    "of a node's name": (link(entry("objrefs", "/g1")), {("refs/objrefs", "link-hides-node")}),
    "of no name": (link({"path": "/g1", "source": "."}), {("refs", "link-malformed")}),
    "of a name with a slash": (link(entry("a/b", "/g1")), {("refs", "link-malformed")}),
    "a number": (link(5, None), {("refs", "link-malformed")}),
    "with an id that is none": (link(entry("a", "/g1", object_id=5)), {("refs", "link-malformed")}),
}


@pytest.mark.covering
@pytest.mark.parametrize("store", [V2, V3])
@pytest.mark.parametrize("case", LINKS)
def test_links(case: str, store: str, peers: Path, tmp_path: Path) -> None:
    plant, wanted = LINKS[case]
    place = copied(peers, store, tmp_path)
    plant(place)
    assert found(place) == wanted
    assert hs.open(place)["g1/i2"][...].shape == (3, 4)


@pytest.mark.parametrize("store", [V2, V3])
def test_links_that_are_no_list(store: str, peers: Path, tmp_path: Path) -> None:
    place = copied(peers, store, tmp_path)
    attributes(place, "refs", lambda attrs: attrs.update(zarr_link=5) if store == V2 else attrs.update(_LINKS=5))
    assert found(place) == {("refs", "link-malformed")}


SOURCES = {
    "absolute": ("{folder}/other.zarr", "link-absolute"),
    "with the folder above as its start": ("other.zarr", "link-source"),
    "gone, and a neighbour has the name": ("../elsewhere/other.zarr", "link-source"),
    "absolute from another machine": ("/data/stores/other.zarr", "link-absolute"),
    "relative": ("../other.zarr", None),
    "its own name": ("own.zarr", "link-source"),
    "its own place": ("{folder}/own.zarr", "link-absolute"),
}


@pytest.mark.parametrize("case", SOURCES)
def test_sources(case: str, peers: Path, tmp_path: Path) -> None:
    """Of the four conventions that there were, one can be moved and is read by all."""
    source, kind = SOURCES[case]
    place = Path(shutil.copytree(peers / f"{V2}.zarr", tmp_path / "own.zarr"))
    shutil.copytree(peers / f"{V3}.zarr", tmp_path / "other.zarr")
    said = source.format(folder=tmp_path)
    link(entry("a", "/g1", said))(place)
    reference(source=said, source_object_id=None)(place)
    wanted = {("refs/a", kind), ("refs", kind.replace("link", "reference"))} if kind else set()
    assert found(place) == wanted
    is_guess = "gone" in case or "another machine" in case
    with pytest.warns(UserWarning, match="by its name") if is_guess else nullcontext():
        assert "i2" in hs.open(place)["refs/a"]


def test_a_link_to_nothing_of_another_dataset(peers: Path, tmp_path: Path) -> None:
    place, other = copied(peers, V2, tmp_path), copied(peers, V3, tmp_path)
    more = [entry(name, path, f"../{other.name}") for name, path in {"a": "/nope", "b": "/refs/link_to_i2"}.items()]
    link(*more, entry("c", "/nope", f"../{other.name}", object_id=G1))(place)
    assert found(place) == {("refs/a", "link-dangling"), ("refs/c", "link-moved")}


# -- references -------------------------------------------------------------------------------------------------------

REFERENCES: dict[str, tuple[dict[str, Any], str | None]] = {
    "sound": ({}, None),
    "nothing": ({"path": "/nope", "object_id": None}, "reference-dangling"),
    "out": ({"path": "/../x"}, "reference-refused"),
    "a missing dataset": ({"source": "../x.zarr", "source_object_id": None}, "reference-no-dataset"),
    "moved": ({"path": "/old", "object_id": G1}, "reference-moved"),
    "another": ({"object_id": NOWHERE}, "reference-identity"),
    "a region of a group": ({"region": {"type": "all"}}, "reference-to-group"),
    "a region out of bounds": (
        {"path": "/g1/i2", "object_id": None, "region": {"type": "all", "shape": [5, 4]}},
        "reference-bounds",
    ),
    "a malformed region": ({"region": {"type": "x"}}, "reference"),
}


@pytest.mark.covering
@pytest.mark.parametrize("store", [V2, V3])
@pytest.mark.parametrize("case", REFERENCES)
def test_reference_attributes(case: str, store: str, peers: Path, tmp_path: Path) -> None:
    said, kind = REFERENCES[case]
    place = copied(peers, store, tmp_path)
    reference(**said)(place)
    if store == V2 and "region" in said:
        attributes(place, "refs", lambda attrs: attrs["table"].update(zarr_dtype="region"))
    assert found(place) == ({("refs", kind)} if kind else set())


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_references_in_cells_are_looked_at_deep(profile: str, tmp_path: Path) -> None:
    """In arrays of references, of regions, and in rows; the first of each kind with its cell."""
    place = tmp_path / "x.nwb.zarr"
    with hs.create(place, format="hdmf", profile=profile) as root:
        root.create_array("d", data=np.arange(12).reshape(3, 4))
        root.create_group("g")
        refs = root.create_array("refs", shape=(4,), dtype=ObjectRef(), chunks=(2,))
        refs[0] = ObjectReference("/d")
        refs[2] = ObjectReference("/nope")
        refs[3] = ObjectReference("/neither")
        regions = root.create_array("regions", shape=(3,), dtype=RegionRef())
        inside = Product((Steps(0, 3, 1), Steps(0, 4, 1)), (3, 4))
        regions[0] = RegionReference("/d", inside)
        regions[1] = RegionReference("/d", Product((Steps(0, 5, 1), Steps(0, 4, 1)), (5, 4)))
        regions[2] = RegionReference("/g", inside)
    assert found(place) == set()
    report = hs.check(place, deep=True)
    assert {(p.node, p.kind) for p in report} == {
        ("refs", "reference-dangling"),
        ("regions", "reference-bounds"),
        ("regions", "reference-to-group"),
    }
    said = next(p.message for p in report if p.node == "refs")
    assert "2 references" in said
    assert "cell [2]" in said


def test_references_in_rows_of_peers(peers: Path, tmp_path: Path) -> None:
    place = copied(peers, "hz0130_builders_pickle", tmp_path)
    shutil.rmtree(place / "g1" / "i2")
    consolidate(place)
    wanted = {("refs/link_to_i2", "link-dangling")}
    assert found(place) == wanted
    in_cells = {("refs/objrefs", "reference-dangling"), ("refs/compound_ref", "reference-dangling")}
    assert found(place, deep=True) == wanted | in_cells


# -- nodes ------------------------------------------------------------------------------------------------------------


def test_identities(peers: Path, tmp_path: Path) -> None:
    place = copied(peers, V2, tmp_path)
    attributes(place, "refs", lambda attrs: attrs.update(object_id=G1))
    attributes(place, "dtypes", lambda attrs: attrs.update(neurodata_type="Table"))
    attributes(place, "", lambda attrs: attrs.pop("object_id"))
    assert found(place) == {("refs", "object-id-twice"), ("dtypes", "object-id"), ("", "root-object-id")}


TYPES = {
    ("int", "<i8"): False,
    ("int", "<u4"): False,
    ("float", "<f8"): False,
    ("<i2", "<i2"): False,
    ("<i2", ">i2"): False,
    ("bool_", "|b1"): False,
    ("bool", "|b1"): False,
    ("scalar", "<i4"): False,
    ("whatever", "<i4"): False,
    ("int32", "<i4"): False,
    ("int32", "<i8"): True,
    ("float64", "<i8"): True,
    ("int", "<f8"): True,
    ("<u2", "<i2"): True,
    ("str", "<i2"): True,
    ("isodatetime", "<f8"): True,
}


@pytest.mark.parametrize(("word", "dtype"), TYPES)
def test_words_that_contradict_the_cells(word: str, dtype: str) -> None:
    assert contradicts(word, np.dtype(dtype)) == TYPES[word, dtype]


@pytest.mark.parametrize("word", ["str", "bytes", "isodatetime", "string_"])
def test_words_of_text(word: str) -> None:
    assert not contradicts(word, VlenString())
    assert not contradicts(word, VlenBytes())
    assert contradicts("int32", VlenString())


@pytest.mark.parametrize("store", [V2, V3])
def test_a_type_that_contradicts_the_array(store: str, peers: Path, tmp_path: Path) -> None:
    place = copied(peers, store, tmp_path)
    name = "zarr_dtype" if store == V2 else "_DTYPE"
    attributes(place, "g1/i2", lambda attrs: attrs.update({name: "float32"}))
    attributes(place, "dtypes/text", lambda attrs: attrs.update({name: "int8"}))
    attributes(place, "dtypes/scalar_text", lambda attrs: attrs.update({name: "nonsense"}))
    wanted = {("g1/i2", name), ("dtypes/text", name), ("dtypes/scalar_text", name)}
    assert found(place) == wanted
    assert all(mend.done for mend in hs.repair(place, dry_run=False))
    assert found(place) == set()


# -- the whole --------------------------------------------------------------------------------------------------------


def test_what_names_no_specifications(peers: Path, tmp_path: Path) -> None:
    place = copied(peers, V2, tmp_path)
    attributes(place, "", lambda attrs: attrs.update({".specloc": "nowhere"}))
    assert found(place) == {("", "specloc-missing")}
    attributes(place, "", lambda attrs: attrs.update({".specloc": ["x"]}))
    assert found(place) == {("", "specloc")}


@pytest.mark.parametrize("store", ["hz0130_nwb_json", "hz0140_nwb_v3"])
def test_a_schema_that_is_no_json(store: str, peers: Path, tmp_path: Path) -> None:
    place = copied(peers, store, tmp_path)
    with hs.open(place, "r+") as root:
        version = next(iter(root["specifications/core"]))
        root[f"specifications/core/{version}/nwb.base"][...] = "{"
    assert found(place) == set()
    assert found(place, deep=True) == {(f"specifications/core/{version}/nwb.base", "specification")}


@pytest.mark.parametrize("store", [V2, V3])
def test_a_writer_that_died(store: str, peers: Path, tmp_path: Path) -> None:
    """Without its consolidated metadata; without attributes of the root besides."""
    place = copied(peers, store, tmp_path)
    if store == V2:
        (place / ".zmetadata").unlink()
    else:
        edit(place, "zarr.json", lambda doc: doc.pop("consolidated_metadata"), fresh=False)
    assert found(place) == {("", "unconsolidated")}
    (mend,) = hs.repair(place, dry_run=False)
    assert mend.done
    assert found(place) == set()


def test_a_pickled_fill_value_is_put_right(hostile: Path, tmp_path: Path) -> None:
    """The cells are those that they were."""
    place = Path(shutil.copytree(hostile / "evil_fill_value.zarr", tmp_path / "x.zarr"))
    (mend,) = hs.repair(place, dry_run=False)
    assert mend.done
    assert found(place, deep=True) == set()
    fill = json.loads((place / "refs/compound_ref/.zarray").read_bytes())["fill_value"]
    assert base64.b64decode(fill) == b"\x80\x05K\x00."
    assert hs.open(place)["refs/compound_ref"][...]["label"].tolist() == ["zero", "one"]


@pytest.mark.parametrize("store", ["evil_chunk_element", "evil_chunk_toplevel"])
def test_a_poisoned_chunk_is_taken_out(store: str, hostile: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(hostile / f"{store}.zarr", tmp_path / "x.zarr"))
    (mend,) = hs.repair(place, dry_run=False)
    assert mend.done
    assert found(place, deep=True) == set()
    assert hs.open(place)["refs/objrefs"][...].tolist() == [None] * 3
