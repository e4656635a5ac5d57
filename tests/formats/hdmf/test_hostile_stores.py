"""Stores that want code run: they open, what is poisoned fails alone when it is touched, and nothing runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from golden_hdmf import groups, opened, same, spelled, told, truths

from golden import read_all
from hyperslab.errors import BrokenLink, ExternalLinkRefused, HyperslabError, NodeNotFound, UnsafePickle, Unsupported
from hyperslab.model.refs import Link

POISONED = {
    "evil_chunk_toplevel": ("refs/objrefs", UnsafePickle),
    "evil_chunk_element": ("refs/objrefs", UnsafePickle),
    "evil_fill_value": ("refs/compound_ref", UnsafePickle),
    "evil_second_filter": ("dtypes/text", Unsupported),
    "evil_spec": ("specifications/core/2.0.0/namespace", (UnsafePickle, Unsupported)),
    "evil_link_escape": ("", None),
}


@pytest.mark.parametrize("store", POISONED)
def test_all_but_what_is_poisoned_reads(store: str, hostile: Path) -> None:
    """The same as the store that they were made of. Opening parses nothing but documents."""
    path, error = POISONED[store]
    reader = opened(hostile / f"{store}.zarr")
    for group, said in groups(truths()["hz060_builders_pickle"]):
        assert same(spelled(reader.node(group).attrs), told(said["attributes"]))
        for name, dataset in said["datasets"].items():
            place = f"{group}/{name}".lstrip("/")
            if place != path:
                assert same(spelled(read_all(reader, place)), told(dataset["value"])), place
    if error is not None:
        with pytest.raises(error) as caught:
            read_all(reader, path)
        assert path in str(caught.value)


@pytest.mark.parametrize("store", POISONED)
def test_changing_it_touches_nothing_of_that(store: str, hostile: Path, tmp_path: Path) -> None:
    """Also a writer, which consolidates, meets poison only where it is asked to."""
    shutil.copytree(hostile / f"{store}.zarr", tmp_path / "x.zarr")
    writer = opened(tmp_path / "x.zarr", "r+")
    spec = writer.node("g1")
    writer.put("g1", spec.evolve(attrs={**spec.attrs, "more": 1}))
    writer.put("added", Link("/refs/objrefs"))
    assert writer.object_ids()
    writer.specifications()
    writer.close()


def test_links_that_lead_out(hostile: Path) -> None:
    """Each fails alone, when it is followed and not before."""
    reader = opened(hostile / "evil_link_escape.zarr")
    links = {name: link for path in ("", "refs") for name, link in links_below(reader, path).items()}
    assert {"up", "dots", "loop", "abs", "dangling"} <= set(links)
    for name in ("up", "abs"):
        with pytest.raises((ExternalLinkRefused, BrokenLink)):
            reader.place_of(links[name])
    for name in ("loop", "dangling"):
        assert reader.place_of(links[name]) is None
    with pytest.raises(NodeNotFound):
        reader.node(links["dangling"].target.lstrip("/"))
    assert links["dots"].target == "/../../secret"
    with pytest.raises(HyperslabError):
        reader.node(links["dots"].target.lstrip("/"))


def links_below(reader: Any, path: str) -> dict[str, Link]:
    nodes = {name: reader.node(f"{path}/{name}".lstrip("/")) for name in reader.children(path)}
    return {name: node for name, node in nodes.items() if isinstance(node, Link)}
