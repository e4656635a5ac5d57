"""Files of others that the page brings: each is in the manifest, and is the one that the manifest tells of."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "src" / "hyperslab" / "web" / "page" / "vendor"
FACTS = {"file", "name", "version", "licence", "licence_file", "source", "source_sha256", "path_in_source", "sha256"}


def test_the_manifest_tells_of_every_file() -> None:
    listed = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))["files"]
    assert all(set(each) - {"made"} == FACTS for each in listed)
    licences = {each["licence_file"] for each in listed}
    files = {each["file"]: each["sha256"] for each in listed}
    assert {path.name for path in VENDOR.iterdir()} == {"manifest.json", *files, *licences}
    assert {name: sha256((VENDOR / name).read_bytes()).hexdigest() for name in files} == files


def test_coastlines_are_degrees() -> None:
    told = json.loads((VENDOR / "coastlines.json").read_text(encoding="utf-8"))
    for steps in told["lines"]:
        x = y = 0
        for step_x, step_y in zip(steps[::2], steps[1::2], strict=True):
            x, y = x + step_x, y + step_y
            assert abs(x * told["unit"]) <= 180.001 and abs(y * told["unit"]) <= 90.001
