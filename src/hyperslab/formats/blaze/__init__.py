"""Blaze directories: an array as Blosc chunks in superchunk files; bcolz and BLZ directories are read, bcolz's written.

The chunked half of the specification that Blaze shipped as ``docs/source/format.rst`` (2012-12), which repeats the
persistence format of carray and bcolz ::

    air.blaze/
    ├── data/__1__.bin …   superchunks: header, offsets, Blosc chunks of rows, each with its digest
    ├── data/col2/sc1/…    the same for each column of a structured array, nested as its fields are
    └── meta/
        ├── sizes          {"shape": [10000000], "nbytes": 80000000, "cbytes": 17316745}
        ├── storage        {"dtype": "float64", "cparams": {"shuffle": true, "clevel": 5}, "chunklen": 16384, …}
        ├── attributes     {"temperature": 11.4}
        ├── superchunks    {"nchunks": 256, "checksum": "adler32", "cname": "lz4"} (ours)
        └── labels         name, dimensions, coordinates (ours; only when there are any)

``layout="bcolz"`` writes what bcolz 1.2 reads: ``data/__0.blp`` … with one chunk each, ``__attrs__``.

Read: ``document`` (JSON documents; new arrays), ``data_file`` (a file of chunks), ``column`` (the files of a column),
``superchunks`` (the same for writing), ``folder`` (one array: documents and columns), ``dataset`` (the readers of a
directory, and of several shards as one), ``rules`` (of damage). Written: ``writer``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any, Literal

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.base import Feature, Format, FormatInfo, FormatTraits, Mode, Reader, Variant
from hyperslab.formats.blaze.dataset import BlazeReader, MultiDirectoryReader
from hyperslab.formats.blaze.document import SIZES, STORAGE, TABLE, BlazeOptions
from hyperslab.formats.blaze.writer import BlazeWriter
from hyperslab.formats.opening import has_keys, replace_folder
from hyperslab.formats.single_array.document import FEATURES, NOTES, Document
from hyperslab.stores.building import already_exists
from hyperslab.stores.location import REMOTE, Location, Probe, Several

_HOLDS = FEATURES | {Feature.SHARDS}
_BCOLZ_LACKS = {
    Feature.SHARDS: "each chunk is a file",
    Feature.CHECKSUMS: "its chunk files have no digests",
    Feature.STRUCTURED: "bcolz cannot open structured arrays that it has written",
    Feature.SUBARRAYS: "bcolz cannot open structured arrays that it has written",
}
_TABLES = (".blaze", ".bcolz", ".blz")
"""The names by which a table on a server is known."""


@dataclass(frozen=True)
class BlazeFormat(Format):
    """Format ``blaze``, read and written."""

    layout: Literal["blaze", "bcolz"] = "blaze"

    @property
    def name(self) -> str:
        return "blaze"

    @property
    def features(self) -> frozenset[Feature]:
        """The features that the layout has."""
        return _HOLDS - _BCOLZ_LACKS.keys() if self.layout == "bcolz" else _HOLDS

    @property
    def traits(self) -> FormatTraits:
        """The traits of the layout; bcolz has no array without dimensions, but coordinates may be such."""
        scalars = {Feature.SCALARS} if self.layout == "bcolz" else set()
        return FormatTraits(options_cut=True, finds_damage=True, in_coordinates=frozenset({Feature.STRINGS, *scalars}))

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options of a new array."""
        return tuple(field.name for field in fields(BlazeOptions))

    def variant(self, options: Document) -> Format:
        return BlazeFormat("bcolz" if options.get("layout") == "bcolz" else "blaze")

    @property
    def info(self) -> FormatInfo:
        holds = "one array with its coordinates, in superchunk files; tables of bcolz and BLZ are read"
        bcolz = BlazeFormat("bcolz").features
        variants = (
            Variant("blaze", _HOLDS, {"layout": "blaze"}, NOTES | {Feature.SHARDS: "superchunks: one file each"}),
            Variant(
                "bcolz", bcolz, {"layout": "bcolz"}, NOTES | _BCOLZ_LACKS | {Feature.SCALARS: NOTES[Feature.STRINGS]}
            ),
        )
        return FormatInfo("blaze", holds, "meta/storage and meta/sizes, or __rootdirs__", True, variants)

    def sniff(self, probe: Probe) -> bool:
        """Return True if the documents of an array, or of a table, are there."""
        if isinstance(probe.where.target, Several):
            return all(Probe(each).get(STORAGE) is not None for each in probe.where.target.places)
        if probe.get(STORAGE) is not None:
            return probe.get(SIZES) is not None
        asks = probe.where.scheme not in REMOTE or probe.where.suffix in _TABLES  # on a server it is a request more
        return asks and probe.get(TABLE) is not None

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        remembered: Probe | None = None,
        **options: Any,
    ) -> Reader:
        """Open or make a dataset; options for new arrays: ``layout``, ``checksum``, ``superchunk``, ``slack``."""
        chosen = BlazeOptions(**options)
        seen = None if remembered is None else remembered.seen
        if isinstance(where.target, Several):
            store = where.store(read_only=mode == "r")
            stores = [place.store(read_only=True) for place in where.target.places]
            return MultiDirectoryReader(store, stores, settings)
        if mode == "r":
            return _require_dataset(BlazeReader(where.store(read_only=True), settings, seen))
        if mode == "w":
            replace_folder(where, os.mkdir, durable=settings.durable)
        store = where.store(read_only=False, create=mode != "r+")
        if mode == "r+":
            writer = _require_dataset(BlazeWriter(store, settings, chosen, remembered=seen))
            # A chunk that is new would belong in a file that nobody can tell.
            if writer.table is None and writer.folder.is_uneven:
                writer.close()
                remedy = "convert it into a new dataset"
                raise Unsupported("superchunks of different lengths are only read", url=store.url, remedy=remedy)
            return writer
        if has_keys(store):
            if mode == "x":
                raise already_exists(where.url)
            store.delete_prefix("")
        return BlazeWriter(store, settings, chosen, new=True)


def _require_dataset(reader: BlazeReader) -> BlazeReader:
    try:
        if reader.table is None:
            reader.node("")
    except KeyError:
        message = "this holds no blaze dataset: no meta/storage and meta/sizes, no __rootdirs__"
        raise FormatError(message, url=reader.store.url) from None
    return reader


FORMAT = BlazeFormat()
