"""Where links lead: every convention of ``source`` that peers wrote, and no way out of the folder that was opened."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.errors import BrokenLink, ExternalLinkRefused, Invalid, Unsupported
from hyperslab.formats.hdmf.link_sources import Allowed, find_dataset
from hyperslab.model.refs import Link
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore
from hyperslab.stores.zip import ZipStore

OWN, OTHER = "id-of-own", "id-of-other"


def _make(folder: Path, object_id: str | None = None, profile: str = "v2") -> Path:
    folder.mkdir(parents=True)
    attrs = {} if object_id is None else {"object_id": object_id}
    if profile == "v2":
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zattrs").write_text(json.dumps(attrs | {"rate": float("nan")}))
    else:
        (folder / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attrs}))
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A dataset with a neighbour, in a folder beside which secrets lie."""
    _make(tmp_path / "secret.zarr", "id-of-secret")
    _make(tmp_path / "in" / "other.zarr", OTHER)
    _make(tmp_path / "in" / "deep" / "third.zarr", "id-of-third", "v3")
    return _make(tmp_path / "in" / "own.zarr", OWN)


def _led(own: Path, source: str, known: str | None = None, allow: Allowed = ()) -> Path | None:
    place = find_dataset(Location.of(own), Link("/g", source, None, known), root_id=OWN, allow=allow).place
    return None if place is None else Path(place.target)


@pytest.mark.parametrize("source", ["", ".", "./", "../own.zarr", "own.zarr", "x/.."])
def test_here_is_here_however_it_is_spelled(own: Path, source: str) -> None:
    """Relative to the root, and relative to its folder as hdmf-zarr 0.10 wrote it."""
    assert _led(own, source) is None


def test_who_knows_the_id_of_the_root_means_this_dataset(own: Path) -> None:
    assert _led(own, "renamed-since.zarr", OWN) is None


@pytest.mark.parametrize(
    "source", ["../other.zarr", "other.zarr", "..\\other.zarr", "a/../../other.zarr", "../other.zarr/"]
)
def test_a_neighbour(own: Path, source: str) -> None:
    assert _led(own, source) == own.parent / "other.zarr"


def test_a_dataset_further_down(own: Path) -> None:
    assert _led(own, "../deep/third.zarr") == own.parent / "deep" / "third.zarr"


@pytest.mark.parametrize(
    "source",
    [
        "/data/stores/other.zarr",
        "C:\\lab\\other.zarr",
        "C:/lab/other.zarr",
        "../../lab/other.zarr",
    ],
)
def test_a_moved_dataset_is_found_beside_by_its_name(own: Path, source: str) -> None:
    """Peers wrote absolute paths without ids, which is what 0.6.0 did of datasets."""
    assert _led(own, source) == own.parent / "other.zarr"


def test_a_renamed_dataset_is_found_beside_by_its_id(own: Path) -> None:
    assert _led(own, "../was-called-so.zarr", OTHER) == own.parent / "other.zarr"
    with pytest.raises(BrokenLink, match="object_id nobody"):
        _led(own, "../was-called-so.zarr", "nobody")


def test_a_name_is_not_enough_where_an_id_is_known(own: Path) -> None:
    with pytest.raises(ExternalLinkRefused):
        _led(own, "/data/stores/other.zarr", "nobody")


@pytest.mark.parametrize(
    "source", ["../../secret.zarr", "{folder}/secret.zarr", "s3://lab/secret.zarr", "https://lab/x.zarr", "/etc"]
)
@pytest.mark.parametrize("known", [None, OTHER, OWN])
def test_a_refused_place_is_not_replaced_by_another(own: Path, source: str, known: str | None) -> None:
    """Neither by a neighbour of its name or id, nor by this dataset."""
    _make(own.parent / "secret.zarr")
    with pytest.raises(ExternalLinkRefused):
        _led(own, source.format(folder=own.parent.parent), known)


def test_what_a_source_names_is_meant_whatever_the_id(own: Path) -> None:
    """A copy has the id too."""
    copy = _make(own.parent / "copy.zarr", OWN)
    assert _led(own, "../copy.zarr", OWN) == copy
    assert _led(own, "../copy.zarr", OTHER) == copy


def test_an_id_that_several_have_proves_nothing(own: Path) -> None:
    _make(own.parent / "backup.zarr", OTHER)
    with pytest.raises(BrokenLink, match=r"2 have the object_id .*backup\.zarr, other\.zarr"):
        _led(own, "../was-called-so.zarr", OTHER)


def test_nothing_there_is_a_broken_link(own: Path) -> None:
    with pytest.raises(BrokenLink, match=r"missing\.zarr"):
        _led(own, "../missing.zarr")
    (own.parent / "plain").mkdir()
    with pytest.raises(BrokenLink):
        _led(own, "../plain")  # no dataset


def test_what_is_allowed_may_be_led_to(own: Path) -> None:
    secret = own.parent.parent / "secret.zarr"
    for allow in (True, (str(secret),), (str(secret.parent),), (str(secret.parent) + "/",)):
        assert _led(own, "../../secret.zarr", allow=allow) == secret
        assert _led(own, str(secret), allow=allow) == secret
        assert _led(own, f"file://{secret}", allow=allow) == secret
    for allow in (False, (), (str(secret.parent / "secre"),), ("s3://bucket",)):
        with pytest.raises(ExternalLinkRefused, match="allow_external"):
            _led(own, "../../secret.zarr", allow=allow)
    with pytest.raises(Invalid, match="allow_external"):
        _led(own, "../../secret.zarr", allow=(3,))  # type: ignore[arg-type]


def test_symbolic_links_are_resolved_before_they_are_judged(own: Path) -> None:
    secret = own.parent.parent / "secret.zarr"
    (own.parent / "way-out").symlink_to(secret.parent)
    (own.parent / "out.zarr").symlink_to(secret)
    (own / "inside").symlink_to(secret)
    (own.parent / "circle").symlink_to("circle")
    (own.parent / "beside.zarr").symlink_to(own.parent / "other.zarr")
    for source in ("../out.zarr", "../way-out/secret.zarr", "inside", str(own.parent / "out.zarr")):
        with pytest.raises(ExternalLinkRefused):
            _led(own, source)
        assert _led(own, source, allow=(str(secret),)) == secret
    with pytest.raises(BrokenLink):
        _led(own, "../circle")
    assert _led(own, "../beside.zarr") == own.parent / "other.zarr"


def test_a_dataset_opened_by_a_symbolic_link_has_neighbours_at_both_places(own: Path) -> None:
    elsewhere = own.parent.parent / "desk"
    elsewhere.mkdir()
    (elsewhere / "own.zarr").symlink_to(own)
    _make(elsewhere / "desk.zarr")
    assert _led(elsewhere / "own.zarr", "../desk.zarr") == elsewhere / "desk.zarr"
    assert _led(elsewhere / "own.zarr", str(own.parent / "other.zarr")) == own.parent / "other.zarr"
    assert _led(elsewhere / "own.zarr", str(own)) is None


def test_the_folder_itself_is_no_neighbour(own: Path) -> None:
    """From a dataset there its own folder's neighbours could be reached."""
    (own.parent / ".zgroup").write_text('{"zarr_format": 2}')
    for source in ("..", "../", "../../in", str(own.parent)):
        with pytest.raises(ExternalLinkRefused):
            _led(own, source)


def test_an_archive_leads_to_itself_alone(own: Path) -> None:
    path = own.parent / "own.zip"
    with_root = ZipStore(str(path), read_only=False)
    with_root.put(".zgroup", b'{"zarr_format": 2}')
    with_root.close()
    assert _led(path, ".") is None
    assert _led(path, "own") is None
    with pytest.raises(ExternalLinkRefused, match="unpack"):
        _led(path, "../other.zarr")
    assert _led(own, "../own.zip") == path


def test_places_in_memory() -> None:
    for name in ("led/own.zarr", "led/other.zarr", "led-secret.zarr"):
        MemoryStore(name).put(".zgroup", b'{"zarr_format": 2}')
    where = Location.of("memory://led/own.zarr")

    def led(source: str, allow: Allowed = ()) -> Any:
        place = find_dataset(where, Link("/g", source), root_id=None, allow=allow).place
        return None if place is None else place.url

    assert led("../own.zarr") is None
    assert led("../other.zarr") == led("other.zarr") == led("/data/other.zarr") == "memory://led/other.zarr"
    for source in ("../../led-secret.zarr", "../../../led-secret.zarr", "memory://led-secret.zarr"):
        with pytest.raises(ExternalLinkRefused):
            led(source)
    assert led("memory://led-secret.zarr", ("memory://led-secret.zarr",)) == "memory://led-secret.zarr"
    with pytest.raises(ExternalLinkRefused):
        led("/etc")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("../b.zarr", "s3://lab/day/b.zarr"),
        ("../sub/c d%2e.zarr", "s3://lab/day/sub/c%20d%252e.zarr"),
        ("../../b.zarr", "s3://lab/b.zarr"),
        ("../../../b.zarr", None),
        ("../../..", None),
    ],
)
def test_a_place_relative_to_one_on_a_server(source: str, found: str | None) -> None:
    where = Location.of("s3://lab/day/a.zarr", {"region": "eu-1"})
    place = where.at(source)
    assert (place and place.target) == found
    assert place is None or place.options == {"region": "eu-1"}


@pytest.mark.parametrize(
    "source",
    [
        "../../night/x.zarr",
        "s3://lab/night/x.zarr",
        "s3://lab/day/../night/x.zarr",
        "s3://lab/day/%2e%2e/night/x.zarr",
        "s3://lab/day/%252e%252e/night/x.zarr",
        "s3://other/day/x.zarr",
        "https://lab/day/x.zarr",
        "file:///etc",
        "/etc",
    ],
)
def test_a_dataset_on_a_server_leads_to_its_own_folder_alone(source: str) -> None:
    """Refused before a request is made: there is no such server."""
    where = Location.of("s3://lab/day/a.zarr", {"endpoint": "http://127.0.0.1:1"})
    with pytest.raises((ExternalLinkRefused, BrokenLink)) as raised:
        find_dataset(where, Link("/g", source, None, None), root_id=None, allow=())
    assert raised.type is ExternalLinkRefused


@pytest.mark.parametrize(
    ("here", "there", "way"),
    [
        ("a/x.zarr", "a/y.zarr", "../y.zarr"),
        ("a/x.zarr", "b/c/y.zarr", "../../b/c/y.zarr"),
        ("a/x.zarr", "a/x.zarr", "."),
        ("memory://a/x.zarr", "memory://y.zarr", "../../y.zarr"),
        ("s3://lab/a/x.zarr", "s3://lab/a/c%20d.zarr", "../c d.zarr"),
        ("s3://lab/a/x.zarr", "s3://other/a/y.zarr", "s3://other/a/y.zarr"),
        ("memory://x.zarr", "s3://lab/y.zarr", "s3://lab/y.zarr"),
    ],
)
def test_the_way_from_one_place_to_another_leads_there(here: str, there: str, way: str) -> None:
    start, end = Location.of(here), Location.of(there)
    assert start.way_to(end) == way
    found = start.at(way) if "://" not in way else Location.of(way)
    assert found is not None
    assert found.target == end.target


def test_a_store_object_has_no_way_to_it() -> None:
    with pytest.raises(Unsupported, match="open it by"):
        Location.of("x.zarr").way_to(Location.of(MemoryStore()))


NAMES = ["etc", "secret.zarr", "passwd", "in", "own.zarr", "other.zarr"]
UPS = [
    "..",
    "../..",
    "../../..",
    "a/../../..",
    "....//....",
    "..\\..",
    "%2e%2e/%2e%2e",
    "./.././..",
    "..//..",
    "../.\x00./..",
]
STARTS = [
    "",
    "/",
    "//",
    "///",
    "file://",
    "file:///",
    "file://localhost/",
    "C:\\",
    "\\\\host\\",
    "~/",
    "zip://",
    "reference://",
]
PAYLOADS = sorted(
    {f"{start}{up}/{name}" for start in STARTS for up in UPS for name in NAMES}
    | {f"{start}{name}" for start in STARTS for name in NAMES}
    | {"\0", "a\0b", "\ud800", "x" * 5000, "/" * 3000, "../" * 800, ":", "::", "http://[", "s3://", "memory://"}
)


def _is_inside(place: Path, folder: Path) -> bool:
    return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))


def _led_safely(own: Path, source: str) -> None:
    try:
        found = _led(own, source)
    except (BrokenLink, ExternalLinkRefused):
        return
    assert found is None or (_is_inside(found, own.parent) and found != own.parent)


@pytest.mark.sampled(0)
def test_no_source_leads_out_of_the_folder(own: Path) -> None:
    assert len(PAYLOADS) >= 200
    (own.parent / "way-out").symlink_to(own.parent.parent)
    for payload in PAYLOADS:
        for source in (payload, f"../way-out/{payload}", f"{own.parent}/{payload}"):
            _led_safely(own, source)


@given(
    parts=st.lists(st.sampled_from(["..", ".", "", "in", "own.zarr", "secret.zarr", "way-out", "\\..", "%2e%2e", "~"]))
)
@settings(deadline=None)
def test_no_path_of_such_parts_leads_out(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    base = tmp_path_factory.getbasetemp() / "escapes"
    if not base.exists():
        _make(base / "secret.zarr")
        _make(base / "in" / "own.zarr", OWN)
        (base / "in" / "way-out").symlink_to(base)
    _led_safely(base / "in" / "own.zarr", "/".join(parts))
