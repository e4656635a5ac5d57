"""How a dataset is recognised, what it holds by its profile, and what it costs those that are none."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_hdmf import ARCHIVES, opened, truths

import hyperslab as hs
from hyperslab.errors import ExternalLinkRefused, FormatError, Invalid, Unsupported
from hyperslab.formats import detect, format_for_new
from hyperslab.formats.base import Feature
from hyperslab.formats.hdmf import FORMAT
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location, Probe
from hyperslab.stores.memory import MemoryStore


def found(place: Any) -> str | None:
    format = detect(Probe(Location.of(place)))
    return None if format is None else format.name


@pytest.mark.parametrize("store", [*truths(), "hz0140_ext_target"])
def test_all_that_peers_wrote(store: str, peers: Path) -> None:
    """Also the truncated one, which has neither attributes of the root nor a copy."""
    assert len(ARCHIVES) == 3
    assert found(peers / f"{store}.zarr") == "hdmf"
    profile = opened(peers / f"{store}.zarr").variant.profile
    assert profile == ("v3" if store.startswith("hz0140") else "v2")


def test_without_its_copy(tmp_path: Path, peers: Path) -> None:
    for store in ("hz0130_nwb_json", "hz060_nwb_pickle"):
        shutil.copytree(peers / f"{store}.zarr", tmp_path / store)
        (tmp_path / store / ".zmetadata").unlink()
        assert found(tmp_path / store) == "hdmf"
        (tmp_path / store / ".zattrs").unlink()
        assert found(tmp_path / store) == "hdmf"


@pytest.mark.parametrize("mark", ["neurodata_type", ".specloc", "zarr_link", "zarr_dtype", "_LINKS", "_DTYPE"])
@pytest.mark.parametrize("root", ["v2", "copy", "v3"])
def test_words_of_the_root(mark: str, root: str) -> None:
    store = MemoryStore()
    attributes = {mark: []}
    match root:
        case "v2":
            store.put(".zgroup", b'{"zarr_format": 2}')
            store.put(".zattrs", json.dumps(attributes).encode())
        case "copy":
            documents = {".zgroup": {"zarr_format": 2}, ".zattrs": attributes}
            store.put(".zmetadata", json.dumps({"metadata": documents}).encode())
        case _:
            document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
            store.put("zarr.json", json.dumps(document).encode())
    assert found(store) == "hdmf"


@pytest.mark.parametrize("name", ["zarr2", "zarr3"])
def test_plain_zarr_stays_what_it_is(name: str, tmp_path: Path) -> None:
    """A value is no word, whatever it says; the rules of one format are not those of another."""
    place = tmp_path / "x.zarr"
    with hs.create(place, name, consolidated=True) as root:
        root.attrs["said"] = "neurodata_type"
        root.create_group("specifications")
        root.create_array("a", data=np.arange(3), dims=["x"])
    assert found(place) == name
    shutil.rmtree(place / "a")
    (place / ".zmetadata").unlink(missing_ok=True)
    assert found(place) == name


def test_the_name_promises_it() -> None:
    assert format_for_new("x.nwb.zarr") == format_for_new("s3://b/x.hdmf.zarr.zip") == "hdmf"
    assert format_for_new("x.zarr") == "zarr3"


@pytest.mark.parametrize(("format", "requests"), [("zarr2", 2), ("nczarr", 2), ("zarr3", 1)])
def test_consolidated_ones_of_others_cost_no_more(format: str, requests: int) -> None:
    store = MemoryStore()
    hs.create(store, format, consolidated=True).create_array("g/a", data=np.arange(3.0), dims=("x",))
    with hs.trace() as cost:
        assert hs.open(store)["g/a"].dims == ("x",)
    assert cost.requests == requests


@pytest.mark.parametrize(("profile", "requests"), [("v2", 2), ("v3", 1)])
def test_known_and_opened_by_few_requests(profile: str, requests: int) -> None:
    store = MemoryStore()
    hs.create(store, "hdmf", profile=profile).create_array("g/a", data=np.arange(3.0), dims=("x",))
    with hs.trace() as cost:
        root = hs.open(store)
        assert (root.format, root["g/a"].dims) == ("hdmf", ("x",))
    assert cost.requests == requests


@pytest.mark.parametrize(("store", "requests"), [("hz0130_nwb_json", 2), ("hz0140_nwb_v3", 1)])
def test_opening_resolves_nothing(store: str, requests: int, peers: Path) -> None:
    """Not one link, reference or specification."""
    with hs.trace() as cost:
        assert len(list(hs.open(peers / f"{store}.zarr"))) > 5
    assert cost.requests == requests


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_what_a_profile_holds(profile: str) -> None:
    store = MemoryStore()
    opened(store, "x", profile=profile).close()
    variant = opened(store).variant
    assert variant == FORMAT.variant({"profile": profile})
    assert {Feature.LINKS, Feature.REFERENCES} < variant.features
    assert (Feature.SHARDS in variant.features) == (profile == "v3")


def test_the_profile_follows_from_what_is_there() -> None:
    """Options say what becomes of a new dataset."""
    for made in ("v2", "v3"):
        for asked in ("v2", "v3"):
            store = MemoryStore()
            opened(store, "x", profile=made).close()
            for mode in ("r", "r+"):
                assert opened(store, mode, profile=asked).variant.profile == made
            with hs.open(store, "a", format="hdmf", profile=asked) as root:
                assert root._session.reader.variant.profile == made
            assert opened(store, "w", profile=asked).variant.profile == asked
            assert opened(store).variant.profile == asked


def test_a_new_one_in_an_empty_place(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    for place in (tmp_path / "x", tmp_path / "y", MemoryStore()):
        with hs.open(place, "a", format="hdmf", profile="v3") as root:
            assert root._session.reader.variant.profile == "v3"


def test_options_are_checked() -> None:
    for wrong in ({"profile": "v4"}, {"object_codec": "dill"}, {"region_attributes": "no"}, {"allow_external": 5}):
        with pytest.raises(Invalid, match=next(iter(wrong))):
            opened(MemoryStore(), "x", **wrong)
    with pytest.raises(Invalid, match=r"no option 'flavour'.*there are profile"):
        hs.create(MemoryStore(), "hdmf", flavour=1)
    with pytest.raises(Invalid, match="consolidated"):
        opened(MemoryStore(), "x", consolidated=False)


def test_options_are_kept(tmp_path: Path, peers: Path) -> None:
    """Where links may lead to, and what references are stored with."""
    link = opened(peers / "hz0130_ext_link.zarr").node("acquisition/raw")
    shutil.copytree(peers / "hz0130_ext_link.zarr", tmp_path / "far" / "x.zarr")
    place = str(peers / "hz0130_ext_target.zarr")
    far = type(link)(link.target, place, link.object_id)
    for allowed in (True, [str(peers)], str(peers)):
        led = opened(tmp_path / "far" / "x.zarr", allow_external=allowed).place_of(far)
        assert led.path == place
    with pytest.raises(Invalid):
        opened(tmp_path / "far" / "x.zarr").place_of(far)


def test_where_links_may_lead_is_known_in_other_processes(tmp_path: Path, peers: Path) -> None:
    place = tmp_path / "far" / "x.zarr"
    writer = opened(place, "x")
    writer.put("l", Link("/acquisition/raw", str(peers / "hz0130_ext_target.zarr")))
    writer.close()
    root = hs.open(place, allow_external=[str(peers)])
    for each in (root, pickle.loads(pickle.dumps(root))):
        assert each["l"].attrs["neurodata_type"] == "TimeSeries"
    with pytest.raises(ExternalLinkRefused):
        pickle.loads(pickle.dumps(hs.open(place)))["l"]


def test_what_is_no_zarr_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "readme.txt").write_text("hello")
    with pytest.raises(FormatError, match="hdmf"):
        opened(tmp_path / "x")


def test_an_array_alone(peers: Path) -> None:
    """A part of a dataset is read as what it is."""
    assert found(peers / "hz0130_builders_json.zarr" / "dtypes" / "scalar_f8") == "hdmf"
    assert opened(peers / "hz0130_builders_json.zarr" / "dtypes" / "scalar_f8").node("").shape == ()


def test_a_truncated_store_opens_with_what_is_there(peers: Path) -> None:
    reader = opened(peers / "hz060_builders_json.zarr")
    assert isinstance(reader.node(""), GroupSpec)
    assert sorted(reader.children("")) == ["dtypes", "g1", "refs"]
    assert reader.chunks("refs/objrefs").read((0,))[1].path == "/g1"


def test_what_the_format_below_lacks_is_said_of_this_one() -> None:
    wanted = {"v2": {"chunks": ((1, 3),)}, "v3": {"dtype": np.dtype([("a", "f4", (2, 3))])}}
    for profile, wish in wanted.items():
        writer = opened(MemoryStore(), "x", profile=profile)
        given = {"shape": (4,), "dtype": np.dtype("f4"), "chunks": (2,), "dims": ("x",)} | wish
        with pytest.raises(Unsupported, match=rf"hdmf \(profile {profile}\)") as caught:
            writer.new_array(ArraySpec(**given))
        assert "zarr" not in str(caught.value)
