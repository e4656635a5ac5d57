"""The report of a conversion: plain values, printable; and the arrays that are cut otherwise than was requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hyperslab.codecs import checksums
from hyperslab.conversion.copy import ArrayCopy
from hyperslab.conversion.cost import ConversionCost
from hyperslab.conversion.losses import Loss
from hyperslab.conversion.rechunk import AxisLengths, Encoding, lengths_by_axis
from hyperslab.errors import Problem
from hyperslab.formats.codec_kinds import inner_codecs
from hyperslab.group.cf_variables import name_companions
from hyperslab.model.amounts import counted, size_text
from hyperslab.model.spec import Chunks


@dataclass(frozen=True, slots=True)
class Verification:
    """Numbers of nodes, attributes, cells and bytes that a second read of both sides found equal."""

    groups: int
    arrays: int
    attributes: int
    cells: int
    nbytes: int


# Arrays that are named one by one; of more only the number is printed.
_FEW = 3


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """A finished conversion: from where to where, how much, what was lost, and what was verified (None: nothing).

    ``nbytes`` counts decoded cells, ``chunks`` the target's chunks whether or not a cell in them differs from the fill
    value, a shard (superchunk) as one; ``shards`` says how many of them are such. ``seconds``: the whole.
    ``resumed_nbytes``: how many of ``nbytes`` an
    interrupted conversion had copied. ``damaged``: what of the source could not be read and was left out. ``recut``:
    each array that is not cut into the chunks that were asked for, or the source's where none were, and how it is; and
    those with another checksum than fletcher32 of the source.
    ``companions``: the variables that came along with those that were chosen. ``recoded``: what became of cells.
    ``foreign``: files and folders in the source that no format knows, which are not copied. ``cost``: of a dry run.
    """

    source: str
    target: str
    format: str
    groups: int
    arrays: int
    links: int
    chunks: int
    nbytes: int
    seconds: float = 0.0
    losses: tuple[Loss, ...] = ()
    verified: Verification | None = None
    resumed_nbytes: int = 0
    damaged: tuple[Problem, ...] = ()
    recut: tuple[str, ...] = ()
    shards: int = 0
    companions: tuple[str, ...] = ()
    recoded: tuple[str, ...] = ()
    foreign: tuple[Problem, ...] = ()
    cost: ConversionCost | None = None

    def __str__(self) -> str:
        chunks = [counted(self.chunks - self.shards, "chunk")] if self.chunks > self.shards or not self.shards else []
        chunks += [counted(self.shards, "shard")] if self.shards else []
        took = f" in {self.seconds:.2f} s" if self.cost is None else ", by a dry run: nothing is written"
        lines = [
            f"{self.source} -> {self.target} ({self.format}): {counted(self.arrays, 'array')}, "
            f"{counted(self.groups, 'group')}, {' and '.join(chunks)}, {size_text(self.nbytes)} of cells{took}"
        ]
        lines += [] if self.cost is None else [str(self.cost)]
        lines += [name_companions(self.companions)] if self.companions else []
        lines += self.recoded
        if self.resumed_nbytes:
            lines.append(f"resumed: {size_text(self.resumed_nbytes)} of cells were there already")
        lines += [f"cut otherwise: {note}" for note in self.recut[:_FEW]]
        if len(self.recut) > _FEW:
            lines.append(f"cut otherwise: {counted(len(self.recut) - _FEW, 'more array')}")
        lines += [f"lost: {loss}" for loss in self.losses]
        lines += [f"not copied: {problem}" for problem in self.foreign]
        lines += [f"damaged, left out: {problem}" for problem in self.damaged]
        if self.verified is not None:
            seen = self.verified
            lines.append(
                f"verified: {counted(seen.cells, 'cell')} and {counted(seen.attributes, 'attribute')} "
                f"of {counted(seen.arrays, 'array')} equal"
            )
        return "\n".join(lines)


# -- arrays that are cut otherwise ------------------------------------------------------------------------------------


def describe_recut(copies: Sequence[ArrayCopy], encoding: Encoding) -> Iterator[str]:
    """Yield how each array, except coordinates, is cut that has other chunks than were asked for.

    Where none were asked for: than the source has. And which checksum of netCDF became another, or none.
    """
    yield from _describe_checksums(copies, encoding)
    if encoding.chunks == "auto":
        return
    for copy in copies:
        names = [copy.source_spec.dims[axis] for axis in copy.picked.kept]
        chunks = copy.target_spec.inner_chunks or copy.target_spec.chunks
        shape = copy.target_spec.shape
        if names == [copy.path.rpartition("/")[2]] or len(chunks) != len(names) or 0 in shape:
            continue
        cut = _clip_chunks(chunks, shape)
        if isinstance(encoding.chunks, Mapping):
            reason = _unmet_request(lengths_by_axis(encoding.chunks, copy.source_spec, copy.picked), shape, cut)
        else:
            reason = _changed_source_chunks(copy, cut)
        if reason:
            yield f"/{copy.path} has chunks of {' x '.join(map(str, chunks))} ({reason})"


def _describe_checksums(copies: Sequence[ArrayCopy], encoding: Encoding) -> Iterator[str]:
    """Yield which arrays lose the checksum that someone chose for them (netCDF has none by itself), unless the codec is
    chosen anew."""
    if encoding.codec is not None:
        return
    for copy in copies:
        before, after = (
            [codec.name for codec in inner_codecs(spec.codecs) if codec.name in checksums.WORDS]
            for spec in (copy.source_spec, copy.target_spec)
        )
        if "fletcher32" in before and "fletcher32" not in after:
            yield f"/{copy.path} has {f'the checksum {after[0]}' if after else 'no checksum'} (source: fletcher32)"


def _unmet_request(requested: AxisLengths, shape: tuple[int, ...], cut: list[int | tuple[int, ...]]) -> str:
    """Return the lengths that were asked for, when one is another; else nothing."""
    wished = [
        (dim, length if size == -1 else min(size, length), actual)
        for (dim, size), length, actual in zip(requested, shape, cut, strict=True)
        if size is not None
    ]
    if all(size == actual for _, size, actual in wished):
        return ""
    return "requested: " + ",".join(f"{dim}={size}" for dim, size, _ in wished)


def _changed_source_chunks(copy: ArrayCopy, cut: list[int | tuple[int, ...]]) -> str:
    """Return the chunks of a source that is cut, when the target's are others; else nothing."""
    spec = copy.source_spec
    chunks = spec.inner_chunks or spec.chunks
    before = _clip_chunks(tuple(chunks[axis] for axis in copy.picked.kept), copy.target_spec.shape)
    if before in (cut, list(copy.target_spec.shape)):
        return ""
    return f"source: {' x '.join(map(str, before))}"


def _clip_chunks(chunks: Chunks, shape: tuple[int, ...]) -> list[int | tuple[int, ...]]:
    """Return the chunks, none longer than its dimension."""
    return [min(cut, length) if isinstance(cut, int) else cut for cut, length in zip(chunks, shape, strict=True)]
