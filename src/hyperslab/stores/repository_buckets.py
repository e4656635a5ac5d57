"""From the URL of a bucket and storage options, by the names of obstore and s3fs, to the storage of icechunk."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hyperslab.errors import Invalid

if TYPE_CHECKING:
    from icechunk import Storage


def take_options(options: Mapping[str, Any], known: Sequence[str], url: str) -> dict[str, Any]:
    """Return the options that are set, without ``allow_external``; Invalid for one that is not known."""
    unknown = sorted(options.keys() - {*known, "allow_external"})
    if unknown:
        names = ", ".join(("allow_external", *known))
        message = f"storage options that mean nothing here: {', '.join(unknown)}"
        raise Invalid(message, url=url, remedy=f"there are {names}")
    return {name: value for name, value in options.items() if name != "allow_external" and value is not None}


def _open_s3(icechunk: Any, bucket: str, prefix: str, options: dict[str, Any], url: str) -> Storage:
    """Return the storage of a bucket of S3; ``options`` by the names of obstore, s3fs and botocore."""
    from hyperslab.stores.buckets import s3_options

    allowed = options.pop("allow_external", ())
    plain = s3_options(options)
    client = dict(plain.pop("client_options", None) or {})
    plain = {name.removeprefix("aws_"): value for name, value in plain.items()}
    known = ("access_key_id", "secret_access_key", "session_token", "region", "endpoint", "skip_signature")
    more = ("virtual_hosted_style_request", "request_payer")
    plain = take_options({**plain, "allow_external": allowed}, (*known, *more), url)
    endpoint = plain.get("endpoint") or next(filter(None, map(os.environ.get, _S3_ENDPOINTS)), None)
    with_keys = "access_key_id" in plain
    is_anonymous = bool(plain.get("skip_signature"))
    storage: Storage = icechunk.s3_storage(
        bucket=bucket,
        prefix=prefix,
        region=plain.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        endpoint_url=endpoint,
        allow_http=bool(client.get("allow_http")) or str(endpoint).startswith("http://"),
        access_key_id=plain.get("access_key_id"),
        secret_access_key=plain.get("secret_access_key"),
        session_token=plain.get("session_token"),
        anonymous=is_anonymous or None,
        from_env=None if with_keys or is_anonymous else True,
        # Servers of one's own have names of buckets in their paths, those of AWS in the name of the host.
        force_path_style=not plain.get("virtual_hosted_style_request", endpoint is None),
        # an option that icechunk 1.1.8 does not know yet
        **({"requester_pays": True} if plain.get("request_payer") else {}),
    )
    return storage


_S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_GCS_OPTIONS = ("service_account_file", "service_account_key", "application_credentials", "bearer_token", "anonymous")
_AZURE_OPTIONS = ("account", "access_key", "sas_token", "bearer_token")


def _open_gcs(icechunk: Any, bucket: str, prefix: str, options: dict[str, Any], url: str) -> Storage:
    given = take_options(options, _GCS_OPTIONS, url)
    storage: Storage = icechunk.gcs_storage(bucket=bucket, prefix=prefix, from_env=None if given else True, **given)
    return storage


def _open_azure(icechunk: Any, bucket: str, prefix: str, options: dict[str, Any], url: str) -> Storage:
    given = take_options(options, _AZURE_OPTIONS, url)
    account = given.pop("account", None) or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if account is None:
        raise Invalid("which account of Azure is meant is not said", url=url, remedy="give the storage option account")
    from_env = None if given else True
    storage: Storage = icechunk.azure_storage(
        account=account, container=bucket, prefix=prefix, from_env=from_env, **given
    )
    return storage


_STORAGES: Mapping[str, Callable[..., Storage]] = {"s3": _open_s3, "gs": _open_gcs, "az": _open_azure}


def open_bucket(icechunk: Any, kind: str, bucket: str, prefix: str, options: dict[str, Any], url: str) -> Storage:
    """Return the storage of a place in a bucket; ``kind``: the scheme of its URL. Invalid for options that mean nothing
    there, TypeError or ValueError for values that icechunk refuses."""
    return _STORAGES[kind](icechunk, bucket, prefix, options, url)
