"""Documents of which nothing can be read: what is lost with one is said before it is mended, and its bytes are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import hyperslab as hs
from hyperslab.integrity.report import Mend
from hyperslab.stores.memory import MemoryStore
from trees import TREES, make_tree

DOCUMENTS = ("zarr.json", ".zgroup", ".zattrs")


def titled(place: Path, tree: str) -> None:
    make_tree(place, tree)
    with hs.open_group(place, "r+") as root:
        root.attrs["title"] = "precious"
    (place / ".zmetadata").unlink(missing_ok=True)


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("tree", TREES)
def test_what_a_new_document_loses_is_said_and_its_bytes_are_kept(tmp_path: Path, tree: str, document: str) -> None:
    place = tmp_path / "x.zarr"
    titled(place, tree)
    if not (place / document).exists():
        pytest.skip("this tree has no such document")
    broken = (place / document).read_bytes()[:-20]
    (place / document).write_bytes(broken)
    planned = [mend for mend in hs.repair(place) if mend.kind.startswith("json-")]
    assert planned
    kept = tmp_path / f"x.zarr.quarantine/{document}"
    action = " ".join(mend.action or "" for mend in planned)
    assert str(kept.parent) in action
    assert not kept.exists()
    hs.repair(place, dry_run=False)
    assert kept.read_bytes() == broken
    assert ("lost" in action) == (hs.open_group(place).attrs.get("title") != "precious")


def test_a_second_repair_names_the_file_that_it_keeps(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    titled(place, "zarr3")
    for number, name in ((1, "zarr.json"), (2, "zarr.json.2")):
        (place / "zarr.json").write_bytes(b"{" * number)
        (mend, *_) = hs.repair(place, dry_run=False)
        assert str(mend).endswith(f"what is stored now is kept as {tmp_path}/x.zarr.quarantine/{name}")
        assert (tmp_path / f"x.zarr.quarantine/{name}").read_bytes() == b"{" * number


def test_where_nothing_is_kept_the_plan_says_so(tmp_path: Path) -> None:
    store = MemoryStore()
    make_tree(store, "zarr3")
    store.put("zarr.json", b"{")
    (mend, *_) = hs.repair(store, format="zarr3")
    lost = "attributes: those that stood in zarr.json alone are lost, and so is consolidated metadata if it stood there"
    assert f"{lost}; what is stored now is kept nowhere, unless quarantine=" in str(mend)
    (mend, *_) = hs.repair(store, format="zarr3", quarantine=tmp_path / "kept", dry_run=False)
    assert f"kept as {tmp_path}/kept/zarr.json" in str(mend)
    assert (tmp_path / "kept/zarr.json").read_bytes() == b"{"


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(("format", "document"), [("zarr2", ".zarray"), ("zarr3", "zarr.json")])
@pytest.mark.parametrize("bytes_left", [b"{", None])
def test_of_the_document_of_an_array_it_is_said_what_to_do(
    tmp_path: Path, format: str, document: str, bytes_left: bytes | None, dry_run: bool
) -> None:
    place = tmp_path / "x.zarr"
    with hs.create(place, format) as root:
        root.create_array("g/u", data=[1.0, 2.0], dims=("x",))
    file = place / "g/u" / document
    sound = file.read_bytes()
    file.unlink()
    if bytes_left is not None:
        file.write_bytes(bytes_left)
    (mend,) = hs.repair(f"{place}/g/u", dry_run=dry_run)
    advice = "put the document back from a copy, and repair then; chunks are left alone"
    assert isinstance(mend, Mend) and (mend.action, mend.done, mend.remedy) == (None, False, advice)
    assert str(mend).endswith(f"; cannot be mended: {advice}")
    file.write_bytes(sound)
    assert not hs.repair(place) and hs.open_array(place, path="g/u")[...].tolist() == [1.0, 2.0]
