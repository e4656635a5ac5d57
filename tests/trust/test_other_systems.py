"""Windows and macOS, as far as they can be shown to hyperslab on Linux (``tests/other_system.py``): every format, every
command and kind of place, and the suite of stores; ``make test-portable`` runs more tests so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROGRAM = TESTS / "trust" / "on_other_systems.py"


@pytest.mark.parametrize("system", ["windows", "macos"])
def test_everything_works_without_what_linux_has(system: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, PROGRAM, system, tmp_path], capture_output=True, text=True, timeout=300, check=False
    )
    assert not ended.returncode, ended.stderr
    results = json.loads(ended.stdout)
    assert len(results) > 50
    assert {name: result for name, result in results.items() if result is not True} == {}


def test_stores_keep_their_promises(tmp_path: Path) -> None:
    """On Windows, in a process of its own, since hyperslab sees one system only."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        "HYPERSLAB_TESTS_SYSTEM": "windows",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])),
    }
    files = [TESTS / "stores" / name for name in ("test_conformance.py", "test_file_lock.py")]
    options = ["-q", "-p", "other_system", "-p", "no:cacheprovider", "--basetemp", tmp_path / "stores"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-k", "not MemoryStore", *files],
        env=environment,
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not ended.returncode, ended.stdout
