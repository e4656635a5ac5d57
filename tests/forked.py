"""Other processes for dask, forked from one that has made the imports: they know nothing else of the tests' process.

A spawned one takes two seconds of the processor until it can begin. As users have them they are started in
``bridges/test_xarray_places.py`` and by the page docs/how-to/dask.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import dask
import distributed

from programs import forking


@contextmanager
def pool(count: int = 2) -> Iterator[ProcessPoolExecutor]:
    """As many processes for the block, with the environment variables of now: ``scheduler="processes", pool=...``."""
    with ProcessPoolExecutor(count, forking(), _tell, (dict(os.environ),)) as processes:
        yield processes


def _tell(environment: dict[str, str]) -> None:
    os.environ.update(environment)


@contextmanager
def workers() -> Iterator[None]:
    """Whoever starts a cluster in the block has its processes forked."""
    forking()
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


@contextmanager
def cluster(count: int = 2, threads: int = 2, **options: Any) -> Iterator[distributed.Client]:
    """The client of a cluster of as many processes, with the environment variables of now; all are gone afterwards."""
    with (
        workers(),
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=threads,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            env=dict(os.environ),
            **options,
        ) as started,
        distributed.Client(started) as client,
    ):
        yield client
