"""Memory for stored bytes, reused from value to value."""

from __future__ import annotations

import threading

import numpy as np


class Scratch(threading.local):
    """One buffer per thread. It grows by being replaced, so that a view of the old one stays what it is."""

    def __init__(self, size: int = 0) -> None:
        self.buffer = np.empty(size, np.uint8).data

    def reserve(self, size: int) -> memoryview:
        """The buffer, of at least ``size`` bytes."""
        if size > len(self.buffer):
            self.buffer = np.empty(size, np.uint8).data  # unlike a bytearray, no page of it is touched yet
        return self.buffer
