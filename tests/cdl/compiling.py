"""The CDL sources beside this file, compiled by ncgen, and what ncdump prints: both of the real netCDF (netcdf-bin)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
NAMES = [path.stem for path in sorted(FOLDER.glob("*.cdl"))]


def every_sixth(cases: Sequence[Any], first: int) -> list[Any]:
    """Return the cases with all but every sixth, from ``first`` on, left to the soak.

    The suite meets each source in one test (of what ``hyperslab dump`` prints), and a sixth of them in the others.
    """
    return [
        case
        if number % 6 == first
        else pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.soak)
        for number, case in enumerate(cases)
    ]


NEEDS_NCGEN = pytest.mark.skipif(
    shutil.which("ncgen") is None or shutil.which("ncdump") is None,
    reason="ncgen and ncdump are missing: apt-get install netcdf-bin",
)


def compiled(source: Path, target: Path, kind: str = "4") -> Path:
    """The file that ncgen makes of a CDL file; ``kind``: 4 for netCDF-4, 3 for classic, 5 for CDF-5."""
    done = subprocess.run(["ncgen", f"-{kind}", "-b", "-o", str(target), str(source)], capture_output=True, text=True)
    assert not done.returncode, f"{source.name}: {done.stdout}{done.stderr}"
    return target


def case(name: str, folder: Path) -> Path:
    """One of the cases, compiled."""
    return compiled(FOLDER / f"{name}.cdl", folder / f"{name}.nc")


def ncdump(path: Path) -> list[str]:
    """All lines that ncdump prints but the first, which names the file; numbers with every digit that they have."""
    done = subprocess.run(["ncdump", "-p", "9,17", str(path)], capture_output=True)
    assert not done.returncode, done.stderr.decode()
    return done.stdout.decode("utf-8", "backslashreplace").splitlines()[1:]
