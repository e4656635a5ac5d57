"""From a URL and storage options, or an obstore store that the user made, to an :class:`ObjectStore`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from configparser import ConfigParser, Error
from typing import Any
from urllib.parse import unquote, urlsplit

from hyperslab.errors import Invalid, MissingLibrary
from hyperslab.stores.base import Store
from hyperslab.stores.credentials import redact
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.object import ObjectStore, StoreListings
from hyperslab.stores.requests import is_panic, patience

# -- storage options ---------------------------------------------------------------------------------------------------
# By the names that users of s3fs and botocore know, as obstore names them; profiles of ``~/.aws``.


# What s3fs and botocore call an option, and what obstore does.
_NAMES = {
    "key": "access_key_id",
    "username": "access_key_id",
    "secret": "secret_access_key",
    "password": "secret_access_key",
    "token": "session_token",
    "anon": "skip_signature",
    "endpoint_url": "endpoint",
    "region_name": "region",
}
_OF_PROFILES = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}
_NOT_TAKEN = {
    "config_kwargs": "client_options and retry_config say how requests are made",
    "s3_additional_kwargs": "leave it out: objects are written without headers of their own",
    "requester_pays": "request_payer=True",
}
_HEADERS = """give headers as client_options={"default_headers": {"Authorization": "Bearer …"}}"""
_SAYS_WHO = ("access_key_id", "aws_access_key_id", "skip_signature", "aws_skip_signature", "credential_provider")


def s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the storage options of ``s3://`` in obstore's names; Invalid for those that have no like."""
    values = dict(options)
    inner = values.pop("client_kwargs", None) or {}
    if not isinstance(inner, Mapping):
        raise Invalid("the storage option client_kwargs is no mapping", remedy="give its options by themselves")
    values = {**values, **inner}
    for name, remedy in _NOT_TAKEN.items():
        if name in values:
            raise Invalid(f"the storage option {name!r} is not taken", remedy=remedy)
    profile = values.pop("profile", None) or values.pop("profile_name", None)
    plain = {_NAMES.get(name, name): value for name, value in values.items() if value is not None}
    if plain.pop("use_ssl", True) is False:
        plain["allow_http"] = True
    if plain.get("skip_signature") is False:
        del plain["skip_signature"]  # anon=False is what goes without saying
    if "allow_http" in plain:
        http = {"allow_http": plain.pop("allow_http")}
        plain["client_options"] = http | dict(plain.get("client_options") or {})
    return {**_of_profile(profile, plain), **plain}


def check_endpoint(options: Mapping[str, Any]) -> None:
    """Refuse the address of a server without a scheme, of which obstore makes a panic."""
    for name, value in options.items():
        if "endpoint" in name.lower() and isinstance(value, str) and not value.startswith(("http://", "https://")):
            remedy = f"write http:// or https:// before it, as in {name}='http://localhost:9000'"
            raise Invalid(f"the storage option {name!r} is no URL", remedy=remedy)


def _of_profile(name: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``~/.aws`` says of a profile that was named; nothing where credentials are given otherwise."""
    profile = name or os.environ.get("AWS_PROFILE")
    known = any(option in options for option in _SAYS_WHO) or "AWS_ACCESS_KEY_ID" in os.environ
    if name is None and (known or not profile):
        return {}
    found: dict[str, str] = {}
    for variable, place, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", profile if profile == "default" else f"profile {profile}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", profile),
    ):
        parser = ConfigParser(interpolation=None)
        try:
            parser.read(os.path.expanduser(os.environ.get(variable) or place))
        except (Error, UnicodeDecodeError):  # whose words may quote a secret
            raise Invalid(f"{place} cannot be read", remedy="mend it, or give the credentials themselves") from None
        if parser.has_section(section or ""):
            found |= dict(parser.items(section or ""))
    credentials = {ours: found[theirs] for theirs, ours in _OF_PROFILES.items() if theirs in found}
    if "access_key_id" not in credentials and not known:
        message = f"~/.aws has no keys of a profile {profile!r}"
        remedy = "give access_key_id and secret_access_key, or credential_provider= for roles and single sign-on"
        raise Invalid(message, remedy=remedy)
    return credentials


# Variables of the environment that name a server; one without encryption is meant as it is named.
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")


def open_objects(url: str, options: Mapping[str, Any], *, read_only: bool) -> Store:
    """Return the store of ``s3://``, ``gs://``, ``az://`` or ``http(s)://``, without a request.

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
        config = s3_options(options) if url.startswith("s3") else dict(options)
        check_endpoint(config)
        for group, defaults in patience(__version__, web=url.startswith("http")).items():
            config[group] = defaults | dict(config.get(group) or {})
        places = (url, *config.values(), *map(os.environ.get, _ENDPOINTS))
        if any(isinstance(place, str) and place.startswith("http://") for place in places):
            config["client_options"].setdefault("allow_http", True)
        lists = _web_lists(url, config, from_url) if url.startswith("http") else None
        return ObjectStore(from_url(url, **config), redact(url), read_only=read_only, lists=lists)
    except UnknownConfigurationKeyError as error:
        # obstore names the option in its message alone, which quotes its value too.
        name = str(error).partition("'")[2].partition("'")[0]
        remedy = "see the configuration keys of obstore"
        raise Invalid(f"no storage option {name!r} of this kind of store", url=redact(url), remedy=remedy) from None
    except Invalid as error:
        raise error.locate(url=redact(url)) from None
    except BaseException as error:  # what they say may quote a value
        if not isinstance(error, BaseError | TypeError | ValueError | OSError) and not is_panic(error):
            raise
        names = ", ".join(options) or "none"
        message = f"the URL and the storage options ({names}) make no store"
        remedy = _HEADERS if url.startswith("http") else "see the configuration keys of obstore"
        raise Invalid(message, url=redact(url), remedy=remedy) from None


def _web_lists(url: str, config: Mapping[str, Any], from_url: Callable[..., Any]) -> StoreListings:
    """Return those of the whole web server: obstore gives the paths of all that it lists from there. The first one has
    no patience, since most web servers refuse to list, with words that are else worth another try."""
    scheme, host, path, *_ = urlsplit(url)
    hasty = {**config, "retry_config": {**config["retry_config"], "max_retries": 0}}
    return StoreListings(
        unquote(path).strip("/"), [from_url(f"{scheme}://{host}", **options) for options in (hasty, config)]
    )


def wrapped(store: Any, *, read_only: bool = False) -> Store:
    """Return an obstore store as one of ours; what it holds lies below its prefix."""
    from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore, MemoryStore, S3Store

    match store:
        case LocalStore():
            return DirectoryStore(store.prefix or os.sep, read_only=read_only)
        case HTTPStore():
            return ObjectStore(store, redact(store.url), read_only=read_only)
        case MemoryStore():
            return ObjectStore(store, "obstore-memory://", read_only=read_only)
        case S3Store():
            place = f"s3://{store.config.get('bucket') or '?'}"
        case GCSStore():
            place = f"gs://{store.config.get('bucket') or '?'}"
        case AzureStore():
            place = f"az://{store.config.get('container_name') or '?'}"
        case _:
            raise Invalid(f"a {type(store).__name__} is no store of obstore", remedy="give one of obstore.store")
    return ObjectStore(store, f"{place}/{store.prefix or ''}".rstrip("/"), read_only=read_only)
