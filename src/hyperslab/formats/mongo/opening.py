"""What a URL names, opened in a mode."""

from __future__ import annotations

from hyperslab.chunks.settings import Settings
from hyperslab.errors import AlreadyExists, Invalid, NotFound
from hyperslab.formats.base import Mode, Reader
from hyperslab.formats.mongo.collection import CollectionWriter
from hyperslab.formats.mongo.dataset import Stock, check_name, open_reader
from hyperslab.formats.mongo.draft import ObjectDraft
from hyperslab.formats.mongo.server import ServerPlace
from hyperslab.formats.mongo.writer import EmbeddingLimits, ObjectWriter
from hyperslab.stores.location import Location


def open_place(where: Location, mode: Mode, settings: Settings, limits: EmbeddingLimits) -> Reader:
    """The object or the collection; a new object in the modes ``x`` and ``w``, and ``a`` where there is none."""
    stock = Stock.of(ServerPlace.of(where), settings)
    wanted = stock.place.object
    if mode == "r":
        return open_reader(stock)
    if wanted is None:
        if mode == "w":
            remedy = "name one object of it behind #, or remove its objects one by one"
            raise Invalid("a whole collection is not replaced", url=stock.url, remedy=remedy)
        return CollectionWriter(stock, where, limits)
    try:
        key = stock.resolve(wanted)
    except NotFound:
        if mode == "r+":
            raise
        return ObjectDraft(stock, where, check_name(stock.place), limits, overwrite=mode == "w")
    if mode == "x":
        raise AlreadyExists("there is an object of this name", url=stock.url, remedy="mode='w' replaces it")
    if mode == "w":
        return ObjectDraft(stock, where, check_name(stock.place), limits, overwrite=True)
    return ObjectWriter(stock, stock.document(key), limits)
