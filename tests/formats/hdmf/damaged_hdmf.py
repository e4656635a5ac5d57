"""Damages that are planted in golden stores: documents changed, and consolidated metadata with them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs

V2, V3 = "hz0130_builders_json", "hz0140_builders_v3"
ROOT, G1 = "11111111-0000-4000-8000-000000000000", "11111111-0000-4000-8000-000000000002"
Attributes = dict[str, Any]
Edit = Callable[[Attributes], Any]


def copied(peers: Path, store: str, folder: Path) -> Path:
    """A copy of a golden store, alone in its folder."""
    return Path(shutil.copytree(peers / f"{store}.zarr", folder / f"{store}.zarr"))


def found(place: Path, *, deep: bool = False) -> set[tuple[str, str]]:
    """Node and kind of every problem of a store."""
    return {(problem.node, problem.kind) for problem in hs.check(place, deep=deep)}


def consolidate(root: Path) -> None:
    """Write consolidated metadata of what is there, as peers do."""
    if (root / "zarr.json").exists():
        docs = {p.parent.relative_to(root).as_posix(): json.loads(p.read_bytes()) for p in root.rglob("zarr.json")}
        whole = docs.pop(".")
        whole["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": docs}
        (root / "zarr.json").write_text(json.dumps(whole))
        return
    names = (".zarray", ".zattrs", ".zgroup")
    found = {p.relative_to(root).as_posix(): json.loads(p.read_bytes()) for p in root.rglob("*") if p.name in names}
    (root / ".zmetadata").write_text(json.dumps({"metadata": found, "zarr_consolidated_format": 1}))


def edit(root: Path, key: str, change: Edit, *, fresh: bool = True) -> None:
    """Change a document."""
    doc = json.loads((root / key).read_bytes()) if (root / key).exists() else {}
    change(doc)
    (root / key).write_text(json.dumps(doc))
    if fresh:
        consolidate(root)


def attributes(root: Path, node: str, change: Edit) -> None:
    """Change the attributes of a node."""
    if (root / "zarr.json").exists():
        edit(root, f"{node}/zarr.json".lstrip("/"), lambda doc: change(doc["attributes"]))
    else:
        edit(root, f"{node}/.zattrs".lstrip("/"), change)


def links_of(root: Path, node: str) -> list[Any]:
    """The entries of links as they are stored."""
    if (root / "zarr.json").exists():
        found = json.loads((root / node / "zarr.json").read_bytes())["attributes"].get("_LINKS", [])
    else:
        found = json.loads((root / node / ".zattrs").read_bytes()).get("zarr_link", [])
    return list(found)


def link(*entries: Any) -> Callable[[Path], None]:
    """More entries among the links of ``refs``."""

    def plant(root: Path) -> None:
        word = "_LINKS" if (root / "zarr.json").exists() else "zarr_link"
        attributes(root, "refs", lambda attrs: attrs[word].extend(entries))

    return plant


def entry(name: str, path: str, source: str = ".", **more: Any) -> Attributes:
    return {"name": name, "path": path, "source": source, **more}


def reference(**said: Any) -> Callable[[Path], None]:
    """The reference attribute ``table`` of ``refs`` with other words."""

    def change(attrs: Attributes) -> None:
        attrs["table"]["_REFERENCE" if "_REFERENCE" in attrs["table"] else "value"].update(said)

    return lambda root: attributes(root, "refs", change)
