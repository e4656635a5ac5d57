"""What we write every peer reads equal, bit by bit, or says itself that it cannot; xarray opens all of Zarr v3."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matrix
import pytest
import readers
import table
from canonical import canonical

import hyperslab as hs

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "zarr.md"
OWN_WARNINGS = (
    "Numcodecs codecs are not in the Zarr version 3 specification",
    "does not have a Zarr V3 specification",
    "is currently not part in the Zarr format 3 specification",
)
"""zarr-python's words on codecs and types beyond the core specification; it says them of its own files too."""
Answers = dict[str, dict[str, dict[str, Any]]]


def written(folder: Path, cases: Iterable[matrix.Case]) -> dict[matrix.Case, dict[str, Any] | None]:
    """Every case in a tree of its format, and what is to be read of it."""
    roots = {name: hs.create(folder / name, format=name, durable=False) for name in matrix.FORMATS}
    found = {case: matrix.write(roots[case.format], folder / case.format, case) for case in cases}
    for root in roots.values():
        root.close()
    return found


def answers(folder: Path, wanted: dict[matrix.Case, dict[str, Any] | None]) -> Answers:
    """What each peer that is here read, by peer and case."""
    found: Answers = {}
    for peer in readers.PEERS:
        if peer.python is None:
            continue
        tasks = [
            {"name": case.name, "format": case.format, "path": str(folder / case.format / case.name / "a")}
            for case, expected in wanted.items()
            if expected is not None and case.format in peer.formats
        ]
        found[peer.name] = readers.run(peer.python, peer.script, tasks, folder)
    return found


def wrong(wanted: dict[matrix.Case, dict[str, Any] | None], said: Answers) -> list[str]:
    """Every cell that was read otherwise, and every warning that is not the peer's own affair."""
    found = []
    for case, expected in wanted.items():
        for peer, answer in ((name, answers.get(case.name)) for name, answers in said.items()):
            if answer is None or expected is None:
                continue
            found += [f"{peer}: {case}: warns {text}" for text in answer["warnings"] if not _is_own(text)]
            if "error" not in answer:
                found += [
                    f"{peer}: {case}: {key} {answer[key]!r}, not {value!r}"
                    for key, value in expected.items()
                    if key in answer and answer[key] != value
                ]
    return found


def _is_own(text: str) -> bool:
    return any(own in text for own in OWN_WARNINGS)


def refused(case: matrix.Case, said: Answers) -> list[str]:
    """The peers that raised an error over the case."""
    return [peer for peer, answers in said.items() if "error" in answers.get(case.name, {})]


@pytest.mark.sampled(0)
def test_common_layouts_are_read_by_every_peer(tmp_path: Path) -> None:
    pytest.importorskip("zarr", minversion="3.1")
    pytest.importorskip("tensorstore")
    wanted = written(tmp_path, matrix.every_case(full=False))
    said = answers(tmp_path, wanted)
    assert not wrong(wanted, said)
    common = [case for case in wanted if case.dtype in matrix.CORE and case.codec in matrix.EVERYWHERE]
    assert len(common) > 80
    assert {case: refused(case, said) for case in common if wanted[case] is None or refused(case, said)} == {}


@pytest.mark.sampled(0)
def test_we_read_what_we_wrote(tmp_path: Path) -> None:
    for case, expected in written(tmp_path, matrix.every_case(full=False)).items():
        if expected is not None and matrix.is_lossless(case):
            values = matrix.values_of(case.dtype)
            found = hs.open_array(tmp_path / case.format, path=f"{case.name}/a")
            assert canonical(found[:4]) == canonical(values[:4]), case


@pytest.mark.interop
def test_the_whole_matrix_and_its_table(tmp_path: Path) -> None:
    if readers.ENVIRONMENTS not in os.environ:
        pytest.skip("needs the environments of the peers: make interop")
    wanted = written(tmp_path, matrix.every_case(full=True))
    said = answers(tmp_path, wanted)
    assert not wrong(wanted, said)
    assert refused_by_xarray_alone(wanted, said) == []
    assert refused_for_its_layout(wanted, said) == []
    cells = {
        format: {
            (dtype, codec): table.cell(wanted[case] is not None, refused(case, said))
            for dtype in matrix.DTYPES
            for codec in matrix.CODECS
            for case in [matrix.Case(format, dtype, codec)]
        }
        for format in matrix.FORMATS
    }
    made = table.tables(cells, matrix.DTYPES, matrix.CODECS)
    if os.environ.get("HYPERSLAB_TABLE") == "write":
        PAGE.write_text(table.put(PAGE.read_text(), made))
    if len(said) < len(readers.PEERS):
        pytest.skip(f"the table needs all peers; here are {', '.join(said)}")
    assert table.in_page(PAGE.read_text()) == made, "make it anew: HYPERSLAB_TABLE=write make interop"


def refused_for_its_layout(wanted: dict[matrix.Case, dict[str, Any] | None], said: Answers) -> list[str]:
    """Arrays that a peer refuses for their order, keys, shards or fill value alone; void cells apart."""
    found = []
    for case, expected in wanted.items():
        plain = matrix.Case(case.format, case.dtype, case.codec)
        if expected is None or wanted.get(plain) is None:
            continue
        for peer in set(refused(case, said)) - set(refused(plain, said)):
            error = said[peer][case.name]["error"]
            if "unhashable type: 'writeable void-scalar'" not in error:
                found.append(f"{peer}: {case}: {error}")
    return found


def refused_by_xarray_alone(wanted: dict[matrix.Case, dict[str, Any] | None], said: Answers) -> list[matrix.Case]:
    """Datasets of Zarr v3 that zarr-python beside xarray reads and xarray does not."""
    both = {case: set(refused(case, said)) for case in wanted if case.format == "zarr3"}
    return [case for case, peers in both.items() if "xarray" in peers and "zarr-python 3.1" not in peers]
