"""The schemas that a dataset keeps: found, read when they are taken out, written in their own spelling."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_hdmf import GOLDEN, opened

from hyperslab.errors import FormatError, HyperslabError, UnsafePickle, Unsupported
from hyperslab.formats.hdmf.reader import version_key
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.memory import MemoryStore

NWB = {
    "hz060_nwb_pickle": "hdmf_zarr_v2_old_060",
    "hz0130_nwb_json": "hdmf_zarr_v2_0130",
    "hz0130_nwb_pickle": "hdmf_zarr_v2_0130",
    "hz0140_nwb_v3": "hdmf_zarr_v3_0140",
}


def listed(store: str) -> dict[str, dict[str, set[str]]]:
    """The sources by namespace and version, as the archive has them as folders."""
    found: dict[str, dict[str, set[str]]] = {}
    with zipfile.ZipFile(GOLDEN / f"{NWB[store]}.zip") as archive:
        for key in archive.namelist():
            match key.split("/"):
                case [name, "specifications", space, version, source, _] if name == f"{store}.zarr":
                    found.setdefault(space, {}).setdefault(version, set()).add(source)
    return found


@pytest.mark.parametrize("store", NWB)
def test_all_that_are_there(store: str, peers: Path) -> None:
    """Also where consolidated metadata knows of none, as that of 0.6.0."""
    found = opened(peers / f"{store}.zarr").specifications()
    assert {space: {ver: {*said[ver]} for ver in said} for space, said in found.items()} == listed(store)
    for versions in found.values():
        for sources in versions.values():
            assert "namespaces" in sources["namespace"]
            for name in sources:
                assert isinstance(sources[name], dict)
    types = {said["neurodata_type_def"] for said in found["core"][next(iter(found["core"]))]["nwb.base"]["groups"]}
    assert "TimeSeries" in types


def test_the_group_is_listed_though_the_copy_lacks_it(peers: Path) -> None:
    reader = opened(peers / "hz060_nwb_pickle.zarr")
    assert b"specifications" not in (peers / "hz060_nwb_pickle.zarr" / ".zmetadata").read_bytes()
    assert "specifications" in list(reader.children(""))
    assert isinstance(reader.node("specifications"), GroupSpec)


def test_a_place_that_only_the_root_itself_names(tmp_path: Path, peers: Path) -> None:
    place = tmp_path / "x.zarr"
    shutil.copytree(peers / "hz060_nwb_pickle.zarr", place)
    (place / "specifications").rename(place / "schemas")
    attributes = json.loads((place / ".zattrs").read_text())
    (place / ".zattrs").write_text(json.dumps({**attributes, ".specloc": "/schemas"}))
    assert "core" in opened(place).specifications()


def test_none_where_there_are_none(peers: Path) -> None:
    for store in ("hz0130_builders_json", "hz060_builders_json", "hz0140_builders_v3"):
        assert opened(peers / f"{store}.zarr").specifications() == {}


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_written_in_their_own_spelling(profile: str) -> None:
    """One text without compressor in v2, a 0-d array without attributes in v3; the root names their place."""
    store = MemoryStore()
    writer = opened(store, "x", profile=profile)
    write(writer, "1.0.0/namespace", '{"namespaces": []}')
    place = "specifications/core/1.0.0/namespace"
    if profile == "v2":
        doc = json.loads(store.get(f"{place}/.zarray"))
        assert (doc["shape"], doc["chunks"], doc["dtype"]) == ([1], [1], "|O")
        assert (doc["compressor"], [said["id"] for said in doc["filters"]], doc["fill_value"]) == (None, ["json2"], 0)
        assert json.loads(store.get(f"{place}/0")) == ['{"namespaces": []}', "|O", [1]]
        assert json.loads(store.get(f"{place}/.zattrs")) == {"zarr_dtype": "scalar"}
        assert json.loads(store.get(".zattrs"))[".specloc"] == "specifications"
    else:
        doc = json.loads(store.get(f"{place}/zarr.json"))
        assert (doc["shape"], doc["data_type"], doc["attributes"]) == ([], "string", {})
        assert json.loads(store.get("zarr.json"))["attributes"][".specloc"] == "specifications"
    assert opened(store).specifications()["core"]["1.0.0"]["namespace"] == {"namespaces": []}
    assert opened(store).node("").attrs == {}


def write(writer: Any, path: str, text: str) -> None:
    place = f"specifications/core/{path}"
    writer.put(place, writer.new_array(ArraySpec(shape=(), dtype=VlenString(), chunks=(), attrs={"of": "mine"})))
    writer.chunks(place).write((), np.array(text, np.dtypes.StringDType()))


def test_the_root_names_where_they_are_now() -> None:
    store = MemoryStore()
    writer = opened(store, "x")
    write(writer, "1.0/namespace", "[1]")
    writer.move("specifications", "schemas/here")
    assert json.loads(store.get(".zattrs"))[".specloc"] == "schemas/here"
    assert opened(store).specifications()["core"]["1.0"]["namespace"] == [1]
    writer.drop("schemas")
    assert ".specloc" not in json.loads(store.get(".zattrs"))
    for reader in (writer, opened(store)):
        assert reader.specifications() == {}


def test_the_newest_version_comes_last() -> None:
    store = MemoryStore()
    writer = opened(store, "x")
    for version in ("2.10.0", "2.9.0", "2.10.0-alpha", "latest", "1.0"):
        write(writer, f"{version}/namespace", "{}")
    assert list(opened(store).specifications()["core"]) == ["latest", "1.0", "2.9.0", "2.10.0-alpha", "2.10.0"]
    assert version_key("9" * 9999)


def test_what_is_no_schema() -> None:
    writer = opened(MemoryStore(), "x")
    write(writer, "1.0/broken", "{")
    write(writer, "1.0/fine", "[1]")
    sources = writer.specifications()["core"]["1.0"]
    assert sources["fine"] == [1]
    with pytest.raises(FormatError) as caught:
        sources["broken"]
    assert caught.value.node == "specifications/core/1.0/broken"
    with pytest.raises(KeyError):
        sources["nothing"]
    assert writer.specifications().get("other") is None


def test_a_pickled_schema_fails_alone(hostile: Path) -> None:
    """The copy says that it is JSON, the document itself does not."""
    reader = opened(hostile / "evil_spec.zarr")
    found = reader.specifications()
    outcomes = []
    for space in found:
        for version in found[space]:
            for source in found[space][version]:
                try:
                    outcomes.append(found[space][version][source])
                except HyperslabError as error:
                    outcomes.append(error)
    assert any(isinstance(outcome, UnsafePickle | Unsupported | FormatError) for outcome in outcomes)
    assert reader.node("g1/i2").shape == (3, 4)
