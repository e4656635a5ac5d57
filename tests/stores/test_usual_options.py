"""Storage options by the names of s3fs and botocore, and profiles, against what obstore is then told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hyperslab as hs
from hyperslab.errors import Invalid
from hyperslab.stores.buckets import s3_options

KEYS = {"access_key_id": "a", "secret_access_key": "b"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("[work]\naws_access_key_id = a\naws_secret_access_key = b%c\n")
    (tmp_path / ".aws/config").write_text("[profile work]\nregion = eu-west-1\n\n[profile role]\nrole_arn = x\n")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"key": "a", "secret": "b"}, KEYS),
        ({"key": "a", "secret": "b", "token": "c"}, {**KEYS, "session_token": "c"}),
        ({"anon": True}, {"skip_signature": True}),
        ({"anon": False, "key": "a", "secret": "b"}, KEYS),
        ({"endpoint_url": "http://h:1"}, {"endpoint": "http://h:1"}),
        (
            {"client_kwargs": {"endpoint_url": "http://h:1", "region_name": "r"}},
            {"endpoint": "http://h:1", "region": "r"},
        ),
        ({"allow_http": True}, {"client_options": {"allow_http": True}}),
        ({"use_ssl": False}, {"client_options": {"allow_http": True}}),
        ({"profile": "work"}, {"access_key_id": "a", "secret_access_key": "b%c", "region": "eu-west-1"}),
        ({"profile": "work", "region": "r"}, {"access_key_id": "a", "secret_access_key": "b%c", "region": "r"}),
        ({**KEYS, "region": "r"}, {**KEYS, "region": "r"}),
    ],
)
def test_options_by_habit_are_taken(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert s3_options(given) == found


def test_the_profile_of_the_environment_counts_where_nothing_else_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert s3_options({})["access_key_id"] == "a"
    assert s3_options({"anon": True}) == {"skip_signature": True}
    assert s3_options(KEYS) == KEYS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "other"}, "no keys of a profile 'other'"),
        ({"profile": "role"}, "credential_provider="),
        ({"config_kwargs": {}}, "client_options"),
        ({"endpoint": "127.0.0.1:9000"}, "endpoint='http://localhost:9000'"),
        ({"endpoint_url": "localhost:9000"}, "http:// or https://"),
        ({"client_kwargs": 5}, "no mapping"),
        ({"no_such_option": 1}, "'no_such_option'"),
    ],
)
def test_others_are_answered_with_what_to_give(options: dict[str, Any], words: str, capfd: Any) -> None:
    with pytest.raises(Invalid) as caught:
        hs.open("s3://bucket/air.zarr", storage_options=options)
    assert words in str(caught.value)
    assert "panick" not in capfd.readouterr().err


def test_what_makes_the_client_fail_inside_is_an_error_of_ours() -> None:
    with pytest.raises(Invalid):
        hs.open("gs://bucket/air.zarr", storage_options={"allow_http": True})
