"""The stores that three releases of hdmf-zarr wrote, and hostile ones, through the backend: by pynwb, as builders."""

from __future__ import annotations

import builtins
import json
import math
import sys
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import Builder, BuildManager, ReferenceBuilder, TypeMap
from hdmf.spec import NamespaceCatalog
from nwb_files import place_of
from pynwb import validate

import hyperslab as hs
from hyperslab.hdmf import HyperslabIO

GOLDEN = Path(__file__).parents[2] / "golden" / "hdmf"
ARCHIVES = ("hdmf_zarr_v2_old_060", "hdmf_zarr_v2_0130", "hdmf_zarr_v3_0140", "hostile")
NWB = ("hz060_nwb_pickle", "hz0130_nwb_json", "hz0130_nwb_pickle", "hz0140_nwb_v3")
TREES = (*NWB, "hz060_builders_pickle", "hz0130_builders_json", "hz0130_builders_pickle", "hz0140_builders_v3")
LINKED = ("hz060_ext_link", "hz0130_ext_link", "hz0140_ext_link")
KEPT = "ignore:Ignoring the following cached namespace"


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of them; nobody changes them."""
    folder = tmp_path_factory.mktemp("stores")
    for name in ARCHIVES:
        with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
            archive.extractall(folder)
    return folder


@pytest.fixture(autouse=True)
def nothing_runs() -> Iterator[None]:
    """No test may execute what a store holds."""
    yield
    assert not hasattr(builtins, "HDMF_PWNED")
    assert "hdmf_zarr" not in sys.modules


def as_builders(path: Path) -> HyperslabIO:
    return HyperslabIO(path, manager=BuildManager(TypeMap(NamespaceCatalog())))


@pytest.mark.filterwarnings(KEPT)
@pytest.mark.parametrize("name", NWB)
def test_pynwb_reads_it(stores: Path, name: str) -> None:
    with HyperslabIO(stores / f"{name}.zarr") as io:
        nwb = io.read()
        assert nwb.acquisition["es"].data[:].tolist() == np.arange(20).reshape(10, 2).tolist()
        assert nwb.acquisition["es"].electrodes.table is nwb.electrodes
        assert nwb.acquisition["ts2"].data is nwb.acquisition["ts"].data
        trials = nwb.trials.to_dataframe()
        found = [
            [(int(each.idx_start), int(each.count), each.timeseries.name) for each in row]
            for row in trials["timeseries"]
        ]
        assert [each for row in found for each in row] == [(1, 1, "ts"), (3, 2, "ts"), (9000, 6000, "es")]
        assert len(nwb.electrodes.to_dataframe()) == 4
        assert nwb.electrodes["group"][0].device.name in nwb.devices
        assert [len(times) for times in nwb.units["spike_times"][:]]
        assert nwb.session_start_time.isoformat() == "2018-09-28T14:43:54.123000+02:00"


@pytest.mark.filterwarnings(KEPT)
@pytest.mark.parametrize("name", NWB)
def test_it_is_valid(stores: Path, name: str) -> None:
    with HyperslabIO(stores / f"{name}.zarr") as io:
        assert validate(io=io) == []


@pytest.mark.filterwarnings("ignore:.*by its name:UserWarning")
@pytest.mark.parametrize("name", [*TREES, *LINKED])
def test_the_builders_are_those_of_the_peer(stores: Path, name: str) -> None:
    truth = json.loads((stores / f"{name}.truth.json").read_text())["root"]
    with as_builders(stores / f"{name}.zarr") as io:
        assert differences(told(io.read_builder()), known(truth)) == []


def told(builder: Any) -> dict[str, Any]:
    """A group as the truth tells it."""
    datasets = {
        name: {"attributes": attributes(each), "value": spelled(each.data)} for name, each in builder.datasets.items()
    }
    return {
        "attributes": attributes(builder),
        "groups": {name: told(group) for name, group in builder.groups.items()},
        "links": {link.name: place_of(link.builder) for link in builder.links.values()},
        "datasets": datasets,
    }


def attributes(builder: Any) -> dict[str, Any]:
    return {name: spelled(value) for name, value in builder.attributes.items()}


def spelled(value: Any) -> Any:
    match value:
        case ReferenceBuilder():
            return {"$ref": place_of(value.builder)}
        case Builder():
            return {"$ref": place_of(value)}
        case bytes():
            return {"$bytes": value.decode("latin-1")}
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case np.ndarray() | np.generic():
            return spelled(value.tolist())
        case str() | bool() | int() | float() | None:
            return value
        case dict():
            return {name: spelled(each) for name, each in value.items()}
    return [spelled(each) for each in value]


def known(group: dict[str, Any]) -> dict[str, Any]:
    """A group of the truth, without what no builder of ours has: names of axes, and ids of targets."""
    return {
        "attributes": _known(group["attributes"]),
        "groups": {name: known(below) for name, below in group["groups"].items()},
        "links": {name: link["target"] for name, link in group["links"].items()},
        "datasets": {
            name: {"attributes": _known(each["attributes"]), "value": _known(each["value"])}
            for name, each in group["datasets"].items()
        },
    }


def _known(value: Any) -> Any:
    match value:
        case {"$ref": path}:
            return {"$ref": path}
        case dict():
            return {name: _known(each) for name, each in value.items() if name not in ("_ARRAY_DIMENSIONS", ".specloc")}
        case list():
            return [_known(each) for each in value]
    return value


def differences(found: Any, said: Any, place: str = "") -> list[str]:
    """Where two trees differ; a list of one element is its element."""
    if isinstance(found, dict) and isinstance(said, dict):
        names = dict.fromkeys([*found, *said])
        return [
            line
            for name in names
            for line in (
                differences(found[name], said[name], f"{place}/{name}")
                if name in found and name in said
                else [f"{place}/{name} is in one alone"]
            )
        ]
    if isinstance(found, list) and len(found) == 1 and not isinstance(said, list):
        return differences(found[0], said, place)
    if isinstance(said, list) and len(said) == 1 and not isinstance(found, list):
        return differences(found, said[0], place)
    if isinstance(found, list) and isinstance(said, list) and len(found) == len(said):
        return [
            line
            for at, pair in enumerate(zip(found, said, strict=True))
            for line in differences(*pair, f"{place}/{at}")
        ]
    return [] if found == said else [f"{place}: {found!r} and {said!r}"]


def test_a_link_out_of_reach_is_left_out_alone(stores: Path) -> None:
    with as_builders(stores / "evil_link_escape.zarr") as io, pytest.warns(BrokenLinkWarning) as seen:
        root = io.read_builder()
    said = "\n".join(str(warning.message) for warning in seen)
    assert all(f"/{name} " in said for name in ("up", "dots", "abs", "dangling"))
    holder = next(group for group in root.groups.values() if "loop" in group.links or group.name == "refs")
    assert holder.links["loop"].builder is root["refs"]
    assert root["dtypes/int16"].data[:].tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    "name", ["evil_chunk_element", "evil_chunk_toplevel", "evil_fill_value", "evil_second_filter", "evil_spec"]
)
def test_what_is_poisoned_fails_alone(stores: Path, name: str) -> None:
    with as_builders(stores / f"{name}.zarr") as io, warnings.catch_warnings():
        warnings.simplefilter("ignore", BrokenLinkWarning)  # text is looked at, whether it is a date
        root = io.read_builder()
        assert root["g1/i2"].data[:].tolist() == np.arange(12).reshape(3, 4).tolist()
        poisoned = {
            "evil_chunk_element": "refs/objrefs",
            "evil_chunk_toplevel": "refs/objrefs",
            "evil_fill_value": "refs/compound_ref",
            "evil_second_filter": "dtypes/text",
        }.get(name)
        if poisoned is not None:
            with pytest.raises(hs.HyperslabError):
                list(root[poisoned].data)


def test_a_truncated_store_opens(stores: Path) -> None:
    with as_builders(stores / "hz060_builders_json.zarr") as io:
        root = io.read_builder()
        assert root["dtypes/scalar_text"].data == "hello é"
