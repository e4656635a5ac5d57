"""Dimensions that lead nowhere or have another length than the arrays on them, and references that are lost.

The shape of an array is always right: somebody resized it who does not know of dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from hyperslab.errors import Problem
from hyperslab.formats.format_errors import shorten
from hyperslab.formats.nczarr.dimensions import are_names, find_dimension, is_anonymous, qualified, split_qualified
from hyperslab.formats.nczarr.document_survey import NCZarrSurvey
from hyperslab.formats.nczarr.generation import Generation
from hyperslab.formats.nczarr.own_metadata import read_references, with_dimensions, with_references, with_shape
from hyperslab.formats.nczarr.user_types import same_type
from hyperslab.formats.rules import Finding
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr.rules import document_finding
from hyperslab.formats.zarr2.document import ZARRAY
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Compound, Opaque, numpy_dtype
from hyperslab.model.paths import outward, split
from hyperslab.model.spec import ArraySpec


@dataclass(frozen=True, slots=True)
class AxisUse:
    """An axis of an array on a dimension."""

    path: str
    axis: int
    size: int


@dataclass
class NewDimensions:
    """Dimensions that are to be declared, by group, for the arrays that are to be on them."""

    survey: NCZarrSurvey
    dims: dict[str, dict[str, Dimension]] = field(default_factory=dict)

    def known(self, fqn: str) -> Dimension | None:
        """Return the dimension that is declared, or will be."""
        group, name = split_qualified(fqn)
        return self.dims.get(group, {}).get(name) or find_dimension(fqn, self.survey.context)

    def take(self, name: str, size: int, node: str) -> str:
        """Return the qualified name for an axis: the nearest dimension of this name that fits, else one that is
        made."""
        home = "" if is_anonymous(name, size) else split(node)[0]
        for group in outward(split(node)[0]):
            found = self.known(qualified(group, name))
            if found is not None and (found.size == size or found.unlimited):
                return qualified(group, name)
        # another dimension has the name: the length tells them apart
        while self.known(qualified(home, name)) is not None:
            name = f"{name}_{size}"
        self.dims.setdefault(home, {})[name] = Dimension(name, size)
        return qualified(home, name)

    def docs(self) -> dict[str, Docs]:
        """Return the documents of the groups."""
        survey = self.survey
        return {
            group: with_dimensions(survey.docs(group), survey.generation, dims.values())
            for group, dims in self.dims.items()
        }


def find_dimension_damage(survey: NCZarrSurvey) -> Iterator[Finding]:
    """Yield arrays whose references cannot be followed, then dimensions of another length than their arrays."""
    if survey.generation is Generation.PURE:
        return
    uses: dict[str, list[AxisUse]] = {}
    for path, spec in survey.arrays:
        references = read_references(survey.docs(path), survey.generation)
        names = references if are_names(references, len(spec.shape)) else None
        if names is None:
            yield from _lost(survey, path, spec, references)
            continue
        lost = [name for name in names if find_dimension(name, survey.context) is None]
        if lost:
            message = f"no group declares the dimension {', '.join(map(repr, dict.fromkeys(lost)))}"
            action = "name the nearest that fits, or declare it"
            change = partial(_write_references, survey, path, spec, names, None)
            yield document_finding(Problem(path, "undeclared-dimension", message), "", action, change)
        for axis, (name, size) in enumerate(zip(names, spec.shape, strict=True)):
            uses.setdefault(name, []).append(AxisUse(path, axis, size))
    for fqn, several in uses.items():
        dim = find_dimension(fqn, survey.context)
        if dim is not None:
            yield from _length_damage(survey, fqn, dim, several)


# -- references -------------------------------------------------------------------------------------------------------


def _lost(survey: NCZarrSurvey, path: str, spec: ArraySpec, references: object) -> Iterator[Finding]:
    """Yield an array that somebody wrote or rewrote who does not know NCZarr."""
    if references is None and not spec.shape and survey.generation is Generation.DRAFT:
        return
    names = [split_qualified(fqn)[1] for fqn in spec.layout["dimensions"]]
    message = f"the dimensions are {shorten(references)}, the shape is {list(spec.shape)}"
    typedef, type_said = None, ""
    if references is None:
        made_up = all(is_anonymous(name, size) for name, size in zip(names, spec.shape, strict=True))
        source = "no name that was given" if names and made_up else "_ARRAY_DIMENSIONS"
        message = f"has no references to dimensions: it is on {names}, by {source}"
        typedef, type_said = _typedef(survey, path, spec)
    action = f"write the references{type_said}, declare what is missing"
    change = partial(_write_references, survey, path, spec, names, typedef)
    yield document_finding(Problem(path, "lost-references", message), "", action, change)


def _write_references(
    survey: NCZarrSurvey, path: str, spec: ArraySpec, names: Sequence[str], typedef: str | None
) -> DocumentChange:
    """Return references of an array: those that are sound as they are, the others by their names."""
    wanted, found = NewDimensions(survey), []
    for name, size in zip(names, spec.shape, strict=True):
        is_sound = name.startswith("/") and wanted.known(name) is not None
        found.append(name if is_sound else wanted.take(split_qualified(name)[1], size, path))
    docs, generation = survey.docs(path), survey.generation
    # all documents anew where NCZarr's own are not there
    if read_references(docs, generation) is None and not generation.is_older:
        layout = {**spec.layout, "dimensions": tuple(found), "typedef": typedef or spec.layout.get("typedef")}
        docs = survey.rendered(path, spec.evolve(layout=layout)) or docs
    docs = with_references(docs, generation, found)
    if typedef is not None:
        docs = docs | {ZARRAY: {**docs[ZARRAY], "typedef": typedef}}
    return DocumentChange({**wanted.docs(), path: docs})


def _typedef(survey: NCZarrSurvey, path: str, spec: ArraySpec) -> tuple[str | None, str]:
    """Return the one type with cells like those of an array that lost the name of its type, and what is said of it."""
    plain = isinstance(spec.dtype, Opaque) or numpy_dtype(spec.dtype).names is not None
    if survey.generation is not Generation.DRAFT or spec.layout.get("typedef") or not plain:
        return None, ""
    found = []
    for group in outward(split(path)[0]):
        declaring = survey.context.group(group)
        for name, kind in ({} if declaring is None else declaring.types).items():
            match kind, spec.dtype:
                case Opaque(), Opaque():
                    is_like = kind.size == spec.dtype.size
                case Compound(), _:
                    is_like = same_type(numpy_dtype(kind), numpy_dtype(spec.dtype))
                case _:
                    is_like = False
            found += [qualified(group, name)] if is_like else []
    return (found[0], f" and the typedef {found[0]}") if len(found) == 1 else (None, "")


# -- lengths ----------------------------------------------------------------------------------------------------------


def _length_damage(survey: NCZarrSurvey, fqn: str, dim: Dimension, uses: Sequence[AxisUse]) -> Iterator[Finding]:
    """Yield a dimension of another length than its arrays."""
    sizes = {use.size for use in uses}
    others = [use for use in uses if use.size != dim.size]
    if not others:
        return
    if dim.unlimited or len(sizes) == 1:
        lengths = ", ".join(dict.fromkeys(f"/{use.path} is {use.size} long" for use in others))
        message = f"the dimension {fqn} has the length {dim.size}, {lengths}"
        action = f"make it {max(sizes)} long{', and every array on it' if dim.unlimited else ''}"
        change = partial(_lengthen_all, survey, fqn, replace(dim, size=max(sizes)), uses)
        yield document_finding(Problem(split_qualified(fqn)[0], "dimension-size", message), fqn, action, change)
        return
    paths = {use.path for use in others}
    yield from (_own_dimension(survey, fqn, dim, path, spec) for path, spec in survey.arrays if path in paths)


def _lengthen_all(survey: NCZarrSurvey, fqn: str, dim: Dimension, uses: Sequence[AxisUse]) -> DocumentChange:
    """Make all arrays as long as the dimension, then the dimension."""
    changed: dict[str, Docs] = {}
    arrays = dict(survey.arrays)
    places: dict[str, set[int]] = {}
    for use in uses:
        places.setdefault(use.path, set()).add(use.axis)
    for path, axes in places.items():
        spec = arrays[path]
        shape = tuple(dim.size if axis in axes else size for axis, size in enumerate(spec.shape))
        if shape != spec.shape:
            rows = [min(row, size) for row, size in zip(spec.layout.get("written") or spec.shape, shape, strict=True)]
            changed[path] = with_shape(survey.docs(path), survey.generation, shape, rows)
    group = split_qualified(fqn)[0]
    return DocumentChange(changed | {group: with_dimensions(survey.docs(group), survey.generation, [dim])})


def _own_dimension(survey: NCZarrSurvey, fqn: str, dim: Dimension, path: str, spec: ArraySpec) -> Finding:
    """Return the damage of an array that alone has another length: it gets a dimension of its own."""
    names = read_references(survey.docs(path), survey.generation)
    sizes = [size for name, size in zip(names, spec.shape, strict=True) if name == fqn and size != dim.size]
    message = f"the array is {' and '.join(map(str, sizes))} long on the dimension {fqn} of length {dim.size}"

    def change() -> DocumentChange:
        wanted = NewDimensions(survey)
        found = [
            wanted.take(f"{dim.name}_{size}", size, path) if name == fqn and size != dim.size else name
            for name, size in zip(names, spec.shape, strict=True)
        ]
        return DocumentChange({**wanted.docs(), path: with_references(survey.docs(path), survey.generation, found)})

    action = f"put it on a dimension {', '.join(f'{dim.name}_{size}' for size in sizes)} of its own"
    return document_finding(Problem(path, "dimension-size", message), fqn, action, change)
