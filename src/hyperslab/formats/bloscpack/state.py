"""The state of a dataset that is open for writing: its documents, and its chunks as they will be.

The array's cells are chunks, those of its coordinates lie in memory. While the first arrays of a new dataset are made
it may turn out that the first one is a coordinate of the next: then its cells move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperslab.chunks.source import Block
from hyperslab.errors import Conflict, Invalid, NodeNotFound, Unsupported
from hyperslab.formats.bloscpack.document import Content, axis_of, in_rows
from hyperslab.formats.bloscpack.encoding import BloscpackOptions, is_planned, new_array, order_of
from hyperslab.formats.bloscpack.pending_chunks import PendingChunks
from hyperslab.formats.format_errors import require_no_link
from hyperslab.formats.single_array.document import LabelledArray
from hyperslab.formats.single_array.draft import SingleArrayDraft, check_small, main_array_or_none
from hyperslab.formats.single_array.reader import coordinate_spec
from hyperslab.model.dtypes import VlenString, describe, packed
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec

Make = Callable[[Content, int], PendingChunks]
"""Chunks, none given yet, of an array in so many rows each."""


class State:
    """The documents (``draft``), and ``pending``, the chunks of the array ``draft.main``.

    ``touched``: documents changed; ``written``: cells. ``fixed``: the array is there already and stays the one.
    """

    def __init__(
        self,
        options: BloscpackOptions,
        make: Make,
        draft: SingleArrayDraft | None = None,
        pending: PendingChunks | None = None,
    ) -> None:
        self.options = options
        self.draft = SingleArrayDraft() if draft is None else draft
        self.pending = pending
        self.fixed = pending is not None
        self._first = frozenset(self.draft.specs)
        self.touched = False
        self.written = False
        self._make = make

    # -- documents --------------------------------------------------------------------------------------------------

    @property
    def main(self) -> str | None:
        """The array that is the dataset; None while there is none, or several could be it."""
        return self.draft.main

    def pending_of(self, path: str) -> PendingChunks | None:
        """Return the chunks of the array at ``path``; None for a coordinate."""
        return self.pending if path == self.main else None

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the node at ``path``; NodeNotFound."""
        spec, pending = self.draft.node(path), self.pending_of(path)
        if spec.is_group:
            return spec
        return coordinate_spec(spec) if pending is None else spec.evolve(chunks=pending.shape)

    def put(self, path: str, spec: GroupSpec | ArraySpec | Link) -> None:
        """Make or change a node; Unsupported for what this format does not have."""
        spec = require_no_link(spec, path, "bloscpack")
        pending = self.pending_of(path)
        if spec.is_group:
            if path:
                raise Unsupported("format bloscpack has no groups: a file is one array", node=path)
            self.draft.group = spec
        elif "/" in path or not path:
            remedy = "give it a name without a slash" if path else "give it a name, it stands in a group"
            raise Unsupported("format bloscpack has no groups: a file is one array", node=path, remedy=remedy)
        elif pending is not None:
            self._change_main(path, spec, pending)
        elif path in self.draft.specs:
            current = self.draft.specs[path]
            if spec.numpy_dtype != current.numpy_dtype:
                remedy = "delete it and make it anew"
                raise Unsupported("the type of an array cannot be changed", node=path, remedy=remedy)
            check_small(spec, path)
            self.draft.put_coordinate(path, self._recut(spec, current))
            self._decide()
        else:
            self.draft.specs[path] = spec if is_planned(spec) else new_array(spec, self.options)
            try:
                self._decide(path)
            except BaseException:
                self.draft.drop(path)
                raise
        self.touched = True

    def _change_main(self, path: str, spec: ArraySpec, pending: PendingChunks) -> None:
        current = self.draft.specs[path]
        if spec.numpy_dtype != current.numpy_dtype or len(spec.shape) != len(current.shape):
            raise Unsupported(
                f"{len(current.shape)}-D cells of {describe(current.dtype)} cannot become {len(spec.shape)}-D ones of"
                f" {describe(spec.dtype)}",
                node=path,
                remedy="save the dataset anew (mode='w')",
            )
        chunks = in_rows(spec.shape, pending.content.order, pending.rows)
        layout = current.layout if spec.shape == current.shape else {}
        changed = spec.evolve(dtype=current.dtype, chunks=chunks, codecs=current.codecs, layout=layout)
        self.pending = pending.with_content(pending.content.evolve(labelled=LabelledArray(path, changed)))
        self.draft.specs[path] = changed

    def _recut(self, spec: ArraySpec, current: ArraySpec) -> ArraySpec:
        """Return a coordinate, which shows none, with the chunks and codecs that were asked for: it may become the main
        array."""
        chunks = spec.chunks
        if spec.shape and len(spec.shape) == len(current.shape):
            order = order_of(spec.shape, self.options)
            rows = current.chunks[axis_of(spec.shape, order)]
            chunks = in_rows(spec.shape, order, rows if isinstance(rows, int) else rows[0])
        return spec.evolve(chunks=chunks, codecs=current.codecs, layout=current.layout)

    def _decide(self, new: str | None = None) -> None:
        """See which array is the main one now, and have its cells in chunks, and no others'."""
        # An array may be made before those that it is a coordinate of: each new one may show that another is the main.
        main = self.main if self.fixed else main_array_or_none(self.draft.specs)
        if main is not None and isinstance(self.draft.specs[main].dtype, VlenString):
            main = None
        if new is not None and new != main:
            check_small(self.draft.specs[new], new)
            self.draft.put_coordinate(new, self.draft.specs[new])
        if main != self.main:
            self._demote()
            if main is not None:
                self._promote(main)

    def _demote(self) -> None:
        """Move the cells of the array that was the main one into memory."""
        path, pending = self.main, self.pending
        if path is None or pending is None:
            return
        spec = self.draft.specs[path]
        check_small(spec, path)
        self.draft.put_coordinate(path, spec)
        cells = self.draft.cells[path]
        for number in range(pending.count):
            part = take_rows(cells, pending.content.axis, number, pending.rows)
            if part.size:
                block = pending.block(number)
                part[...] = take_rows(block, pending.content.axis, 0, count_rows(part, pending.content.axis))
        pending.slots.discard()
        self.draft.main, self.pending = None, None

    def _promote(self, path: str) -> None:
        """Move the cells of an array from memory into chunks."""
        spec = self.draft.specs[path]
        order = order_of(spec.shape, self.options)
        content = Content(labelled=LabelledArray(path, spec), stored=packed(spec.numpy_dtype), order=order)
        cuts: Any = spec.chunks
        pending = self._make(content, cuts[content.axis] if spec.shape else 1)
        cells = self.draft.cells.pop(path, None)
        self.draft.main, self.pending = path, pending
        if cells is None or not cells.size:
            return
        for number in range(pending.count):
            block = pending.block(number)
            part = take_rows(cells, content.axis, number, pending.rows)
            take_rows(block, content.axis, 0, count_rows(part, content.axis))[...] = part
            pending.put(number, block)

    def drop(self, path: str) -> None:
        """Forget an array; Unsupported for the one that the file is."""
        self.draft.node(path)
        if self.fixed and path in ("", self.main):
            remedy = "remove the file, or save another dataset in its place (mode='w')"
            raise Unsupported("this array is the file", node=path, remedy=remedy)
        if path == self.main and self.pending is not None:
            self.pending.slots.discard()
            self.pending = None
        self.draft.drop(path)
        self.touched = True
        self._decide()

    def rename(self, source: str, target: str) -> None:
        """Give an array another name."""
        if "/" in target:
            raise Unsupported("format bloscpack has no groups: a file is one array", node=target)
        self.draft.rename(source, target)
        self._first |= {target}
        if self.pending is not None and self.main == target:
            labelled = LabelledArray(target, self.draft.specs[target])
            self.pending = self.pending.with_content(self.pending.content.evolve(labelled=labelled))
        self.touched = True

    def content(self) -> Content:
        """Return all documents of the dataset; Invalid when there are several arrays, NodeNotFound when there is
        none."""
        if self.pending is None and not self.draft.specs:
            raise NodeNotFound("there is no array yet")
        sure = self.fixed and self._first.issuperset(self.draft.specs)
        labelled = self.draft.labelled("bloscpack", self.main if sure else None)
        if self.pending is None or labelled.name != self.main:
            raise Invalid(
                f"/{labelled.name} is not the array that /{self.main} is a coordinate of",
                remedy="give the array that is meant the dimensions of the others",
            )
        # A stream of bytes has its metadata as attributes, and no place for anything else.
        spec, group = labelled.spec, labelled.group
        is_named = any(dim is not None for dim in spec.dims)
        has_labels = is_named or spec.fill_value is not None or labelled.coords or group.attrs or group.dims
        content = self.pending.content
        return content.evolve(labelled=labelled, plain=content.plain and not has_labels)

    # -- to come back to --------------------------------------------------------------------------------------------

    def mark(self) -> object:
        """Return the state now, for :meth:`reset`; of a dataset that is there."""
        pending = self.pending
        return self.draft.copy(), pending, pending and pending.mark(), self.touched, self.written

    def reset(self, mark: Any) -> None:
        """Go back to the state of when the mark was made."""
        self.draft, pending, marked, self.touched, self.written = mark
        self.pending = pending and pending.reset(marked)


def take_rows(cells: Block, axis: int, number: int, rows: int) -> Block:
    """Return the ``number``-th run of so many rows."""
    if not cells.ndim:
        return cells
    part = slice(number * rows, (number + 1) * rows)
    return cells[part] if axis == 0 else cells[..., part]


def count_rows(cells: Block, axis: int) -> int:
    """Return how many rows there are; a scalar is one."""
    return int(cells.shape[axis]) if cells.ndim else 1


def other_shape(path: str, seen: tuple[int, ...], now: tuple[int, ...]) -> Conflict:
    """Return the error for cells of an array that another writer made shorter, or cut in another way."""
    message = f"the array is {now} by now, and was {seen} when it was looked at"
    return Conflict(message, node=path, remedy="call its refresh() and try again")
