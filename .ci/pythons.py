"""Run a part of the suite by each Python from 3.11 on that is here, each in an environment of its own (``.venvs/``).

The interpreters are those of ``PATH`` and, where pyenv is, all of its versions; of each 3.x the newest. ``python
.ci/pythons.py`` runs the smoke part, ``python .ci/pythons.py all`` the whole suite. Exits with 1 when one failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINORS = range(14, 10, -1)  # the newest first: it breaks most
# Arithmetic, codecs, formats and the command: what a new version of Python or NumPy breaks first.
SMOKE = [
    *(f"tests/{room}" for room in ("model", "selection", "group", "array", "chunks", "codecs")),
    *(f"tests/formats/{name}" for name in ("zarr2", "zarr3", "netcdf", "collections")),
    *("tests/stores/test_conformance.py", "tests/cli/test_commands.py", "tests/house/test_imports.py"),
]
NEEDS = ("pyproject.toml", "hatch_build.py", "src/hyperslab/chunks/_engine.c")
TELL = "import sys; print('.'.join(map(str, sys.version_info[:3])))"


def main() -> int:
    """Return 1 when the tests failed by one of the interpreters."""
    failed = []
    found = find_interpreters()
    for version, command in found.items():
        python = make_environment(version, command)
        places = [] if sys.argv[1:] == ["all"] else SMOKE
        options = ["-q", "-p", "no:cacheprovider", "--ignore", "tests/house/test_measures.py"]
        ended = subprocess.run([python, "-m", "pytest", *options, *places], cwd=ROOT, check=False)
        if ended.returncode:
            failed.append(version)
    for version in found:
        print(f"Python {version}: {'failed' if version in failed else 'passed'}")
    missing = [f"3.{minor}" for minor in sorted(MINORS) if not any(each.startswith(f"3.{minor}.") for each in found)]
    print(f"not here: {', '.join(missing) or 'none'}")
    return int(bool(failed))


def find_interpreters() -> dict[str, str]:
    """Return a command for the newest version of each 3.x, by its version."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[str, str] = {}
    for minor in MINORS:
        commands = [shutil.which(f"python3.{minor}"), *versions.glob(f"3.{minor}.*/bin/python")]
        told = {version: str(each) for each in commands if each for version in [tell_version(str(each))] if version}
        if told:
            newest = max(told, key=lambda version: [int(part) for part in version.split(".")])
            found[newest] = told[newest]
    return found


def tell_version(command: str) -> str | None:
    """Return the version of an interpreter; None of one that cannot start, or make environments."""
    ended = subprocess.run([command, "-c", f"import venv, ensurepip; {TELL}"], capture_output=True, check=False)
    return None if ended.returncode else ended.stdout.decode().strip()


def make_environment(version: str, command: str) -> Path:
    """Return the interpreter of the environment, made anew where what the project needs has changed."""
    folder = ROOT / ".venvs" / f"python{version.rpartition('.')[0]}"
    python, made = folder / "bin" / "python", folder / ".made"
    if made.exists() and made.stat().st_mtime >= max((ROOT / name).stat().st_mtime for name in NEEDS):
        return python
    if not python.exists():
        subprocess.run([command, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--prefer-binary"]
    subprocess.run([*pip, "--editable", f"{ROOT}[test,peers]"], check=True)
    made.touch()
    return python


if __name__ == "__main__":
    sys.exit(main())
