"""Print a pip constraint ``name==floor`` for every library that pyproject.toml gives a floor."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9.]+)(?:,.*)?$")


def floors(pyproject: Path) -> list[str]:
    """``["numpy==2.0", ...]`` from the core requirements and every extra, in the order of the file."""
    project = tomllib.loads(pyproject.read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [_REQUIREMENT.match(requirement) for requirements in lists for requirement in requirements]
    return list(dict.fromkeys(f"{match[1]}=={match[2]}" for match in found if match))


if __name__ == "__main__":
    print("\n".join(floors(Path(__file__).parents[1] / "pyproject.toml")))
