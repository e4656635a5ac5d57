"""Start and stop the S3 server of the tests, and make buckets in it."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

SECRET = "canary-secret"
_NUMBERS = count(1)


@dataclass(frozen=True)
class S3:
    """A running server: its ``endpoint``, and the storage ``options`` by which obstore reaches it."""

    endpoint: str

    @property
    def options(self) -> dict[str, Any]:
        """``storage_options``."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": "tester",
            "secret_access_key": SECRET,
            "region": "us-east-1",
        }

    def bucket(self) -> str:
        """A new empty bucket."""
        name = f"bucket-{next(_NUMBERS)}"
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")).close()
        return name

    def repository(self) -> dict[str, Any]:
        """Where a repository of icechunk may be made: the arguments of ``hs.open``."""
        return {"url": f"icechunk+s3://{self.bucket()}/repository", "storage_options": self.options}


@contextmanager
def running_s3() -> Iterator[S3]:
    """A server for the block."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("moto_s3.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield S3(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()
