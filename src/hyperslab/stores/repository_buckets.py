"""From the URL of a bucket and storage options, by the names of obstore and s3fs, to the storage of icechunk, and to
what reaches the places of virtual chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hyperslab.errors import Invalid, Unsupported
from hyperslab.stores.credentials import redact, resolve

if TYPE_CHECKING:
    from icechunk import Storage


_OF_CHUNKS = ("allow_external", "remote_options")
"""The options that are of virtual chunks, and not of the place of the repository."""


def take_options(options: Mapping[str, Any], known: Sequence[str], url: str) -> dict[str, Any]:
    """Return the options of the place that are set, without those of virtual chunks; Invalid for one that is not
    known."""
    unknown = sorted(options.keys() - {*known, *_OF_CHUNKS})
    if unknown:
        names = ", ".join((*_OF_CHUNKS, *known))
        message = f"storage options that mean nothing here: {', '.join(unknown)}"
        raise Invalid(message, url=url, remedy=f"there are {names}")
    return {name: value for name, value in options.items() if name not in _OF_CHUNKS and value is not None}


_S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_S3_OPTIONS = (
    "access_key_id",
    "secret_access_key",
    "session_token",
    "region",
    "endpoint",
    "skip_signature",
    "virtual_hosted_style_request",
    "request_payer",
)


@dataclass(frozen=True, slots=True)
class _S3Client:
    """How icechunk reaches a bucket of S3: ``server``, what its storage and its containers take alike, and
    ``credentials``."""

    server: Mapping[str, Any]
    credentials: Mapping[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, Any], url: str) -> _S3Client:
        """Return what options mean, by the names of obstore, s3fs and botocore; what they do not say is taken from the
        environment."""
        from hyperslab.stores.buckets import check_endpoint, s3_options

        plain = s3_options({name: value for name, value in options.items() if name not in _OF_CHUNKS})
        client = dict(plain.pop("client_options", None) or {})
        plain = {name.removeprefix("aws_"): value for name, value in plain.items()}
        plain = take_options(plain, _S3_OPTIONS, url)
        check_endpoint(plain)
        endpoint = plain.get("endpoint") or next(filter(None, map(os.environ.get, _S3_ENDPOINTS)), None)
        is_anonymous = bool(plain.get("skip_signature"))
        server = {
            "region": plain.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
            "endpoint_url": endpoint,
            "allow_http": bool(client.get("allow_http")) or str(endpoint).startswith("http://"),
            # Servers of one's own have names of buckets in their paths, those of AWS in the name of the host.
            "force_path_style": not plain.get("virtual_hosted_style_request", endpoint is None),
            # an option that icechunk 1.1.8 does not know yet
            **({"requester_pays": True} if plain.get("request_payer") else {}),
        }
        keys = {name: plain.get(name) for name in _S3_OPTIONS[:3]}
        from_env = None if plain.get("access_key_id") or is_anonymous else True
        return cls(server, {**keys, "anonymous": is_anonymous or None, "from_env": from_env})


def _open_s3(icechunk: Any, bucket: str, prefix: str, options: dict[str, Any], url: str) -> Storage:
    client = _S3Client.of(options, url)
    storage: Storage = icechunk.s3_storage(bucket=bucket, prefix=prefix, **client.server, **client.credentials)
    return storage


_GCS_OPTIONS = ("service_account_file", "service_account_key", "application_credentials", "bearer_token", "anonymous")
_AZURE_OPTIONS = ("account", "access_key", "sas_token", "bearer_token")


def _open_gcs(icechunk: Any, bucket: str, prefix: str, options: dict[str, Any], url: str) -> Storage:
    chosen = take_options(options, _GCS_OPTIONS, url)
    storage: Storage = icechunk.gcs_storage(bucket=bucket, prefix=prefix, from_env=None if chosen else True, **chosen)
    return storage


def _open_azure(icechunk: Any, bucket: str, prefix: str, options: dict[str, Any], url: str) -> Storage:
    chosen = take_options(options, _AZURE_OPTIONS, url)
    account = chosen.pop("account", None) or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if account is None:
        raise Invalid("which account of Azure is meant is not said", url=url, remedy="give the storage option account")
    from_env = None if chosen else True
    storage: Storage = icechunk.azure_storage(
        account=account, container=bucket, prefix=prefix, from_env=from_env, **chosen
    )
    return storage


_STORAGES: Mapping[str, Callable[..., Storage]] = {"s3": _open_s3, "gs": _open_gcs, "az": _open_azure}


def open_bucket(icechunk: Any, kind: str, bucket: str, prefix: str, options: dict[str, Any], url: str) -> Storage:
    """Return the storage of a place in a bucket; ``kind``: the scheme of its URL. Invalid for options that mean nothing
    there, TypeError or ValueError for values that icechunk refuses."""
    return _STORAGES[kind](icechunk, bucket, prefix, options, url)


# -- virtual chunks ----------------------------------------------------------------------------------------------------


def container_store(icechunk: Any, prefix: str, options: Mapping[str, Any]) -> Any:
    """Return how icechunk reaches the files below a prefix, as a repository keeps it, without a secret. ``options``: of
    the server. Unsupported for places that icechunk does not reach."""
    url = urlsplit(prefix)
    remedy = "write them as JSON or Parquet"
    match url.scheme:
        case "file":
            return icechunk.local_filesystem_store(prefix.removeprefix("file://"))
        case "http" | "https":
            if url.port is not None:  # it leaves the port out when it stores the place of a chunk
                message = f"virtual chunks at the port {url.port} of a web server: icechunk knows the usual one alone"
                raise Unsupported(message, url=redact(prefix), remedy=remedy)
            return icechunk.http_store({"allow_http": "true"} if url.scheme == "http" else {})
        case "s3":
            client = _S3Client.of(resolve(options), redact(prefix))
            return icechunk.s3_store(**client.server, anonymous=bool(client.credentials["anonymous"]))
        case "gs":
            return icechunk.gcs_store({})
        case scheme:
            message = f"virtual chunks on {scheme}:// in a repository"
            raise Unsupported(message, url=redact(prefix), remedy=remedy)


def allow_containers(icechunk: Any, config: Any, prefixes: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the places of virtual chunks that a caller allows, with the credentials of each, as icechunk takes them.

    Buckets of S3 are reached by the ``options`` where there are any, in place of what the repository says, which
    ``config`` is changed to say. Else, and elsewhere, by what the repository says and the environment.
    """
    found: dict[str, Any] = {prefix: usual_credentials(icechunk, prefix) for prefix in prefixes}
    for prefix in found:
        if options and prefix.startswith("s3://"):
            client = _S3Client.of(resolve(options), redact(prefix))
            store = container_store(icechunk, prefix, options)
            config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
            found[prefix] = icechunk.s3_credentials(**client.credentials)
    return dict(icechunk.containers_credentials(found))


def major_minor(icechunk: Any) -> tuple[int, int]:
    """Return the first two numbers of the library's version."""
    major, minor, *_ = icechunk.__version__.split(".")
    return int(major), int(minor)


def usual_credentials(icechunk: Any, prefix: str) -> Any:
    """Return the credentials by which icechunk reaches the files below a prefix when a caller gives none: those of the
    environment, or none. Before version 2.3 it has no other word for them than None."""
    known = icechunk.credentials
    if major_minor(icechunk) < (2, 3):
        return None
    match urlsplit(prefix).scheme:
        case "file":
            return known.LocalFileSystemAccess
        case "http" | "https":
            return known.HttpAccess
        case "s3" | "tigris":
            return known.s3_from_env_credentials()
        case "gs" | "gcs":
            return known.gcs_anonymous_credentials()
        case "az" | "azure" | "abfs":
            return known.azure_from_env_credentials()
        case _:
            return None
