"""join: several datasets of any format as one, read-only: what ``hs.join`` and a list of places give.

Nothing is copied and nothing is stored: arrays that have the joined dimension lie in all pieces, chunk by chunk; all
others are those of the first piece. The labels of the joined dimension are read when the dataset is opened.

``pieces`` (what is known of each piece; checks, order), ``frames`` (data frames among them), ``workers`` (a look at all
of them), ``chunks`` (the chunks of all pieces, and where these lie), ``reader``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.base import Feature, Format, FormatInfo, Mode, Reader, Variant
from hyperslab.formats.join.pieces import open_piece
from hyperslab.formats.join.reader import JoinReader
from hyperslab.stores.location import Location, Probe, Several

PACKINGS = ("same", "decoded")
"""What becomes of arrays that pieces pack differently: an error, or floats."""

_FEATURES = frozenset(Feature) - {Feature.LINKS, Feature.REFERENCES, Feature.SHARDS, Feature.SPARSE, Feature.LABELS}


@dataclass(frozen=True, slots=True)
class JoinFormat(Format):
    """Format ``join``; options ``along`` (the dimensions that are joined) and ``packing``."""

    name = "join"
    features = _FEATURES
    info = FormatInfo(
        "join",
        "several datasets of any format as one, by a dimension or several; only read",
        "a list of places, or a path with * or ?",
        False,
        (Variant("join", _FEATURES),),
    )

    def sniff(self, probe: Probe) -> bool:
        """Return True for a list of places."""
        return isinstance(probe.where.target, Several)

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        remembered: Probe | None = None,
        along: str | Sequence[str] | None = None,
        packing: str | None = None,
        locates: bool = False,
        advance: Callable[[], None] = lambda: None,
    ) -> Reader:
        """Open places as one dataset, to be read; without options as the list of places says. ``locates``: note where
        the chunks of each piece lie while it is open; ``advance`` is called after each. Invalid for pieces that do not
        fit, Unsupported for other modes."""
        if mode != "r":
            remedy = "convert them to one dataset, or open one of them"
            raise Unsupported("datasets that are joined are only read", url=where.url, remedy=remedy)
        several = where.target if isinstance(where.target, Several) else Several((where,))
        places, packing = several.places, packing or several.packing
        if packing not in PACKINGS:
            raise Invalid(f"packing={packing!r}", url=where.url, remedy=f"it is one of {', '.join(PACKINGS)}")
        dims = several.along if along is None else (along,) if isinstance(along, str) else tuple(along)

        formats: list[Format] = []

        def open_reader(number: int) -> Reader:
            reader, format = open_piece(places[number], settings)
            if format not in formats:
                formats.append(format)
            return reader

        return JoinReader(
            places,
            open_reader,
            dims,
            decodes=packing == "decoded",
            locates=locates,
            settings=settings,
            advance=advance,
            formats=formats,
        )


FORMAT = JoinFormat()
