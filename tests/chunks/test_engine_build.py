"""An engine in C that was built from another source than the one beside it is not used, which one line says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from zlib import crc32

import pytest

import hyperslab
from hyperslab.chunks import engine


def test_a_module_is_held_to_its_source(tmp_path: Path) -> None:
    source, module = tmp_path / "_engine.c", ModuleType("_engine")
    source.write_text("int one;")
    assert engine.is_stale(module, source)  # of a version that did not know
    for known, stale in ((crc32(b"int one;"), False), (crc32(b"int two;"), True), (0, False)):
        vars(module)["source_sum"] = known
        assert engine.is_stale(module, source) == stale
        assert not engine.is_stale(module, tmp_path / "missing")


def describe_copy(folder: Path, source: str, module: bytes | None) -> subprocess.CompletedProcess[str]:
    """Run a copy of the package that has another source of the engine, or another built one; tells of the engine."""
    package = Path(hyperslab.__file__).parent
    (folder / "hyperslab/chunks").mkdir(parents=True)
    for path in (*package.iterdir(), *(package / "chunks").iterdir()):
        is_built = path.suffix == ".so" and module is not None
        if path.name not in ("chunks", "_engine.c", "__pycache__") and not is_built:
            (folder / "hyperslab" / path.relative_to(package)).symlink_to(path)
        elif is_built:
            (folder / "hyperslab" / path.relative_to(package)).write_bytes(module or b"")
    (folder / "hyperslab/chunks/_engine.c").write_text(source)
    program = (
        "from hyperslab.chunks import engine; "
        "print(engine.__file__, engine.load_engine() is None, engine.describe_engine(has_library=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )


SOURCE = Path(hyperslab.__file__).parent / "chunks/_engine.c"


@pytest.mark.parametrize("line", ["", "/* changed */"])
def test_it_is_used_with_its_own_source_alone(tmp_path: Path, line: str) -> None:
    module = engine.load_engine()
    if module is None or not module.source_sum:
        pytest.skip("the engine in C is not built here, or was by hand, or is turned off")
    found = describe_copy(tmp_path, SOURCE.read_text() + line, None)
    what = "not used: it was built from another _engine.c; " if line else "used for local files\n"
    assert found.stdout.startswith(f"{tmp_path}/hyperslab/chunks/engine.py {bool(line)} {what}")
    assert found.stderr.count("\n") == found.stderr.count("built from another _engine.c") == bool(line)


def test_one_that_does_not_load_is_told(tmp_path: Path) -> None:
    if engine.load_engine() is None:
        pytest.skip("the engine in C is not built here, or turned off")
    found = describe_copy(tmp_path, SOURCE.read_text(), b"no library")
    assert " True not used: " in found.stdout and "too short" in found.stdout and "--force-reinstall" in found.stdout
    assert found.stderr.count("\n") == found.stderr.count("too short") == 1
