"""xarray_mongodb 0.3.0: its own suite passes on ``hyperslab.mongo``, as it does on xarray_mongodb itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
from readers import CHILDREN

from servers.mongo import Mongo

pytestmark = [
    pytest.mark.interop,
    # Its suite needs motor, without which a third of it is skipped.
    pytest.mark.skipif(
        find_spec("xarray_mongodb") is None or find_spec("motor") is None,
        reason="make interop gives it an environment of its own",
    ),
]

TESTS = 70
THEIRS, OURS = "", "hyperslab.mongo"
NEWER_ARRAYS = {"DASK_ARRAY__QUERY_PLANNING": "True"}


def environment(server: Mongo, stands_in: str, **more: str) -> dict[str, str]:
    """Of a Python that speaks to this server, and takes the classes of this module for those of xarray_mongodb."""
    shim = {"PYTHONPATH": str(CHILDREN / "xarray_mongodb_suite"), "MONGO_PORT": str(server.port)}
    return os.environ | shim | {"STANDS_IN": stands_in} | more


def shown(server: Mongo, module: str) -> str:
    """The package whose class xarray_mongodb shows."""
    command = [sys.executable, "-c", "import xarray_mongodb as x; print(x.XarrayMongoDB.__module__)"]
    answer = subprocess.run(command, env=environment(server, module), capture_output=True, text=True, check=True)
    return answer.stdout.strip().split(".")[0]


def suite(server: Mongo, folder: Path, stands_in: str, **more: str) -> Counter[str]:
    """How many tests of its suite passed, were skipped, or failed with which words; which those were is printed."""
    assert shown(server, stands_in) == (stands_in or "xarray_mongodb").split(".")[0]
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "--tb=short", "--pyargs", "xarray_mongodb.tests"]
    command += ["-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider", f"--junitxml={report}"]
    command += ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
    ended = subprocess.run(
        command, cwd=folder, env=environment(server, stands_in, **more), capture_output=True, text=True, timeout=600
    )
    assert report.exists(), ended.stdout + ended.stderr
    found = Counter(_outcome(case) for case in ElementTree.parse(report).iter("testcase"))
    print(ended.stdout)
    return found


def _outcome(case: ElementTree.Element) -> str:
    said = {"failure": "message", "error": "message", "skipped": "type"}
    return next((part.attrib[said[part.tag]] for part in case if part.tag in said), "passed")


def test_the_suite_passes_on_xarray_mongodb_itself(mongo: Mongo, tmp_path: Path) -> None:
    assert suite(mongo, tmp_path, THEIRS) == {"passed": TESTS}


def test_the_suite_passes_on_ours(mongo: Mongo, tmp_path: Path) -> None:
    assert suite(mongo, tmp_path, OURS) == {"passed": TESTS}


def test_the_suite_on_dask_s_newer_arrays(mongo: Mongo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, ours = (suite(mongo, tmp_path, module, **NEWER_ARRAYS) for module in (THEIRS, OURS))
    with capsys.disabled():
        print(f"\narray.query-planning: of {TESTS} pass {ours['passed']}, on xarray_mongodb {theirs['passed']}")
    assert ours.total() == theirs.total() == TESTS
    assert ours["passed"] >= theirs["passed"]
    assert (
        ours["passed"] + ours["NotImplementedError"] >= TESTS - 1
    )  # the words of dask; its arange tells no true dtype
