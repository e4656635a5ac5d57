"""An array's page in a notebook: shape, type, chunks with their picture, size, codecs, attributes. No cell is read."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Protocol

from hyperslab.array.markup import attributes, dims_text, page, text
from hyperslab.array.picture import picture
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.grid import Grid
from hyperslab.errors import HyperslabError
from hyperslab.model.amounts import counted, size_text
from hyperslab.model.attrs import equal
from hyperslab.model.dtypes import describe, is_fixed
from hyperslab.model.spec import ArraySpec, Chunks

MOST_LISTED = 1000
"""Stored chunks that are looked at, at most, to tell the stored size."""


class ShownArray(Protocol):
    """What the page needs of an :class:`~hyperslab.array.Array`."""

    _session: OpenDataset

    @property
    def path(self) -> str: ...
    @property
    def spec(self) -> ArraySpec: ...
    @property
    def nbytes_stored(self) -> int | None: ...


def array_html(array: ShownArray) -> str:
    """The page of one array."""
    spec = array.spec
    header = (
        f'<span class="hs-kind">hyperslab.Array</span> <span class="hs-name">/{text(array.path)}</span> '
        f"{dims_text(spec.dims, spec.shape)} <code>{text(describe(spec.dtype))}</code>"
    )
    return page(header, cells_html(spec, _stored(array)), attributes(spec.attrs))


def cells_html(spec: ArraySpec, stored: int | None = None) -> str:
    """How the cells are stored, as a table beside a picture of the chunk grid."""
    chunks = spec.inner_chunks or spec.chunks
    rows = {"": ("Array", "Chunk"), "Bytes": (_raw_bytes(spec, spec.shape), _raw_bytes(spec, _largest(chunks)))}
    rows["Shape"] = (text(spec.shape), text(_chunks_text(chunks)))
    rows["Count"] = (
        counted(len(spec.shape), "dimension"),
        counted(Grid.of(spec.shape, chunks).size, "chunk"),
    )
    body = "".join(f"<tr><th>{name}</th><td>{a}</td><td>{b}</td></tr>" for name, (a, b) in rows.items())
    more = "".join(
        f'<tr><th>{name}</th><td colspan="2">{value}</td></tr>' for name, value in _more(spec, stored).items()
    )
    problem = f'<div class="hs-bad">{text(spec.problem)}</div>' if spec.problem else ""
    return f'{problem}<div class="hs-cells"><table>{body}{more}</table>{picture(spec.shape, chunks)}</div>'


def _more(spec: ArraySpec, stored: int | None) -> Mapping[str, str]:
    rows = {"Type": f"<code>{text(describe(spec.dtype))}</code>"}
    if spec.sparse:
        rows["Sparse"] = f"{text(spec.sparse)}: the cells that are not the fill value"
    if spec.inner_chunks:
        rows["Shards"] = f"{text(_chunks_text(spec.chunks))}, {Grid.of(spec.shape, spec.chunks).size:,} in all"
    if stored is not None:
        rows["Stored"] = size_text(stored)
    if spec.codecs:
        rows["Codecs"] = " → ".join(f"<code>{text(codec.name)}</code>" for codec in spec.codecs)
    if spec.fill_value is not None and not equal(spec.fill_value, ""):
        rows["Fill value"] = f"<code>{text(spec.fill_value, 60)}</code>"
    return rows


def _raw_bytes(spec: ArraySpec, shape: tuple[int, ...]) -> str:
    if not is_fixed(spec.dtype):
        return "varying"
    return size_text(prod(shape) * spec.numpy_dtype.itemsize)


def _largest(chunks: Chunks) -> tuple[int, ...]:
    return tuple(cut if isinstance(cut, int) else max(cut, default=0) for cut in chunks)


def _chunks_text(chunks: Chunks) -> str:
    """Chunk lengths; of an axis whose sizes vary, the smallest and the largest."""
    cuts = [str(cut) if isinstance(cut, int) else f"{min(cut, default=0)}…{max(cut, default=0)}" for cut in chunks]
    return f"({', '.join(cuts)}{',' if len(cuts) == 1 else ''})"


def _stored(array: ShownArray) -> int | None:
    """The stored size, where telling it needs no network and few listings."""
    remote = "://" in array._session.url and not array._session.url.startswith(("file://", "memory://", "zip://"))
    if remote or array.spec.problem or Grid.of(array.spec.shape, array.spec.chunks).size > MOST_LISTED:
        return None
    try:
        return array.nbytes_stored
    except HyperslabError:
        return None
