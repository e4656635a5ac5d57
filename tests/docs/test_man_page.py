"""The manual page is what the commands say of themselves, and man reads it."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "docs" / "making"))

import man_page

from hyperslab.cli import COMMANDS


def test_the_page_has_all_commands() -> None:
    """Of their options as of the last release: `make packages` writes the page anew."""
    made, written = man_page.render_page(), man_page.PAGE.read_text(encoding="utf-8")
    assert {name for name in COMMANDS if f".SS hyperslab {name} " not in made} == set()
    assert written.startswith(".TH HYPERSLAB 1 ") and len(written) > len(made) // 2


@pytest.mark.skipif(shutil.which("man") is None, reason="there is no man")
def test_man_reads_it() -> None:
    command = ["man", "--warnings", "-l", str(man_page.PAGE)]
    read = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert not read.returncode and not read.stderr
    assert "hyperslab" in read.stdout
