"""Image pyramids as OME-Zarr stores them, written by zarr-python: levels of one image beside one another, whose axes
have the same names and different lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import zarr

LEVELS = ("s0", "s1", "s2")
IMAGE = np.arange(2 * 2 * 3 * 16 * 24, dtype="u2").reshape(2, 2, 3, 16, 24)
AXES = tuple("tczyx")


def level(number: int) -> np.ndarray:
    """The image, each of ``y`` and ``x`` halved as often."""
    step = 2**number
    return IMAGE[..., ::step, ::step]


def write_pyramid(place: Path, version: int = 3, *, labels: bool = True) -> Path:
    """The image in three levels, with labels that have one channel; Zarr v3 has names of dimensions, Zarr v2 none."""
    root = zarr.open_group(place, mode="w", zarr_format=version)
    axes = [{"name": name, "type": {"t": "time", "c": "channel"}.get(name, "space")} for name in AXES]
    root.attrs["multiscales"] = [{"axes": axes, "datasets": [{"path": name} for name in LEVELS]}]
    groups = [(root, slice(None))] + ([(root.create_group("labels/nuclei"), slice(1))] if labels else [])
    for group, channels in groups:
        for number, name in enumerate(LEVELS):
            cells = level(number)[:, channels]
            names = AXES if version == 3 else None
            array = group.create_array(
                name, shape=cells.shape, dtype=cells.dtype, chunks=(1, 1, 2, 8, 8), dimension_names=names
            )
            array[...] = cells
    return place
