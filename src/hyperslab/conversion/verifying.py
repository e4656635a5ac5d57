"""Compare a finished target with its source, both opened anew: types, dimensions, attributes, cells by their bits."""

from __future__ import annotations

from hyperslab.chunks.boxes import Box
from hyperslab.chunks.settings import Settings
from hyperslab.conversion.copying import ArrayCopy, Counter
from hyperslab.errors import CorruptChunk, FormatError
from hyperslab.model.cells import same_cells
from hyperslab.model.differences import differences
from hyperslab.model.spec import ArraySpec, GroupSpec


def compare_documents(path: str, expected: GroupSpec | ArraySpec, found: object, features_dims: bool) -> int:
    """The number of equal attributes; FormatError that lists every difference from what was asked for."""
    problems = differences(path, expected, found, dims=features_dims)
    if problems:
        shown = "; ".join(str(problem) for problem in problems)
        raise FormatError(f"the target differs from the source: {shown}", problems=problems, node=path)
    return len(expected.attrs)


def compare_cells(copy: ArrayCopy, settings: Settings, done: Counter) -> None:
    """CorruptChunk at the first box whose cells differ by a bit."""

    def work(box: Box) -> None:
        wanted, there = copy.read_source(box, settings), copy.read_target(box, settings)
        if not same_cells(wanted, there):
            span = ", ".join(f"{part.start}:{part.stop}" for part in box)
            raise CorruptChunk(
                f"the cells [{span}] differ from the source",
                node=copy.path,
                remedy="the medium is at fault, or the source changed meanwhile: convert again",
            )
        done(there.nbytes, 1)

    copy.run(work, settings)
