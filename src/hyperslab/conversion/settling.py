"""The target's own word on each node before anything is written: its spelling, or a loss that no feature tells of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from hyperslab.conversion.losses import Loss, Node
from hyperslab.conversion.walking import Planned
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.formats.base import Feature
from hyperslab.model.cells import same_type
from hyperslab.model.dtypes import describe
from hyperslab.model.spec import ArraySpec, GroupSpec

Adapt = Callable[[ArraySpec], ArraySpec]

_NOTHING = ArraySpec(shape=(), dtype=np.dtype(np.int8), chunks=())


def settle(planned: list[Planned], adapt: Adapt | None) -> tuple[list[Planned], tuple[Loss, ...]]:
    """The nodes as the target takes them, without those that it refuses, and what is lost by that."""
    if adapt is None:
        return planned, ()
    settled: list[Planned] = []
    losses: list[Loss] = []
    for plan in planned:
        try:
            node, lost = _settle_one(plan, adapt)
        except HyperslabError as error:
            raise error.locate(node=plan.item.path) from error.__cause__
        losses += lost
        if node is not None:
            settled.append(Planned(plan.item, node))
    return settled, tuple(losses)


def _settle_one(plan: Planned, adapt: Adapt) -> tuple[Node | None, list[Loss]]:
    if isinstance(plan.node, ArraySpec) and not plan.settled:
        return _array(plan.item.path, plan.node, adapt)
    if isinstance(plan.node, GroupSpec):
        return _group(plan.item.path, plan.node, adapt)
    if isinstance(plan.node, ArraySpec) and any(map(_holds_objects, plan.node.attrs.values())):
        attrs, losses = _attributes(plan.item.path, plan.node.attrs, lambda one: adapt(_NOTHING.evolve(attrs=one)))
        return plan.node.evolve(attrs=attrs), losses
    return plan.node, []


def _holds_objects(value: Any) -> bool:
    """Whether an attribute is of a type that a format may give but not take, such as netCDF's arrays of any length."""
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "OV" and value.dtype.hasobject


def _array(path: str, spec: ArraySpec, adapt: Adapt) -> tuple[ArraySpec | None, list[Loss]]:
    try:
        adapted = adapt(spec)
    except Unsupported:
        bare = spec.evolve(attrs={})
    else:
        return adapted, _changed_type(path, spec, adapted)
    try:
        adapt(bare)
    except Unsupported as error:
        return None, [Loss(path, "cells", f"{error.message}: the array is left out")]
    attrs, losses = _attributes(path, spec.attrs, lambda one: adapt(bare.evolve(attrs=one)))
    return adapt(spec.evolve(attrs=attrs)), losses


def _changed_type(path: str, asked: ArraySpec, given: ArraySpec) -> list[Loss]:
    if same_type(asked.dtype, given.dtype, any_order=True):
        return []
    return [Loss(path, "type", f"cells of type {describe(asked.dtype)} become {describe(given.dtype)}")]


def _group(path: str, spec: GroupSpec, adapt: Adapt) -> tuple[GroupSpec, list[Loss]]:
    attrs, losses = _attributes(path, spec.attrs, lambda one: adapt(_NOTHING.evolve(attrs=one)))
    return (spec.evolve(attrs=attrs) if losses else spec), losses


def _attributes(
    path: str, attrs: Mapping[str, Any], ask: Callable[[Mapping[str, Any]], Any]
) -> tuple[dict[str, Any], list[Loss]]:
    """The attributes that the target takes: as they are, as JSON text, or not at all."""
    taken: dict[str, Any] = {}
    losses = []
    for name, value in attrs.items():
        outcome = "is left out"
        for candidate, meaning in _candidates(value):
            if _takes(ask, {name: candidate}):
                taken[name], outcome = candidate, meaning
                break
        if outcome:
            shown = repr(value) if len(repr(value)) < 60 else f"a {type(value).__name__}"
            losses.append(Loss(path, Feature.ATTRIBUTES, f"the attribute {name!r}, {shown}, {outcome}"))
    return taken, losses


def _takes(ask: Callable[[Mapping[str, Any]], Any], attrs: Mapping[str, Any]) -> bool:
    try:
        ask(attrs)
    except Unsupported:
        return False
    return True


def _candidates(value: Any) -> Iterator[tuple[Any, str]]:
    yield value, ""
    try:
        text = json.dumps(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    except TypeError:
        return
    yield text, "becomes JSON text"
