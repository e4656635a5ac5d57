"""Compare a finished target with its source, both opened anew: types, dimensions, attributes, cells by their bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hyperslab.chunks.settings import Settings
from hyperslab.conversion.boxes import Box
from hyperslab.conversion.cells import same_cells, same_type
from hyperslab.conversion.copying import ArrayCopy, Counter
from hyperslab.errors import CorruptChunk, FormatError, Problem
from hyperslab.model.attrs import Attrs, equal
from hyperslab.model.dtypes import describe
from hyperslab.model.spec import ArraySpec, GroupSpec


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
        problems += _array_differences(path, expected, found, dims)
    elif isinstance(expected, GroupSpec) and isinstance(found, GroupSpec) and dims:
        unlimited = {dim.name for dim in expected.dims if dim.unlimited} - {
            dim.name for dim in found.dims if dim.unlimited
        }
        problems += [Problem(path, "dimensions", f"{name!r} is no longer unlimited") for name in sorted(unlimited)]
    return problems


def _array_differences(path: str, expected: ArraySpec, found: ArraySpec, dims: bool) -> Iterator[Problem]:
    if expected.shape != found.shape:
        yield Problem(path, "shape", f"shape {found.shape}, not {expected.shape}")
    if not same_type(expected.dtype, found.dtype):
        yield Problem(path, "type", f"cells of type {describe(found.dtype)}, not {describe(expected.dtype)}")
    if dims and any(name not in (None, new) for name, new in zip(expected.dims, found.dims, strict=False)):
        yield Problem(path, "dimensions", f"dimensions {found.dims}, not {expected.dims}")


def _attribute_differences(path: str, expected: Attrs, found: Attrs) -> list[Problem]:
    problems = [Problem(path, "attribute", f"no attribute {name!r}") for name in expected if name not in found]
    problems += [Problem(path, "attribute", f"new attribute {name!r}") for name in found if name not in expected]
    changed = (name for name in expected if name in found and not _same_attribute(expected[name], found[name]))
    return problems + [
        Problem(path, "attribute", f"attribute {name!r} is {found[name]!r}, not {expected[name]!r}") for name in changed
    ]


def _same_attribute(expected: Any, found: Any) -> bool:
    """Equal in type and value; a value without a type (a number of JSON) may have got one."""
    if equal(expected, found):
        return True
    if isinstance(expected, np.ndarray | np.generic | str) or not isinstance(found, np.ndarray | np.generic):
        return False
    values = list(expected) if isinstance(expected, list | tuple) else [expected]
    return bool(values == np.asarray(found).reshape(-1).tolist())


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
