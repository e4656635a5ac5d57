"""Places where bytes lie under keys: one abstract class, one file per kind of place, and what these share.

``base``        ``Store`` with a default for every operation, and its traits: what all callers name; ``wrapped`` has one
                that stands before another
``location``    from what a user names (path, URL, object) to a place, its store, a look at what is there; ``PLACES``;
                ``moments`` is what ``?at=`` says, ``several`` places that are named together
``directory``   a folder of files, the store of most datasets; ``reading`` is its reading half, ``folders`` the
                folders below a root, ``files`` the system calls, ``unexpected_files`` what lies there and is no value
``memory``, ``zip``, ``references``   a dict, an archive, kerchunk's documents
``object``      buckets and web servers; ``buckets`` makes them of URLs and options, ``requests`` says what failures
                mean, ``leases`` are locks where a store has none
``icechunk``    a version of a repository of icechunk, changed by commits; ``repositories`` knows where one is, its
                versions, history, tags and branches, ``repository_buckets`` how one in a bucket is reached,
                ``repository_keys`` its keys, ``repository_expiry`` what expires, ``turns`` how its threads keep apart
``several``, ``endpoints``   places of a list; the two sides of a conversion or comparison, with their options
``foreign``     stores of obstore, fsspec and zarr-python, and mappings, as ours; ``location`` adopts them
``keyvalue``    a mapping over any store, for users
``keys``, ``ranges``, ``attempts``, ``credentials``   what is a key, byte ranges, tries after a conflict, secrets
``locks``, ``atomic_file``, ``building``, ``unclosed``   files for formats and conversion: held, replaced, built, lost
``counting``    what a block cost, behind ``hs.trace()``, and who watches chunks that are done
``forks``       what a forked process makes anew; whatever has locks, threads or clients calls it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab.stores.base import Store, StoreTraits
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.keyvalue import KeyValueMap
from hyperslab.stores.memory import MemoryStore
from hyperslab.stores.wrapped import WrappedStore

if TYPE_CHECKING:
    from hyperslab.stores.zip import ZipStore

__all__ = ["DirectoryStore", "KeyValueMap", "MemoryStore", "Store", "StoreTraits", "WrappedStore", "ZipStore"]


def __getattr__(name: str) -> Any:
    if name == "ZipStore":
        from hyperslab.stores.zip import ZipStore

        return ZipStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
