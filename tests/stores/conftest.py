"""Other processes for the tests of stores."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

Actor = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def actor() -> Iterator[Actor]:
    """Start ``actors.py NAME ARGUMENTS...``; what still runs at the end of the test is killed."""
    with ExitStack() as stack:

        def start(*arguments: object) -> subprocess.Popen[str]:
            command = [sys.executable, str(Path(__file__).with_name("actors.py")), *map(str, arguments)]
            process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start
