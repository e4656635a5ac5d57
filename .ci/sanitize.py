"""Run the tests of the engine in C, its mutants with them, under AddressSanitizer and UndefinedBehaviorSanitizer.

The package is copied, and the engine built into the copy; the libraries of the sanitizers are loaded before Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLAGS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


def main() -> int:
    """Return what pytest returns; 0 where there is no compiler with sanitizers, which one line says."""
    compiler = shutil.which("gcc")
    libraries = [_library(compiler, name) for name in ("libasan.so", "libubsan.so")] if compiler else [None]
    if compiler is None or None in libraries:
        print("sanitize: there is no gcc with its sanitizers here; nothing was run")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        package = shutil.copytree(ROOT / "src/hyperslab", Path(folder, "hyperslab"))
        source = package / "chunks/_engine.c"
        target = source.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        include = f"-I{sysconfig.get_paths()['include']}"
        subprocess.run([compiler, *FLAGS, "-shared", "-fPIC", include, str(source), "-o", str(target)], check=True)
        environment = {
            **os.environ,
            "LD_PRELOAD": " ".join(filter(None, libraries)),
            "ASAN_OPTIONS": "detect_leaks=0",  # of the interpreter, which frees not all at its end
            "PYTHONPATH": folder,
        }
        environment.pop("HYPERSLAB_NATIVE", None)
        proof = f"from hyperslab.chunks import _engine; assert _engine.__file__.startswith({folder!r})"
        subprocess.run([sys.executable, "-c", proof], cwd=folder, env=environment, check=True)
        tests = ["-q", "-m", "soak or not soak", "-p", "no:cacheprovider", "tests/chunks/test_engine.py"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *tests], cwd=ROOT, env=environment, check=False
        ).returncode


def _library(compiler: str, name: str) -> str | None:
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    path = found.stdout.strip()
    return path if os.path.isabs(path) else None


if __name__ == "__main__":
    sys.exit(main())
