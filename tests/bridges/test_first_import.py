"""xarray may be imported before hyperslab, after it, or by hyperslab alone: each in a process of its own.

The processes are forked from one that has imported what takes long, and neither of the two.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs

ORDERS = {
    "by hyperslab": "import hyperslab as hs",
    "before": "import xarray; import hyperslab as hs",
    "after": "import hyperslab as hs; import xarray",
    "the engine": "import hyperslab.bridges.xarray.engine; import hyperslab as hs",
}


FORKING = """
import os, sys, traceback
import numcodecs, numpy, pandas
assert not {"dask", "hyperslab", "xarray"} & set(sys.modules)
for line in sys.stdin:
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    try:
        exec(eval(line), {})
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
"""


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[str], None]]:
    """Run a program in a process of its own, which does not fail."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING], **pipes) as parent:

        def run_one(program: str) -> None:
            print(repr(program), file=parent.stdin, flush=True)
            assert parent.stdout.readline() == "0\n", program

        yield run_one


@pytest.mark.parametrize("order", ORDERS)
def test_the_bridge_and_the_accessor_are_there(tmp_path: Path, order: str, run: Callable[[str], None]) -> None:
    path = tmp_path / "a.zarr"
    with hs.create(path) as root:
        root.create_array("a", data=np.arange(3), dims=("x",))
    run(f"{ORDERS[order]}\nds = hs.open({str(path)!r}).to_xarray()\nds.hyperslab.save({str(tmp_path / 'b.zarr')!r})")
    assert hs.open(tmp_path / "b.zarr")["a"][...].tolist() == [0, 1, 2]


ALONE = {
    "import hyperslab.xarray": True,
    "import xarray, hyperslab": False,  # nothing of xarray's is changed unasked
}


@pytest.mark.parametrize("words", ALONE)
def test_the_accessor_comes_with_its_module(words: str, run: Callable[[str], None]) -> None:
    run(f"""
import sys
{words}
assert not [finder for finder in sys.meta_path if "hyperslab" in type(finder).__module__]
import xarray
found = [hasattr(getattr(xarray, name), "hyperslab") for name in ("Dataset", "DataArray", "DataTree")]
assert found == {[ALONE[words]] * 3}, found
""")


HALF_IMPORTED = """
import sys, threading
import numpy as np
from hyperslab.bridges import {package} as bridge

begun, may_end = threading.Event(), threading.Event()

def halt(event, arguments):
    if event == "import" and arguments[0].startswith("{package}.") and threading.current_thread() is importer:
        begun.set()
        may_end.wait(60)

def ask():
    try:
        answers.append(bridge.{question}(np.zeros(1)))
    except BaseException as error:
        answers.append(repr(error))

answers = []
sys.addaudithook(halt)
importer = threading.Thread(target=__import__, args=("{package}",))
importer.start()
begun.wait(60)
assert "{package}" in sys.modules
asker = threading.Thread(target=ask)
asker.start()
asker.join(0.5)
may_end.set()
asker.join()
importer.join()
assert answers == [False], answers
"""


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("package", "question"), [("pint", "is_quantity"), ("sparse", "is_sparse")])
def test_a_library_that_another_thread_is_importing_is_waited_for(
    package: str, question: str, run: Callable[[str], None]
) -> None:
    run(HALF_IMPORTED.format(package=package, question=question))
