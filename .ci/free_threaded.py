"""Run tests by an interpreter without Python's lock, in an environment of its own, with ``PYTHON_GIL=0``.

The interpreter is ``PYTHON_T``, ``python3.14t`` or ``python3.13t``. Of the optional libraries those are installed that
have wheels for it; tests of others are left out. First it is seen that the lock is still off when the
package, its engine and each library of its codecs are imported.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venvs" / "free-threaded"
PYTHON = ENVIRONMENT / "bin" / "python"
TOOLS = ("pytest>=8.3", "pytest-asyncio>=0.25", "pytest-timeout>=2.3.1", "pytest-xdist>=3.8", "hypothesis>=6.140")
EXTRAS = ("fast", "xarray", "dtypes", "mongo")
# What reads and writes chunks and documents of Zarr; other rooms need libraries of which not all have such wheels.
ROOMS = ("model", "selection", "chunks", "codecs", "group", "formats/zarr2", "formats/zarr3", "formats/nczarr")
FILES = ("trust/test_caches.py", "trust/test_many_threads.py")
# What is left out of these: files and words in the names of tests that need a library without such a wheel (netCDF4,
# zfpy, google-crc32c and so zarr), or the servers and real data of other tests; and what counts pages of glibc's heap,
# which it does not use.
LEFT_OUT = (
    "chunks/test_whole_shards.py",
    "codecs/test_golden.py",
    "codecs/test_hostile.py",
    "codecs/test_registry.py",
    "codecs/test_round_trip.py",
    "formats/nczarr/test_growth.py",
    "formats/nczarr/test_netcdf_c.py",
    "formats/zarr2/test_missing_times.py",
    "formats/zarr2/test_separator.py",
    "formats/zarr3/test_filters_of_other_orders.py",
    "formats/zarr3/test_structures.py",
    "model/test_calendars.py",
    "selection/test_labels.py",
    "selection/test_sel.py",
)
WORDS_LEFT_OUT = (
    "pcodec or zfpy or filters_in_any_order or a.nc or netcdf_is or page_faults or operations_are_bounded"
    " or index_names_no_more_bytes or coordinates_are_those_of_xarray or as_they_were[netcdf]"
)
WITHOUT_BLOSC2 = " or test_it_is_used or all_boxes_read or steps_longer or needs_no_numcodecs"
STILL_OFF = """
import sys
import hyperslab, hyperslab.codecs.registry, hyperslab.chunks._engine, numcodecs, isal.isal_zlib, msgspec
from hyperslab.codecs import libblosc2
libblosc2.load_library()
assert not sys._is_gil_enabled(), "an import has switched the lock on"
print(f"free-threaded: Python {sys.version.split()[0]}, its lock is off")
"""


def main() -> int:
    """Return what pytest returns; 0 where there is no such interpreter, which one line says."""
    command = _find_interpreter()
    if command is None:
        print("free-threaded: there is no python3.14t or python3.13t here (or PYTHON_T=...); nothing was run")
        return 0
    _make_environment(command)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    subprocess.run([PYTHON, "-c", STILL_OFF], env=environment, check=True)
    places = [f"tests/{name}" for name in (*ROOMS, *FILES)]
    has_blosc2 = subprocess.run([PYTHON, "-c", "import blosc2"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    words = WORDS_LEFT_OUT + ("" if has_blosc2 else WITHOUT_BLOSC2)
    options = ["-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "-k", f"not ({words})"]
    options += [f"--ignore=tests/{name}" for name in LEFT_OUT]
    return subprocess.run(
        [PYTHON, "-m", "pytest", *options, *places], cwd=ROOT, env={**environment, "PYTHON_GIL": "0"}, check=False
    ).returncode


def _find_interpreter() -> str | None:
    for name in filter(None, (os.environ.get("PYTHON_T"), "python3.14t", "python3.13t")):
        command = shutil.which(name)
        proof = "import sysconfig, sys; sys.exit(not sysconfig.get_config_var('Py_GIL_DISABLED'))"
        if command is not None and subprocess.run([command, "-c", proof], check=False).returncode == 0:
            return command
    return None


def _make_environment(command: str) -> None:
    """Install the package with what it needs, and what of the rest has wheels; again where its needs have changed."""
    made = ENVIRONMENT / ".made"
    needs = [ROOT / name for name in ("pyproject.toml", "hatch_build.py", "src/hyperslab/chunks/_engine.c")]
    if made.exists() and made.stat().st_mtime >= max(each.stat().st_mtime for each in (*needs, Path(__file__))):
        return
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    subprocess.run([command, "-m", "venv", ENVIRONMENT], check=True)
    _install("--prefer-binary", "--editable", str(ROOT), check=True)
    _install("--prefer-binary", *TOOLS, check=True)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for requirement in (each for extra in EXTRAS for each in extras[extra]):
        if _install("--only-binary", ":all:", requirement, check=False):
            print(f"free-threaded: there is no wheel of {requirement} for it", file=sys.stderr)
    made.touch()


def _install(*what: str, check: bool) -> int:
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what]
    return subprocess.run(pip, check=check, stderr=None if check else subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
