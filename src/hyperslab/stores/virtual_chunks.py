"""Virtual chunks of repositories of icechunk: chunks that lie in other files, of which the repository keeps the places.

A repository names the folders and servers in which they may lie (its containers); who reads it allows those that he
trusts. The version of a file is kept with each chunk, as icechunk does: its ETag, or the second of its last change.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from hyperslab.stores.repositories import RepositoryPlace, library, translate_errors
from hyperslab.stores.repository_buckets import container_store, major_minor
from hyperslab.stores.stored_file import StoredFile

_SECOND = 10**9
_SLASH = re.compile("/")


def location_of(file: StoredFile) -> str:
    """Return the URL by which icechunk knows a file."""
    return _absolute(file.url)


def _absolute(place: str) -> str:
    return place if "://" in place else f"file://{quote(os.path.realpath(place))}"


def checksum_of(file: StoredFile) -> str | datetime | None:
    """Return what icechunk compares the version of a file with. Times have whole seconds there, and a file that was
    changed later is another one: so the next second is kept."""
    if file.tag is not None or file.mtime is None:
        return None if _loses_quotes(file.url) else file.tag
    return datetime.fromtimestamp(-(-file.mtime // _SECOND), UTC)


def _loses_quotes(url: str) -> bool:
    """Return True for files on a web server by icechunk 2, which sends it their ETags without the quotes: no server
    knows them so, and each read would fail. A changed file is read unnoticed."""
    return url.startswith(("http://", "https://")) and major_minor(library()) >= (2, 0)


def find_prefixes(pieces: Sequence[str], files: Iterable[StoredFile]) -> list[str]:
    """Return the URLs of the folders in which the files lie: for each piece the dataset itself where that is a folder
    alone in its own, else the folder that it is in; those of files elsewhere."""
    locations = set(map(location_of, files))
    datasets = [_absolute(piece).rstrip("/") for piece in pieces]
    beside = Counter(map(_folder_of, datasets))
    folders = {
        f"{each}/" if each not in locations and beside[_folder_of(each)] == 1 else _folder_of(each) for each in datasets
    }
    found: set[str] = set()
    for folder in sorted(set(map(_folder_of, locations))):
        above = (folder[: slash.end()] for slash in _SLASH.finditer(folder))
        found.add(next((each for each in above if each in folders or each in found), folder))
    return sorted(found)


def _folder_of(url: str) -> str:
    return url.rpartition("/")[0] + "/"


def add_containers(place: RepositoryPlace, prefixes: Sequence[str], options: Mapping[str, Any]) -> None:
    """Have a repository, which is made where there is none, name the places of virtual chunks. ``options``: where
    servers are, as for the sources; no secret of these is kept.

    icechunk compares a path as the URL has it when a place of a chunk is stored, and without its escapes when the chunk
    is read: so a folder that is escaped is named both ways.
    """
    icechunk = library()
    wanted = {*prefixes, *(unquote(prefix) for prefix in prefixes if prefix.startswith("file://"))}
    # or Unsupported, and nothing is made
    stores = {prefix: container_store(icechunk, prefix, options) for prefix in sorted(wanted)}
    repository = place.open(create=True)
    with place.exclusive(None), translate_errors(place.name, doing="change"):
        config = repository.config
        known = config.virtual_chunk_containers or {}
        for prefix in sorted(wanted - known.keys()):
            config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, stores[prefix]))
        if not known.keys() >= wanted:
            repository.reopen(config).save_config()
