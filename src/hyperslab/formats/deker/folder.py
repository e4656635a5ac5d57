"""The folder of one collection, and what all that works on it has to know."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.errors import FormatError, ReadOnly
from hyperslab.formats.deker.paths import Kind, data_path
from hyperslab.formats.documents import LIMITS, check_limits
from hyperslab.stores.files import read_error, write_errors


@dataclass
class Folder:
    """``path`` is absolute and spelled as the user's URL; ``relative``: whether new links are relative."""

    path: str
    kind: Kind
    settings: Settings
    writable: bool
    relative: bool = False

    @property
    def name(self) -> str:
        """The collection's name."""
        return os.path.basename(self.path)

    @property
    def document(self) -> str:
        """The file of the collection's document."""
        return f"{self.path}/{self.name}.json"

    @property
    def lock(self) -> str:
        """The file that the peer locks while it makes the collection."""
        return f"{self.path}.lock"

    def data(self, id: str, kind: Kind | None = None) -> str:
        """The file of an array."""
        return f"{self.path}/{data_path(kind or self.kind, id)}"

    def require_writable(self) -> None:
        """ReadOnly when the root was opened for reading."""
        if not self.writable:
            raise ReadOnly("the collection was opened for reading", url=self.path, remedy="open it for writing")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """What the system says of a change in errors of ours; ReadOnly where none is allowed."""
        self.require_writable()
        with write_errors(self.path, ""):
            yield


def read_bounded(path: str) -> bytes:
    """The bytes of a document, not many more than it may have; of a pipe none. OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(LIMITS.size + 1)


def make_empty(path: str) -> None:
    """Make a file unless it is there; OSError, also for what is a pipe."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666))


def read_document(path: str) -> Any:
    """A document as JSON values; FormatError."""
    try:
        data = read_bounded(path)
    except OSError as error:
        raise read_error(error, path, "") from error
    try:
        check_limits(data)
        return json.loads(data)
    except FormatError as error:
        raise error.locate(url=path) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the document of the collection is no JSON: {error}", url=path) from error
