"""The start of a command, which is most of what a small one costs: what else comes with imports is left out."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

# The interpreter ends by a collection of cycles. What is kept from it goes later, some objects of libraries in C after
# what they need: a process that had run commands and other things ended by SIGSEGV. This takes 20 ms of the 100 back.
atexit.register(gc.unfreeze)


def start_no_threads() -> None:
    """Have NumPy, which is not imported yet, start no threads of OpenBLAS, unless the user's environment says how many.

    No command multiplies large matrices, and a thread for each core takes 18 ms of the processor with two cores.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@contextmanager
def importing() -> Iterator[None]:
    """Have a block import modules without the collector of cycles, and keep what they made from it.

    It would look through all of that again and again, and free nothing: 0.1 s of the processor for xarray and dask.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
