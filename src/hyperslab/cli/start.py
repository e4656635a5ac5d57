"""The start of a command, which is most of what a small one costs: what else comes with imports is left out."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


def start_no_threads() -> None:
    """Have NumPy, which is not imported yet, start no threads of OpenBLAS, unless the user's environment says how many.

    No command multiplies large matrices, and a thread for each core takes 18 ms of the processor with two cores.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@contextmanager
def importing() -> Iterator[None]:
    """Have a block import modules without the collector of cycles.

    It would look through all that they make again and again, and free nothing: 0.1 s of the processor for xarray and
    dask. It is not disabled, but never due: dask notes while it is imported whether it is enabled, and leaves it so for
    ever. Nor is anything frozen: with ``gc.freeze`` a process ended by SIGSEGV when the interpreter let go of it last.
    """
    usual = gc.get_threshold()
    gc.set_threshold(0)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
