"""Print a pip constraint ``name==floor`` for every library that pyproject.toml gives a floor."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9.]+(?:post[0-9]+)?)(?:,.*)?$")


def floors(pyproject: Path) -> list[str]:
    """``["numpy==2.0", ...]`` from the core requirements and every extra, in their order; of two floors the higher."""
    project = tomllib.loads(pyproject.read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [_REQUIREMENT.match(requirement) for requirements in lists for requirement in requirements]
    highest: dict[str, str] = {}
    for name, floor in (match.groups() for match in found if match):
        highest[name] = max(highest.get(name, "0"), floor, key=_numbers)
    return [f"{name}=={floor}" for name, floor in highest.items()]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


if __name__ == "__main__":
    print("\n".join(floors(Path(__file__).parents[1] / "pyproject.toml")))
