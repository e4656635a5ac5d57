"""Parts of a transaction that other processes do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hyperslab.stores.base import Store


class Share(ABC):
    """A transaction of another process, in which a part of the work is done. It is pickled."""

    @abstractmethod
    def open(self) -> Store:
        """Return a store whose changes are the other process's to take (``changes``, ``merge``): nobody else sees
        them, and those of a share that is opened again are not in it."""
