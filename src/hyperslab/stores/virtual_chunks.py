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
from urllib.parse import quote, unquote, urlsplit

from hyperslab.errors import Unsupported
from hyperslab.stores.repositories import RepositoryPlace, library, translate_errors
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
        return file.tag
    return datetime.fromtimestamp(-(-file.mtime // _SECOND), UTC)


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
    stores = {prefix: _store_of(prefix, options) for prefix in sorted(wanted)}  # or Unsupported, and nothing is made
    repository = place.open(create=True)
    with place.exclusive(None), translate_errors(place.name, doing="change"):
        config = repository.config
        known = config.virtual_chunk_containers or {}
        for prefix in sorted(wanted - known.keys()):
            config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, stores[prefix]))
        if not known.keys() >= wanted:
            repository.reopen(config).save_config()


def _store_of(prefix: str, options: Mapping[str, Any]) -> Any:
    """Return how icechunk reaches the files below a prefix."""
    icechunk = library()
    match urlsplit(prefix).scheme:
        case "file":
            return icechunk.local_filesystem_store(prefix.removeprefix("file://"))
        case "http" | "https":
            return icechunk.http_store({})
        case "s3":
            endpoint = options.get("endpoint") or options.get("aws_endpoint")
            return icechunk.s3_store(
                region=options.get("region") or options.get("aws_region"),
                endpoint_url=endpoint,
                allow_http=str(endpoint).startswith("http://"),
                force_path_style=endpoint is not None,
                anonymous=bool(options.get("skip_signature", False)),
            )
        case "gs":
            return icechunk.gcs_store({})
        case scheme:
            remedy = "write them as JSON or Parquet"
            raise Unsupported(f"virtual chunks on {scheme}:// in a repository", url=prefix, remedy=remedy)
