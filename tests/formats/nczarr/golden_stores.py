"""The stores that three versions of netcdf-c wrote, and what they say that they wrote."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from hyperslab.formats.documents import read_document
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.nczarr import current
from hyperslab.formats.nczarr.attributes import source_texts
from hyperslab.formats.nczarr.generation import Context, NCZarrOptions, find_generation, read_provenance
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.model.spec import ArraySpec, GroupSpec

FOLDER = Path(__file__).parents[2] / "golden" / "nczarr"
VERSIONS = ("4.10.1", "4.9.3", "4.9.0")
PLAIN = ("pure", "noxarray", "pure_noxarray")
"""Stores without NCZarr's metadata; of 4.9.0 ``noxarray`` has them."""


@cache
def truth(version: str) -> dict[str, Any]:
    """What netcdf-c of this version says that it wrote, by store."""
    with zipfile.ZipFile(FOLDER / f"netcdf{version}.zip") as archive:
        said: dict[str, Any] = json.loads(archive.read("truth.json"))
    return {store: told for store, told in said.items() if not store.startswith("_")}


def is_plain(version: str, store: str) -> bool:
    """Whether a store is one of plain Zarr."""
    return store in PLAIN and (version, store) != ("4.9.0", "noxarray")


def unpack(version: str, folder: Path) -> Path:
    """All stores of a version, each in a folder of its name in this one."""
    with zipfile.ZipFile(FOLDER / f"netcdf{version}.zip") as archive:
        archive.extractall(folder)
    return folder


@cache
def raw(version: str, store: str) -> dict[str, dict[str, bytes]]:
    """The documents of each node of a store, as bytes, by name."""
    nodes: dict[str, dict[str, bytes]] = {}
    with zipfile.ZipFile(FOLDER / f"netcdf{version}.zip") as archive:
        for key in archive.namelist():
            path, _, name = key.removeprefix(f"{store}/").rpartition("/")
            if key.startswith(f"{store}/") and name.startswith(".z") and name != ".zmetadata":
                nodes.setdefault(path, {})[name] = archive.read(key)
    return nodes


def documents(version: str, store: str, node: str) -> Docs:
    """The documents of a node."""
    return {name: read_document(data, name) for name, data in raw(version, store)[node].items()}


def context(version: str, store: str, options: NCZarrOptions | None = None) -> Context:
    """What the documents of a store depend on, taken from the store."""
    root = documents(version, store, "")

    def group(path: str) -> GroupSpec | None:
        if ".zgroup" not in raw(version, store).get(path, {}):
            return None
        found = current.parse(documents(version, store, path), path, made, Problems(path))
        assert isinstance(found, GroupSpec)
        return found

    made = Context(
        generation=find_generation(root),
        options=options or NCZarrOptions(),
        provenance=read_provenance(root.get(".zattrs", {})),
        group=group,
        texts=lambda node: source_texts(raw(version, store)[node].get(".zattrs", b"{}")),
    )
    return made


def read(
    version: str, store: str, node: str, options: NCZarrOptions | None = None
) -> tuple[GroupSpec | ArraySpec, Problems]:
    """The spec of a node, and what was noted."""
    problems = Problems(node)
    return current.parse(documents(version, store, node), node, context(version, store, options), problems), problems
