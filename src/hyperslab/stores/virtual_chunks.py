"""Virtual chunks of repositories of icechunk: chunks that lie in other files, of which the repository keeps the places.

A repository names the folders and servers in which they may lie (its containers); who reads it allows those that he
trusts. The version of a file is kept with each chunk, as icechunk does: its ETag, or the second of its last change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from hyperslab.errors import Unsupported
from hyperslab.stores.repositories import RepositoryPlace, library, translate_errors
from hyperslab.stores.stored_file import StoredFile

_SECOND = 10**9


def location_of(file: StoredFile) -> str:
    """Return the URL by which icechunk knows a file."""
    return file.url if "://" in file.url else f"file://{quote(os.path.realpath(file.url))}"


def checksum_of(file: StoredFile) -> str | datetime | None:
    """Return what icechunk compares the version of a file with. Times have whole seconds there, and a file that was
    changed later is another one: so the next second is kept."""
    if file.tag is not None or file.mtime is None:
        return file.tag
    return datetime.fromtimestamp(-(-file.mtime // _SECOND), UTC)


def find_prefixes(files: Iterable[StoredFile]) -> list[str]:
    """Return the URLs below which the files lie: the folder of all those of this machine, and the servers."""
    locations = list(map(location_of, files))
    folders = {os.path.dirname(each.removeprefix("file://")) for each in locations if each.startswith("file://")}
    servers = {
        "{0.scheme}://{0.netloc}/".format(urlsplit(each)) for each in locations if not each.startswith("file://")
    }
    return [*([f"file://{os.path.join(os.path.commonpath(folders), '')}"] if folders else []), *sorted(servers)]


def add_containers(place: RepositoryPlace, prefixes: Sequence[str], options: Mapping[str, Any]) -> None:
    """Have a repository, which is made where there is none, name the places of virtual chunks. ``options``: where
    servers are, as for the sources; no secret of these is kept.

    icechunk compares a path as the URL has it when a place of a chunk is stored, and without its escapes when the chunk
    is read: so a folder that is escaped is named both ways.
    """
    icechunk = library()
    repository = place.open(create=True)
    with place.exclusive(None), translate_errors(place.name, doing="change"):
        config = repository.config
        known = config.virtual_chunk_containers or {}
        wanted = {*prefixes, *(unquote(prefix) for prefix in prefixes if prefix.startswith("file://"))}
        for prefix in sorted(wanted - known.keys()):
            config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, _store_of(prefix, options)))
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
