"""Hypothesis profiles: ``ci`` (the default) gives the same examples on every run, ``soak`` looks for new ones. Servers,
one of a kind for each process, started by the first test that asks for one.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none

sys.path.insert(0, str(Path(__file__).parent))
from covering import find_left_out, find_not_sampled, find_out_of_turn

if TYPE_CHECKING:
    from servers.mongo import Mongo
    from servers.s3 import S3

if os.environ.get("HYPOTHESIS_PROFILE") != "soak":  # arrays of a few cells take less than to compile what sparse does
    os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
# A shell has what it starts in the background ignore Ctrl-C, and so would the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# No garbage is collected until all tests are: they are none, and to look at so many again and again takes seconds. But
# the collector stays enabled, since dask notes that while it is imported, and leaves it so for ever.
_USUAL = gc.get_threshold()
gc.set_threshold(0)
with suppress(ImportError):  # before any test brings netCDF4, whose HDF5 library its filters would take for h5py's
    import_module("hdf5plugin")
with suppress(ImportError):
    import_module("hyperslab.xarray")  # the accessor, which many tests save with

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

# Few, the same on every run: new examples, and thousands, are the soak's.
settings.register_profile(
    "ci", deadline=None, max_examples=20, derandomize=True, database=None, suppress_health_check=_SLOW
)
_EXAMPLES = int(os.environ.get("EXAMPLES") or 5_000)
settings.register_profile("soak", deadline=None, max_examples=_EXAMPLES, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


_LONGEST = (
    "trust/test_hostile.py",
    "docs/test_pages.py",
    "conversion/test_resume.py",
    "conversion/test_bad_input.py",
    "bridges/hdmf/test_round_trip.py",
    "formats/bloscpack/test_transactions.py",
    "conversion/test_nczarr.py",
    "bridges/test_dask.py",
    "conversion/test_distributed.py",
    "cli/test_tour.py",
    "formats/hdmf/test_repair.py",
    "formats/test_large_copies.py",
    "trust/test_creation_races.py",
    "trust/test_mutations.py",
    "trust/test_leftovers.py",
    "bridges/test_xarray_places.py",
    "bridges/test_faces_of_formats.py",
    "bridges/test_xarray.py",
    "conversion/test_hdmf.py",
    "formats/deker/test_deker_faults.py",
    "conversion/test_collections.py",
    "stores/test_object_faults.py",
    "bridges/test_dask_cluster.py",
    "conversion/test_memory.py",
    "cli/test_every_format.py",
    "servers/test_mongo.py",
)


def runs_a_sample(config: pytest.Config) -> bool:
    """Return True if cases are left out of long lists: but in the soak, and where a test is named by ``::``."""
    return os.environ.get("HYPOTHESIS_PROFILE") != "soak" and not any("::" in argument for argument in config.args)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say where a failing case may be one of those that do not run."""
    return "of long lists a sample runs: name a test with :: for all its cases" if runs_a_sample(config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first: of the processes that share the files, none is left alone with one at the end.

    What covering and sampled tests repeat is left out of a sample.
    """
    tests = Path(__file__).parent
    ranks = {tests / name: rank for rank, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
    if runs_a_sample(config):
        left_out = find_left_out(items) | find_out_of_turn(items, tests)
        if "not interop" in config.option.markexpr:
            here = [item for item in items if item not in left_out and not item.get_closest_marker("soak")]
            left_out |= find_not_sampled(here, rest=os.environ.get("HYPERSLAB_TESTS") == "rest")
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@settings(max_examples=1)
@given(none())
def begin_examples(_: None) -> None:
    """Have Hypothesis make its random numbers while nothing is frozen: from Python 3.14 on it would find nobody that
    holds them among what the collector still sees, and warn that they are about to be lost."""


def pytest_collection_finish() -> None:
    """Begin to collect garbage, but never among the tests themselves."""
    begin_examples()
    gc.freeze()
    gc.set_threshold(*_USUAL)


@pytest.fixture(scope="module", autouse=True)
def old_objects_left_alone() -> Iterator[None]:
    """Whoever collects garbage in a later file does not look at what is left of this one: it is more with each file."""
    yield
    with warnings.catch_warnings(action="ignore"):
        gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def as_talkative_as_ever() -> None:
    """The command line sets how much is logged, for the whole process; so does a client of a database."""
    for name in ("hyperslab", "hyperslab.database"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def mongo() -> Iterator[Mongo]:
    """A real MongoDB server, standing alone."""
    from servers.mongo import running_mongod

    with running_mongod() as server:
        yield server


@pytest.fixture(scope="session")
def mongo_replica() -> Iterator[Mongo]:
    """A real MongoDB server, the one member of its replica set."""
    from servers.mongo import running_mongod

    with running_mongod(replica_set=True) as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A real S3 server over HTTP; each test makes buckets of its own in it."""
    from servers.s3 import running_s3

    with running_s3() as server:
        yield server
