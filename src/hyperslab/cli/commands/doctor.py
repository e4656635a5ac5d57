"""``hyperslab doctor`` and ``formats``: versions, what is available here, the indexes of a server; formats."""

from __future__ import annotations

import locale
import os
import platform
import sys
import tempfile
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import click

from hyperslab.chunks.engine import describe_engine
from hyperslab.chunks.memory import available
from hyperslab.cli.options import complete_place, storage_option
from hyperslab.cli.output import format_columns, json_option, print_json, print_remark
from hyperslab.codecs import crc32c, libblosc2
from hyperslab.formats import get_format, names
from hyperslab.formats.base import Feature
from hyperslab.formats.collections.index_file import cache_folder
from hyperslab.model.amounts import size_text
from hyperslab.stores import locks
from hyperslab.stores.files import is_local

# distribution, module, the extra that installs it ("": always there)
LIBRARIES = (
    ("numpy", "numpy", ""),
    ("msgspec", "msgspec", ""),
    ("numcodecs", "numcodecs", ""),
    ("isal", "isal", ""),
    ("click", "click", ""),
    ("rich", "rich", ""),
    ("netCDF4", "netCDF4", "netcdf"),
    ("h5py", "h5py", "netcdf"),
    ("hdf5plugin", "hdf5plugin", "hdf5"),
    ("blosc2", "blosc2", "b2nd"),
    ("ml_dtypes", "ml_dtypes", "dtypes"),
    ("pcodec", "pcodec", "codecs"),
    ("zfpy", "zfpy", "codecs"),
    ("iris-sample-data", "iris_sample_data", "tour"),
    ("xarray", "xarray", "xarray"),
    ("dask", "dask", "dask"),
    ("pymongo", "pymongo", "mongo"),
    ("sparse", "sparse", "sparse"),
    ("pint", "pint", "pint"),
    ("hdmf", "hdmf", "hdmf"),
    ("obstore", "obstore", "cloud"),
    ("icechunk", "icechunk", "icechunk"),
    ("matplotlib", "matplotlib", "plot"),
    ("starlette", "starlette", "web"),
    ("uvicorn", "uvicorn", "web"),
)
SLOW_SUMS = "; faster with pip install google-crc32c"
_NEEDED = {
    "netcdf": ("netCDF4", "netcdf"),
    "b2nd": ("blosc2", "b2nd"),
    "mongo": ("pymongo", "mongo"),
    "deker": ("h5py", "hdf5"),
}
"""The library that a format needs, and the extra that brings it."""


@click.command("doctor", epilog="Example: hyperslab doctor mongodb://localhost/climate")
@click.argument("url", required=False, shell_complete=complete_place)
@storage_option()
@json_option
def doctor_command(url: str | None, storage_option: dict[str, object] | None, as_json: bool) -> None:
    """Versions of everything, and what is available on this machine: what a report of a bug should have in it.

    Of the database at URL its indexes.

    An index that is missing or out of date is told with what look-ups cost then; hyperslab db index makes it.
    """
    if url is not None:
        _describe_indexes(url, storage_option, as_json)
        return
    libraries = [_library(*entry) for entry in LIBRARIES]
    formats = {name: _state_of_format(name) for name in names()}
    library = libblosc2.load_library()
    decoder = (
        "numcodecs; faster with pip install 'hyperslab[fast]'" if library is None else f"libblosc2 {library.version}"
    )
    system = {
        "hyperslab": version("hyperslab"),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "byte order": sys.byteorder,
        "blosc, lz4, zstd": f"decoded by {decoder}",
        "crc32c": f"summed by {crc32c.IMPLEMENTATION}" + SLOW_SUMS * (crc32c.IMPLEMENTATION == "NumPy"),
        "engine in C": describe_engine(has_library=library is not None),
        "file locks": locks.DESCRIPTION,
        "memory": f"{size_text(available())} can be allocated",
        "text": f"{locale.getlocale()[0] or 'C'}, {sys.stdout.encoding}; names of files {sys.getfilesystemencoding()}",
        "working folder": "on a disk of this machine" if is_local(os.getcwd()) else "perhaps on a network",
        "temporary files": tempfile.gettempdir(),
        "cached indexes": os.path.dirname(cache_folder("")),
        # No other variable is shown: there may be secrets among them.
        "HYPERSLAB_NATIVE": os.environ.get("HYPERSLAB_NATIVE", "(unset)"),
    }
    if as_json:
        print_json("doctor", system=system, libraries=libraries, formats=formats)
        return
    click.echo(format_columns([(name, str(value)) for name, value in system.items()]))
    click.echo("\nlibraries:")
    click.echo(format_columns([(entry["name"], entry["version"] or "-", entry["state"]) for entry in libraries], "  "))
    click.echo("\nformats:")
    click.echo(format_columns(list(formats.items()), "  "))


def _describe_indexes(url: str, storage: dict[str, object] | None, as_json: bool) -> None:
    """Print which indexes of a database are there, and what those cost that are missing or out of date."""
    # Imported on use, so that doctor starts without it.
    from hyperslab.cli.database_objects import is_server, open_objects
    from hyperslab.cli.database_rows import index_rows, print_index_states
    from hyperslab.cli.open_collections import open_client

    if not is_server(url):
        with open_client(url, storage) as client:
            print_index_states("doctor", url, [each.index_state() for each in client], as_json=as_json)
        return
    objects = open_objects(url, storage)
    with objects.errors():
        states = objects.indexes()
    if as_json:
        print_json("doctor", url=objects.url, indexes=[asdict(state) for state in states])
        return
    click.echo(format_columns(index_rows(states)))
    if any(not state.is_present and not state.is_optional for state in states):
        print_remark(f"hyperslab db index {objects.url} makes those that are missing")


def _library(name: str, module: str, extra: str) -> dict[str, Any]:
    try:
        found = version(name)
    except PackageNotFoundError:
        remedy = f"pip install 'hyperslab[{extra}]'" if extra else "missing: install hyperslab again"
        return {"name": name, "version": None, "state": remedy}
    state = "ok"
    try:
        import_module(module)
    except Exception as error:  # a broken library may fail in any way, and saying so is what this command is for
        state = f"broken: {type(error).__name__}: {error}"
    return {"name": name, "version": found, "state": state}


def _state_of_format(name: str) -> str:
    try:
        info = get_format(name).info
    except Exception as error:  # likewise: the reason is the answer
        return f"broken: {type(error).__name__}: {error}"
    module, extra = _NEEDED.get(name, (None, None))
    if module is not None and find_spec(module) is None:
        return f"not available: pip install 'hyperslab[{extra}]'"
    return "read, write" if info.writable else "read"


# -- hyperslab formats: what is spoken ---------------------------------------------------------------------------------


@click.command("formats", epilog="Example: hyperslab formats --json")
@json_option
def formats_command(as_json: bool) -> None:
    """Each format: what it holds, how it is recognised, whether it can be written."""
    # Imported on use, so that doctor starts without it.
    from hyperslab import api

    infos = api.list_formats()
    if as_json:
        facts = [
            {
                "name": name,
                "holds": info.holds,
                "recognised_by": info.recognised_by,
                "writable": info.writable,
                "features": sorted(feature.value for feature in info.variants[0].features),
                "variants": [
                    {
                        "name": variant.name,
                        "options": dict(variant.options),
                        "features": {feature.value: feature in variant.features for feature in Feature},
                        "notes": {feature.value: note for feature, note in variant.notes.items()},
                    }
                    for variant in info.variants
                ],
            }
            for name, info in infos.items()
        ]
        print_json("formats", formats=facts)
        return
    rows = [("format", "variants", "access", "holds", "recognised by")]
    for name, info in infos.items():
        variants = ", ".join(f"{key}={value}" for each in info.variants for key, value in each.options.items())
        access = "read, write" if info.writable else "read"
        rows.append((name, variants, access, info.holds, info.recognised_by))
    click.echo(format_columns(rows))
