"""The paths of all nodes by what they call themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_hdmf import groups, opened, truths

import hyperslab as hs
from hyperslab.errors import BrokenLink
from hyperslab.model.refs import Link
from hyperslab.model.spec import GroupSpec
from hyperslab.stores.memory import MemoryStore


def test_of_all_stores(peers: Path) -> None:
    for store, root in truths().items():
        said = {}
        for path, group in groups(root):
            said[path] = group["attributes"].get("object_id")
            for name, dataset in group["datasets"].items():
                said[f"{path}/{name}".lstrip("/")] = dataset["attributes"].get("object_id")
        wanted = {name: path for path, name in said.items() if name is not None}
        assert dict(opened(peers / f"{store}.zarr").object_ids()) == wanted


def test_they_follow_every_change() -> None:
    writer = opened(MemoryStore(), "x")
    writer.put("a", GroupSpec(attrs={"object_id": "1"}))
    writer.put("a/b", GroupSpec(attrs={"object_id": "2"}))
    assert writer.object_ids() == {"1": "a", "2": "a/b"}
    writer.move("a", "c")
    assert writer.object_ids() == {"1": "c", "2": "c/b"}
    writer.drop("c/b")
    writer.put("d", GroupSpec(attrs={"object_id": "1"}))
    assert writer.object_ids() == {"1": "c"}
    writer.put("e", GroupSpec(attrs={"object_id": 5}))
    assert writer.object_ids() == {"1": "c"}


@pytest.mark.sampled(0)
@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_groups_that_lie_very_deep_in_one_another(profile: str) -> None:
    """Consolidated metadata can say as many as it likes, and a link whose target is gone looks at all of them."""
    store, name = MemoryStore(), {"v2": ".zmetadata", "v3": "zarr.json"}[profile]
    writer = opened(store, "x", profile=profile)
    writer.put("link", Link("/gone", object_id="of what is gone"))
    doc = json.loads(store.get(name) or b"")
    copy = doc["metadata"] if profile == "v2" else doc["consolidated_metadata"]["metadata"]
    for depth in range(1, 3000):
        path = "/".join("g" * depth)
        if profile == "v2":
            copy |= {f"{path}/.zgroup": {"zarr_format": 2}, f"{path}/.zattrs": {"object_id": str(depth)}}
        else:
            copy[path] = {"zarr_format": 3, "node_type": "group", "attributes": {"object_id": str(depth)}}
    store.put(name, json.dumps(doc).encode())
    root = hs.open_group(store)
    assert len(root.object_ids) == 2999
    with pytest.raises(BrokenLink, match="of what is gone"):
        root["link"]
