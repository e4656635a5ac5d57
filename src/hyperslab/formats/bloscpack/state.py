"""What a dataset that is open for writing holds at this moment: its documents, and its chunks as they will be.

The array's cells are chunks, those of its coordinates lie in memory. While the first arrays of a new dataset are made
it may turn out that the first one is a coordinate of the next: then its cells move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.source import Block
from hyperslab.codecs.blosc import container
from hyperslab.errors import Invalid, NodeNotFound, Unsupported
from hyperslab.formats.bloscpack.cells import other_shape
from hyperslab.formats.bloscpack.creation import BloscpackOptions, is_planned, new_array, order_of
from hyperslab.formats.bloscpack.document import Content, in_rows
from hyperslab.formats.bloscpack.draft import BloscpackDraft, check_small
from hyperslab.formats.bloscpack.pending_chunks import PendingChunks
from hyperslab.formats.one_array import Labelled, found_main
from hyperslab.model.dtypes import VlenString, describe, packed
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec

Make = Callable[[Content, int], PendingChunks]
"""Chunks, none given yet, of an array in so many rows each."""


class State:
    """``held``: the chunks of the array ``draft.main``. ``touched``: whether documents changed, or ``written`` cells.

    ``fixed``: the array is there already and stays the one.
    """

    def __init__(
        self,
        options: BloscpackOptions,
        make: Make,
        draft: BloscpackDraft | None = None,
        held: PendingChunks | None = None,
    ) -> None:
        self.options = options
        self.draft = BloscpackDraft() if draft is None else draft
        self.held = held
        self.fixed = held is not None
        self._first = frozenset(self.draft.specs)
        self.touched = False
        self.written = False
        self._make = make

    # -- documents --------------------------------------------------------------------------------------------------

    @property
    def main(self) -> str | None:
        """The array that is the dataset; None while there is none, or several could be it."""
        return self.draft.main

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """What lies at ``path``; NodeNotFound."""
        spec = self.draft.node(path)
        if isinstance(spec, GroupSpec):
            return spec
        if path == self.main and self.held is not None:
            return spec.evolve(chunks=self.held.shape)
        return spec.evolve(chunks=whole_chunks(spec.shape), codecs=(), layout={})

    def put(self, path: str, spec: GroupSpec | ArraySpec | Link) -> None:
        """Make or change a node; Unsupported for what this format does not have."""
        if isinstance(spec, Link):
            raise Unsupported("format bloscpack has no links", node=path)
        if isinstance(spec, GroupSpec):
            if path:
                raise Unsupported("format bloscpack has no groups: a file is one array", node=path)
            self.draft.group = spec
        elif "/" in path or not path:
            remedy = "give it a name without a slash" if path else "give it a name, it stands in a group"
            raise Unsupported("format bloscpack has no groups: a file is one array", node=path, remedy=remedy)
        elif path == self.main and self.held is not None:
            self._change_main(path, spec, self.held)
        elif path in self.draft.specs:
            self._change_coordinate(path, spec)
        else:
            self._add(path, spec)
        self.touched = True

    def _change_main(self, path: str, spec: ArraySpec, held: PendingChunks) -> None:
        known = self.draft.specs[path]
        if spec.numpy_dtype != known.numpy_dtype or len(spec.shape) != len(known.shape):
            raise Unsupported(
                f"{len(known.shape)}-D cells of {describe(known.dtype)} cannot become {len(spec.shape)}-D ones of"
                f" {describe(spec.dtype)}",
                node=path,
                remedy="save the dataset anew (mode='w')",
            )
        chunks = in_rows(spec.shape, held.content.order, held.rows)
        layout = known.layout if spec.shape == known.shape else {}
        changed = spec.evolve(dtype=known.dtype, chunks=chunks, codecs=known.codecs, layout=layout)
        self.held = held.become(held.content.evolve(labelled=Labelled(path, changed)))
        self.draft.specs[path] = changed

    def _change_coordinate(self, path: str, spec: ArraySpec) -> None:
        known = self.draft.specs[path]
        if spec.numpy_dtype != known.numpy_dtype:
            raise Unsupported("the type of an array cannot be changed", node=path, remedy="delete it and make it anew")
        self.draft.put_coordinate(path, spec.evolve(chunks=known.chunks, codecs=known.codecs, layout=known.layout))
        self._decide()

    def _add(self, path: str, spec: ArraySpec) -> None:
        planned = spec if is_planned(spec) else new_array(spec, self.options)
        self.draft.specs[path] = planned
        try:
            self._decide(path)
        except BaseException:
            self.draft.drop(path)
            raise

    def _decide(self, new: str | None = None) -> None:
        """See which array is the main one now, and have its cells in chunks, and no others'."""
        main = self.main if self.fixed else found_main(self.draft.specs)
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
        """The cells of the array that was the main one go into memory."""
        path, held = self.main, self.held
        if path is None or held is None:
            return
        spec = self.draft.specs[path]
        check_small(spec, path)
        self.draft.put_coordinate(path, spec)
        cells = self.draft.cells[path]
        for number in range(held.count):
            part = _rows(cells, held.content.axis, number, held.rows)
            if part.size:
                block = held.block(number)
                part[...] = _rows(block, held.content.axis, 0, _length(part, held.content.axis))
        held.slots.discard()
        self.draft.main, self.held = None, None

    def _promote(self, path: str) -> None:
        """The cells of an array go from memory into chunks."""
        spec = self.draft.specs[path]
        order = order_of(spec.shape, self.options)
        content = Content(labelled=Labelled(path, spec), stored=packed(spec.numpy_dtype), order=order)
        cuts: Any = spec.chunks
        held = self._make(content, cuts[content.axis] if spec.shape else 1)
        cells = self.draft.cells.pop(path, None)
        self.draft.main, self.held = path, held
        if cells is None or not cells.size:
            return
        for number in range(held.count):
            block = held.block(number)
            part = _rows(cells, content.axis, number, held.rows)
            _rows(block, content.axis, 0, _length(part, content.axis))[...] = part
            held.put(number, block)

    def drop(self, path: str) -> None:
        """Forget an array; Unsupported for the one that the file is."""
        self.draft.node(path)
        if self.fixed and path in ("", self.main):
            remedy = "remove the file, or save another dataset in its place (mode='w')"
            raise Unsupported("this array is the file", node=path, remedy=remedy)
        if path == self.main and self.held is not None:
            self.held.slots.discard()
            self.held = None
        self.draft.drop(path)
        self.touched = True
        self._decide()

    def content(self) -> Content:
        """All documents of the dataset; Invalid when there are several arrays, NodeNotFound when there is none."""
        if self.held is None and not self.draft.specs:
            raise NodeNotFound("there is no array yet")
        sure = self.fixed and self._first.issuperset(self.draft.specs)
        labelled = self.draft.labelled(self.main if sure else None)
        if self.held is None or labelled.name != self.main:
            raise Invalid(
                f"/{labelled.name} is not the array that /{self.main} is a coordinate of",
                remedy="give the array that is meant the dimensions of the others",
            )
        content = self.held.content.evolve(labelled=labelled)
        return content.evolve(plain=False) if content.plain and says_more(labelled) else content

    # -- cells ------------------------------------------------------------------------------------------------------

    def read_main(self, path: str, number: int, out: Block, axis: int) -> bool:
        """A chunk of the array, or of one that was taken for it when it was looked at."""
        if path == self.main and self.held is not None:
            if out.shape != self.held.shape:
                raise other_shape(path, out.shape, self.held.shape)
            return self.held.read_into(number, out)
        part = self._part_of(path, number, out, axis)
        out[...] = self.draft.specs[path].fill_cell()
        _rows(out, axis, 0, _length(part, axis))[...] = part
        return True

    def write_main(self, path: str, number: int, block: Block, axis: int) -> None:
        """The same for writing."""
        if path == self.main and self.held is not None:
            if block.shape != self.held.shape:
                raise other_shape(path, block.shape, self.held.shape)
            self.held.put(number, block)
        else:
            part = self._part_of(path, number, block, axis)
            part[...] = _rows(block, axis, 0, _length(part, axis))
            self.touched = True
        self.written = True

    def container_main(self, path: str) -> Any:
        """What lies in the array's stored chunks; None for one that stands in the document, or in another order."""
        held = self.held
        if path != self.main or held is None or held.content.order != "C":
            return None
        return container(held.content.stored, held.shape)

    def raw_main(self, path: str, number: int) -> bytes:
        """A chunk of the array as it will be stored."""
        return self._carrier(path).raw(number)

    def put_raw_main(self, path: str, number: int, chunk: bytes) -> None:
        """Take a stored chunk of the array as it is."""
        self._carrier(path).put_raw(number, chunk)
        self.written = True

    def _carrier(self, path: str) -> PendingChunks:
        if self.container_main(path) is None or self.held is None:
            raise Unsupported("its chunks cannot be moved as they are", node=path, remedy="read and write its cells")
        return self.held

    def _part_of(self, path: str, number: int, block: Block, axis: int) -> Block:
        cells = self.draft.cells.get(path)
        if cells is None:
            raise NodeNotFound(f"there is no /{path} any more", node=path)
        part = _rows(cells, axis, number, block.shape[axis] if block.ndim else 1)
        if any(part.shape[i] != block.shape[i] for i in range(block.ndim) if i != axis):
            raise other_shape(path, block.shape, cells.shape)
        return part

    def write_coordinate(self, path: str, cells: np.ndarray[Any, Any]) -> None:
        """All cells of a coordinate."""
        known = self.draft.cells.get(path)
        if known is None or known.shape != cells.shape:
            raise other_shape(path, cells.shape, self.draft.specs[path].shape if path in self.draft.specs else ())
        self.draft.cells[path] = cells
        self.touched = True

    # -- to come back to --------------------------------------------------------------------------------------------

    def mark(self) -> Any:
        """The state now, for :meth:`reset`; of a dataset that is there."""
        held = self.held
        return self.draft.copy(), held, held and held.mark(), self.touched, self.written

    def reset(self, mark: Any) -> None:
        """As it was when the mark was made."""
        self.draft, held, marked, self.touched, self.written = mark
        self.held = held and held.reset(marked)


def says_more(labelled: Labelled) -> bool:
    """Return whether something is said of a stream of bytes that its metadata, which are its attributes, have no
    place for.
    """
    spec, group = labelled.spec, labelled.group
    named = any(dim is not None for dim in spec.dims)
    return bool(named or spec.fill_value is not None or labelled.coords or group.attrs or group.dims)


def _rows(cells: Block, axis: int, number: int, rows: int) -> Block:
    """The ``number``-th run of so many rows."""
    if not cells.ndim:
        return cells
    part = slice(number * rows, (number + 1) * rows)
    return cells[part] if axis == 0 else cells[..., part]


def _length(cells: Block, axis: int) -> int:
    return int(cells.shape[axis]) if cells.ndim else 1
