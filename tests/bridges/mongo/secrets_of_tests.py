"""What a function named by ``credentials=`` gives in tests."""

from __future__ import annotations

import os


def given() -> dict[str, str]:
    return {"username": "writer", "password": os.environ["CANARY"]}
