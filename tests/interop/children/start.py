"""Runs a script of this folder in an isolated Python, which has no folder of its own on its path."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).parent
    sys.path.insert(0, str(here))
    script = sys.argv.pop(1)
    runpy.run_path(str(here / script), run_name="__main__")
