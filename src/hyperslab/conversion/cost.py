"""The cost of a conversion before it runs: what is read how often and written, and how long a sample of it took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

from hyperslab.chunks.settings import Settings
from hyperslab.conversion.copy import ArrayCopy, ConversionJob
from hyperslab.conversion.opening import trial_session
from hyperslab.conversion.plan import write_documents
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.model.amounts import counted, size_text
from hyperslab.stores.location import Location

# Seconds after which no further box is read and encoded as a sample.
_PATIENCE = 1.0
# Boxes of each array that are tried, spread over it.
_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class ArrayCost:
    """The cost of one array: ``chunks`` of the source that hold the cells, and ``reads`` of them, more where some are
    read twice; ``written`` chunks (shards) of the target; bytes of cells, and as stored where the source tells."""

    path: str
    chunks: int
    reads: int
    written: int
    nbytes: int
    stored_nbytes: int | None
    memory: int


@dataclass(frozen=True, slots=True)
class ConversionCost:
    """The cost of a conversion. Of places in the network each chunk that is read or written is a request.
    ``written_nbytes`` and ``seconds``: estimates from a sample, None where none could be taken."""

    arrays: tuple[ArrayCost, ...]
    nbytes: int
    stored_nbytes: int | None
    memory: int
    written_nbytes: int | None
    seconds: float | None

    @property
    def reads(self) -> int:
        """Chunks that are read, each as often as it is."""
        return sum(each.reads for each in self.arrays)

    def __str__(self) -> str:
        chunks, written = (sum(getattr(each, name) for each in self.arrays) for name in ("chunks", "written"))
        again = f", {self.reads - chunks:,} of them once more" if self.reads > chunks else ""
        lines = [
            f"reads {counted(chunks, 'chunk')}{again}: "
            f"{size_text(self.nbytes)} of cells, {size_text(self.stored_nbytes)} stored",
            f"writes {counted(written, 'chunk')}"
            + ("" if self.written_nbytes is None else f", about {size_text(self.written_nbytes)}"),
            f"takes up to {size_text(self.memory)} of memory for cells",
        ]
        twice = [each for each in self.arrays if each.reads > each.chunks]
        lines += [f"/{each.path} reads its chunks {each.reads / each.chunks:.1f} times" for each in twice]
        took = "how long it takes no sample tells"
        if self.seconds is not None:
            about = f"about {self.seconds:.0f} s" if self.seconds >= 1 else "less than a second"
            took = f"takes {about}, estimated from a sample"
        return "\n".join([*lines, took])


def estimate_cost(job: ConversionJob, where: Location, settings: Settings) -> ConversionCost:
    """Return the cost of a conversion into a target at ``where``: its documents and a few of its boxes are written into
    memory, or a temporary file, and forgotten. Unsupported for a target in a database."""
    if job.format.traits.in_database:
        remedy = "leave --dry-run out, or take a format of files"
        raise Unsupported("what a database takes is not known before", url=job.source.url, remedy=remedy)
    with trial_session(job.format.name, where, job.options) as target:
        write_documents(target, job.nodes)
        copies = job.copies(target)
        arrays = tuple(_cost_of(copy, settings) for copy in copies)
        seconds, share = _sample(copies, settings)
    nbytes = sum(each.nbytes for each in arrays)
    stored = [each.stored_nbytes for each in arrays if each.stored_nbytes is not None]
    return ConversionCost(
        arrays,
        nbytes,
        sum(stored) if len(stored) == len(arrays) else None,
        max((each.memory for each in arrays), default=0),
        None if share is None else round(share * nbytes),
        None if seconds is None else seconds * nbytes,
    )


def _cost_of(copy: ArrayCopy, settings: Settings) -> ArrayCost:
    """Return the cost of one array, by arithmetic alone."""
    nbytes = copy.size * copy.target_spec.numpy_dtype.itemsize
    pairs = list(zip(copy.axis_cuts, copy.chunks_per_box, strict=True))
    chunks, reads = prod(cut.ideal for cut, _ in pairs), prod(cut.reads(count) for cut, count in pairs)
    stored = copy.source.nbytes_stored()
    if stored is not None:
        all_chunks = prod(axis.count for axis in copy.source.grid.axes)
        stored = round(stored * reads / max(all_chunks, 1))
    if not copy.size:
        return ArrayCost(copy.path, 0, 0, 0, 0, 0, 0)
    memory = copy.threads(settings.threads) * copy.step_bytes
    return ArrayCost(copy.path, chunks, reads, copy.chunks, nbytes, stored, memory)


def _sample(copies: Sequence[ArrayCopy], settings: Settings) -> tuple[float | None, float | None]:
    """Return seconds for a byte of cells, and stored bytes for one: of boxes that were read, encoded and written."""
    started, nbytes, stored, spent = time.perf_counter(), 0, 0, 0.0
    for copy in sorted(copies, key=lambda copy: -copy.size):
        pairs = zip(copy.axis_cuts, copy.chunks_per_box, strict=True)
        boxes = prod(-(-cut.target.count // count) for cut, count in pairs)
        for _, box in islice(copy.boxes(), 0, None, max(1, boxes // _SAMPLES)):
            if nbytes and time.perf_counter() - started > _PATIENCE:
                break
            begun, before = time.perf_counter(), copy.target.nbytes_stored() or 0
            try:
                values = copy.read_source(box, settings)
                copy.write_target(box, values, settings)
            except HyperslabError:  # damage, which the conversion itself tells
                return None, None
            spent += time.perf_counter() - begun
            nbytes += values.nbytes
            stored += (copy.target.nbytes_stored() or 0) - before
    return (spent / nbytes, stored / nbytes if stored else None) if nbytes else (None, None)
