"""Which schedulers are taken, and what is said of those that are not there."""

from __future__ import annotations

from typing import Any

import distributed
import pytest

from hyperslab.bridges.cluster import client_of, each_task
from hyperslab.errors import Invalid, StorageError


@pytest.mark.parametrize("scheduler", [5, object(), distributed.Client])
def test_what_is_no_scheduler(scheduler: Any) -> None:
    with pytest.raises(Invalid, match="address"), client_of(scheduler):
        raise AssertionError("the block must not run")


def test_no_scheduler_there() -> None:
    with pytest.raises(StorageError, match="no scheduler"), client_of("tcp://127.0.0.1:1", patience=1):
        raise AssertionError("the block must not run")


def test_no_workers_and_some_later() -> None:
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        with pytest.raises(StorageError, match="no workers"), client_of(client, patience=1):
            raise AssertionError("the block must not run")
        cluster.scale(1)
        seen: list[str] = []
        with client_of(client) as same:
            assert same is client
            each_task(client, divmod, (((number, 7), f"{number}") for number in range(20)), seen.append)
            assert sorted(seen, key=int) == [str(number) for number in range(20)]
            seen.clear()
            with pytest.raises(ZeroDivisionError):
                each_task(client, divmod, (((1, 3 - number), f"{number}") for number in range(1000)), seen.append)
        assert len(seen) < 20
