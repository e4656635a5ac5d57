"""What lies in a folder of a store and is no value."""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.stores.keys import has_no_writer


@dataclass(frozen=True, slots=True)
class Stray:
    """What lies in a folder of a store and is no value.

    ``kind``: ``temporary``, ``dangling-link``, ``circular-link``, ``outside-link``, ``special-file`` or
    ``unusable-name``; ``age``: seconds since it changed; ``target``: what a link names.
    """

    name: str
    kind: str
    age: float
    target: str = ""

    @property
    def is_abandoned(self) -> bool:
        """Return True if it is an unfinished write of a writer that is gone."""
        return self.kind == "temporary" and has_no_writer(self.name, self.age)
