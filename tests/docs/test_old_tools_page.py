"""The page "Coming from nco and cdo" is made of its tasks, and names no command or option that is not there.

That ours do what the old tools do is tested where those are (tests/interop/test_old_tools.py).
"""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter

import click
import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "docs" / "making"))

from old_tool_tasks import TASKS, Task

import old_tools
from hyperslab.cli import main


def test_the_page_is_made_of_the_tasks() -> None:
    written = old_tools.PAGE.read_text(encoding="utf-8")
    assert written == old_tools.render(), "stale: write it anew by python docs/making/old_tools.py"


def test_there_are_sixty_tasks_of_their_own() -> None:
    assert len(TASKS) >= 60
    assert [title for title, count in Counter(task.title for task in TASKS).items() if count > 1] == []
    assert [task.title for task in TASKS if not (task.nco or task.cdo)] == []


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_our_command_is_one(task: Task) -> None:
    first, name, *words = shlex.split(task.ours)
    command = main.get_command(click.Context(main), name)
    assert first == "hyperslab" and command is not None
    command.make_context(name, words)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_what_is_compared_can_differ(task: Task) -> None:
    compared = task.cells or task.labels or task.attributes or task.words or task.absent or task.status
    assert compared, "nothing of it is compared"
    assert not task.rounding or task.cells
    assert re.compile(task.words)
