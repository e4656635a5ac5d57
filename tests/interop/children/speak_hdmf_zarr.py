"""hdmf-zarr writes and reads stores for the tasks of a manifest. Runs beside 0.13 and 0.14, without hyperslab."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hdmf_zarr
import numcodecs.pickles
import numpy as np
import xarray as xr
import zarr
from hdmf.build import BuildManager, TypeMap
from hdmf.spec import NamespaceCatalog
from hdmf_trees import SPECIFICATIONS, builders, more_of, summary, tree
from nwb_files import rich_file, small_file  # beside which hdmf_trees finds more
from pynwb import TimeSeries, get_manager, validate

IS_V2 = zarr.__version__.startswith("2.")
CODECS = {"json2": "JSON", "pickle": "Pickle"}
Task = dict[str, Any]


def bare() -> BuildManager:
    """A manager that knows no types."""
    return BuildManager(TypeMap(NamespaceCatalog()))


def writing(path: str, manager: Any, task: Task) -> Any:
    """A new store; in the old profile with the codec of the task."""
    codec = {"object_codec_class": getattr(numcodecs, CODECS[task["codec"]])} if IS_V2 else {}
    return hdmf_zarr.ZarrIO(path, mode="w", manager=manager, **codec)


def write_builders(task: Task) -> Any:
    """Write the tree of builders; tells what it is."""
    made = builders(task["path"])
    with writing(task["path"], bare(), task) as io:
        io.write_builder(made)
    return tree(made)


def write_nwb(task: Task) -> Any:
    """Write a file with every type; tells its containers."""
    nwb = rich_file()
    with writing(task["path"], get_manager(), task) as io:
        io.write(nwb)
    return summary(nwb)


def write_external(task: Task) -> Any:
    """Write a file whose series is linked to that of the NWB file of another task."""
    nwb = small_file()
    with hdmf_zarr.NWBZarrIO(task["to"], mode="r", manager=(manager := get_manager())) as other:
        first = other.read().acquisition["ts0"]
        nwb.add_acquisition(TimeSeries(name="outside", data=first.data, timestamps=first.timestamps, unit="m"))
        with writing(task["path"], manager, task) as io:
            io.write(nwb, link_data=True)
        return summary(nwb)


def read_tree(task: Task) -> Any:
    """The tree of builders that is read."""
    kind = hdmf_zarr.ZarrV2IO if task.get("old") else hdmf_zarr.ZarrIO
    with kind(task["path"], mode="r", manager=bare()) as io:
        return tree(io.read_builder())


def read_nwb(task: Task) -> Any:
    """The containers that are read; of a file that is valid, where all of it can be read."""
    with hdmf_zarr.NWBZarrIO(task["path"], mode="r") as io:
        found = summary(io.read())
        if not IS_V2 or task["codec"] == "pickle":
            assert (problems := validate(io=io)) == [], problems
        return found


def change_nwb(task: Task) -> Any:
    """Add to a file that is there; tells what it holds then."""
    with hdmf_zarr.NWBZarrIO(task["path"], mode="r+") as io:
        nwb = io.read()
        nwb.create_processing_module("theirs", "was added").add(more_of(nwb))
        io.write(nwb)
    return read_nwb(task)


def read_arrays(task: Task) -> Any:
    """Cells of every array as zarr-python alone sees them: of those that it cannot read, its words."""
    found: dict[str, Any] = {}

    def look(group: Any, path: str) -> None:
        for name, array in group.arrays():
            try:
                found[f"{path}/{name}"] = cell(np.asarray(array[...]))
            except Exception as error:
                found[f"{path}/{name}"] = {"$error": f"{type(error).__name__}: {error}"}
        for name, below in group.groups():
            if path or name != SPECIFICATIONS:
                look(below, f"{path}/{name}")

    look(zarr.open(task["path"], mode="r"), "")
    return found


def read_xarray(task: Task) -> Any:
    """Dimensions and cells of the variables of a group."""
    with xr.open_dataset(task["path"], engine="zarr", group=task["group"], decode_cf=False) as dataset:
        return {name: {"dims": list(each.dims), "cells": cell(each.values)} for name, each in dataset.variables.items()}


def cell(value: Any) -> Any:
    """Cells as JSON; references as the paths that they lead to."""
    match value:
        case np.ndarray() | np.generic():
            return cell(value.tolist())
        case list() | tuple():
            return [cell(each) for each in value]
        case dict():
            return value["path"]
        case bytes():
            return value.decode("latin-1")
    return "nan" if value != value else value


TASKS: dict[str, Callable[[Task], Any]] = {
    each.__name__: each
    for each in (write_builders, write_nwb, write_external, read_tree, read_nwb, change_nwb, read_arrays, read_xarray)
}


def main(manifest: Path, report: Path) -> None:
    """Do the tasks one after the other; an error of one is told, and does not keep from the next."""
    found = {}
    for task in json.loads(manifest.read_text()):
        numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE = task.get("codec") == "pickle"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found[task["name"]] = {"told": TASKS[task["do"]](task)}
            except Exception as error:  # the peer's own words are what is asked for
                found[task["name"]] = {"error": f"{type(error).__name__}: {error}"}
    report.write_text(json.dumps(found))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
