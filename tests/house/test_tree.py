"""What the repository must not hold, and what its configuration must name."""

from __future__ import annotations

import re
import subprocess
import tomllib

from tree import ROOT, SOURCE

PLACES = ["/" + name + "/" for name in ("work", "root", "home", "tmp", "Users", "opt")]
UP = "../" + "shared"
MACHINE = re.compile(r"(?<![\w.:$}*/~-])(?:" + "|".join(PLACES) + ")" + "|" + re.escape(UP))
TEXT = {".py", ".md", ".toml", ".json", ".yml", ".yaml", ".txt", ".cfg", ".sh", ".html", ".js", ".css", ""}


def test_no_machine_s_path_in_the_tree() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    found = []
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.suffix not in TEXT or not path.is_file():
            continue
        lines = path.read_bytes().decode("utf-8", errors="replace").splitlines()
        found += [f"{name}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if MACHINE.search(line)]
    assert found == []


def test_every_folder_of_a_format_stands_in_the_independence_contract() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [each for each in tool["contracts"] if each["type"] == "independence"]
    folders = [
        path.parent for path in (SOURCE / "hyperslab" / "formats").glob("*/__init__.py") if "FORMAT" in path.read_text()
    ]
    assert set(contract["modules"]) == {f"hyperslab.formats.{folder.name}" for folder in folders}


def test_all_takes_every_extra_that_a_user_may_want() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("hyperslab[").removesuffix("]").split(","))
    assert named == extras.keys() - {"all", "tour", "interop", "test", "peers", "check", "bench", "docs"}
