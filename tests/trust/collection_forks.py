"""Children that are forked from one process which knows all modules, and begin together."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def fork(work: Callable[[], None]) -> int:
    """A child that does the work and ends; its status is 1 when that failed."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def all_at_once(prepare: Callable[[int], Callable[[], Any]], count: int) -> list[Any]:
    """What so many children say, as JSON values; ``prepare`` makes in each what they then begin together."""
    ready, gate = os.pipe(), os.pipe()
    said = [os.pipe() for _ in range(count)]

    def child(number: int) -> None:
        os.close(gate[1])
        try:
            work = prepare(number)
        finally:
            os.write(ready[1], b".")
        os.read(gate[0], 1)
        with os.fdopen(said[number][1], "w") as out:
            json.dump(work(), out)

    pids = [fork(lambda number=number: child(number)) for number in range(count)]  # type: ignore[misc]
    for _, end in [ready, *said]:
        os.close(end)
    for _ in pids:
        os.read(ready[0], 1)
    os.close(gate[1])
    told = []
    for reading, _ in said:
        with os.fdopen(reading) as lines:
            told.append(lines.read())
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    if any(statuses):
        sys.exit(f"children failed: {statuses}")
    return [json.loads(text) for text in told]
