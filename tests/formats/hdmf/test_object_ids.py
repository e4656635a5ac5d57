"""The paths of all nodes by what they call themselves."""

from __future__ import annotations

from pathlib import Path

from golden_hdmf import groups, opened, truths

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
