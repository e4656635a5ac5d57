"""Real xarray_mongodb, in a process of its own: what it writes, and what it makes of what stands in a collection."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from readers import CHILDREN

Load = bool | list[str] | None


@dataclass(frozen=True)
class Found:
    """An object that it read: what ``mongo_objects.describe`` says of it, and its cells; or its error."""

    said: dict[str, Any]
    cells: dict[str, np.ndarray[Any, Any]]

    @property
    def error(self) -> str | None:
        """Its words."""
        found: str | None = self.said.get("error")
        return found


@dataclass(frozen=True)
class TheirCollection:
    """A collection that it opens."""

    url: str
    database: str
    prefix: str = "xarray"

    def write(self, *names: str, **options: Any) -> dict[str, str]:
        """Put the objects of ``mongo_objects`` that have these names, or all; their ids by name."""
        return self._ask("write", json.dumps(options), *names)

    def read(self, keys: Iterable[Any], folder: Path, load: Load = None) -> dict[str, Found]:
        """The objects of these ids."""
        said = self._ask("read", str(folder), json.dumps(load), *map(str, keys))
        return {key: Found(each, _cells(each, folder / f"{key}.npz")) for key, each in said.items()}

    def _ask(self, work: str, *arguments: str) -> dict[str, Any]:
        script = [str(CHILDREN / "start.py"), "speak_xarray_mongodb.py"]
        command = [sys.executable, "-I", *script, work, self.url, self.database, self.prefix, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        found: dict[str, Any] = json.loads(ended.stdout)
        return found


def _cells(said: dict[str, Any], path: Path) -> dict[str, np.ndarray[Any, Any]]:
    if "error" in said:
        return {}
    with np.load(path) as held:
        return {name: held[f"a{number}"] for number, name in enumerate(said["variables"])}
