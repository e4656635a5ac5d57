"""What ``import hyperslab`` loads: NumPy and our own rooms; everything heavy is imported on use."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from types import ModuleType

from tree import modules

import hyperslab

ON_USE = {
    "blosc2",
    "bson",
    "cftime",
    "click",
    "dask",
    "h5py",
    "hdf5plugin",
    "hdmf",
    "matplotlib",
    "ml_dtypes",
    "motor",
    "netCDF4",
    "numba",
    "obstore",
    "pandas",
    "pcodec",
    "pint",
    "pymongo",
    "rich",
    "sparse",
    "starlette",
    "uvicorn",
    "xarray",
    "zarr",
}
MOST_MODULES = 120


def loaded_by(statement: str) -> set[str]:
    """Names of all modules that a fresh interpreter holds after the statement."""
    program = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(answer.stdout))


def test_import_is_light() -> None:
    assert len(loaded_by("import hyperslab")) <= MOST_MODULES


def test_the_whole_face_is_light() -> None:
    loaded = loaded_by("import hyperslab\nfor name in hyperslab.__all__:\n    getattr(hyperslab, name)")
    assert {name.split(".")[0] for name in loaded} & ON_USE == set()


def test_making_a_dataset_is_light() -> None:
    statement = (
        "import hyperslab\nhyperslab.create('memory://light', 'zarr3').create_array('a', shape=(2,), dtype='i4')"
    )
    assert {name.split(".")[0] for name in loaded_by(statement)} & ON_USE == set()


def test_version_on_the_command_line_is_light() -> None:
    statement = "from hyperslab.cli import main\ntry:\n    main(['--version'])\nexcept SystemExit:\n    pass"
    program = f"import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n{_indented(statement)}"
    assert {name.split(".")[0] for name in loaded_by(program)} & (ON_USE - {"click"}) == set()


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def test_no_room_bears_the_name_of_a_public_function() -> None:
    face = {name: getattr(hyperslab, name) for name in hyperslab.__all__}
    public = {name: value for name, value in face.items() if not isinstance(value, ModuleType)}
    assert {name for name in public if f"hyperslab.{name}" in {module.name for module in modules()}} == set()
    for module in modules():
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert {name for name, value in public.items() if getattr(hyperslab, name) is not value} == set()
