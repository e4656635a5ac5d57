"""Compare a finished target with its source, both opened anew: types, dimensions, attributes, cells by their bits.

What no read shows (documents beside a consolidated copy, the padding of chunks at the edge, a compressor's parameters)
is compared as bytes: the documents, and the chunks that no checksum covers, are made once more and written into a store
that takes only what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.progress import ProgressCallback
from hyperslab.chunks.settings import Settings
from hyperslab.codecs.checksums import Checksum
from hyperslab.codecs.registry import CODECS, as_codecs
from hyperslab.conversion.copy import SETTINGS, ArrayCopy, Check, ConversionJob, CopyProgress, copy_box
from hyperslab.conversion.opening import dataset_session
from hyperslab.conversion.plan import render_documents
from hyperslab.conversion.report import Verification
from hyperslab.conversion.staging import StagedTarget
from hyperslab.errors import CorruptChunk, FormatError
from hyperslab.formats.base import Feature
from hyperslab.model.cells import same_cells
from hyperslab.model.differences import differences
from hyperslab.model.spec import ArraySpec, GroupSpec, Node
from hyperslab.stores.base import Buffer
from hyperslab.stores.location import Location
from hyperslab.stores.wrapped import WrappedStore

_REMEDY = "the medium is at fault, or another program wrote here: convert again"


class ComparingStore(WrappedStore):
    """A store that takes only what it has: writing a dataset over itself shows every bit that differs.

    CorruptChunk when a value is not the one that lies there.
    """

    @property
    def read_only(self) -> bool:
        """Return False, so that a writer opens it; the other store is only read."""
        return False

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Compare the value with the stored one."""
        found = self._store.get(key)
        if found is None:
            self._differ(key, "a stored value is missing", len(memoryview(value)), None)
        if memoryview(found) != memoryview(value).cast("B"):
            self._differ(key, "stored bytes differ from what was written", len(memoryview(value)), len(found))

    def delete(self, key: str, *, durable: bool = False) -> None:
        """Raise CorruptChunk: the writer found a value that should not be there."""
        self._differ(key, "a stored value should not be there", None, None)

    def _differ(self, key: str, message: str, expected: int | None, found: int | None) -> NoReturn:
        sizes = {} if found is None else {"expected": f"{expected} bytes", "found": f"{found} bytes"}
        raise CorruptChunk(message, url=self._store.url, key=key, remedy=_REMEDY, **sizes)


_LOSSY = frozenset(name for name, entry in CODECS.items() if entry.is_lossy)
_CHECKSUMS = frozenset(name for name, entry in CODECS.items() if entry.made is Checksum)


def is_checksummed(codecs: Iterable[object]) -> bool:
    """Return True if every stored byte of a chunk (shard) is under a checksum, so that reading it proves it."""
    steps = _steps(codecs)
    if not steps:
        return False
    name, config = steps[-1]
    if name == "sharding_indexed":
        return is_checksummed(config["codecs"]) and is_checksummed(config.get("index_codecs", ()))
    return name in _CHECKSUMS


def is_lossy(codecs: Iterable[object]) -> bool:
    """Return True if a chunk may be read as other cells than were written, for that is what the caller asked for."""
    return any(name in _LOSSY or is_lossy(config.get("codecs", ())) for name, config in _steps(codecs))


def _steps(codecs: Iterable[object]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return names and configurations of codecs, of the model or as documents have them."""
    return [(codec.name, codec.config) for codec in as_codecs(list(codecs))]


_AGAIN = "convert again"


def verify_target(
    job: ConversionJob, src: Location, staged: StagedTarget, report: ProgressCallback, *, keyed: bool
) -> Verification:
    """Return what was equal; FormatError or CorruptChunk at the first node, box or stored value that differs."""
    with dataset_session(src) as source, dataset_session(staged.reopen_place(), format=job.format.name) as target:
        try:
            # Documents are made once more and compared byte by byte: a reader may look at one copy of several only.
            if keyed:
                compare_stored_documents(render_documents(job.format, job.nodes, job.options), target)
            dims = Feature.DIMENSIONS in job.format.features
            attributes = 0
            for plan in job.nodes:
                node = target.reader.node(plan.source.path)
                if not plan.node.is_link:
                    attributes += compare_specs(plan.source.path, plan.node, node, dims)
                elif node != plan.node:
                    raise FormatError("the link differs from the source", node=plan.source.path, remedy=_AGAIN)
            copies = job.copies(target, source)
            progress = CopyProgress(copies, report)
            with _rewritten_copies(job, staged, keyed) as twins:
                for copy in copies:
                    compare_cells(copy, SETTINGS, progress, twins.get(copy.path))
        except (FormatError, CorruptChunk) as error:
            raise error.locate(url=target.url) from error.__cause__
    return Verification(
        groups=sum(plan.node.is_group for plan in job.nodes),
        arrays=len(copies),
        attributes=attributes,
        cells=sum(copy.size for copy in copies),
        nbytes=progress.current.done_bytes,
    )


@contextmanager
def _rewritten_copies(job: ConversionJob, staged: StagedTarget, keyed: bool) -> Iterator[Mapping[str, ArrayCopy]]:
    """Yield by path copies into a :class:`ComparingStore`, of the arrays that reading alone does not prove."""
    if not keyed:
        yield {}
        return
    place = staged.reopen_place()
    store = place.store(read_only=True) if isinstance(place, Location) else place
    with dataset_session(ComparingStore(store), mode="r+", format=job.format.name) as target:
        chains = ((copy, copy.target_spec.codecs) for copy in job.copies(target))
        yield {copy.path: copy for copy, codecs in chains if not is_checksummed(codecs) or is_lossy(codecs)}


def compare_stored_documents(documents: Mapping[str, bytes], target: OpenDataset) -> None:
    """Raise FormatError at the first document whose bytes are not those that were written."""
    store = target.reader.store
    if store is None:
        return
    for key, expected in documents.items():
        found = store.get(key)
        if found != expected:
            what = "is missing" if found is None else "differs from what was written"
            raise FormatError(f"a document {what}", url=target.url, key=key, remedy=_AGAIN)


def compare_specs(path: str, expected: GroupSpec | ArraySpec, found: Node, dims: bool) -> int:
    """Return the number of equal attributes; FormatError that lists every difference from what was asked for."""
    problems = differences(path, expected, found, dims=dims)
    if problems:
        shown = "; ".join(str(problem) for problem in problems)
        raise FormatError(f"the target differs from the source: {shown}", problems=problems, node=path, remedy=_AGAIN)
    return len(expected.attrs)


def compare_cells(copy: ArrayCopy, settings: Settings, progress: CopyProgress, twin: ArrayCopy | None = None) -> None:
    """Raise CorruptChunk at the first box whose cells, or stored bytes, differ by a bit.

    Stored bytes are compared where a ``twin`` is given that writes them again; of cells that a codec may change they
    are compared alone.
    """
    # A lossy codec gives back other cells than it was given, so of those only the stored bytes can be compared.
    exact = twin is None or not is_lossy(copy.target_spec.codecs)

    def work(number: int, box: Box, check: Check) -> None:
        wanted, there = copy.read_source(box, settings, check), copy.read_target(box, settings)
        if exact and not same_cells(wanted, there):
            cells = ", ".join(f"{part.start}:{part.stop}" for part in box)
            raise CorruptChunk(
                f"the cells [{cells}] differ from the source",
                node=copy.path,
                remedy=f"the medium is at fault, or the source changed meanwhile: {_AGAIN}",
            )
        if twin is not None:
            if twin.can_copy_buffers:
                copy_box(twin, box, settings, check)
            else:
                twin.write_target(box, wanted, settings, check)
        progress(copy, number, box)

    copy.run(work, settings)
