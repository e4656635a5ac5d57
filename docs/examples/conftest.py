"""The examples are packages of their own: their modules are importable here as if they were installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(project.parent) for project in Path(__file__).parent.glob("*/pyproject.toml")]
