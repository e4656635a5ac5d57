"""Storage options by the names that users of s3fs and botocore know, as obstore names them; profiles of ``~/.aws``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from configparser import ConfigParser, Error
from typing import Any

from hyperslab.errors import Invalid

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
"""What s3fs and botocore call an option, and what obstore does."""
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
_SAYS_WHO = ("access_key_id", "aws_access_key_id", "skip_signature", "aws_skip_signature", "credential_provider")


def s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the storage options of ``s3://`` in obstore's names; Invalid for those that have no like."""
    given = dict(options)
    inner = given.pop("client_kwargs", None) or {}
    if not isinstance(inner, Mapping):
        raise Invalid("the storage option client_kwargs is no mapping", remedy="give its options by themselves")
    given = {**given, **inner}
    for name, remedy in _NOT_TAKEN.items():
        if name in given:
            raise Invalid(f"the storage option {name!r} is not taken", remedy=remedy)
    profile = given.pop("profile", None) or given.pop("profile_name", None)
    plain = {_NAMES.get(name, name): value for name, value in given.items() if value is not None}
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
    asked = name or os.environ.get("AWS_PROFILE")
    known = any(option in options for option in _SAYS_WHO) or "AWS_ACCESS_KEY_ID" in os.environ
    if name is None and (known or not asked):
        return {}
    found: dict[str, str] = {}
    for variable, place, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", asked if asked == "default" else f"profile {asked}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", asked),
    ):
        parser = ConfigParser(interpolation=None)
        try:
            parser.read(os.path.expanduser(os.environ.get(variable) or place))
        except (Error, UnicodeDecodeError):  # whose words may quote a secret
            raise Invalid(f"{place} cannot be read", remedy="mend it, or give the credentials themselves") from None
        if parser.has_section(section or ""):
            found |= dict(parser.items(section or ""))
    told = {ours: found[theirs] for theirs, ours in _OF_PROFILES.items() if theirs in found}
    if "access_key_id" not in told and not known:
        message = f"~/.aws has no keys of a profile {asked!r}"
        remedy = "give access_key_id and secret_access_key, or credential_provider= for roles and single sign-on"
        raise Invalid(message, remedy=remedy)
    return told
