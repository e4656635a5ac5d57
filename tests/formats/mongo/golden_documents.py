"""The documents of other writers, each object with what it should read as."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import bson
import numpy as np

FOLDER = Path(__file__).parents[2] / "golden" / "mongo"
REAL, SPECIFIED = "real_0.3.0", "spec_seed000"

Document = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An object: its documents, what ``expected.json`` says of it, and the cells of its variables that are told."""

    case: str
    said: dict[str, Any]
    meta: Document
    chunks: list[Document]
    arrays: dict[str, np.ndarray[Any, Any]]

    @property
    def _id(self) -> bson.ObjectId:
        """The name of the object in its collection."""
        found: bson.ObjectId = self.meta["_id"]
        return found

    def __repr__(self) -> str:
        return self.case


@cache
def cases(folder: str) -> list[Case]:
    """Every object of ``REAL`` or ``SPECIFIED``, in the order of ``expected.json``."""
    place = FOLDER / folder
    metas = {meta["_id"]: meta for meta in documents(folder, "meta")}
    chunks: dict[bson.ObjectId, list[Document]] = {key: [] for key in metas}
    for document in documents(folder, "chunks"):
        chunks[document["meta_id"]].append(document)
    with np.load(place / "expected.npz") as held:
        arrays = {str(name): held[f"a{number}"] for number, name in enumerate(held["keys"])}
    found = []
    for said in json.loads((place / "expected.json").read_text()):
        name, key = said["case"], bson.ObjectId(said["_id"])
        cells = {path.removeprefix(f"{name}/"): array for path, array in arrays.items() if path.startswith(f"{name}/")}
        found.append(Case(name, said, metas[key], chunks[key], cells))
    return found


def case(name: str) -> Case:
    """The object of this name, of either folder."""
    (found,) = (each for folder in (REAL, SPECIFIED) for each in cases(folder) if each.case == name)
    return found


def documents(folder: str, collection: str) -> list[Document]:
    """The documents of ``meta`` or ``chunks``, decoded anew."""
    return bson.decode_all((FOLDER / folder / f"xarray.{collection}.bson").read_bytes())


def coo(case: Case) -> tuple[tuple[int, ...], np.ndarray[Any, Any], np.ndarray[Any, Any], str]:
    """Shape, coordinates, data and word of an array that is told by its coordinates."""
    told = case.said["coo"]
    (variable,) = case.meta["data_vars"].values()
    return tuple(told["shape"]), np.array(told["coords"]), np.array(told["data"], variable["dtype"]), told["word"]
