"""Real hdmf-zarr, of both profiles in a Python of its own, and hyperslab read what the other one writes.

What it cannot read of ours it cannot read of anybody's: rows with references in JSON and region references in
attributes (0.13), rows with a reference that have no axis (0.14). Each of these is asked for here.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import golden_hdmf
import hdmf_plain
import numpy as np
import pytest
from hdmf.build import BuildManager, TypeMap
from hdmf.data_utils import DataChunkIterator
from hdmf.spec import NamespaceCatalog
from hdmf_seen import cell, differences, seen, seen_by_zarr
from hdmf_trees import builders, more_of, summary, tree
from nwb_files import rich_file, small_file
from pynwb import NWBHDF5IO, TimeSeries, get_manager
from readers import ENVIRONMENTS, run

import hyperslab as hs
from hyperslab.hdmf import HyperslabDataIO, HyperslabIO

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning"),  # hdmf's, beside the newest pandas
]
JSON_ROWS = "ValueError: setting an array element with a sequence"
CONVERTED = {
    "v2": ("hz0140_nwb_v3", "hz0140_builders_v3"),
    "v3": ("hz060_nwb_pickle", "hz060_builders_pickle", "hz0130_nwb_json", "hz0130_builders_pickle"),
}
Answers = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Peer:
    """A release: its Python, what it reads, and the object codecs that it has there."""

    name: str
    python: str
    profile: str
    codecs: tuple[str, ...]

    def options(self, codec: str) -> dict[str, str]:
        """Those of a dataset that is made for it."""
        return {"profile": self.profile, "object_codec": codec}

    @property
    def safest(self) -> str:
        """The codec with which it reads everything."""
        return self.codecs[-1]

    @property
    def is_text(self) -> bool:
        """Whether it has no bytes."""
        return self.profile == "v3"

    def differences(self, found: Any, wanted: Any, codec: str = "") -> list[str]:
        """Where two trees differ, but for the rows that it cannot read."""
        all_of_them = differences(found, wanted, text=self.is_text)
        is_hidden = self.profile == "v2" and codec == "json2"
        return [each for each in all_of_them if not (is_hidden and JSON_ROWS in each)]


RELEASES = {"hdmf-zarr-013": ("v2", ("json2", "pickle")), "hdmf-zarr-014": ("v3", ("json2",))}


@pytest.fixture(scope="module", params=RELEASES)
def peer(request: pytest.FixtureRequest) -> Peer:
    found: str | None = json.loads(os.environ.get(ENVIRONMENTS, "{}")).get(request.param)
    if found is None:
        pytest.skip("hdmf-zarr stands in a Python of its own: make interop gives it one")
    return Peer(request.param, found, *RELEASES[request.param])


def ask(peer: Peer, tasks: dict[str, tuple[str, Path, str]], folder: Path, **more: Any) -> Answers:
    """What the child says of each task: what to do, where, under which codec."""
    given = [
        {"name": name, "do": do, "path": str(path), "codec": codec, **more.get(name, {})}
        for name, (do, path, codec) in tasks.items()
    ]
    return run(peer.python, "speak_hdmf_zarr.py", given, folder)


def told(answers: Answers, name: str) -> Any:
    """What the child has to say, which must not be that it failed."""
    assert "error" not in answers[name], f"{name}: {answers[name]['error']}"
    return answers[name]["told"]


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def bare() -> BuildManager:
    """A manager that knows no types."""
    return BuildManager(TypeMap(NamespaceCatalog()))


# -- what they write ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Theirs:
    """Stores of the peer: ``<what>-<codec>.zarr``, and what it says of them."""

    peer: Peer
    folder: Path
    answers: Answers

    def cases(self, what: str) -> list[tuple[str, Path]]:
        return [(f"{what}-{codec}", self.folder / f"{what}-{codec}.zarr") for codec in self.peer.codecs]


@pytest.fixture(scope="module")
def theirs(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Theirs:
    folder = tmp_path_factory.mktemp("theirs")
    tasks, more = {}, {}
    for codec in peer.codecs:
        for what in ("builders", "nwb"):
            tasks[f"{what}-{codec}"] = (f"write_{what}", folder / f"{what}-{codec}.zarr", codec)
    path = folder / "external.zarr"
    tasks["external"] = ("write_external", path, peer.safest)
    more["external"] = {"to": str(folder / f"nwb-{peer.safest}.zarr")}
    for what in (f"nwb-{peer.safest}", "external"):
        tasks[f"read {what}"] = ("read_nwb", folder / f"{what}.zarr", peer.safest)
    return Theirs(peer, folder, ask(peer, tasks, folder, **more))


def test_we_read_their_builders(theirs: Theirs) -> None:
    for name, path in theirs.cases("builders"):
        with hs.open_group(path) as root:
            assert (root.format, root._session.format.profile) == ("hdmf", theirs.peer.profile)
            assert theirs.peer.differences(as_json(seen(root)), told(theirs.answers, name)) == []
        with HyperslabIO(path, manager=bare()) as io:
            assert theirs.peer.differences(as_json(tree(io.read_builder())), told(theirs.answers, name)) == []


def test_we_read_their_files(theirs: Theirs) -> None:
    """All containers, fields and DataFrames, as they were in memory."""
    for name, path in theirs.cases("nwb"):
        with HyperslabIO(path) as io:
            found = as_json(summary(io.read()))
        assert theirs.peer.differences(found, told(theirs.answers, name)) == []
    assert theirs.peer.differences(found, told(theirs.answers, f"read nwb-{theirs.peer.safest}")) == []


def test_we_follow_their_links_to_other_files(theirs: Theirs) -> None:
    path = theirs.folder / "external.zarr"
    with HyperslabIO(path) as io:
        found = as_json(summary(io.read()))
    assert theirs.peer.differences(found, told(theirs.answers, "external")) == []
    assert theirs.peer.differences(found, told(theirs.answers, "read external")) == []
    with hs.open_group(path) as root:
        outside = dict(root["acquisition/outside"].links())["data"]
        assert outside.source == f"../nwb-{theirs.peer.safest}.zarr"
        assert root["acquisition/outside/data"].url.endswith(f"nwb-{theirs.peer.safest}.zarr")


# -- what we write --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ours:
    """Stores of ours, what they hold (``wanted``) and what the peer says of them."""

    peer: Peer
    folder: Path
    wanted: dict[str, Any]
    answers: Answers

    def check(self, what: str) -> None:
        """The peer reads the stores of this kind as what they hold."""
        for codec in self.peer.codecs:
            name = f"{what}-{codec}"
            assert self.peer.differences(told(self.answers, name), self.wanted[name], codec) == []


@pytest.fixture(scope="module")
def ours(peer: Peer, theirs: Theirs, tmp_path_factory: pytest.TempPathFactory) -> Ours:
    folder = tmp_path_factory.mktemp("ours")
    golden = golden_hdmf.unpacked(tmp_path_factory.mktemp("golden"), *golden_hdmf.ARCHIVES)
    wanted: dict[str, Any] = {}
    tasks: dict[str, tuple[str, Path, str]] = {}
    for codec in peer.codecs:
        for what, (write, do) in WRITE.items():
            path = folder / f"{what}-{codec}.zarr"
            wanted[f"{what}-{codec}"] = as_json(write(path, peer.options(codec)))
            tasks[f"{what}-{codec}"] = (do, path, codec)
    plain = folder / f"plain-{peer.safest}.zarr"
    tasks |= {"zarr": ("read_arrays", plain, peer.safest), "xarray": ("read_xarray", plain, peer.safest)}
    for name, (write, codec) in {"row": (hdmf_plain.write_scalar_row, peer.safest), **REGIONS}.items():
        write(folder / f"{name}.zarr", peer.options(codec))
        tasks[name] = ("read_tree", folder / f"{name}.zarr", codec)
    wanted["other"] = as_json(write_plain(folder / "other.zarr", {"profile": "v2" if peer.is_text else "v3"}))
    tasks["other"] = ("read_tree", folder / "other.zarr", "json2")
    for name, (edit, do, of) in CHANGED.items():
        copied = shutil.copytree(theirs.folder / f"{of}-{peer.safest}.zarr", folder / f"{name}.zarr")
        wanted[name], tasks[name] = as_json(edit(copied)), (do, copied, peer.safest)
    write_nwb(folder / "theirs.zarr", peer.options(peer.safest))
    tasks["theirs"] = ("change_nwb", folder / "theirs.zarr", peer.safest)
    for name in CONVERTED[peer.profile]:
        path = folder / f"{name}.zarr"
        hs.convert(golden / f"{name}.zarr", path, format="hdmf", **peer.options(peer.safest))
        tasks[name] = ("read_tree", path, peer.safest)
    return Ours(
        peer, folder, wanted, ask(peer, tasks, folder, xarray={"group": "numbers"}, other={"old": peer.is_text})
    )


def write_plain(path: Path, options: dict[str, str]) -> Any:
    hdmf_plain.write(path, path.with_name(f"outside-{path.name}"), options)
    with hs.open_group(path) as root:
        return seen(root)


def write_builders(path: Path, options: dict[str, str]) -> Any:
    made = builders(str(path))
    with HyperslabIO(path, "w", manager=bare(), **options) as io:
        io.write_builder(made)
    return tree(made)


def write_nwb(path: Path, options: dict[str, str]) -> Any:
    nwb = rich_file()
    with HyperslabIO(path, "w", **options) as io:
        io.write(nwb)
    return summary(nwb)


def write_external(path: Path, options: dict[str, str]) -> Any:
    """A file whose series is linked to that of another one; written in two steps, the second appends."""
    nwb, manager = small_file(), get_manager()
    with HyperslabIO(path.with_name(path.name.replace("external", "nwb")), manager=manager) as other:
        first = other.read().acquisition["ts0"]
        with HyperslabIO(path, "w", manager=get_manager(), **options) as io:
            io.write(nwb)
        with HyperslabIO(path, "r+", manager=manager) as io:
            again = io.read()
            again.add_acquisition(TimeSeries(name="outside", data=first.data, timestamps=first.timestamps, unit="m"))
            again.create_processing_module("later", "was added").add(more_of(again))
            io.write(again)
            return summary(again)


def write_exported(path: Path, options: dict[str, str]) -> Any:
    """A file of HDF5 with every type, exported."""
    with NWBHDF5IO(path.with_suffix(".nwb"), "w") as io:
        io.write(rich_file())
    with NWBHDF5IO(path.with_suffix(".nwb"), "r") as source, HyperslabIO(path, "w", **options) as io:
        io.export(source, write_args={"link_data": False})
        return summary(source.read())


def write_stored(path: Path, options: dict[str, str]) -> Any:
    """A file whose data come from iterators, in chunks, shards and codecs that were chosen."""
    nwb, cells = small_file(), np.arange(3000, dtype="i4").reshape(100, 30)
    shards = {"shards": (60, 30)} if options["profile"] == "v3" else {}
    kept = {
        "iterated": DataChunkIterator(iter(cells), buffer_size=7),
        "chunked": HyperslabDataIO(cells, chunks=(20, 10), codec="zstd:3", **shards),
        "both": HyperslabDataIO(DataChunkIterator(iter(cells), buffer_size=9), chunks=(30, 7), codec="none"),
        "packed": HyperslabDataIO(cells, chunks=(100, 4), codec="gzip"),
    }
    for name, data in kept.items():
        nwb.add_acquisition(TimeSeries(name=name, data=data, rate=1.0, unit="m"))
    with HyperslabIO(path, "w", **options) as io:
        io.write(nwb)
    with HyperslabIO(path) as io:
        nwb = io.read()
        assert all(np.array_equal(nwb.acquisition[name].data[:], cells) for name in kept)
        return summary(nwb)


def change(path: Path) -> Any:
    """Add to a file of NWB that is there."""
    with HyperslabIO(path, "r+") as io:
        nwb = io.read()
        nwb.create_processing_module("ours", "was added").add(more_of(nwb))
        nwb.add_trial(start_time=1.0, stop_time=2.0, choice="är", timeseries=[nwb.acquisition["ts0"]], tags=["new"])
        io.write(nwb)
    with HyperslabIO(path) as io:
        return summary(io.read())


def change_plain(path: Path) -> Any:
    """Change a tree of builders that is there, in every way that the plain face has."""
    with hs.open_group(path, "r+") as root:
        refs = root["refs"]
        refs["objrefs"].append([root["g1/deep"].ref])
        refs["many"][7] = root["dtypes"].ref
        refs["compound_ref"].append(refs["compound_ref"][:1])
        refs.create_link("new", root["dtypes/text"])
        del refs["link_to_g1"]
        root["g1/i2"].append(np.full((2, 4), -1, "i2"), 0)
        root["g1"].attrs["s"] = "changed"
        root["dtypes/text"][1] = "longer than it was"
        root.move("dtypes/np_U", "moved")
        root.create_array("g1/made", data=np.arange(5.0), attrs={"of": root["dtypes"].ref})
    with hs.open_group(path) as root:
        return seen(root)


REGIONS = {"regions": (hdmf_plain.write_regions, "json2"), "region": (hdmf_plain.write_region_attribute, "json2")}
WRITE = {
    "plain": (write_plain, "read_tree"),
    "builders": (write_builders, "read_tree"),
    "nwb": (write_nwb, "read_nwb"),
    "external": (write_external, "read_nwb"),
    "exported": (write_exported, "read_nwb"),
    "stored": (write_stored, "read_nwb"),
}
CHANGED = {"changed": (change, "read_nwb", "nwb"), "changed tree": (change_plain, "read_tree", "builders")}


@pytest.mark.parametrize("what", WRITE)
def test_they_read_what_we_write(ours: Ours, what: str) -> None:
    ours.check(what)


@pytest.mark.parametrize("what", CHANGED)
def test_they_read_what_we_changed(ours: Ours, what: str) -> None:
    """Of a store of theirs."""
    assert ours.peer.differences(told(ours.answers, what), ours.wanted[what]) == []


def test_we_read_what_they_changed(ours: Ours) -> None:
    """Of a store of ours."""
    with HyperslabIO(ours.folder / "theirs.zarr") as io:
        found = as_json(summary(io.read()))
    assert ours.peer.differences(found, told(ours.answers, "theirs")) == []
    assert hs.check(ours.folder / "theirs.zarr") == []


def test_they_read_what_was_converted(ours: Ours) -> None:
    """A store of the other generation, once it is converted."""
    for name in CONVERTED[ours.peer.profile]:
        found, wanted = told(ours.answers, name), golden_hdmf.truths()[name]
        assert list(differences(found, wanted_of(wanted), text=True)) == []


def wanted_of(said: dict[str, Any]) -> dict[str, Any]:
    """A group of a truth in the words of the children."""
    return {
        "attributes": said["attributes"],
        "groups": {name: wanted_of(below) for name, below in said["groups"].items()},
        "datasets": {
            name: {key: each[key] for key in ("attributes", "value")} for name, each in said["datasets"].items()
        },
        "links": {
            name: {"$ref": each["target"], "object_id": each["object_id"]} for name, each in said["links"].items()
        },
    }


def test_readers_of_zarr_see_the_same_arrays(ours: Ours) -> None:
    with hs.open_group(ours.folder / f"plain-{ours.peer.safest}.zarr") as root:
        assert list(differences(told(ours.answers, "zarr"), as_json(seen_by_zarr(root)))) == []
        found = told(ours.answers, "xarray")
        for name, array in root["numbers"].arrays():
            assert found[name] == {"dims": list(array.dims), "cells": as_json(cell(array[...]))}


# -- what they cannot read, as they cannot of anybody's --------------------------------------------------------------


def test_rows_with_references_in_json(ours: Ours) -> None:
    """Of release 0.13; nothing else of the file is harmed."""
    found = told(ours.answers, "plain-json2")["groups"]["refs"]["datasets"]
    failed = [name for name, each in found.items() if "$error" in str(each)]
    assert failed == ([] if ours.peer.profile == "v3" else ["rows"])


def test_the_other_profile(ours: Ours) -> None:
    """Release 0.14 reads v2 too, where no pickle is in it, and leaves those rows out; 0.13 knows nothing of v3."""
    if ours.peer.profile == "v3":
        found = list(differences(told(ours.answers, "other"), ours.wanted["other"]))
        assert found == ["/groups/refs/datasets/rows: only wanted"]
    else:
        assert "PathNotFoundError" in ours.answers["other"]["error"]


def test_a_row_without_an_axis(ours: Ours) -> None:
    """Of release 0.14."""
    if ours.peer.profile == "v3":
        assert "Zero-dimensional compound dataset with a reference" in ours.answers["row"]["error"]
    else:
        assert told(ours.answers, "row")["datasets"]["row"]["value"][0][:2] == [0, "zero"]


def test_region_references(ours: Ours) -> None:
    """In arrays they are plain dicts and text to it; in an attribute 0.14 takes one for the whole array."""
    assert "slices" in str(told(ours.answers, "regions")["datasets"]["regions"]["value"])
    if ours.peer.profile == "v3":
        assert told(ours.answers, "region")["attributes"]["part"]["$ref"] == "/x"
    else:
        assert "NotImplementedError" in ours.answers["region"]["error"]
