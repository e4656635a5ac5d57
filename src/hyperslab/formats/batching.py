"""Blocks of ``batch()`` of one writer, one within another or on several threads: what waits is stored after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager


class BatchBlocks:
    """True while a block runs. After the last one what waits is stored, then ``held`` is let go.

    ``mutex`` is the writer's own: what asks under it whether a change waits, and notes the change, is never too late.
    """

    def __init__(self, mutex: AbstractContextManager[object]) -> None:
        self._mutex = mutex
        self._running = 0
        self.held = ExitStack()

    def __bool__(self) -> bool:
        return bool(self._running)

    @contextmanager
    def block(self, flush: Callable[[], None]) -> Iterator[None]:
        """One block; ``flush`` stores what waits, and what it raises is raised at the end of the last."""
        with self._mutex:
            self._running += 1
        try:
            yield
        finally:
            with self._mutex:
                self._running -= 1
                is_last = not self._running
            if is_last:
                with self.held:
                    flush()
