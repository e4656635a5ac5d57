"""From a URL and storage options, or an obstore store that the user made, to an :class:`ObjectStore`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from hyperslab.errors import Invalid, MissingLibrary
from hyperslab.stores.base import Store
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.object import ObjectStore
from hyperslab.stores.object_listing import StoreListings
from hyperslab.stores.redaction import redact
from hyperslab.stores.requests import patience
from hyperslab.stores.usual_options import check_endpoint, s3_options

_BUCKETS = {"S3Store": ("s3", "bucket"), "GCSStore": ("gs", "bucket"), "AzureStore": ("az", "container_name")}

_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
"""Variables of the environment that name a server; one without encryption is meant as it is named."""


def open_objects(url: str, options: Mapping[str, Any], *, read_only: bool) -> Store:
    """The store of ``s3://``, ``gs://``, ``az://`` or ``http(s)://``, without a request.

    ``options`` as obstore names them: those of the kind of store (``endpoint``, ``region``, ``access_key_id`` …),
    ``client_options``, ``retry_config``, ``credential_provider``. What they do not say is taken from the environment.
    """
    try:
        from obstore import __version__
        from obstore.exceptions import BaseError, UnknownConfigurationKeyError
        from obstore.store import from_url
    except ImportError:
        scheme = url.partition("://")[0]
        remedy = "pip install 'hyperslab[cloud]'"
        raise MissingLibrary(f"{scheme}:// needs obstore, which is not installed", remedy=remedy) from None
    try:
        given = s3_options(options) if url.startswith("s3") else dict(options)
        check_endpoint(given)
        for group, defaults in patience(__version__, web=url.startswith("http")).items():
            given[group] = defaults | dict(given.get(group) or {})
        places = (url, *given.values(), *map(os.environ.get, _ENDPOINTS))
        if any(isinstance(place, str) and place.startswith("http://") for place in places):
            given["client_options"].setdefault("allow_http", True)
        lists = _web_lists(url, given, from_url) if url.startswith("http") else None
        return ObjectStore(from_url(url, **given), redact(url), read_only=read_only, lists=lists)
    except UnknownConfigurationKeyError as error:
        name = str(error).partition("'")[2].partition("'")[0]
        remedy = "see the configuration keys of obstore"
        raise Invalid(f"no storage option {name!r} of this kind of store", url=redact(url), remedy=remedy) from None
    except Invalid as error:
        raise error.locate(url=redact(url)) from None
    except BaseException as error:  # what they say may quote a value
        if not isinstance(error, BaseError | TypeError | ValueError | OSError) and not _is_panic(error):
            raise
        names = ", ".join(options) or "none"
        message = f"the URL and the storage options ({names}) make no store"
        raise Invalid(message, url=redact(url), remedy="see the configuration keys of obstore") from None


def _is_panic(error: BaseException) -> bool:
    """Tell what obstore raises where it fails inside, which is no Exception."""
    return type(error).__name__ == "PanicException"


def _web_lists(url: str, given: Mapping[str, Any], from_url: Callable[..., Any]) -> StoreListings:
    """Those of the whole web server: obstore gives the paths of all that it lists from there. The first one has no
    patience, since most web servers refuse to list, with words that are else worth another try."""
    scheme, host, path, *_ = urlsplit(url)
    hasty = {**given, "retry_config": {**given["retry_config"], "max_retries": 0}}
    return StoreListings(
        unquote(path).strip("/"), [from_url(f"{scheme}://{host}", **options) for options in (hasty, given)]
    )


def wrapped(store: Any, *, read_only: bool = False) -> Store:
    """An obstore store as one of ours; what it holds lies below its prefix."""
    kind = type(store).__name__
    if kind == "LocalStore":
        return DirectoryStore(store.prefix, read_only=read_only)
    if kind == "HTTPStore":
        return ObjectStore(store, redact(store.url), read_only=read_only)
    if kind not in _BUCKETS:
        return ObjectStore(store, f"obstore-{kind.removesuffix('Store').lower()}://", read_only=read_only)
    scheme, option = _BUCKETS[kind]
    bucket = store.config.get(option) or store.config.get("container") or "?"
    return ObjectStore(store, f"{scheme}://{bucket}/{store.prefix or ''}".rstrip("/"), read_only=read_only)
