"""Find arrays of one group whose lengths contradict each other: columns of a ``DynamicTable``, and the timestamps of a
series of NWB. None of it is mended: which rows are too many, or missing, only who wrote them knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.hdmf.document_survey import HdmfSurvey
from hyperslab.formats.rules import Finding
from hyperslab.formats.zarr.rules import document_finding
from hyperslab.model.dynamic_tables import describe_lengths, iter_index_names, read_column_names
from hyperslab.model.paths import child, is_name
from hyperslab.model.series import DATA, SERIES_TYPE, TIMESTAMPS
from hyperslab.model.spec import ArraySpec, GroupSpec


def find_length_damage(survey: HdmfSurvey, path: str) -> Iterator[Finding]:
    """Find columns of the table at a path that differ in length, and timestamps of the series there that are more or
    fewer than its samples."""
    group = survey.spec(path)
    if not isinstance(group, GroupSpec):
        return
    differ = describe_lengths(dict(_column_lengths(survey, path, group)))
    if differ:
        yield document_finding(Problem(path, "column-length", differ), "columns")
    if SERIES_TYPE in group.attrs:
        data, stamps = (_find_array(survey, child(path, name)) for name in (DATA, TIMESTAMPS))
        # data of length 0 are elsewhere, as the images of an ImageSeries in files
        if data is not None and stamps is not None and data.shape[0] not in (0, stamps.shape[0]):
            message = f"{stamps.shape[0]} timestamps for {data.shape[0]} samples: these have no seconds"
            yield document_finding(Problem(path, "timestamps-length", message), TIMESTAMPS)


def _column_lengths(survey: HdmfSurvey, path: str, table: GroupSpec) -> Iterator[tuple[str, int]]:
    """Yield the name of each column of a table and its rows: of a ragged one those of its outermost index."""
    for name in filter(is_name, read_column_names(table.attrs) or ()):
        rows = _find_array(survey, child(path, name))
        for index_name in iter_index_names(name):
            index = None if rows is None else _find_array(survey, child(path, index_name))
            if index is None or len(index.shape) != 1 or index.numpy_dtype.kind not in "iu":
                break
            rows = index
        if rows is not None:
            yield name, rows.shape[0]


def _find_array(survey: HdmfSurvey, path: str) -> ArraySpec | None:
    """Return the array at a path, or behind the link there, if it has dimensions; None for anything else."""
    with suppress(HyperslabError):
        found = survey.find(path, [])
        spec = None if found is None else found[0].spec(found[1])
        return spec if isinstance(spec, ArraySpec) and spec.shape and spec.problem is None else None
    return None
