"""xarray may be imported before hyperslab, after it, or by hyperslab alone: each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
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


@pytest.mark.parametrize("order", ORDERS)
def test_the_bridge_and_the_accessor_are_there(tmp_path: Path, order: str) -> None:
    path = tmp_path / "a.zarr"
    with hs.create(path) as root:
        root.create_array("a", data=np.arange(3), dims=("x",))
    program = (
        f"{ORDERS[order]}\nds = hs.open({str(path)!r}).to_xarray()\nds.hyperslab.save({str(tmp_path / 'b.zarr')!r})"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    assert hs.open(tmp_path / "b.zarr")["a"][...].tolist() == [0, 1, 2]


ALONE = {
    "import hyperslab.xarray": True,
    "import hyperslab.xarray as hx; import xarray": True,
    "import xarray, hyperslab": False,  # nothing of xarray's is changed unasked
}


@pytest.mark.parametrize("words", ALONE)
def test_the_accessor_comes_with_its_module(words: str) -> None:
    program = f"""
import sys
{words}
assert not [finder for finder in sys.meta_path if "hyperslab" in type(finder).__module__]
import xarray
print([hasattr(getattr(xarray, name), "hyperslab") for name in ("Dataset", "DataArray", "DataTree")])
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == str([ALONE[words]] * 3)


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
print(answers)
"""


@pytest.mark.parametrize(("package", "question"), [("pint", "is_quantity"), ("sparse", "is_sparse")])
def test_a_library_that_another_thread_is_importing_is_waited_for(package: str, question: str) -> None:
    program = HALF_IMPORTED.format(package=package, question=question)
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == "[False]"
