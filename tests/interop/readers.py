"""The peers: which read which format, started once each as a child process of its own environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHILDREN = Path(__file__).parent / "children"
ENVIRONMENTS = "HYPERSLAB_PEERS"
"""The environment variable in which ``.ci/peers.py`` names the Python of each peer's own environment, as JSON."""


@dataclass(frozen=True)
class Peer:
    """A reader: its column, the script of its child, the formats that it reads, the environment it lives in."""

    name: str
    script: str
    formats: tuple[str, ...] = ("zarr2", "zarr3")
    environment: str = ""

    @property
    def python(self) -> str | None:
        """Its Python; None when ``make interop`` could not give it one."""
        if not self.environment:
            return sys.executable
        found: str | None = json.loads(os.environ.get(ENVIRONMENTS, "{}")).get(self.environment)
        return found


PEERS = (
    Peer("zarr-python 3.1", "read_zarr.py"),
    Peer("zarr-python newest", "read_zarr.py", environment="zarr-newest"),
    Peer("zarr-python 2.18", "read_zarr.py", ("zarr2",), "zarr-2"),
    Peer("tensorstore", "read_tensorstore.py"),
    Peer("xarray", "read_xarray.py"),
)


def run(python: str, script: str, tasks: list[dict[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    """What the child said of every task, by name."""
    manifest, report = folder / f"{script}.manifest.json", folder / f"{script}.report.json"
    manifest.write_text(json.dumps(tasks))
    command = [python, "-I", str(CHILDREN / "start.py"), script, str(manifest), str(report)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, dict[str, Any]] = json.loads(report.read_text())
    return found
