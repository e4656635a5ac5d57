"""One step of :mod:`benchmarks.virtual`, in a process of its own: prints its seconds, those of the processor, its
memory and what it found.

Imports are done before the clock starts.
"""

from __future__ import annotations

import glob
import importlib
import json
import logging
import os
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
STEP, FOLDER = sys.argv[1:]
FILES = sorted(glob.glob(f"{FOLDER}/files/*.nc"))
ROW = 400_000


def _target(name: str) -> str:
    place = f"{FOLDER}/{name}"
    if os.path.isdir(place):
        shutil.rmtree(place)
    elif os.path.exists(place):
        os.remove(place)
    return place


def make_hyperslab(name: str) -> Callable[[], Any]:
    """References by hyperslab."""
    import h5py  # noqa: F401
    import netCDF4  # noqa: F401

    import hyperslab as hs

    virtual, place = hs.virtual, _target(name)
    if name == "icechunk":
        import icechunk  # noqa: F401

        place = f"icechunk+file://{place}"
    return lambda: virtual(FILES, place, "time", relative=False) and 0


def make_kerchunk(name: str) -> Callable[[], Any]:
    """References by kerchunk."""
    from kerchunk.combine import MultiZarrToZarr
    from kerchunk.df import refs_to_dataframe
    from kerchunk.hdf import SingleHdf5ToZarr

    place = _target(name)

    def run() -> Any:
        parts = [SingleHdf5ToZarr(file, file, inline_threshold=500).translate() for file in FILES]
        how = {"concat_dims": ["time"], "identical_dims": ["lat", "lon"], "coo_map": {"time": "cf:time"}}
        references = MultiZarrToZarr(parts, **how).translate()
        if name.endswith(".json"):
            with open(place, "w") as file:
                json.dump(references, file)
        else:
            os.mkdir(place)
            refs_to_dataframe(references, place)
        return 0

    return run


def make_virtualizarr(name: str) -> Callable[[], Any]:
    """References by VirtualiZarr."""
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_mfdataset
    from virtualizarr.parsers import HDFParser

    place = _target(name)

    def run() -> Any:
        data = open_virtual_mfdataset(
            [f"file://{file}" for file in FILES],
            registry=ObjectStoreRegistry({"file://": LocalStore()}),
            parser=HDFParser(),
            concat_dim="time",
            combine="nested",
            loadable_variables=["time", "lat", "lon"],
            compat="override",
            coords="minimal",
            data_vars="minimal",
        )
        if "icechunk" in name:
            import icechunk

            config, prefix = icechunk.RepositoryConfig.default(), f"file://{FOLDER}/files/"
            store = icechunk.local_filesystem_store(f"{FOLDER}/files/")
            config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
            repository = icechunk.Repository.create(icechunk.local_filesystem_storage(place), config)
            session = repository.writable_session("main")
            data.vz.to_icechunk(session.store)
            session.commit("all")
        else:
            data.vz.to_kerchunk(place, format="json" if name.endswith(".json") else "parquet")
        return 0

    return run


def open_hyperslab(name: str) -> Callable[[], Any]:
    """A million references, and one chunk."""
    import hyperslab as hs

    opening = hs.open
    opening(f"{FOLDER}/json.json")["lat"][0]  # modules are imported when they are first used
    return lambda: float(opening(f"{FOLDER}/{name}")["a"][ROW].sum())


def open_fsspec(name: str) -> Callable[[], Any]:
    """The same by fsspec."""
    import fsspec
    import numpy as np

    importlib.import_module("fsspec.implementations.reference")
    if "parquet" in name:
        importlib.import_module("fastparquet")

    def run() -> Any:
        system = fsspec.filesystem("reference", fo=f"{FOLDER}/{name}", remote_protocol="file", skip_instance_cache=True)
        system.cat_file("a/.zarray")
        return float(np.frombuffer(system.cat_file(f"a/{ROW}.0"), "<f4").sum())

    return run


def read_hyperslab(name: str) -> Callable[[], Any]:
    """All chunks of an array."""
    import hyperslab as hs

    array = hs.open(f"{FOLDER}/{name}")["t2m"]
    return lambda: float(array[...].sum(dtype="f8"))


def read_fsspec(name: str) -> Callable[[], Any]:
    """The same by zarr over fsspec."""
    import xarray as xr

    storage = {"fo": f"{FOLDER}/{name}", "remote_protocol": "file", "asynchronous": True}
    kwargs = {"consolidated": False, "storage_options": storage}
    data = xr.open_dataset("reference://", engine="zarr", backend_kwargs=kwargs, chunks=None, mask_and_scale=False)
    return lambda: float(data.t2m.values.sum(dtype="f8"))


STEPS: dict[str, tuple[Callable[[str], Callable[[], Any]], str]] = {
    "make_json": (make_hyperslab, "json.json"),
    "make_parquet": (make_hyperslab, "parquet.parquet"),
    "make_icechunk": (make_hyperslab, "icechunk"),
    "make_kerchunk": (make_kerchunk, "kerchunk.json"),
    "make_kerchunk_parquet": (make_kerchunk, "kerchunk.parquet"),
    "make_virtualizarr": (make_virtualizarr, "virtualizarr.json"),
    "make_virtualizarr_parquet": (make_virtualizarr, "virtualizarr.parquet"),
    "make_virtualizarr_icechunk": (make_virtualizarr, "virtualizarr_icechunk"),
    "open_json": (open_hyperslab, "million.json"),
    "open_parquet": (open_hyperslab, "million.parquet"),
    "open_fsspec_json": (open_fsspec, "million.json"),
    "open_fsspec_parquet": (open_fsspec, "million.parquet"),
    "read_json": (read_hyperslab, "json.json"),
    "read_parquet": (read_hyperslab, "parquet.parquet"),
    "read_fsspec_json": (read_fsspec, "json.json"),
    "read_fsspec_parquet": (read_fsspec, "parquet.parquet"),
}


def processor() -> float:
    """Seconds of the processor that this process and those that it started have taken."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    make, name = STEPS[STEP]
    run = make(name)
    start, before = time.perf_counter(), processor()
    value = run()
    seconds, busy = time.perf_counter() - start, processor() - before
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "processor": busy, "megabytes": memory, "value": value}))
