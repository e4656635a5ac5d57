"""Compare a finished target with its source, both opened anew: types, dimensions, attributes, cells by their bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.chunks.settings import Settings
from hyperslab.conversion.boxes import Box
from hyperslab.conversion.copying import ArrayCopy, Counter
from hyperslab.errors import CorruptChunk, FormatError, Problem
from hyperslab.model.attrs import Attrs, equal
from hyperslab.model.dtypes import describe
from hyperslab.model.spec import ArraySpec, GroupSpec

Values = np.ndarray[Any, Any]


def compare_documents(path: str, expected: GroupSpec | ArraySpec, found: object, features_dims: bool) -> int:
    """The number of equal attributes; FormatError that lists every difference from what was asked for."""
    problems = list(_differences(path, expected, found, features_dims))
    if problems:
        shown = "; ".join(str(problem) for problem in problems)
        raise FormatError(f"the target differs from the source: {shown}", problems=problems, node=path)
    return len(expected.attrs)


def _differences(path: str, expected: GroupSpec | ArraySpec, found: object, dims: bool) -> list[Problem]:
    if not isinstance(found, type(expected)):
        return [Problem(path, "kind", f"{type(found).__name__} in place of {type(expected).__name__}")]
    problems = _attribute_differences(path, expected.attrs, found.attrs)
    if isinstance(expected, ArraySpec) and isinstance(found, ArraySpec):
        pairs = [("shape", expected.shape, found.shape), ("type", describe(expected.dtype), describe(found.dtype))]
        pairs += [("dimensions", expected.dims, found.dims)] if dims and any(expected.dims) else []
        problems += [Problem(path, kind, f"{kind} {b}, not {a}") for kind, a, b in pairs if a != b]
    elif isinstance(expected, GroupSpec) and isinstance(found, GroupSpec) and dims:
        unlimited = {dim.name for dim in expected.dims if dim.unlimited} - {
            dim.name for dim in found.dims if dim.unlimited
        }
        problems += [Problem(path, "dimensions", f"{name!r} is no longer unlimited") for name in sorted(unlimited)]
    return problems


def _attribute_differences(path: str, expected: Attrs, found: Attrs) -> list[Problem]:
    problems = [Problem(path, "attribute", f"no attribute {name!r}") for name in expected if name not in found]
    problems += [Problem(path, "attribute", f"new attribute {name!r}") for name in found if name not in expected]
    changed = (name for name in expected if name in found and not equal(expected[name], found[name]))
    return problems + [
        Problem(path, "attribute", f"attribute {name!r} is {found[name]!r}, not {expected[name]!r}") for name in changed
    ]


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


def same_cells(a: Values, b: Values) -> bool:
    """Whether two arrays hold the same bits (NaN payloads and signed zeros included); text and objects by value."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype == object:
        return all(_same_object(x, y) for x, y in zip(a.flat, b.flat, strict=True))
    if a.dtype.kind == "T":
        return bool(np.array_equal(a, b))
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def _same_object(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return same_cells(a, b)
    return type(a) is type(b) and bool(a == b)
