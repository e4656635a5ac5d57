"""Opening and making datasets of documents and chunks under keys, one way for all Zarr-like formats."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import FormatError, NodeNotFound
from hyperslab.formats.base import Feature, Format, Mode, Reader
from hyperslab.formats.enclosing import EnclosingDataset
from hyperslab.formats.opening import check_bool, has_keys, nothing_at, replace_folder
from hyperslab.formats.signatures import is_unfinished, unfinished_error
from hyperslab.formats.zarr.dialect import MetadataDialect
from hyperslab.formats.zarr.reader import ZarrReader
from hyperslab.formats.zarr.writer import ZarrWriter
from hyperslab.model.spec import GroupSpec
from hyperslab.stores.base import Store
from hyperslab.stores.building import already_exists
from hyperslab.stores.location import Location, Probe

_EXTENDED = "in the attribute `_hyperslab`, which other readers pass over"
EXTENDED_NOTES = dict.fromkeys(
    (Feature.UNLIMITED, Feature.TYPED_ATTRIBUTES, Feature.USER_TYPES, Feature.CHAR), _EXTENDED
)
"""Notes of each format that says in ``_hyperslab`` what Zarr has no word for."""
PLAIN_NOTES = EXTENDED_NOTES | {
    Feature.LABELS: _EXTENDED,
    Feature.LINKS: "no word for them; format hdmf has",
    Feature.REFERENCES: "no word for them; format hdmf has",
}
"""Notes of plain Zarr, of either version."""


class ZarrFormat(Format):
    """A format of documents and chunks under keys: its datasets can be checked and mended key by key."""

    @property
    @abstractmethod
    def metadata_dialect(self) -> MetadataDialect:
        """Return the dialect of its documents: what they are called and how they read."""

    dialects: ClassVar[tuple[type[MetadataDialect], ...]]
    """The dialects that datasets of this format have."""

    def find_group_name(self, probe: Probe) -> str | None:
        """Return what the document of a group is called beside that of the array at this place; None where none is.

        ``probe``: it has read nothing where the user named the format.
        """
        look = probe.seen.get if probe.seen else probe.store.get
        for dialect in self.dialects:
            document = look(dialect.nodes[0])
            if document is not None and dialect.is_array_document(document):
                return dialect.nodes[-1]
        return None

    @property
    def is_known_by_root(self) -> bool:
        """Return True where the documents of the root alone tell it: nodes below are as those of another format."""
        return False

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        remembered: Probe | None = None,
        consolidated: bool = False,
    ) -> Reader:
        """Open or make a dataset. ``consolidated``: write consolidated metadata even where there is none."""
        dialect = self.metadata_dialect
        return open_zarr(
            self, dialect, where, mode, settings=settings, consolidated=consolidated, remembered=remembered
        )

    reader: ClassVar[type[ZarrReader]] = ZarrReader
    """Reads the documents in a store; a new one has not looked at anything yet."""
    writer: ClassVar[type[ZarrWriter]] = ZarrWriter
    """Writes such documents."""

    def check_reader(self, store: Store, dialect: Any, settings: Settings, where: Location) -> ZarrReader:
        """Return the reader that ``check`` uses, of the dataset at ``where``."""
        return self.reader(store, dialect, settings)

    def repair_writer(self, store: Store, dialect: Any, settings: Settings, where: Location) -> ZarrWriter:
        """Return the writer that ``repair`` uses, of the dataset at ``where``."""
        return self.writer(store, dialect, settings)


def open_zarr(
    format: ZarrFormat,
    dialect: MetadataDialect,
    where: Location,
    mode: Mode,
    *,
    settings: Settings = DEFAULTS,
    consolidated: bool = False,
    at_once: bool = True,
    remembered: Probe | None = None,
) -> ZarrReader:
    """Return the format's reader (mode ``r``) or writer of the dataset at ``where``; ``w`` and ``x`` make it.

    ``consolidated``: write consolidated metadata even where there is none, of a dataset that is there ``at_once`` or
    with its first change. ``remembered``: what has looked at the place.
    """
    check_bool("consolidated", consolidated)
    seen = None if remembered is None else remembered.seen
    if mode == "r":
        store = where.store(read_only=True) if remembered is None else remembered.store
        return _opened(format.reader(store, dialect, settings, seen), dialect, where)

    def make(path: str) -> None:
        open_zarr(format, dialect, Location.of(path), "x", settings=settings, consolidated=consolidated)

    # beside the old one, so that a failure leaves that; elsewhere keys are replaced in place
    if mode == "w" and replace_folder(
        where, make, durable=settings.durable, around=EnclosingDataset(where, settings).follow_whole()
    ):
        mode = "r+"
    store = where.store(read_only=False, create=mode != "r+")
    writer = format.writer(store, dialect, settings, seen if mode == "r+" else None, consolidated=consolidated)
    writer.enclosing = EnclosingDataset(where, settings)
    if mode == "r+":
        _opened(writer, dialect, where)
        if consolidated and at_once and not writer.is_consolidated:
            writer.consolidate()
        return writer
    with writer.lock_node(""):  # whoever else makes a dataset here, a conversion for one, is done or has not begun
        if mode == "w":
            with writer.enclosing.follow(gone=("",)):
                store.delete_prefix("")
        elif has_keys(store):
            raise already_exists(where.url)
        writer.put("", GroupSpec())
    return writer


def _opened(reader: ZarrReader, dialect: MetadataDialect, where: Location) -> ZarrReader:
    try:
        reader.node("")
    except NodeNotFound:
        if is_unfinished(where):
            raise unfinished_error(where.url) from None
        # whether there is a folder was asked before; a bucket is asked now
        if where.scheme not in ("file", "http", "https") and not has_keys(reader.store):
            raise nothing_at(where) from None
        message = f"this holds no {dialect.format} dataset: no {' or '.join(dialect.nodes)}"
        raise FormatError(message, url=reader.store.url, remedy="leave format out: what lies there tells it") from None
    return reader
