"""Two errors of MongoDB's representation: documents that are not there, and documents that contradict themselves."""

from __future__ import annotations

from typing import Any

from hyperslab.errors import CorruptChunk, FormatError, NotFound, Problem


class DocumentNotFoundError(NotFound):
    """An object, or the documents of a chunk, that MongoDB does not hold; ``wanted`` is what was looked for.

    ``str()`` is that of the id, or of the mapping ``{"meta_id": …, "name": …, "chunk": …}``, as users of
    xarray_mongodb know it.
    """

    def __init__(self, wanted: object = None, **place: Any) -> None:
        super().__init__(str(wanted), **place)
        self.wanted = wanted
        self.args = (wanted,)

    def __str__(self) -> str:
        return str(self.wanted)


class CorruptDocument(FormatError, CorruptChunk):
    """Documents of one variable, or of one chunk, that contradict each other or themselves."""

    def __init__(
        self,
        message: str,
        *,
        expected: object = None,
        found: object = None,
        problems: tuple[Problem, ...] = (),
        **place: Any,
    ) -> None:
        CorruptChunk.__init__(self, message, expected=expected, found=found, **place)
        self.problems = problems
