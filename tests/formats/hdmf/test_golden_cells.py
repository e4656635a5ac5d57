"""Every array, attribute, link and target of a reference in the stores of three releases of hdmf-zarr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from golden_hdmf import groups, opened, same, spelled, told, truths

from golden import read_all
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec

STORES = sorted(truths())
WRITTEN_BY_ALL = 14


def test_no_truth_is_passed_over() -> None:
    assert len(STORES) == WRITTEN_BY_ALL


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_tree(store: str, peers: Path) -> None:
    """All names, and no others; the specifications are left out of the truth."""
    reader = opened(peers / f"{store}.zarr")
    for path, said in groups(truths()[store]):
        names = {*said["groups"], *said["datasets"], *said["links"]}
        assert {*reader.children(path)} - ({"specifications"} if not path else set()) == names
        kinds = {GroupSpec: said["groups"], ArraySpec: said["datasets"], Link: said["links"]}
        for kind, held in kinds.items():
            for name in held:
                assert type(reader.node(f"{path}/{name}".lstrip("/"))) is kind


def test_attributes(store: str, peers: Path) -> None:
    """Values, also those that are references. None that are reserved."""
    reader = opened(peers / f"{store}.zarr")
    for path, said in groups(truths()[store]):
        compare(reader.node(path).attrs, said["attributes"], path)
        for name, dataset in said["datasets"].items():
            place = f"{path}/{name}".lstrip("/")
            told_of = dict(dataset["attributes"])
            dims = told_of.pop("_ARRAY_DIMENSIONS", None)
            spec = reader.node(place)
            compare(spec.attrs, told_of, place)
            if spec.shape:
                assert list(spec.dims) == (dims or [None] * len(spec.shape))


def compare(found: Any, said: dict[str, Any], path: str) -> None:
    assert set(found) == set(said), path
    for name, value in found.items():
        assert same(spelled(value), told(said[name])), f"{path}: {name}"


def test_cells(store: str, peers: Path) -> None:
    reader = opened(peers / f"{store}.zarr")
    for path, said in groups(truths()[store]):
        for name, dataset in said["datasets"].items():
            place = f"{path}/{name}".lstrip("/")
            assert reader.node(place).problem is None
            assert same(spelled(read_all(reader, place)), told(dataset["value"])), place


@pytest.mark.filterwarnings("ignore:.*by its name:UserWarning")
def test_targets(store: str, peers: Path) -> None:
    """What references and links point at is what the peer found there."""
    reader = opened(peers / f"{store}.zarr")
    names = {path: said for said, path in reader.object_ids().items()}

    def check(value: Any) -> None:
        if isinstance(value, dict) and "$ref" in value:
            assert names.get(value["$ref"].lstrip("/")) == value["object_id"]
        elif isinstance(value, list):
            for part in value:
                check(part)

    for path, said in groups(truths()[store]):
        for value in said["attributes"].values():
            check(value)
        for dataset in said["datasets"].values():
            check([dataset["value"], *dataset["attributes"].values()])
        for name, link in said["links"].items():
            check_link(reader, reader.node(f"{path}/{name}".lstrip("/")), link, peers)


def check_link(reader: Any, link: Link, said: dict[str, Any], peers: Path) -> None:
    assert link.target == said["target"]
    place = reader.place_of(link)
    assert (place is None) == (said["source"] == ".")
    target = reader if place is None else opened(place)
    if place is not None:
        assert place.path == str(peers / said["source"].removeprefix("../"))
    assert target.node(link.target.lstrip("/")).attrs.get("object_id") == said["object_id"]


def test_scalars_are_scalars(peers: Path) -> None:
    """A shape of (1,) that is marked as scalar is none."""
    for name, shape in (("hz060_builders_pickle", ()), ("hz0130_builders_json", ()), ("hz0140_builders_v3", ())):
        reader = opened(peers / f"{name}.zarr")
        for said in ("scalar_f8", "scalar_i4", "scalar_text", "scalar_bytes"):
            assert reader.node(f"dtypes/{said}").shape == shape


def test_names_of_dimensions(peers: Path) -> None:
    reader = opened(peers / "hz0130_nwb_json.zarr")
    assert reader.node("acquisition/es/data").dims == ("num_times", "num_channels")
    assert opened(peers / "hz060_nwb_pickle.zarr").node("acquisition/es/data").dims == (None, None)
