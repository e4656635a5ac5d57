"""Datasets of several groups in each format whose documents and chunks lie under keys, and in each dialect of it."""

from __future__ import annotations

from typing import Any

import numpy as np

import hyperslab as hs

TREES: dict[str, tuple[str, dict[str, Any]]] = {
    "zarr2": ("zarr2", {"consolidated": True}),
    "zarr3": ("zarr3", {"consolidated": True}),
    "nczarr-current": ("nczarr", {"dialect": "current", "consolidated": True}),
    "nczarr-draft": ("nczarr", {"dialect": "draft"}),
    "hdmf-v2": ("hdmf", {"profile": "v2"}),
    "hdmf-v3": ("hdmf", {"profile": "v3"}),
}


def create_tree(place: Any, tree: str = "zarr3", **more: Any) -> hs.Group:
    """Make an empty dataset of the format and dialect ``tree``, with consolidated metadata where it may have some."""
    form, options = TREES[tree]
    return hs.create(place, form, **options, **more)


def make_tree(place: Any, tree: str = "zarr3", **more: Any) -> None:
    """Make a dataset with an array in the root, in a group, and in a group of that."""
    with create_tree(place, tree, **more) as root:
        root.create_array("t", data=np.arange(4), dims=["time"])
        root.create_array("g/inner/u", data=np.arange(3))
        root.create_array("g/v", data=np.arange(3))
