"""Hold the public face stable (GOVERNANCE.md): it is what a file says, what goes is named, deprecations end."""

import re
import warnings
from pathlib import Path

import pytest
from public_face import FACES, list_lines

import hyperslab as hs
from hyperslab.deprecation import DEPRECATIONS, deprecated

CHANGES = Path(__file__).parents[2] / "changes"


def as_numbers(version):
    return tuple(map(int, re.findall(r"\d+", version)))


def released_faces():
    return sorted((path for path in FACES.glob("*.txt") if path.stem != "next"), key=lambda path: as_numbers(path.stem))


def name_of(line):
    """The name that a fragment must have: of a command's option the option, of a method its last two parts."""
    if line.startswith("$ "):
        return next((word.rstrip(",") for word in line.split() if word.startswith("--")), line[2:])
    return ".".join(re.match(r"[\w.]+", line)[0].split(".")[-2:])


def lines_without_fragment(before, now, fragments):
    """The lines that are gone or changed, and whose names stand in no fragment."""
    text = "\n".join(fragments)
    return [line for line in before if line not in set(now) and name_of(line) not in text]


def test_the_face_is_what_the_file_says():
    there = (FACES / "next.txt").read_text().splitlines()
    assert list_lines() == there, (
        "run `python tests/house/public_face.py`, look at the difference, and write a fragment"
    )


def test_what_goes_or_changes_is_named_in_a_fragment():
    if not (faces := released_faces()):
        return
    fragments = [path.read_text() for path in CHANGES.glob("*.md") if path.suffixes[0] in (".change", ".removal")]
    assert not lines_without_fragment(faces[-1].read_text().splitlines(), list_lines(), fragments)


def test_a_change_without_a_fragment_is_found():
    before = ["hyperslab.Array.sel(self, **labels)", "$ hyperslab get --nearest", "hyperslab.open(url)"]
    now = ["hyperslab.Array.sel(self, *, exact=False, **labels)", "hyperslab.open(url)"]
    assert lines_without_fragment(before, now, []) == before[:2]
    assert not lines_without_fragment(before, now, ["`Array.sel` …", "`--nearest` of `get` is gone"])


def test_the_version_stands_in_one_place():
    """What is cited is the version of the code; pyproject.toml reads it from there."""
    assert f"\nversion: {hs.__version__}\n" in (CHANGES.parent / "CITATION.cff").read_text()
    assert 'dynamic = ["version"]' in (CHANGES.parent / "pyproject.toml").read_text()


def test_deprecations_leave_time_and_end():
    """Marks of all modules that the face names: two minor releases from the mark to the end, and none past its end."""
    list_lines()
    for mark in DEPRECATIONS.values():
        since, removal = as_numbers(mark.since), as_numbers(mark.removal)
        assert removal[0] > since[0] or removal[1] >= since[1] + 2, f"{mark.name} goes too soon"
        assert as_numbers(hs.__version__) < removal, f"{mark.name} should be gone by now"


def test_a_deprecated_function_warns_its_caller_and_works(monkeypatch):
    monkeypatch.setattr("hyperslab.deprecation.DEPRECATIONS", {})

    @deprecated("0.3", "0.5", "use hs.open")
    def load(url, *, mode="r"):
        """Open a dataset."""
        return url, mode

    with pytest.warns(
        DeprecationWarning, match=r"load is deprecated since 0.3 and will be removed in 0.5: use hs.open"
    ) as seen:
        assert load("a.zarr", mode="a") == ("a.zarr", "a")
    assert seen[0].filename == __file__
    assert load.__doc__ == "Open a dataset.\n\nDeprecated since 0.3: use hs.open"
    with warnings.catch_warnings(), pytest.raises(DeprecationWarning):
        warnings.simplefilter("error")
        load("a.zarr")
