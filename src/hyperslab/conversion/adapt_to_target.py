"""The target's own word on each node before anything is written: its spelling, or a loss that no feature tells of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from hyperslab.codecs.default import parse_codec
from hyperslab.conversion.losses import Loss, Node, poorer
from hyperslab.conversion.walking import Planned
from hyperslab.errors import HyperslabError, MissingLibrary, Unsupported
from hyperslab.formats.base import Feature
from hyperslab.model.cells import same_type
from hyperslab.model.dtypes import describe, numpy_dtype, tag_of
from hyperslab.model.refs import RegionReference
from hyperslab.model.spec import ArraySpec, GroupSpec

Adapt = Callable[[ArraySpec], ArraySpec]

_TEXT = "becomes JSON text"
_NOTHING = ArraySpec(shape=(), dtype=np.dtype(np.int8), chunks=())


def settle(planned: list[Planned], adapt: Adapt | None, *, varies: bool) -> tuple[list[Planned], tuple[Loss, ...]]:
    """Return the nodes as the target takes them, without those that it refuses, and what is lost by that.

    ``varies``: whether the target's options may make it take less than the source's format does.
    """
    if adapt is None:
        return planned, ()
    settled: list[Planned] = []
    losses: list[Loss] = []
    for plan in planned:
        try:
            node, lost = _settle_one(plan, adapt, varies)
        except HyperslabError as error:
            raise error.locate(node=plan.item.path) from error.__cause__
        losses += lost
        if node is not None:
            settled.append(Planned(plan.item, node))
    return settled, tuple(losses)


def _settle_one(plan: Planned, adapt: Adapt, varies: bool) -> tuple[Node | None, list[Loss]]:
    if isinstance(plan.node, ArraySpec) and not (plan.settled and (not varies or takes(plan.node, adapt))):
        return _array(plan.item.path, plan.node, adapt)
    if isinstance(plan.node, GroupSpec):
        return _group(plan.item.path, plan.node, adapt)
    if isinstance(plan.node, ArraySpec) and any(map(_is_asked_about, plan.node.attrs.values())):
        attrs, losses = _attributes(plan.item.path, plan.node.attrs, lambda one: adapt(_NOTHING.evolve(attrs=one)))
        return plan.node.evolve(attrs=attrs), losses
    return plan.node, []


def _is_asked_about(value: Any) -> bool:
    """Return whether an attribute is of a type that a format may give but not take, such as HDMF's references to
    regions.
    """
    if isinstance(value, RegionReference):
        return True
    has_objects = isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "OV" and value.dtype.hasobject
    return has_objects and tag_of(value.dtype) is None  # of a user's type there are features


def _array(path: str, spec: ArraySpec, adapt: Adapt) -> tuple[ArraySpec | None, list[Loss]]:
    try:
        adapted = adapt(spec)
    except Unsupported:
        bare = spec.evolve(attrs={})
    else:
        texts = [_attribute_loss(path, name, spec.attrs[name], _TEXT) for name in _as_text(spec.attrs, adapted.attrs)]
        return adapted, [*_changed_type(path, spec, adapted), *texts]
    try:
        adapt(bare)
    except MissingLibrary:  # no loss, and mended by installing it
        raise
    except Unsupported as error:
        if takes(bare.evolve(codecs=parse_codec("default", spec.numpy_dtype)), adapt):
            raise  # not the cells, but the codec that was asked for
        if (found := _as_poorer(path, spec, adapt)) is not None:
            return found
        return None, [Loss(path, "cells", f"{error.message}: the array is left out")]
    attrs, losses = _attributes(path, spec.attrs, lambda one: adapt(bare.evolve(attrs=one)))
    return adapt(spec.evolve(attrs=attrs)), losses


def takes(spec: ArraySpec, adapt: Adapt) -> bool:
    """Return whether the target has a spelling for the array."""
    try:
        adapt(spec)
    except Unsupported:
        return False
    return True


def _as_poorer(path: str, spec: ArraySpec, adapt: Adapt) -> tuple[ArraySpec, list[Loss]] | None:
    """The array with numbers for its truths or times, where the target has no place for so many of its own type."""
    less = poorer(spec.dtype) if isinstance(spec.dtype, np.dtype) and spec.dtype.kind in "bmM" else None
    if less is None:
        return None
    fill = None if spec.fill_value is None else spec.fill_cell().astype(numpy_dtype(less))[()]
    adapted, losses = _array(path, spec.evolve(dtype=less, fill_value=fill), adapt)
    return None if adapted is None else (adapted, [*_changed_type(path, spec, adapted), *losses])


def _changed_type(path: str, asked: ArraySpec, given: ArraySpec) -> list[Loss]:
    if same_type(asked.dtype, given.dtype, any_order=True):
        return []
    return [Loss(path, "type", f"cells of type {describe(asked.dtype)} become {describe(given.dtype)}")]


def _group(path: str, spec: GroupSpec, adapt: Adapt) -> tuple[GroupSpec, list[Loss]]:
    attrs, losses = _attributes(path, spec.attrs, lambda one: adapt(_NOTHING.evolve(attrs=one)))
    return (spec.evolve(attrs=attrs) if losses else spec), losses


def _attributes(
    path: str, attrs: Mapping[str, Any], ask: Callable[[Mapping[str, Any]], ArraySpec]
) -> tuple[dict[str, Any], list[Loss]]:
    """The attributes that the target takes: as they are, as JSON text, or not at all."""
    taken: dict[str, Any] = {}
    losses = []
    for name, value in attrs.items():
        outcome = "is left out"
        for candidate, meaning in _candidates(value):
            try:
                given = ask({name: candidate}).attrs
            except Unsupported as error:
                outcome = _left_out(value, error)
                continue
            as_text = bool(_as_text({name: candidate}, given))
            taken[name], outcome = (given[name], _TEXT) if as_text else (candidate, meaning)
            break
        if outcome:
            losses.append(_attribute_loss(path, name, value, outcome))
    return taken, losses


def _left_out(value: Any, error: Unsupported) -> str:
    """What becomes of an attribute that the target refuses; of a reference also how it would be taken."""
    how = error.remedy if isinstance(value, RegionReference) else None
    return "is left out" if how is None else f"is left out ({how})"


def _attribute_loss(path: str, name: str, value: Any, outcome: str) -> Loss:
    shown = repr(value) if len(repr(value)) < 60 else f"a {type(value).__name__}"
    return Loss(path, Feature.ATTRIBUTES, f"the attribute {name!r}, {shown}, {outcome}")


def _as_text(asked: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """The names of attributes that are no text, and that the target takes as text."""
    texts = [name for name, value in given.items() if isinstance(value, str) and name in asked]
    return [name for name in texts if not _is_text(asked[name])]


def _is_text(value: Any) -> bool:
    items = np.ravel(value) if isinstance(value, np.ndarray) else value if isinstance(value, list | tuple) else [value]
    return len(items) > 0 and all(isinstance(item, str | bytes) for item in items)


def _candidates(value: Any) -> Iterator[tuple[Any, str]]:
    yield value, ""
    if isinstance(value, str) and value.endswith("\0"):
        yield value.rstrip("\0"), "loses the NULs at its end"
    try:
        text = json.dumps(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    except TypeError:
        return
    yield text, _TEXT
